"""Servers that are waited for, and spare ones that are not."""

import contextlib
import socket
import threading
import time

import pytest

from hetero_mtf.devices.addresses import Addresses
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime import reaching
from hetero_mtf.runtime.ports import free_ports

LIMIT_S, LONG_S = 1.5, 40.0


@pytest.fixture
def reached(monkeypatch):
    """Waits for servers of which some are there, and others come later; returns those that are missing, and the seconds."""
    monkeypatch.setattr(reaching, "SPARE_S", 0.5)
    with contextlib.ExitStack() as stack:

        def wait(count, there, spare=0, later=(), limit_s=LIMIT_S):
            ports = free_ports(count)
            for place in there:
                stack.enter_context(socket.create_server(("127.0.0.1", ports[place])))
            for place, after_s in later:
                open_it = lambda place=place: stack.enter_context(socket.create_server(("127.0.0.1", ports[place])))  # noqa: E731
                timer = threading.Timer(after_s, open_it)
                stack.callback(timer.join)
                timer.start()
            hosts = tuple(f"127.0.0.1:{port}" for port in ports)
            start_s = time.monotonic()
            missing = reaching.await_reachable(Addresses(hosts), start_s + limit_s, spare)
            return set(missing), time.monotonic() - start_s

        yield wait


def test_servers_that_are_all_there_are_not_waited_for(reached):
    missing, seconds = reached(3, [0, 1, 2])
    assert missing == set() and seconds < LIMIT_S


def test_the_last_ones_may_be_missing_once_the_first_ones_are_there(reached):
    missing, seconds = reached(3, [0, 1], spare=1, limit_s=LONG_S)
    assert missing == {2} and seconds < LONG_S / 2
    assert reached(4, [0, 2], spare=3)[0] == {1, 3}


def test_a_spare_server_that_comes_soon_is_used(reached):
    assert reached(2, [0], spare=1, later=[(1, 0.2)])[0] == set()


def test_a_first_one_may_be_missing_instead_of_a_spare_one_at_the_end(reached):
    missing, seconds = reached(3, [1, 2], spare=1)
    assert missing == {0} and seconds >= LIMIT_S
    assert reached(3, [1, 2], spare=1, later=[(0, 0.8)])[0] == set()


def test_more_than_the_spare_ones_are_named_where_they_are_missing(reached):
    with pytest.raises(ClusterError, match=r"^no server answers on 127.0.0.1:\d+, 127.0.0.1:\d+; start one there with hetero-mtf worker$"):
        reached(3, [1], spare=1)
