"""Leases of workers: one program at a time, all workers or none, and word of programs that ended without a release."""

import ipaddress
import pathlib
import socket
import threading
import time

import pytest

from hetero_mtf.devices.addresses import lease_port
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.liveness import lease, lease_listener
from hetero_mtf.runtime.liveness.lease import Leases
from hetero_mtf.runtime.liveness.lease_listener import REQUEST_BYTES, LeaseListener
from hetero_mtf.runtime.ports import free_ports


@pytest.fixture
def listeners():
    """Starts workers' listeners, all with one list or each with (task, order of the hosts); returns the hosts and the lost programs."""

    def start(count, told=None):
        hosts, lost = [f"127.0.0.1:{port}" for port in free_ports(count)], []
        for task, order in told or [(task, range(count)) for task in range(count)]:
            LeaseListener([hosts[place] for place in order], task, lost.append).start()
        return hosts, lost

    return start


@pytest.fixture
def become(monkeypatch):
    """Makes this process ask as another program."""
    return lambda name: monkeypatch.setattr(lease, "_token", lambda process: name)


def _take(hosts):
    return Leases(hosts, time.monotonic())


def _connect(host):
    connection = socket.create_connection(("127.0.0.1", lease_port(int(host.rpartition(":")[2]))), timeout=20.0)
    assert connection.recv(65536).endswith(b"\n")
    return connection


def test_a_second_program_is_refused_by_name_whatever_workers_it_lists_until_the_first_releases_them(listeners, become):
    hosts, lost = listeners(2)
    first = _take(hosts)
    become("second")
    for listed in (hosts, hosts[::-1], hosts[:1]):
        with pytest.raises(ClusterError, match=r"in use: .* by process \d+ on .+ since \d{4}-.+ UTC; wait until that program") as caught:
            _take(listed)
        assert all(host in str(caught.value) for host in listed)
    assert first.lost() == ()
    first.release()
    first.release()
    _take(hosts).release()
    assert lost == []


def test_a_process_may_hold_its_leases_several_times(listeners, become):
    hosts, lost = listeners(1)
    one, two = _take(hosts), _take(hosts)
    one.release()
    become("second")
    with pytest.raises(ClusterError, match="in use"):
        _take(hosts)
    two.release()
    _take(hosts).release()
    assert lost == []


def test_a_program_whose_connections_end_without_a_release_is_lost_once_the_last_is_gone(listeners, eventually):
    hosts, lost = listeners(1)
    one, two = _take(hosts), _take(hosts)
    one.abandon()
    _take(hosts).release()
    assert lost == []
    two.release()
    assert eventually(lambda: len(lost) == 1) and lost[0].startswith("process ")


def test_of_two_programs_that_ask_at_once_in_opposite_orders_one_is_not_refused_for_the_other(listeners, monkeypatch):
    hosts, _ = listeners(3)
    names = {}
    monkeypatch.setattr(lease, "_token", lambda process: names[threading.current_thread()])

    def ask(listed, said):
        try:
            _take(listed).release()
            said.append("taken")
        except ClusterError as fault:
            said.append(str(fault))

    for _ in range(10):
        said = []
        threads = [threading.Thread(target=ask, args=(listed, said)) for listed in (hosts, hosts[::-1])]
        names.update({thread: f"program-{index}" for index, thread in enumerate(threads)})
        for act in (threading.Thread.start, threading.Thread.join):
            for thread in threads:
                act(thread)
        assert len([text for text in said if "in use" in text]) < 2


def test_workers_that_were_started_with_different_lists_are_refused_and_named_with_them(listeners):
    hosts, lost = listeners(2, [(0, (0, 1)), (0, (1, 0))])
    with pytest.raises(ClusterError, match="the servers do not form one cluster .*; start all with the same list of hosts") as caught:
        _take(hosts)
    assert f"{hosts[1]} at place 1 was started as worker 0 of {hosts[1]},{hosts[0]}" in str(caught.value) and lost == []


def test_a_list_in_another_order_than_the_workers_is_refused_and_its_beginning_is_not(listeners):
    hosts, lost = listeners(2)
    with pytest.raises(ClusterError, match="name them in its order"):
        _take(hosts[::-1])
    with pytest.raises(ClusterError, match="name them in its order"):
        _take(hosts[1:])
    _take(hosts[:1]).release()
    assert lost == []


def test_a_job_whose_variables_name_a_part_of_its_workers_is_refused_and_they_stay_free(listeners):
    hosts, lost = listeners(2)
    with pytest.raises(ClusterError, match="the job name 1 of the 2 workers .*; start the workers in one step with the job's task counts"):
        Leases(hosts[:1], time.monotonic(), complete=True)
    Leases(hosts, time.monotonic(), complete=True).release()
    assert lost == []


def _link_local():
    """Return a link-local address of this machine with its zone, None where it has none."""
    try:
        lines = pathlib.Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return None
    return next((f"{ipaddress.IPv6Address(int(line.split()[0], 16))}%{line.split()[5]}" for line in lines if line.startswith("fe80")), None)


@pytest.mark.skipif(_link_local() is None, reason="this machine has no link-local address")
def test_a_worker_on_a_link_local_address_grants_its_lease_in_its_zone():
    hosts = [f"[{_link_local()}]:{free_ports(1)[0]}"]
    LeaseListener(hosts, 0, pytest.fail).start()
    _take(hosts).release()


