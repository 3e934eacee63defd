"""The leases of a cluster's workers, as a program takes, holds and releases them."""

from __future__ import annotations

import contextlib
import datetime
import errno
import functools
import json
import os
import select
import socket
import threading
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hetero_mtf.devices.addresses import lease_port
from hetero_mtf.errors import ClusterError
from hetero_mtf.runtime.liveness.heartbeat import Silence
from hetero_mtf.runtime.liveness.lease_listener import REQUEST_BYTES, keep_alive
from hetero_mtf.runtime.liveness.peers import read_silent
from hetero_mtf.runtime.ports import split_address

_ANSWER_S = 5.0
_RELEASE_S = 1.0
_AGAIN_S = 0.3
_LONGEST_LINE_BYTES = 1 << 20
_ENDED, _CUT_OFF = "ended", "cut off"
_NO_WORD = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN})


class Leases:
    """The use of the workers of a cluster, all or none, on one kept connection each.

    Programs ask the workers in one order, that of the workers' instance names, so that one of two concurrent programs gets all.
    A process may hold the same leases several times.

    Parameters
    ----------
    hosts : (servers,) "HOST:PORT".
    end_s : time of the monotonic clock until which to wait for workers that start, such as those of a program that was killed just now.
    complete : whether `hosts` has to be the list that the workers were started with, not its beginning.
    absent : places of workers that are not there; their leases can be taken later.

    Raises
    ------
    ClusterError
        If a worker does not answer, another program holds one, or the workers were started with different lists.
    """

    def __init__(self, hosts: Sequence[str], end_s: float, complete: bool = False, absent: Collection[int] = ()) -> None:
        self._limit_s, self._hosts = 0.0, tuple(hosts)
        wanted = {place: host for place, host in enumerate(hosts) if place not in absent}
        while True:
            self._connections, missing = _greeted(wanted)
            if not missing:
                try:
                    self._take()
                    _check_one_cluster(self._connections, len(hosts) if complete else None)
                    return
                except OSError:  # a worker ended meanwhile, or starts again
                    missing = list(wanted.values())
                except BaseException:
                    self.release()
                    raise
            self.release()
            if time.monotonic() >= end_s:
                raise _no_lease(missing)
            time.sleep(_AGAIN_S)

    def watch(self, limit_s: float) -> None:
        """Let every worker watch the others; `silent` then returns what they tell.

        Parameters
        ----------
        limit_s : seconds without an answer that are too long.
        """
        self._limit_s = limit_s
        for connection in self._connections.values():
            self._watch(connection)

    def take_again(self, place: int) -> bool:
        """Take the lease of a worker that was lost, or was not there, and return whether it is held.

        Parameters
        ----------
        place : of the worker, which answers.
        """
        before = self._connections.get(place)
        if before is not None:
            before.hear()
            if not before.end:
                return True
        try:
            fresh = _LeaseConnection(self._hosts[place])
        except OSError:
            return False
        try:
            listed = next(iter(self._connections.values())).greeting.get("hosts")
            is_same = (fresh.greeting.get("task"), fresh.greeting.get("hosts")) == (place, listed)
            if not is_same or fresh.ask(f"take {_token(os.getpid())} {_holder()}", answered=True)["holder"]:
                fresh.socket.close()
                return False
            self._watch(fresh)
        except OSError:  # it ended meanwhile
            fresh.socket.close()
            return False
        if before is not None:
            before.socket.close()
        self._connections[place] = fresh
        return True

    def _watch(self, connection: _LeaseConnection) -> None:
        if len(self._hosts) > 1 and connection.greeting.get("watches") is True:
            with contextlib.suppress(OSError):  # it is noticed as lost
                connection.ask(f"watch {len(self._hosts)} {self._limit_s}")

    def lost(self) -> tuple[int, ...]:
        """Return the places of the workers that have ended the lease, because they ended or were started again."""
        return tuple(place for place, one in self._heard() if one.end == _ENDED)

    def cut_off(self) -> tuple[int, ...]:
        """Return the places of the workers to which the connection broke without a word from their machine."""
        return tuple(place for place, one in self._heard() if one.end == _CUT_OFF)

    def silent(self) -> dict[tuple[int, int], Silence]:
        """Return for how long a worker has not answered another, by their places: who tells it, and whom it does not reach."""
        return {(place, task): silence for place, one in self._heard() for task, silence in one.silent.items()}

    def _heard(self) -> list[tuple[int, _LeaseConnection]]:
        connections = sorted(self._connections.items())
        for _, connection in connections:
            connection.hear()
        return connections

    def release(self) -> None:
        """End the leases without a restart of the workers. Releasing twice is harmless."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.ask("release")
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.await_end()  # no later request is refused because of this program
        self.abandon()

    def abandon(self) -> None:
        """Close the connections without a release: workers whose lease was taken then free all by starting again."""
        for connection in self._connections.values():
            connection.socket.close()
        self._connections = {}

    def _take(self) -> None:
        holders: dict[str, list[str]] = {}
        for connection in sorted(self._connections.values(), key=lambda one: str(one.greeting.get("instance"))):
            answer = connection.ask("who" if holders else f"take {_token(os.getpid())} {_holder()}", answered=True)
            if answer["holder"]:
                since = datetime.datetime.fromtimestamp(answer["since_s"], datetime.timezone.utc)
                holders.setdefault(f"{answer['holder']} since {since:%Y-%m-%d %H:%M:%S} UTC", []).append(connection.host)
        if holders:
            listed = ", ".join(f"{', '.join(sorted(hosts))} by {who}" for who, hosts in holders.items())
            raise ClusterError(f"workers are in use: {listed}", "wait until that program has ended, or end it")


class _LeaseConnection:
    """A connection to the lease of one worker, with the greeting of the worker."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.silent: dict[int, Silence] = {}
        self.end = ""
        self._text = b""
        self._lock = threading.Lock()
        name, port = split_address(host)
        self.socket = socket.create_connection((name, lease_port(port)), timeout=_ANSWER_S)
        try:
            keep_alive(self.socket)
            self.greeting = self._read()
        except BaseException:
            self.socket.close()
            raise

    def ask(self, request: str, answered: bool = False) -> dict[str, Any]:
        """Send a request and return the answer where there is one."""
        self.socket.sendall(request.encode("ascii", errors="replace")[: REQUEST_BYTES - 1].ljust(REQUEST_BYTES - 1) + b"\n")
        return self._read() if answered else {}

    def await_end(self) -> None:
        """Wait, not for long, until the worker has closed the connection."""
        self.socket.settimeout(_RELEASE_S)
        end_s = time.monotonic() + _RELEASE_S
        while self.socket.recv(4096) and time.monotonic() < end_s:
            pass

    def hear(self) -> None:
        """Take what the worker has told, without waiting. A signal's handler may call it during another call, which then goes on."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            while not self.end and self._ready():
                self._take_chunk(self.socket.recv(65536))
        except ValueError:
            pass  # closed meanwhile
        except OSError as fault:
            self.end = _CUT_OFF if fault.errno in _NO_WORD else _ENDED
        finally:
            self._lock.release()

    def _ready(self) -> bool:
        poll = select.poll()  # select.select takes no descriptors above 1023
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))

    def _take_chunk(self, chunk: bytes) -> None:
        if not chunk:
            self.end = _ENDED
            return
        *lines, self._text = (self._text + chunk)[-_LONGEST_LINE_BYTES:].split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                document = json.loads(line)
                silent = read_silent(document) if isinstance(document, dict) else None
                self.silent = self.silent if silent is None else silent

    def _read(self) -> dict[str, Any]:
        line = b""
        while not line.endswith(b"\n") and len(line) < _LONGEST_LINE_BYTES:
            chunk = self.socket.recv(65536)
            if not chunk:
                raise ConnectionResetError
            line += chunk
        try:
            document = json.loads(line)
        except ValueError as fault:
            raise ConnectionResetError from fault
        if not isinstance(document, dict):
            raise ConnectionResetError
        return document


def _holder() -> str:
    """Return who takes leases, for people."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _greeted(hosts: Mapping[int, str]) -> tuple[dict[int, _LeaseConnection], list[str]]:
    """Return a connection to each worker that answers, by its place, and the hosts of those that do not."""
    connections, missing = {}, []
    for place, host in hosts.items():
        try:
            connections[place] = _LeaseConnection(host)
        except OSError:
            missing.append(host)
    return connections, missing


