"""Heartbeat: whether workers answer while they compute, on connections apart from TensorFlow's."""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from hetero_mtf.errors import ClusterError, WorkerError
from hetero_mtf.runtime.ports import split_address

WORKER_TIMEOUT_S = 30.0
LOOK_AT_BOTH = "look whether its machine is off or the network to it is cut, which cannot be told apart from here"
_INTERVAL_S = 5.0
_MOST_BETWEEN_LOOKS_S = 1.0
_POLL_S = 0.02
_SETTINGS = 4  # type of the frame that a server of HTTP/2 sends first, RFC 9113, sections 3.4 and 6.5
_HEADER_BYTES = 9
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])


class Silence(NamedTuple):
    """For how long a server has not answered.

    Parameters
    ----------
    silent_s : seconds since its last answer.
    unanswered_s : seconds since it was asked what it has not answered yet.
    """

    silent_s: float
    unanswered_s: float


class Heartbeat:
    """Repeated connections to the servers of a cluster, which show for how long each has not answered.

    A gRPC server sends its SETTINGS frame at once on each connection, from threads that do not compute: within a fifth of a
    second during a step of a minute on a tenth of a core. The kernel accepts connections for a stopped process too, but nothing
    answers on them. Nothing runs in the background: code that waits for the cluster calls `look`. Time counts as silence only
    between calls that follow each other closely, so workers are not at fault after a stop of the program itself.

    Parameters
    ----------
    hosts : (servers,) "HOST:PORT".
    limit_s : seconds of silence that are too long, in which a server is asked at least three times.
    clock : returns seconds.
    """

    def __init__(self, hosts: Sequence[str], limit_s: float = WORKER_TIMEOUT_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self.interval_s = min(_INTERVAL_S, limit_s / 3)
        self._clock = clock
        self._looked_s = clock()
        self._probes = [_Probe(host) for host in hosts]
        self._lock = threading.Lock()

    def look(self) -> dict[int, float]:
        """Return the seconds since the last answer of each server that was silent for too long, by its index; never waits.

        A server that `unanswered` has named is named until it answers.
        """
        with self._lock:
            self._advance()
            return {i: probe.silent_s for i, probe in enumerate(self._probes) if probe.silent_s >= self._limit_s or probe.given_up}

    def unanswered(self, limit_s: float) -> dict[int, float]:
        """Return the seconds since the last answer of each server that has left a question unanswered for `limit_s`, by its index.

        Never waits, also where a signal's handler calls it during another call: each call asks the servers without an open
        question, so call it several times.
        """
        if not self._lock.acquire(blocking=False):
            return {}
        try:
            self._advance()
            for probe in self._probes:
                probe.begin()
                probe.given_up = probe.given_up or probe.unanswered_s >= limit_s
            return {index: probe.silent_s for index, probe in enumerate(self._probes) if probe.given_up}
        finally:
            self._lock.release()

    def waiting(self, at_least_s: float) -> dict[int, Silence]:
        """Return how long each server has been silent that has left a question unanswered for `at_least_s`, by its index; never waits.

        As `unanswered`, but nothing is asked beyond what is due, and nobody is given up; a signal's handler may call it too.
        """
        if not self._lock.acquire(blocking=False):
            return {}
        try:
            self._advance()
            return {i: Silence(p.silent_s, p.unanswered_s) for i, p in enumerate(self._probes) if p.unanswered_s >= at_least_s}
        finally:
            self._lock.release()

    def answering(self) -> tuple[int, ...]:
        """Return the indices of the servers that answered when they were asked last, as of the last look."""
        with self._lock:
            return tuple(index for index, probe in enumerate(self._probes) if probe.answering and probe.silent_s <= self.interval_s + 1)

    def since_answers_s(self) -> tuple[float, ...]:
        """Return the seconds since the last answer of each server, as of the last look."""
        return tuple(probe.silent_s for probe in self._probes)

    def connecting(self) -> tuple[int, ...]:
        """Return the indices of the servers whose machine does not even answer the last connection."""
        return tuple(index for index, probe in enumerate(self._probes) if probe.connecting)

    def refusing(self) -> tuple[int, ...]:
        """Return the indices of the servers that refused the last connection: nothing listens there any more."""
        with self._lock:
            return tuple(index for index, probe in enumerate(self._probes) if probe.refused)

    def ask(self, limit_s: float) -> dict[int, float]:
        """Ask all servers now and return the seconds since the last answer of those that do not answer within `limit_s`, by index."""
        with self._lock:
            before = [probe.answers for probe in self._probes]
            for probe in self._probes:
                probe.begin()
            end_s = self._clock() + limit_s
            while True:
                self._advance()
                unanswered = {i: p.silent_s for i, (p, count) in enumerate(zip(self._probes, before)) if p.answers == count}
                if not unanswered or self._clock() >= end_s:
                    return unanswered
                time.sleep(_POLL_S)

    def close(self) -> None:
        """Close the connections. Closing twice is harmless."""
        with self._lock:
            for probe in self._probes:
                probe.close()

    def _advance(self) -> None:
        now_s = self._clock()
        passed_s = min(max(0.0, now_s - self._looked_s), _MOST_BETWEEN_LOOKS_S)
        self._looked_s = now_s
        for probe in self._probes:
            probe.advance(passed_s, self.interval_s)


class _Probe:
    """Connections to one server, one after another, none of which is ever waited for.

    Parameters
    ----------
    host : "HOST:PORT".
    """

    def __init__(self, host: str) -> None:
        self.silent_s = self.unanswered_s = 0.0
        self.given_up = False
        self.answers = 0
        self._refusals = 0
        self._host = host
        self._addresses: list[tuple[int, object]] = []
        self._tried = 0
        self._socket: socket.socket | None = None
        self._greeted = False
        self._failed = False

    def advance(self, passed_s: float, interval_s: float) -> None:
        """Take what has arrived; `passed_s` seconds have passed, and a new connection is due `interval_s` after an answer."""
        self.silent_s += passed_s
        self.unanswered_s += passed_s if self._socket is not None or self._failed else 0.0
        if self._socket is None and (self._failed or self.silent_s >= interval_s):
            self.begin()
        try:
            with contextlib.suppress(BlockingIOError):
                self._take()
        except OSError as fault:
            self._fail(fault)

    def begin(self) -> None:
        """Open a connection unless one is open."""
        if self._socket is not None:
            return
        self._failed = self._greeted = False
        try:
            self._addresses = self._addresses or _addresses(self._host)
            family, address = self._addresses[self._tried % len(self._addresses)]
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            error = self._socket.connect_ex(address)  # type: ignore[arg-type]
            if error not in (0, errno.EINPROGRESS):
                raise OSError(error, "connect")
        except OSError as fault:
            self._fail(fault)

    @property
    def connecting(self) -> bool:
        """Whether nothing has come back yet for the open connection; a stopped process's machine answers, its kernel does that."""
        return (self._socket is not None or self._failed) and not self._greeted and not self._refusals

    @property
    def answering(self) -> bool:
        """Whether the last question was answered, and none is open for long."""
        return self.answers > 0 and not self.given_up and not self._failed

    @property
    def refused(self) -> bool:
        """Whether every address of the server refused its last connection."""
        return self._refusals > 0 and self._refusals >= len(self._addresses)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self) -> None:
        if self._socket is None:
            return
        poll = select.poll()  # select.select takes no descriptors above 1023
        poll.register(self._socket, select.POLLIN | (0 if self._greeted else select.POLLOUT))
        if not poll.poll(0):
            return
        if not self._greeted:
            error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, "connect")
            self._socket.send(_PREFACE)
            self._greeted = True
        header = self._socket.recv(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or header[3] != _SETTINGS:
            raise ConnectionResetError
        self.close()
        self.silent_s = self.unanswered_s = 0.0
        self.answers, self._refusals, self.given_up = self.answers + 1, 0, False

    def _fail(self, fault: OSError) -> None:
        self.close()
        self._failed = True
        self._refusals = self._refusals + 1 if isinstance(fault, ConnectionRefusedError) else 0
        self._tried += 1


def checked_timeout_s(timeout_s: float) -> float:
    """Return the seconds without an answer after which a worker is at fault.

    Raises
    ------
    ClusterError
        If they are not positive and finite.
    """
    if not 0 < timeout_s < float("inf"):
        raise ClusterError(f"the worker timeout {timeout_s:g} s is not positive and finite", f"leave it out for {WORKER_TIMEOUT_S:g} s")
    return timeout_s


def silence(silent: Mapping[int, tuple[str, float, bool]]) -> WorkerError | None:
    """Return the error for workers that do not answer, or None where there are none.

    Parameters
    ----------
    silent : number of each -> name, seconds since the last answer, and whether not even its machine answers.
    """
    if not silent:
        return None
    listed = [f"{name} has not answered for {silent_s:.0f} s" for name, silent_s, connecting in silent.values() if not connecting]
    listed += [f"nothing has come back from {name} for {silent_s:.0f} s" for name, silent_s, connecting in silent.values() if connecting]
    if any(connecting for _, _, connecting in silent.values()):
        remedy = f"{LOOK_AT_BOTH}, then open the cluster again"
    else:
        remedy = "continue or end it if it is stopped and open the cluster again, or allow more with --worker-timeout"
    return WorkerError(", ".join(listed), remedy, [(number,) for number in silent])


def _addresses(host: str) -> list[tuple[int, object]]:
    listed = socket.getaddrinfo(*split_address(host), type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in listed]