@pytest.mark.parametrize("name", ["[::1]", "[0:0:0:0:0:0:0:1]", "LOCALHOST", "127.0.0.1"])
def test_a_worker_on_a_loopback_address_grants_its_lease_there_alone(name):
    listener = LeaseListener([f"{name}:{free_ports(1)[0]}"], 0, pytest.fail)
    addresses = [listening.getsockname()[0] for listening in listener._listening]
    listener.close()
    assert addresses and set(addresses) <= {"127.0.0.1", "::1"}


def test_a_worker_that_does_not_grant_leases_is_named_with_the_port():
    port = free_ports(1)[0]
    with pytest.raises(ClusterError, match=rf"no lease is granted for 127.0.0.1:{port} \(port {lease_port(port)}\); start hetero-mtf"):
        _take([f"127.0.0.1:{port}"])


def test_what_is_no_request_ends_its_connection_and_nothing_else(listeners):
    hosts, lost = listeners(1)
    held = _take(hosts)
    for text in (b"\x80\x04\x95", b"take", b"take token", b"steal a b", b"\xff" * 9):
        with _connect(hosts[0]) as connection:
            connection.sendall(text.ljust(REQUEST_BYTES - 1) + b"\n")
            assert connection.recv(1) == b""
    with _connect(hosts[0]) as connection:
        connection.sendall(b"take")
    assert held.lost() == () and lost == []
    held.release()


def test_a_connection_that_asks_for_nothing_is_ended(listeners, monkeypatch):
    monkeypatch.setattr(lease_listener, "_ASKING_S", 0.0)
    hosts, _ = listeners(1)
    with _connect(hosts[0]) as connection:
        assert connection.recv(1) == b""


def test_a_worker_that_ends_is_missed(listeners, monkeypatch, eventually):
    heard = []
    hear = LeaseListener._hear
    monkeypatch.setattr(LeaseListener, "_hear", lambda listener, connection: heard.append(connection) or hear(listener, connection))
    hosts, _ = listeners(1)
    held = _take(hosts)
    heard[0].socket.shutdown(socket.SHUT_RDWR)
    assert eventually(lambda: held.lost() == (0,))
    held.abandon()


def test_a_lease_is_granted_on_the_address_of_the_worker_alone():
    hosts = [f"127.0.0.1:{free_ports(1)[0]}"]
    listener = LeaseListener(hosts, 0, pytest.fail)
    assert [one.getsockname()[0] for one in listener._listening] == ["127.0.0.1"]
    listener.close()


@pytest.mark.parametrize(("host", "sentence"), [("192.0.2.1", "is no address of this machine; correct --index"), ("x.invalid", "resolved")])
def test_an_address_that_is_not_of_this_machine_is_refused(host, sentence):
    with pytest.raises(ClusterError, match=sentence):
        LeaseListener([f"{host}:61000", "127.0.0.1:61001"], 0, pytest.fail)


def test_a_port_of_the_lease_in_use_is_named():
    port = free_ports(1)[0]
    with socket.create_server(("127.0.0.1", lease_port(port))):
        message = f"port {lease_port(port)}, on which the worker on port {port} grants its lease, cannot be opened .*; choose another"
        with pytest.raises(ClusterError, match=message):
            LeaseListener([f"127.0.0.1:{port}"], 0, pytest.fail)


def test_a_worker_that_ends_waits_for_the_release_and_does_not_start_again(eventually):
    host, lost = f"127.0.0.1:{free_ports(1)[0]}", []
    listener = LeaseListener([host], 0, lost.append)
    listener.start()
    assert not listener.leased
    leases = _take([host])
    assert listener.leased
    listener.ending = True
    leases.abandon()
    assert eventually(lambda: not listener.leased) and lost == []


def test_a_list_that_is_not_the_workers_is_refused_before_others_are_waited_for(listeners):
    hosts, lost = listeners(2)
    other = f"127.0.0.1:{free_ports(1)[0]}"
    for listed in ([hosts[0], other], [*hosts, other], hosts[::-1]):
        with pytest.raises(ClusterError, match="was started as one of .*, and this program names .*; give the program and all workers"):
            lease.check_list(hosts[0], listed, False)
    for listed in (hosts, hosts[:1]):
        lease.check_list(hosts[0], listed, False)
    with pytest.raises(ClusterError, match="the variables of the job name 1 of the 2 workers"):
        lease.check_list(hosts[0], hosts[:1], True)
    lease.check_list(other, [other], True)  # which says nothing yet
    assert lost == []


def test_the_lease_of_a_worker_that_was_not_there_is_taken_once_it_is(eventually):
    hosts = [f"127.0.0.1:{port}" for port in free_ports(3)]
    for task in (0, 1):
        LeaseListener(hosts, task, pytest.fail).start()
    leases = Leases(hosts, time.monotonic(), absent={2})
    leases.watch(30.0)
    assert leases.lost() == () and not leases.take_again(2)
    other = LeaseListener([hosts[0], hosts[2]], 1, pytest.fail)
    other.start()
    assert not leases.take_again(2)  # it was started with another list
    other.close()
    late = LeaseListener(hosts, 2, pytest.fail)
    late.start()
    assert leases.take_again(2) and late.leased and leases.take_again(2)
    leases.release()
    assert eventually(lambda: not late.leased)