def check_list(host: str, hosts: Sequence[str], complete: bool) -> None:
    """Refuse a worker that was started with another list than the program's, before those are waited for that may never come.

    Parameters
    ----------
    host : of a worker that answers; one that tells nothing yet is not refused.
    hosts : (servers,) the program's list.
    complete : as for `Leases`.

    Raises
    ------
    ClusterError
        If the program's list is not the worker's, or its beginning.
    """
    try:
        connection = _LeaseConnection(host)
    except OSError:
        return
    connection.socket.close()
    started = connection.greeting.get("hosts")
    if not isinstance(started, list):
        return
    if complete:
        _check_complete(len(hosts), started)
    if started[: len(hosts)] != list(hosts):
        fault = f"the worker on {host} was started as one of {','.join(map(str, started))}, and this program names {','.join(hosts)}"
        raise ClusterError(fault, "give the program and all workers the same list of hosts, in one order")


def _no_lease(hosts: Sequence[str]) -> ClusterError:
    listed = ", ".join(f"{host} (port {lease_port(split_address(host)[1])})" for host in hosts)
    remedy = "start hetero-mtf worker of this version there, let that port through, or continue the worker if it is stopped"
    return ClusterError(f"no lease is granted for {listed}", remedy)


def _check_one_cluster(connections: Mapping[int, _LeaseConnection], count: int | None) -> None:
    """Refuse workers that were started with different lists, or are listed at other places than they were started for.

    Parameters
    ----------
    connections : place -> connection to the worker there.
    count : how many workers their list has to have; None for any.
    """
    started = {place: (one.greeting.get("task"), one.greeting.get("hosts")) for place, one in connections.items()}
    lists = [hosts for _, hosts in started.values()]
    if all(task == place for place, (task, _) in started.items()) and all(hosts == lists[0] for hosts in lists):
        if count is not None:
            _check_complete(count, lists[0])
        return
    listed = ", ".join(
        f"{connections[place].host} at place {place} was started as worker {task} of {','.join(map(str, hosts or []))}"
        for place, (task, hosts) in started.items()
    )
    raise ClusterError(
        f"the servers do not form one cluster ({listed})", "start all with the same list of hosts and name them in its order"
    )


def _check_complete(count: int, started: Any) -> None:
    """Refuse a job whose variables name only the first of its workers: the others would stand idle."""
    if isinstance(started, list) and len(started) > count:
        fault = f"the variables of the job name {count} of the {len(started)} workers that were started as {','.join(map(str, started))}"
        remedy = "start the workers in one step with the job's task counts, or give the hosts with hosts:HOST:PORT,..."
        raise ClusterError(fault, remedy)


@functools.cache
def _token(process: int) -> str:
    """Return a text that is unique to this process; a forked process has another."""
    return f"{process}-{uuid.uuid4().hex}"
