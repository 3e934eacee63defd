"""Whether workers answer: servers that do, that do not, and that are gone."""

import contextlib
import socket
import threading

import pytest

from hetero_mtf.runtime.liveness.heartbeat import Heartbeat
from hetero_mtf.runtime.ports import free_ports

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


class Clock:
    """Seconds that a test sets."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def listener():
    """Returns the address of a server that greets whoever connects with `greeting`, or never accepts where that is None."""
    with contextlib.ExitStack() as stack:

        def listen(greeting):
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        caller, _ = server.accept()
                        with caller:
                            caller.sendall(greeting)
                            caller.recv(64)

            if greeting is not None:
                stack.callback(server.shutdown, socket.SHUT_RDWR)
                threading.Thread(target=serve, daemon=True).start()
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield listen


def _look(heartbeat, clock, seconds):
    """Look every quarter of a second for so many seconds of the test's clock, and return what the last look says."""
    for _ in range(round(4 * seconds)):
        clock.now_s += 0.25
        heartbeat.look()
    return heartbeat.look()


@pytest.mark.slow
def test_a_server_that_greets_answers_and_one_that_accepts_but_says_nothing_does_not(listener):
    with contextlib.closing(Heartbeat([listener(SETTINGS), listener(None)])) as heartbeat:
        assert list(heartbeat.ask(1.0)) == [1]


def test_a_server_that_answers_does_not_hold_up_who_asks(listener):
    with contextlib.closing(Heartbeat([listener(SETTINGS)])) as heartbeat:
        assert heartbeat.ask(600.0) == {}


@pytest.mark.fast("")
@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request", SETTINGS[:4]])
def test_another_greeting_is_no_answer(listener, greeting):
    with contextlib.closing(Heartbeat([listener(greeting)])) as heartbeat:
        assert list(heartbeat.ask(0.3)) == [0]


def test_a_silent_server_is_named_once_its_silence_is_as_long_as_the_limit(listener):
    clock = Clock()
    with contextlib.closing(Heartbeat([listener(None)], limit_s=30.0, clock=clock)) as heartbeat:
        assert _look(heartbeat, clock, 29.75) == {}
        assert _look(heartbeat, clock, 0.25) == {0: 30.0}
        assert _look(heartbeat, clock, 12.0) == {0: 42.0}


def test_only_a_second_of_the_time_in_which_nobody_looked_counts_as_silence(listener):
    clock = Clock()
    with contextlib.closing(Heartbeat([listener(None)], limit_s=30.0, clock=clock)) as heartbeat:
        clock.now_s += 86400.0
        assert heartbeat.look() == {}
        assert _look(heartbeat, clock, 29.0) == {0: 30.0}


def test_an_answer_that_takes_its_time_arrives_on_the_connection_that_asked():
    clock = Clock()
    with socket.create_server(("127.0.0.1", 0)) as server:
        heartbeat = Heartbeat([f"127.0.0.1:{server.getsockname()[1]}"], limit_s=30.0, clock=clock)
        assert _look(heartbeat, clock, 20.0) == {}
        caller, _ = server.accept()
        with caller, contextlib.closing(heartbeat):
            caller.sendall(SETTINGS)
            assert heartbeat.ask(600.0) == {}


def test_an_answer_ends_the_silence(listener):
    clock = Clock()
    with contextlib.closing(Heartbeat([listener(SETTINGS)], limit_s=30.0, clock=clock)) as heartbeat:
        _look(heartbeat, clock, 29.0)
        assert heartbeat.ask(600.0) == {}
        assert _look(heartbeat, clock, 1.0) == {}


def test_a_question_left_unanswered_for_a_shorter_limit_names_the_server_from_then_on(listener):
    clock = Clock()
    with contextlib.closing(Heartbeat([listener(None)], limit_s=30.0, clock=clock)) as heartbeat:
        assert _look(heartbeat, clock, 4.5) == {}
        assert heartbeat.unanswered(2.0) == {}  # silent, but not asked so far
        assert _look(heartbeat, clock, 1.75) == {} == heartbeat.unanswered(2.0)
        assert _look(heartbeat, clock, 0.25) == {}
        assert heartbeat.unanswered(2.0) == heartbeat.look() == {0: 6.5}


