"""Workers to which faults happen while a training runs on them, at times and at moments of what the training says."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import click

from hetero_mtf.runtime.ports import free_ports
from tools.lab.namespaces import HERE, Lab

WORKERS = 3
TIMEOUT_S = 5.0  # after which a worker that hangs is lost
LIMIT_S = 300.0  # of a run
MOMENT_S = 8.0  # that a moment is waited for; then the fault happens all the same
KINDS = ("killed", "stopped")
CUTS = ("cut off", "cut from one")  # from the program and all workers, or from the next worker only
MEASURING, TRYING = "measuring devices", "trying a plan"
MOMENTS = {  # what a training says then
    MEASURING: re.compile("^calibrating$"),
    "saving": re.compile("^saving$"),
    "mirroring": re.compile("^mirroring$"),
    TRYING: re.compile("; trying "),
    "moving": re.compile("moved to|back to|training goes on with"),
}


class Fault(NamedTuple):
    """What happens to a worker.

    Parameters
    ----------
    at_s : seconds after the first step.
    worker : its number.
    kind : one of `KINDS` or `CUTS`.
    back_s : seconds after which it is started again or continued; None for never.
    moment : one of `MOMENTS`, the first after that time; "" for at that time.
    """

    at_s: float
    worker: int
    kind: str
    back_s: float | None
    moment: str = ""


class Happened(NamedTuple):
    """A fault that happened.

    Parameters
    ----------
    time_s : when, seconds since 1970.
    fault : the fault.
    moment : at which of `MOMENTS`; "" for at none.
    """

    time_s: float
    fault: Fault
    moment: str


class Workers:
    """Processes of `hetero-mtf worker` on this machine."""

    def __init__(self) -> None:
        self.hosts = self._addresses()
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._lock = threading.Lock()
        for worker in range(WORKERS):
            self.start(worker)
        for process in self._processes.values():
            assert process.stdout is not None
            while "serves on" not in (line := process.stdout.readline()):
                if not line:
                    raise click.ClickException("a worker did not start")

    def start(self, worker: int) -> None:
        """Start a worker, again where it has ended."""
        command = [sys.executable, "-m", "hetero_mtf", "worker", "--hosts", ",".join(self.hosts), "--index", str(worker), "--allow-root"]
        variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
        with self._lock:
            self._processes[worker] = self._started(
                worker, command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables
            )

    def _started(self, worker: int, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(command, start_new_session=True, **options)

    def _addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in free_ports(WORKERS)]

    def apply(self, fault: Fault) -> None:
        """Kill or stop a worker."""
        self._signal(fault.worker, signal.SIGKILL if fault.kind == "killed" else signal.SIGSTOP)

    def undo(self, fault: Fault) -> None:
        """Start it again, or let it go on."""
        if fault.kind == "killed":
            self._processes[fault.worker].wait()
            self.start(fault.worker)
        else:
            self._signal(fault.worker, signal.SIGCONT)

    def close(self) -> int:
        """End all, and return how many processes are left of their groups."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        listed = subprocess.run(["pgrep", "-fc", f"--hosts {','.join(self.hosts)}"], capture_output=True, text=True).stdout
        return int(listed.strip() or 0)

    def _signal(self, worker: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._processes[worker].pid, number)


class HostWorkers(Workers):
    """The same, each on a host of its own, from which the links to others can be cut."""

    def __init__(self) -> None:
        self._lab = Lab(["alpha", "beta", "gamma"][:WORKERS])
        try:
            super().__init__()
        except BaseException:
            self._lab.close()
            raise

    def apply(self, fault: Fault) -> None:
        """Kill or stop a worker, or cut its links."""
        if fault.kind in KINDS:
            super().apply(fault)
            return
        names = self._lab.names
        others = [names[(fault.worker + 1) % WORKERS]] if fault.kind == "cut from one" else [*names, HERE]
        for other in others:
            if other != names[fault.worker]:
                self._lab.cut(names[fault.worker], other)

    def undo(self, fault: Fault) -> None:
        """Start it again, let it go on, or let all packets pass."""
        if fault.kind in KINDS:
            super().undo(fault)
        else:
            self._lab.heal([self._lab.names[fault.worker]])

    def close(self) -> int:
        """End all, and return how many processes and hosts are left."""
        left = super().close()
        self._lab.close()
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        return left + sum(line.startswith(self._lab.prefix) for line in listed.splitlines())

    def _started(self, worker: int, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        return self._lab.start(self._lab.names[worker], command, **options)

    def _addresses(self) -> list[str]:
        return [f"{self._lab.address(name)}:2222" for name in self._lab.names]


class Said:
    """What a training says, read as it comes.

    Parameters
    ----------
    process : the training; its output is read to the end.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self.has_ended = False
        self._process, self._came = process, threading.Condition()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def comes(self, pattern: re.Pattern[str], limit_s: float, from_now: bool = True) -> bool:
        """Return whether a line is said, within some seconds.

        Parameters
        ----------
        pattern : found in it.
        limit_s : seconds to wait at most; less where the training ends.
        from_now : whether lines count that come from now on only.
        """
        end_s = time.monotonic() + limit_s
        with self._came:
            seen = len(self.lines) if from_now else 0
            while True:
                if any(pattern.search(line) for line in self.lines[seen:]):
                    return True
                left_s = end_s - time.monotonic()
                if self.has_ended or left_s <= 0:
                    return False
                self._came.wait(left_s)

    def join(self) -> None:
        """Wait until all was read."""
        self._thread.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._came:
                self.lines.append(line.rstrip())
                self._came.notify_all()
        with self._came:
            self.has_ended = True
            self._came.notify_all()


@contextlib.contextmanager
def acting(workers: Workers, faults: Sequence[Fault], happened: list[Happened], said: Said) -> Iterator[None]:
    """Let faults happen meanwhile; note when each did.

    Parameters
    ----------
    workers : the workers.
    faults : in their order.
    happened : gets those that happen.
    said : what the training says.
    """
    ended = threading.Event()
    timers: list[threading.Timer] = []

    def happen(fault: Fault, moment: str) -> None:
        happened.append(Happened(time.time(), fault, moment))
        workers.apply(fault)
        if fault.back_s is not None:
            timers.append(threading.Timer(fault.back_s, lambda: None if ended.is_set() else workers.undo(fault)))
            timers[-1].start()

    def act() -> None:
        for fault in (fault for fault in faults if fault.moment == MEASURING):
            if said.comes(MOMENTS[MEASURING], LIMIT_S, from_now=False):
                happen(fault, MEASURING)
        if not said.comes(re.compile("^begun$"), LIMIT_S, from_now=False):
            return
        begun_s = time.time()
        for fault in (fault for fault in faults if fault.moment != MEASURING):
            if ended.wait(max(0.0, begun_s + fault.at_s - time.time())):
                return
            is_met = fault.moment != "" and said.comes(MOMENTS[fault.moment], MOMENT_S)
            if not said.has_ended:
                happen(fault, fault.moment if is_met else "")

    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for timer in timers:
            timer.cancel()
            timer.join()
