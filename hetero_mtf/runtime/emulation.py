"""Emulated devices: worker processes on this machine, each limited to a share of a core."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import IO, Any

from hetero_mtf.devices.environment import bypass_proxy, child_variables
from hetero_mtf.devices.host import available_cores, host_cpu
from hetero_mtf.devices.instruction_sets import check_instruction_sets
from hetero_mtf.devices.records import LIMITS, ClusterRecord
from hetero_mtf.errors import ClusterError, WorkerError
from hetero_mtf.runtime import firewall
from hetero_mtf.runtime.faults import death, log_end
from hetero_mtf.runtime.limits import cgroup
from hetero_mtf.runtime.limits.cores import check_shares, limit_text, pack
from hetero_mtf.runtime.liveness.heartbeat import WORKER_TIMEOUT_S, Heartbeat, silence
from hetero_mtf.runtime.ports import free_ports, split_address
from hetero_mtf.runtime.worker import PORT_TAKEN

START_LIMIT_S = 180.0
_ATTEMPTS = 4
_LOOK_S = 0.1
NO_THREAD_GROUPS = "no control group for single threads can be made here, and a duty cycle stops whole processes"
_METHODS = (None, "cgroup", "duty_cycle")
_QUIET = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}


@dataclasses.dataclass
class _SupervisorState:
    """What the supervisor has reported so far."""

    method: str = ""
    workers: dict[int, int] = dataclasses.field(default_factory=dict)
    exits: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)
    faults: list[str] = dataclasses.field(default_factory=list)
    shares_set: int = 0
    open_reason: str = ""
    closed: bool = False


class Emulation:
    """Worker processes that stand for devices of unequal speed.

    They start while the program goes on, and are waited for where they are first needed: `hosts`, `target`, `method`. Only a method or a
    limit that is asked for is waited for at once, as it may not work here.

    Parameters
    ----------
    shares : (devices,) share of a core of each, in (0, 1].
    method : how to limit them: "cgroup", "duty_cycle", or None for a control group where one can be made, else a duty cycle.
    start_limit_s : seconds all workers together may take to start.
    worker_timeout_s : seconds without an answer after which a worker is a fault.
    limit : what the shares limit: "process", or "compute" for those threads that compute, by control groups only.
    instruction_sets : (devices,) newest instruction set of each device's kernels, "" for all; empty for all on all devices.

    Raises
    ------
    ClusterError
        If the shares cannot be given, the CPU has not such instructions, or the method does not work here.
    WorkerError
        If a worker dies or is not ready in time.
    """

    def __init__(
        self,
        shares: Sequence[float],
        method: str | None = None,
        start_limit_s: float = START_LIMIT_S,
        worker_timeout_s: float = WORKER_TIMEOUT_S,
        limit: str = LIMITS[0],
        instruction_sets: Sequence[str] = (),
    ) -> None:
        self._shares = _checked_shares(shares, method, limit)
        self._instruction_sets = check_instruction_sets(instruction_sets, len(self._shares))
        self._method, self._limit = method, limit
        self._start_limit_s, self._worker_timeout_s = start_limit_s, worker_timeout_s
        self._lock = threading.RLock()
        self._heartbeat = Heartbeat([])  # no worker is asked before all are ready
        self._record: ClusterRecord | None = None
        self._is_ready = self._was_closed = False
        self._failure: WorkerError | None = None  # why workers will not be ready
        self.left_out: frozenset[int] = frozenset()
        self._cores = pack(self._shares, available_cores())
        self._attempts = 0
        self._start()
        if method is not None or limit == "compute":  # which may be refused here
            try:
                self.await_ready()
                self._check_method()
            except BaseException:
                self.close()
                raise

    @property
    def hosts(self) -> tuple[str, ...]:
        """(devices,) the workers' addresses, which are waited for: a port that is taken meanwhile is replaced by another."""
        self.await_ready()
        return self._hosts

    @property
    def record(self) -> ClusterRecord:
        """The devices, described when they are first asked for; no worker is waited for."""
        with self._lock:
            self._record = self._record or self._describe()
        return self._record

    def await_ready(self) -> None:
        """Return when all workers are ready.

        Raises
        ------
        WorkerError
            If one has died, or they are not ready in time; all are ended by then.
        """
        while not self._is_ready:
            fault = self._starting_fault(_LOOK_S)
            if fault is not None:
                raise fault

    @property
    def method(self) -> str:
        """How the workers are limited: "cgroup", "cgroup, compute only" or "duty_cycle"."""
        self.await_ready()
        return limit_text(self._state.method, self._limit)

    @property
    def target(self) -> str:
        """The server that sessions talk to: that of the first worker in use with the largest share, as its process runs the master."""
        hosts, used = self.hosts, [index for index in range(len(self._shares)) if index not in self.left_out]
        return f"grpc://{hosts[max(used, key=self._shares.__getitem__)]}"

    @property
    def open_ports(self) -> tuple[int, ...]:
        """The workers' ports that other users and hosts can reach; () where rules close them, or the workers have ended."""
        if not self._was_closed:
            self.await_ready()
        with self._lock:
            self._read_events(time.monotonic(), until=lambda state: False)
        return tuple(split_address(host)[1] for host in self._hosts) if self._state.open_reason and not self._state.closed else ()

    def process_ids(self) -> tuple[int, ...]:
        """Return (devices,) the workers' process ids."""
        self.await_ready()
        return tuple(self._state.workers[index] for index in range(len(self._shares)))

    def set_share(self, index: int, share: float) -> None:
        """Change what a running worker gets, as `Cluster.set_share`. The record keeps the share it was made with.

        Raises
        ------
        ClusterError
            If there is no such device, or the share is out of range.
        WorkerError
            If the worker is dead, or the limit could not be set.
        """
        if not 0 <= index < len(self._shares):
            raise ClusterError(f"device {index} is not among the {len(self._shares)} emulated devices", "number them from 0")
        check_shares([share], 1)
        self.await_ready()
        fault = self.fault()
        if fault is not None:
            raise fault
        with self._lock:
            before = self._state.shares_set
            self._order({"do": "share", "index": index, "share": share})
            self._read_events(time.monotonic() + 10.0, until=lambda state: state.shares_set > before or bool(state.faults))
            faults, self._state.faults = self._state.faults, []
        if faults or self._state.shares_set == before:
            reason = ", ".join(faults) or "no answer"
            raise WorkerError(f"worker:{index} could not be limited to {share:g} of a core ({reason})", "open the cluster again")

    def fault(self, wait_s: float = 0.0) -> WorkerError | None:
        """Return what is wrong with the workers, or None; workers that start are not waited for.

        Parameters
        ----------
        wait_s : seconds to wait for a report, when it is known that a worker is at fault.
        """
        if not self._is_ready:
            fault = self._starting_fault(0.0)
            if fault is not None or not self._is_ready:
                return fault
        with self._lock:
            self._read_events(time.monotonic() + wait_s, until=lambda state: bool(self._deaths(state)) or state.closed)
        deaths = self._deaths(self._state)
        if deaths:
            return death(*min(deaths.items()))
        if self._state.closed:
            return _closed()
        return self._silence(self._heartbeat.look())

    def leave_out(self, workers: Collection[int]) -> None:
        """Let the death or silence of these workers, and of no others, be no fault, as `Cluster.leave_out`."""
        self.left_out = frozenset(workers)

    def returned(self) -> tuple[int, ...]:
        """Return the workers that are left out and answer again, as `Cluster.returned`."""
        with self._lock:
            self._read_events(time.monotonic(), until=lambda state: False)
        self._heartbeat.look()
        answering = set(self._heartbeat.answering()) - set(self._state.exits)
        return tuple(sorted(self.left_out & answering))

    def unresponsive(self, limit_s: float) -> WorkerError | None:
        """Return which workers have left a question unanswered for `limit_s` seconds, as `Cluster.unresponsive`."""
        return self._silence(self._heartbeat.unanswered(limit_s))

    def close(self, freed: bool = True) -> None:
        """End the workers and remove their control groups. Closing twice is harmless."""
        with self._lock:
            self._state.closed = self._was_closed = True
        self._heartbeat.close()
        self._finalizer()

    def _silence(self, silent: Mapping[int, float]) -> WorkerError | None:
        used = {
            index: (f"worker:{index} (process {self._state.workers[index]})", silent_s, False)
            for index, silent_s in silent.items()
            if index not in self.left_out
        }
        return silence(used)

    def _deaths(self, state: _SupervisorState) -> dict[int, dict[str, Any]]:
        """Return how workers in use have ended."""
        return {index: end for index, end in state.exits.items() if index not in self.left_out}

    def _start(self) -> None:
        """Start the supervisor, which starts the workers on other ports each time."""
        self._hosts = tuple(f"127.0.0.1:{port}" for port in free_ports(len(self._shares)))
        workers = [
            {"order": {"hosts": list(self._hosts), "task": task, "core": core, "instruction_set": name}, "share": share}
            for task, (core, share, name) in enumerate(zip(self._cores, self._shares, self._instruction_sets))
        ]
        bypass_proxy(self._hosts)
        self._attempts += 1
        self._start_end_s = time.monotonic() + self._start_limit_s
        self._state = _SupervisorState()
        self._buffer = b""
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process that writes it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hetero_mtf.runtime.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            bufsize=0,
            env=child_variables(_QUIET),
            start_new_session=True,
        )
        self._finalizer = weakref.finalize(self, _end, self._process, self._log, os.getpid())
        self._order({"owner": os.getpid(), "method": self._method, "limit": self._limit, "workers": workers})

    def _starting_fault(self, wait_s: float) -> WorkerError | None:
        """Wait some seconds at most for workers that start; return why they will not be ready, or None.

        The lock is held for this long only, so that the cluster can be closed from another thread. Where a port was taken meanwhile,
        they are started again.
        """
        with self._lock:
            if self._is_ready:
                return None
            if self._was_closed:
                return self._failure or _closed()
            self._read_events(min(time.monotonic() + wait_s, self._start_end_s), until=self._is_decided)
            if self._attempts < _ATTEMPTS and any(end["code"] == PORT_TAKEN for end in self._state.exits.values()):
                self._state.closed = True  # until it has started again, which an interruption may prevent
                self._finalizer()
                self._start()
            elif not self._state.closed and self._is_decided(self._state) and not self._state.exits and not self._state.faults:
                self._heartbeat = Heartbeat(self._hosts, self._worker_timeout_s)
                weakref.finalize(self, self._heartbeat.close)
                self._is_ready = True
            elif self._is_decided(self._state) or time.monotonic() >= self._start_end_s:
                self._failure = self._start_fault()
                self.close()
            return self._failure

    def _is_decided(self, state: _SupervisorState) -> bool:
        """Return whether all workers are ready, or will not be."""
        return len(state.workers) == len(self._shares) or bool(state.exits or state.closed or state.faults)

    def _start_fault(self) -> WorkerError:
        """Return why the workers are not ready."""
        state = self._state
        if state.exits:
            return death(*min(state.exits.items()))
        if state.closed:
            log = log_end(self._supervisor_log()) or "its log is empty"
            return WorkerError(f"the workers' supervisor ended at start ({log})", "start again")
        if state.faults:
            remedy = "leave the limit out" if self._limit == "compute" else "try method duty_cycle"
            return WorkerError(f"a worker could not be limited ({', '.join(state.faults)})", remedy)
        late = ", ".join(f"worker:{index}" for index in range(len(self._shares)) if index not in state.workers)
        return WorkerError(f"{late} was not ready in time", "free the machine or use fewer devices")

    def _check_method(self) -> None:
        if self._state.method == "cgroup" or (self._method != "cgroup" and self._limit != "compute"):
            return
        if self._limit == "compute":
            raise ClusterError(f"{NO_THREAD_GROUPS}", "leave the limit out, so that processes are limited as a whole")
        raise ClusterError("no control group for the cpu controller can be made here", "use method duty_cycle or leave the method out")

    def _describe(self) -> ClusterRecord:
        described = [host_cpu(f"/job:worker/task:{task}/device:CPU:0", f"worker:{task}", share) for task, share in enumerate(self._shares)]
        pool = described[0][1]
        devices = (
            dataclasses.replace(device, memory_bytes=pool.free_bytes, limit=self._limit, instruction_set=name)
            for (device, _), name in zip(described, self._instruction_sets)
        )
        return ClusterRecord(tuple(devices), (pool,))

    def _order(self, order: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")  # type: ignore[union-attr]

    def _read_events(self, end_s: float, until: Any) -> None:
        """Read the supervisor's reports until the condition holds or the time is over; what has arrived is read in any case."""
        while not self._state.closed:
            left_s = 0.0 if until(self._state) else max(0.0, end_s - time.monotonic())
            ready, _, _ = select.select([self._process.stdout.fileno()], [], [], left_s)  # type: ignore[union-attr]
            if not ready:
                return
            chunk = os.read(self._process.stdout.fileno(), 65536)  # type: ignore[union-attr]
            self._state.closed = not chunk
            *lines, self._buffer = (self._buffer + chunk).split(b"\n")
            for line in lines:
                self._apply(json.loads(line))

    def _apply(self, event: dict[str, Any]) -> None:
        if event["event"] == "method":
            self._state.method = event["method"]
        elif event["event"] == "ready":
            self._state.workers[event["index"]] = event["pid"]
        elif event["event"] == "exit":
            self._state.exits[event["index"]] = event
        elif event["event"] == "fault":
            self._state.faults.append(event["text"])
        elif event["event"] == "share":
            self._state.shares_set += 1
        elif event["event"] == "open":
            self._state.open_reason = event["reason"]
            firewall.tell_once(firewall.open_text(event["reason"]))

    def _supervisor_log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")


def _closed() -> WorkerError:
    return WorkerError("the emulated cluster is closed or its supervisor process was killed", "open the cluster again")


def _checked_shares(shares: Sequence[float], method: str | None, limit: str) -> tuple[float, ...]:
    if method not in _METHODS:
        raise ClusterError(f"{method!r} is no method of limiting workers", "use cgroup or duty_cycle or leave it out")
    if limit not in LIMITS:
        raise ClusterError(f"{limit!r} is no limit of workers", f"use {' or '.join(LIMITS)}")
    if limit == "compute" and method == "duty_cycle":
        raise ClusterError("a duty cycle stops whole processes, not only threads that compute", "use method cgroup or limit process")
    if not sys.platform.startswith("linux"):
        raise ClusterError(f"devices can be emulated on Linux only and this is {sys.platform}", "use local or hosts:HOST:PORT,...")
    try:
        return tuple(float(share) for share in shares)
    except (TypeError, ValueError) as fault:
        raise ClusterError(f"the shares {shares!r} are not numbers", "write one share a device, such as [1.0, 0.5]") from fault


def _end(process: subprocess.Popen[bytes], log: IO[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return
    with contextlib.suppress(OSError):
        process.terminate()  # it reads no orders while it loads TensorFlow
        process.stdin.write(b'{"do": "end"}\n')  # type: ignore[union-attr]
        process.send_signal(signal.SIGCONT)  # to a supervisor that is stopped
    process.stdin.close()  # type: ignore[union-attr]
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()  # type: ignore[union-attr]
    log.close()
    if process.returncode:  # killed
        firewall.sweep()
    parent = cgroup.parent_folder()
    if parent is not None:
        cgroup.remove_groups(parent[0], process.pid)