def test_a_server_that_answers_later_is_no_longer_named():
    with socket.create_server(("127.0.0.1", 0)) as server:
        heartbeat = Heartbeat([f"127.0.0.1:{server.getsockname()[1]}"])
        heartbeat.unanswered(0.0)
        assert heartbeat.look().keys() == {0}
        caller, _ = server.accept()
        with caller, contextlib.closing(heartbeat):
            caller.sendall(SETTINGS)
            assert heartbeat.ask(600.0) == heartbeat.look() == {}


def test_a_question_may_come_from_a_signal_in_the_middle_of_another(listener):
    heartbeat = Heartbeat([listener(None)])
    with heartbeat._lock:
        assert heartbeat.unanswered(0.0) == {}
    assert heartbeat.unanswered(0.0).keys() == {0}
    heartbeat.close()


def test_a_port_that_nobody_listens_on_refuses_and_a_silent_server_does_not(listener):
    with contextlib.closing(Heartbeat([f"127.0.0.1:{free_ports(1)[0]}", listener(None)])) as heartbeat:
        assert list(heartbeat.ask(0.3)) == [0, 1]
        assert heartbeat.refusing() == (0,)


@pytest.mark.slow
def test_a_server_on_one_of_the_addresses_of_a_name_has_not_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:
        heartbeat = Heartbeat([f"localhost:{server.getsockname()[1]}"])
        heartbeat.ask(0.3)
        heartbeat.close()
        assert heartbeat.refusing() == ()


@pytest.mark.slow
def test_a_host_that_no_longer_takes_connections_is_silent(listener):
    host = listener(None)
    name, port = host.split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(200):  # more than wait to be accepted: the kernel drops the rest, as a host does that is gone
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((name, int(port)))
        heartbeat = stack.enter_context(contextlib.closing(Heartbeat([host])))
        assert list(heartbeat.ask(0.3)) == [0] and heartbeat.refusing() == ()


def test_a_name_that_cannot_be_resolved_is_silent():
    with contextlib.closing(Heartbeat(["no-such-host.invalid:1"])) as heartbeat:
        assert list(heartbeat.ask(0.0)) == [0]


HUNG = """
import gc, os, signal, sys, threading, time
import tensorflow as tf
import hetero_mtf as hm
from hetero_mtf.errors import WorkerError

cluster = hm.Cluster.emulate([0.4, 0.3], "cgroup", worker_timeout_s=3.0)
print(*cluster.process_ids(), flush=True)
graph = tf.Graph()
with graph.as_default():
    sums = []
    for device in cluster.devices:
        with tf.device(device.tf_device):
            loop = tf.while_loop(lambda i, x: i < 10**7, lambda i, x: (i + 1, tf.matmul(x, x) / 300), [0, tf.ones([300, 300])])
            sums.append(tf.reduce_sum(loop[1]))
            short = tf.constant(1.0) + 1.0
session = cluster.session(graph)
call = session.make_callable(short)
call()
threading.Timer(0.5, os.kill, (cluster.process_ids()[1], signal.SIGSTOP)).start()
try:
    session.run(sums)
except WorkerError as fault:
    print(fault, flush=True)
del call
session.close()
cluster.close()
del session, cluster
gc.collect()
print("closed", flush=True)
"""


@pytest.mark.slow
def test_a_worker_that_hangs_in_a_step_is_named_and_the_program_ends_with_all_its_processes(program, process_state, eventually):
    process = program(HUNG)
    workers = [int(part) for part in process.stdout.readline().split()]
    if not workers:
        pytest.skip("no control group can be made here")
    assert process.stdout.readline().startswith(f"worker:1 (process {workers[1]}) has not answered for 3 s; continue or end it")
    assert process.stdout.readline() == "closed\n"
    assert process.wait(timeout=60) == 0
    assert all(eventually(lambda worker=worker: process_state(worker) == "") for worker in workers)
