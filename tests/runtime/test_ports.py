"""Free ports and taken ports."""

import random
import socket

import pytest

from hetero_mtf.devices.addresses import lease_port
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime import ports


def test_free_ports_are_different_free_and_high():
    found = ports.free_ports(5)
    assert len(set(found)) == 5 and all(ports.FIRST_PORT <= port < ports.LAST_PORT and ports.port_is_free(port) for port in found)


def test_a_port_whose_lease_is_not_free_is_passed_over():
    first = ports.free_ports(1, random.Random(1))[0]
    with socket.create_server(("127.0.0.1", lease_port(first))):
        assert ports.port_is_free(first)
        assert ports.free_ports(1, random.Random(1)) != (first,)
    assert ports.free_ports(1, random.Random(1)) == (first,)


def test_the_choice_follows_the_generator():
    assert ports.free_ports(3, random.Random(1)) == ports.free_ports(3, random.Random(1))


def test_a_port_in_use_is_refused_by_number():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ClusterError, match=f"port {port} is in use by another process; choose another port or end that process"):
            ports.check_port(port)
    ports.check_port(port)


def test_too_many_ports_are_refused(monkeypatch):
    monkeypatch.setattr(ports, "port_is_free", lambda port: port < ports.FIRST_PORT + 2)
    with pytest.raises(ClusterError, match=f"there are 2 free ports from {ports.FIRST_PORT} to {ports.LAST_PORT} and 3"):
        ports.free_ports(3)


@pytest.mark.parametrize("known_after, limit_s, lookups", [(0, 9.0, 1), (3, 9.0, 4), (100, 1.2, 4)])
def test_names_are_looked_up_until_they_are_known_or_the_time_is_over(monkeypatch, known_after, limit_s, lookups):
    asked, now = [], [0.0]

    def look_up(name):
        asked.append(name)
        if len(asked) <= known_after:
            raise socket.gaierror("not yet")
        return ["192.0.2.1"]

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(ports, "addresses_of", look_up)
    monkeypatch.setattr(ports.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ports.time, "sleep", sleep)
    ports.await_names(["pod-0.example:2222"], limit_s)
    assert asked == ["pod-0.example"] * lookups and now[0] <= limit_s
