"""What workers tell a program of each other: that they do not reach another one, for how long, and that they do again."""

import socket
import threading
import time

import pytest

from hetero_mtf.errors import WorkerError
from hetero_mtf.runtime.liveness.heartbeat import Silence
from hetero_mtf.runtime.liveness.lease import Leases
from hetero_mtf.runtime.liveness.lease_listener import LeaseListener
from hetero_mtf.runtime.liveness.peers import cut_between, cut_pairs, read_silent
from hetero_mtf.runtime.ports import free_ports

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
LIMIT_S = 0.6


@pytest.fixture
def workers():
    """Returns the hosts of three listeners, beside which no server answers, and a function that starts one such server."""
    hosts = [f"127.0.0.1:{port}" for port in free_ports(3)]
    servers = []
    for task in range(3):
        LeaseListener(hosts, task, lambda holder: None).start()

    def serve(host):
        server = socket.create_server(("127.0.0.1", int(host.rpartition(":")[2])))
        servers.append(server)

        def answer():
            while True:
                try:
                    caller, _ = server.accept()
                except OSError:
                    return
                with caller:
                    caller.sendall(SETTINGS)
                    caller.recv(64)

        threading.Thread(target=answer, daemon=True).start()

    yield hosts, serve
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def test_workers_tell_whom_they_do_not_reach_until_they_do(workers, eventually):
    hosts, serve = workers
    serve(hosts[0])
    leases = Leases(hosts, time.monotonic())
    assert leases.silent() == {} and leases.lost() == ()
    leases.watch(LIMIT_S)
    assert eventually(lambda: set(leases.silent()) == {(0, 1), (0, 2), (1, 2), (2, 1)})
    first_s = leases.silent()[0, 1].silent_s
    assert eventually(lambda: leases.silent()[0, 1].silent_s > first_s + 0.5)
    serve(hosts[1])
    assert eventually(lambda: set(leases.silent()) == {(0, 2), (1, 2)})
    serve(hosts[2])
    assert eventually(lambda: leases.silent() == {}) and leases.lost() == leases.cut_off() == ()
    leases.release()


def test_only_workers_that_the_program_uses_are_watched(workers, eventually):
    hosts, _ = workers
    leases = Leases(hosts[:2], time.monotonic())
    leases.watch(LIMIT_S)
    assert eventually(lambda: set(leases.silent()) == {(0, 1), (1, 0)})
    leases.release()


@pytest.mark.parametrize(
    "silent", [None, [], {"one": [1, 2]}, {"1": 3}, {"1": [1, 2, 3]}, {"1": [None, 2]}]
)
def test_other_lines_than_those_of_silence_are_not_read(silent):
    assert read_silent({"silent": silent}) is None


def test_seconds_are_read_by_task():
    assert read_silent({"silent": {"2": [12.5, 7]}}) == {2: Silence(12.5, 7.0)}


@pytest.mark.parametrize(
    ("late_s", "own_s", "pairs"),
    [
        ({(0, 1): 31.0, (1, 0): 30.0}, [4.0, 0.1], [(0, 1), (1, 0)]),
        ({(0, 1): 29.0}, [4.0, 0.1], []),
        ({(0, 1): 31.0}, [0.1, 27.0], []),
        ({(0, 1): 31.0, (0, 2): 31.0}, [0.1, 27.0, 1.0], [(0, 2)]),
    ],
)
def test_workers_that_answer_the_program_and_not_each_other_are_cut_off(late_s, own_s, pairs):
    assert cut_pairs(late_s, own_s, 30.0, 5.0) == pairs


def test_a_cut_names_both_workers_and_the_direction_where_it_is_one():
    hosts = ["a:1", "b:2", "c:3"]
    fault = cut_between({(0, 1): 30.0, (1, 0): 33.0, (2, 0): 31.0}, hosts)
    assert isinstance(fault, WorkerError) and fault.lost == ((0, 1), (0, 2)) and cut_between({}, hosts) is None
    assert "the workers on a:1 and b:2 have not reached each other for 33 s, the worker on c:3 has not reached the one on a:1" in str(fault)
    assert "this program reaches both" in fault.remedy
