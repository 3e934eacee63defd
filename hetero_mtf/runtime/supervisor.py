"""The supervisor: a process between a program and its emulated workers, which limits them and ends them.

It loads TensorFlow once and forks the workers, so that several of them are ready as soon as one is, and share the memory of what is
loaded; it makes no use of TensorFlow itself. It limits each worker to its share of a core, reports to its owner when one is ready or has
ended, and executes the owner's orders. Orders and reports are lines of JSON on its standard input and output.

Which process ends which:

- the owner ends, killed or not: the supervisor's input closes or it gets the kernel's signal, which continues it where it is
  stopped; it kills the workers, stopped ones included, removes their control groups and ends;
- the supervisor ends: the kernel kills the workers, because the supervisor's only thread has started them;
- a worker ends: the supervisor reports its exit code, with the end of the worker's log.

Before a worker listens, its port is closed to other users and hosts, where that is allowed, until all workers have ended.

So the process that stops workers on a duty cycle cannot end without ending them: none stays behind stopped.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence, Set
from typing import IO, Any

from hetero_mtf.devices.host import available_cores
from hetero_mtf.runtime import firewall
from hetero_mtf.runtime.limits import cgroup
from hetero_mtf.runtime.limits.duty_cycle import DutyCycle
from hetero_mtf.runtime.limits.threads import LOOK_S, SortedThreads
from hetero_mtf.runtime.ports import split_address
from hetero_mtf.runtime.processes.forked_process import ForkedProcess
from hetero_mtf.runtime.processes.parent_death import tie_to_parent
from hetero_mtf.runtime.processes.server_tensorflow import load_server_part
from hetero_mtf.runtime.worker import main as run_worker

TAIL_BYTES = 4000
_CHECK_S = 0.5


class Worker:
    """A worker process of the supervisor.

    Parameters
    ----------
    order : order of the worker process: hosts, task, core.
    share : share of a core it gets once it is ready.
    limit : what the share limits, one of `LIMITS`.
    loaded : file descriptors that belong to what is loaded.
    """

    def __init__(self, order: dict[str, Any], share: float, limit: str, loaded: Set[int]) -> None:
        self.index: int = order["task"]
        self.share = share
        self._core: int = order["core"]
        self._threaded = limit == "compute"
        self.log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process that writes it
        self.process = ForkedProcess(functools.partial(run_worker, {**order, "supervisor": os.getpid()}), self.log, loaded)
        self.ready = False
        self.group: cgroup.CpuGroup | None = None
        self.cycle: DutyCycle | None = None
        self._threads: SortedThreads | None = None

    def limit(self, share: float, parent: tuple[Any, int] | None) -> None:
        """Limit the process to `share` of a core, by a group below `parent` or, where that is None, on a duty cycle."""
        self.share = share
        if self.group is None and parent is not None:
            self.group = _group_of(self.process.pid, parent, self.index, self._threaded)
        if self.group is not None:
            self.group.set_share(share)
            if self._threaded and self._threads is None:
                self._threads = SortedThreads(self.process.pid, self.group, self._core, available_cores())
                self._threads.sort(time.monotonic())
                if not self._threads.limited - {self.process.pid}:
                    raise OSError(errno.ENOTSUP, "this TensorFlow does not name its threads that compute", "threads")
            return
        now_s = time.monotonic()
        self.cycle = self.cycle or DutyCycle(share, now_s)
        self.cycle.set_share(share, now_s)

    def sort_threads(self, now_s: float) -> None:
        """Limit threads that compute and free others, where threads are limited one by one and it is time to look for new ones."""
        if self._threads is not None and self.process.returncode is None:
            self._threads.sort(now_s)

    def apply_cycle(self, now_s: float) -> None:
        """Stop or continue the process as its duty cycle requires."""
        if self.cycle is not None and self.process.returncode is None and self.cycle.switch(now_s):
            self.process.send_signal(signal.SIGCONT if self.cycle.running else signal.SIGSTOP)

    def tail(self) -> str:
        """Return the end of what the process wrote to its log."""
        self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - TAIL_BYTES))
        return self.log.read().decode(errors="replace")

    def close(self) -> None:
        """Release what belongs to the process, which has ended."""
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.log.close()
        if self.group is not None:
            self.group.remove()


class Supervisor:
    """The supervisor's loop.

    Parameters
    ----------
    order : the owner's first line: owner (process id), method ("cgroup", "duty_cycle" or None for the better one that
        works), limit (one of `LIMITS`) and workers, each with order and share.
    loaded : file descriptors that belong to what is loaded.
    """

    def __init__(self, order: dict[str, Any], loaded: Set[int] = frozenset()) -> None:
        self._owner: int = order["owner"]
        self._selector = selectors.DefaultSelector()
        self._buffer = b""
        self._ending = False
        limit = order["limit"]
        self._check_s = LOOK_S if limit == "compute" else _CHECK_S
        self._may_fall_back = order["method"] is None and limit == "process"
        self._parent = _group_parent(order["method"], limit == "compute")
        self._closed_ports, self._open_reason = _close_ports(order["workers"])
        self._workers = [Worker(entry["order"], entry["share"], limit, loaded) for entry in order["workers"]]

    def run(self) -> None:
        """Supervise until the owner orders the end or has ended; then end every worker."""
        try:
            self._report(event="method", method="duty_cycle" if self._parent is None else "cgroup")
            if self._open_reason:
                self._report(event="open", reason=self._open_reason)
            self._listen()
            while not self._ending:
                self._wait()
                now_s = time.monotonic()
                for each in self._workers:
                    each.apply_cycle(now_s)
                    each.sort_threads(now_s)
        finally:
            self._end()

    def _listen(self) -> None:
        wake, inner = socket.socketpair()
        wake.setblocking(False)
        inner.setblocking(False)
        signal.set_wakeup_fd(inner.fileno(), warn_on_full_buffer=False)
        self._wake = (wake, inner)
        self._selector.register(wake, selectors.EVENT_READ)
        os.set_blocking(0, False)
        self._selector.register(0, selectors.EVENT_READ)
        for each in self._workers:
            self._selector.register(each.process.stdout, selectors.EVENT_READ, each)  # type: ignore[arg-type]
        if self._closed_ports is not None and self._closed_ports.line is not None:
            self._selector.register(self._closed_ports.line, selectors.EVENT_READ, self._closed_ports)

    def _wait(self) -> None:
        due_s = min((w.cycle.next_s() for w in self._workers if w.cycle is not None and w.process.returncode is None), default=float("inf"))
        ready = self._selector.select(min(self._check_s, max(0.0, due_s - time.monotonic())))
        for key, _ in ready:
            if isinstance(key.data, Worker):
                self._read_worker(key.data)
            elif isinstance(key.data, firewall.ClosedPorts):
                self._read_firewall(key.fd)
            elif key.fileobj == 0:
                self._read_orders()
            else:
                with contextlib.suppress(BlockingIOError):
                    self._wake[0].recv(64)
        if os.getppid() != self._owner:
            self._ending = True

    def _read_worker(self, worker: Worker) -> None:
        if os.read(worker.process.stdout.fileno(), 64):  # type: ignore[union-attr]
            worker.ready = True
            self._limit(worker, worker.share)
            self._report(event="ready", index=worker.index, pid=worker.process.pid)
            return
        self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
        code = worker.process.wait()
        self._report(event="exit", index=worker.index, code=code, ready=worker.ready, tail=worker.tail())

    def _read_firewall(self, line: int) -> None:
        if not os.read(line, 65536):
            self._selector.unregister(line)
            self._report(event="open", reason="nft was ended")

    def _read_orders(self) -> None:
        try:
            chunk = os.read(0, 65536)
        except BlockingIOError:
            return
        if not chunk:
            self._ending = True
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if order["do"] == "end":
                self._ending = True
            elif order["do"] == "share":
                self._limit(self._workers[order["index"]], order["share"])

    def _limit(self, worker: Worker, share: float) -> None:
        try:
            worker.limit(share, self._parent)
        except OSError as fault:
            if worker.group is not None or not self._may_fall_back:
                self._report(event="fault", text=f"{fault.filename or 'the control group'}: {fault.strerror or fault}")
                return
            self._parent = None
            self._report(event="method", method="duty_cycle")
            worker.limit(share, None)
        self._report(event="share", index=worker.index)

    def _report(self, **event: Any) -> None:
        try:
            os.write(1, json.dumps(event).encode() + b"\n")
        except OSError:
            self._ending = True

    def _end(self) -> None:
        for each in self._workers:
            with contextlib.suppress(ProcessLookupError):
                each.process.terminate()
                each.process.send_signal(signal.SIGCONT)
        end_s = time.monotonic() + 1.0
        for each in self._workers:
            try:
                each.process.wait(max(0.0, end_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                each.process.kill()
                each.process.wait()
            each.close()
        if self._closed_ports is not None:
            self._closed_ports.remove()


def _close_ports(workers: Sequence[dict[str, Any]]) -> tuple[firewall.ClosedPorts | None, str]:
    """Close the ports of workers that are about to start; return what removes the rules, or None and why there are none."""
    orders = [entry["order"] for entry in workers]
    try:
        return firewall.close_ports([split_address(order["hosts"][order["task"]])[1] for order in orders]), ""
    except firewall.RulesError as fault:
        return None, str(fault)


def _group_of(process: int, parent: tuple[Any, int], number: int, threaded: bool) -> cgroup.CpuGroup:
    group = cgroup.CpuGroup.make(*parent, number, threaded)
    try:
        group.add(process)
    except OSError:
        group.remove()
        raise
    return group


def _group_parent(method: str | None, threaded: bool) -> tuple[Any, int] | None:
    if method == "duty_cycle":
        return None
    parent = cgroup.parent_folder()
    if parent is None:
        return None
    cgroup.sweep(parent[0])
    try:
        cgroup.CpuGroup.make(*parent, 9999, threaded).remove()
    except OSError:
        return None
    return parent


def _first_line() -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            sys.exit(0)
        line += byte
    order: dict[str, Any] = json.loads(line)
    return order


def _load_tensorflow() -> set[int]:
    """Load TensorFlow, for the processes that are forked, and return the file descriptors that are open then, the standard ones apart.

    What it prints goes to the log: standard output is for reports.
    """
    reports = os.dup(1)
    os.dup2(2, 1)
    try:
        load_server_part()
    finally:
        os.dup2(reports, 1)
        os.close(reports)
    listed = [int(name) for name in os.listdir("/dev/fd")]
    return {descriptor for descriptor in listed if descriptor > 2 and os.path.exists(f"/dev/fd/{descriptor}")}  # without the listing's own


def main() -> None:
    """Run the supervisor on the order in the first line of standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    order = _first_line()
    signal.signal(signal.SIGCONT, lambda number, frame: None)
    if not tie_to_parent(order["owner"], signal.SIGCONT):  # which also continues a stopped supervisor
        return
    loaded = _load_tensorflow()
    if os.getppid() != order["owner"]:  # it ended meanwhile
        return
    supervisor = Supervisor(order, loaded)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    with contextlib.suppress(SystemExit):
        supervisor.run()
    # workers and groups are gone; the owner waits, and Python would take up to a second to take TensorFlow's modules apart
    atexit._run_exitfuncs()
    os._exit(0)


if __name__ == "__main__":
    main()
