"""The lease of a worker: one program at a time may use it, and the memory of a killed program is freed.

TensorFlow's servers accept any number of programs, keep their variables when they die, and free the variables of one through a
call that ends the sessions of all. So a worker grants its lease on a second port: `lease_port` of its own. On a connection
it sends a greeting with its task and hosts (one line of JSON); the program requests the lease (one line of `REQUEST_BYTES` bytes) and
keeps the connection. When the connection ends without a release, the program is dead, and the worker starts again from nothing.

A program that reaches all workers cannot see that two of them do not reach each other: a step between them then never ends. So it may ask
a worker to watch the others, on the same connection. While another does not answer, the worker sends a line every second that says for how
long, and one when all answer again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import ipaddress
import json
import selectors
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from hetero_mtf.devices.address_forms import is_ip
from hetero_mtf.devices.addresses import lease_port
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.liveness.peers import Peers
from hetero_mtf.runtime.ports import split_address

REQUEST_BYTES = 256
_MOST_CONNECTIONS = 64
_ASKING_S = 10.0
_WAKE_S = 1.0
_LOOK_S = 0.5  # while others are watched
_IDLE_S, _INTERVAL_S, _PROBES = 10, 5, 4  # a program whose host is gone loses the lease after half a minute


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel end a connection whose other host has been gone for half a minute; a stopped process is not gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": _IDLE_S, "TCP_KEEPINTVL": _INTERVAL_S, "TCP_KEEPCNT": _PROBES, "TCP_USER_TIMEOUT": 30_000}
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


@dataclasses.dataclass
class _Connection:
    """A connection, what has arrived on it, and the token of the lease that it holds."""

    socket: socket.socket
    since_s: float
    text: bytes = b""
    token: str = ""
    released: bool = False
    peers: Peers | None = None


@dataclasses.dataclass
class _Lease:
    """Who uses the worker, and whether one of its connections ended without a release."""

    token: str
    holder: str
    since_s: float
    broken: bool = False


class LeaseListener:
    """Grants the use of one worker to one program at a time, which may hold it on several connections.

    Parameters
    ----------
    hosts : (tasks,) "HOST:PORT" of every worker, as this one was started.
    task : which of them this is.
    lost : called, on another thread, with the name of a program that ended without a release.

    Attributes
    ----------
    ending : whether the worker ends, so that a program that ends without a release is nothing.

    Raises
    ------
    ClusterError
        If the worker's address is none of this machine, or the port of its lease is in use.
    """

    def __init__(self, hosts: Sequence[str], task: int, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._hosts, self._task = list(hosts), task
        self.ending = False
        self._greeting = json.dumps({"task": task, "hosts": list(hosts), "instance": uuid.uuid4().hex, "watches": True}).encode() + b"\n"
        self._listening = _bound(hosts, task)
        self._connections: list[_Connection] = []
        self._lease: _Lease | None = None

    @property
    def leased(self) -> bool:
        """Whether a program uses the worker."""
        return self._lease is not None

    def start(self) -> None:
        """Listen, on a thread of its own."""
        for listening in self._listening:
            listening.listen(_MOST_CONNECTIONS)
        threading.Thread(target=self._serve, name="hetero_mtf-lease", daemon=True).start()

    def close(self) -> None:
        """Close the port of a listener that was not started."""
        for listening in self._listening:
            listening.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            for listening in self._listening:
                listening.setblocking(False)
                selector.register(listening, selectors.EVENT_READ)
            while True:
                watching = [connection for connection in self._connections if connection.peers is not None]
                for key, _ in selector.select(_LOOK_S if watching else _WAKE_S):
                    if key.data is None:
                        self._accept(key.fileobj, selector)
                    elif not self._hear(key.data):
                        self._end(key.data, selector)
                for connection in watching:
                    if connection in self._connections and connection.peers is not None and not connection.peers.tell(connection.socket):
                        self._end(connection, selector)
                late_s = time.monotonic() - _ASKING_S
                for connection in [one for one in self._connections if not one.token and one.since_s < late_s]:
                    self._end(connection, selector)

    def _accept(self, listening: Any, selector: selectors.BaseSelector) -> None:
        with contextlib.suppress(OSError):
            caller, _ = listening.accept()
            if len(self._connections) >= _MOST_CONNECTIONS:
                caller.close()
                return
            caller.setblocking(False)
            keep_alive(caller)
            connection = _Connection(caller, time.monotonic())
            self._connections.append(connection)
            selector.register(caller, selectors.EVENT_READ, connection)
            if not _sent(caller, self._greeting):
                self._end(connection, selector)

    def _hear(self, connection: _Connection) -> bool:
        """Read from a connection and return whether it stays open."""
        try:
            chunk = connection.socket.recv(REQUEST_BYTES - len(connection.text))
        except BlockingIOError:
            return True
        except OSError:
            return False
        connection.text += chunk
        if not chunk:
            return False
        if len(connection.text) < REQUEST_BYTES:
            return True
        return self._obey(connection)

    def _obey(self, connection: _Connection) -> bool:
        request, connection.text = connection.text.decode("ascii", errors="replace").split(maxsplit=2), b""
        if request[:1] == ["release"]:
            connection.released = True
            return False
        if len(request) == 3 and request[0] == "take" and not connection.token:
            return self._take(connection, request[1], request[2].strip())
        if len(request) == 3 and request[0] == "watch" and connection.token and connection.peers is None:
            return self._watch(connection, request[1], request[2])
        return request == ["who"] and self._tell(connection)

    def _watch(self, connection: _Connection, count: str, limit_s: str) -> bool:
        """Watch the other ones of the first workers for a program; return whether it asked rightly."""
        try:
            hosts = {task: host for task, host in enumerate(self._hosts[: int(count)]) if task != self._task}
            connection.peers = Peers(hosts, float(limit_s)) if 0 < float(limit_s) < float("inf") else None
        except ValueError:
            return False
        return connection.peers is not None

    def _tell(self, connection: _Connection) -> bool:
        lease = self._lease or _Lease("", "", 0.0)
        return _sent(connection.socket, json.dumps({"holder": lease.holder, "since_s": lease.since_s}).encode() + b"\n")

    def _take(self, connection: _Connection, token: str, holder: str) -> bool:
        if self._lease is not None and self._lease.token != token:
            return self._tell(connection)
        printable = "".join(letter for letter in holder if letter.isprintable())
        self._lease = self._lease or _Lease(token, printable, time.time())
        connection.token = token
        return _sent(connection.socket, b'{"holder": ""}\n')

    def _end(self, connection: _Connection, selector: selectors.BaseSelector) -> None:
        selector.unregister(connection.socket)
        connection.socket.close()
        if connection.peers is not None:
            connection.peers.close()
        self._connections.remove(connection)
        if not connection.token or self._lease is None:
            return
        self._lease.broken = self._lease.broken or not connection.released
        if any(one.token for one in self._connections):
            return
        lease, self._lease = self._lease, None
        if lease.broken and not self.ending:
            self._lost(lease.holder)


def _sent(connection: socket.socket, line: bytes) -> bool:
    try:
        return connection.send(line) == len(line)
    except OSError:
        return False


def _bound(hosts: Sequence[str], task: int) -> list[socket.socket]:
    """Return sockets on the port of a worker's lease, at the worker's own address where it is one of this machine's network."""
    name, port = split_address(hosts[task])
    number = lease_port(port)
    sockets: list[socket.socket] = []
    try:
        for family, address in _own_addresses(name):
            with contextlib.suppress(_NotOurs):
                sockets.append(_bound_to(family, address, number))
    except OSError as fault:
        for listening in sockets:
            listening.close()
        what = f"port {number}, on which the worker on port {port} grants its lease, cannot be opened ({fault.strerror})"
        raise ClusterError(what, "choose another port for the worker or end the process that uses it") from fault
    if not sockets:
        listed = ", ".join(hosts)
        raise ClusterError(
            f"{hosts[task]}, worker {task} of {listed}, is no address of this machine", "correct --index or the list of hosts"
        )
    return sockets


class _NotOurs(Exception):
    """An address that no interface of this machine has."""


def _bound_to(family: int, address: Sequence[Any], number: int) -> socket.socket:
    with contextlib.ExitStack() as stack:
        try:
            listening = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind((address[0], number, *address[2:]))  # the last of an IPv6 address is its zone
        except OSError as fault:
            if fault.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise _NotOurs from fault
            raise
        stack.pop_all()
    return listening


def _own_addresses(name: str) -> list[tuple[int, tuple[Any, ...]]]:
    """Return (family, address as of `getaddrinfo`) of each interface that a worker's name stands for."""
    try:
        listed = {(int(entry[0]), tuple(entry[4])) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except OSError as fault:
        raise ClusterError(f"the name {name} cannot be resolved here ({fault})", "correct the list of hosts") from fault
    loopback = all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for _, address in listed)
    if loopback and name.lower().removesuffix(".") != "localhost" and not is_ip(name):
        return [(int(socket.AF_INET), ("0.0.0.0", 0))]  # a machine's own name often leads to its loopback there, elsewhere to its network
    return sorted(listed)
