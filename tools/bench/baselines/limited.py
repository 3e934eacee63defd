"""Worker processes of a baseline, limited exactly as emulated devices are: the same cores, control groups, threads and duty cycle."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hetero_mtf.devices.environment import child_variables
from hetero_mtf.devices.host import available_cores
from hetero_mtf.devices.records import LIMITS
from hetero_mtf.errors import WorkerError
from hetero_mtf.runtime.faults import log_end
from hetero_mtf.runtime.limits import cgroup
from hetero_mtf.runtime.limits.cores import limit_text, pack
from hetero_mtf.runtime.limits.duty_cycle import DutyCycle
from hetero_mtf.runtime.limits.threads import LOOK_S, SortedThreads
from hetero_mtf.runtime.ports import free_ports

HERE = pathlib.Path(__file__).resolve().parent
ONE_THREAD = {"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2", "OMP_NUM_THREADS": "1"}
_WARM_UP_STEPS = 2


class Places(NamedTuple):
    """Where the processes run, other than on this machine's loopback.

    Parameters
    ----------
    addresses : (devices,) "HOST:PORT" of each.
    start : device, command and options of `subprocess.Popen` -> the process that was started.
    variables : environment of each, such as the interface to use.
    """

    addresses: tuple[str, ...]
    start: Callable[..., subprocess.Popen[Any]]
    variables: Mapping[str, str]

    def beside(self, others: int) -> Places:
        """Return the places of processes that are open beside those of others, which have other ports.

        Parameters
        ----------
        others : number of others at the same addresses.
        """
        parts = [address.rpartition(":") for address in self.addresses]
        return self._replace(addresses=tuple(f"{host}:{int(port) + others}" for host, _, port in parts))


class LimitedWorkers:
    """One process a device that train together, each on a core of its own share, and only when told to.

    They are limited once they are built and warm. When the process that made them ends, however, they end too.

    Parameters
    ----------
    command : a Python, a script in this folder, or a path of one, that calls `turns.attend`, and further arguments for it.
    shares : (devices,) share of a core of each.
    batches : (devices,) samples per step of each.
    method : "cgroup", "duty_cycle", or None for a control group where one can be made, else a duty cycle.
    limit_s : seconds that starting, and any number of steps, may take.
    limit : what the shares limit: "process", or "compute" for the threads that compute, as `Cluster.emulate`.
    places : where they run; None for here.

    Attributes
    ----------
    weights : trainable weights of the network that they built.
    method : how they are limited: "cgroup", "cgroup, compute only" or "duty_cycle".

    Raises
    ------
    WorkerError
        If one of them ends or answers too late.
    OSError
        If they are to be limited by control groups and none can be made.
    """

    def __init__(
        self,
        command: Sequence[str],
        shares: Sequence[float],
        batches: Sequence[int],
        method: str | None = None,
        limit_s: float = 600.0,
        limit: str = LIMITS[0],
        places: Places | None = None,
    ) -> None:
        self._places = places or Places(tuple(f"127.0.0.1:{port}" for port in free_ports(len(shares))), _start_here, {})
        addresses = list(self._places.addresses)
        self._script, self._limit_s = command[1], limit_s
        self._logs = [tempfile.TemporaryFile() for _ in shares]  # noqa: SIM115 - live as long as the processes
        self._processes = []
        self._groups: list[cgroup.CpuGroup] = []
        self._ended = threading.Event()
        self._limiting: threading.Thread | None = None
        self._limit = limit
        self._cores = pack(shares, available_cores())
        for task, core in enumerate(self._cores):
            order = {"parent": os.getpid(), "core": core, "task": task, "addresses": addresses, "batches": list(batches)}
            self._start(command, {**order, "batch": batches[task], "warm_up": _WARM_UP_STEPS}, self._logs[task])
        try:
            answers = self._answers()
            self.weights = int(answers[0]["weights"])
            self.method = self._limited(shares, method)
        except BaseException:
            self.close()
            raise

    def step(self, count: int = 1) -> float:
        """Take some steps together and return the mean of the workers' last losses.

        Raises
        ------
        WorkerError
            As the class, and if the loss is no number.
        """
        for process in self._processes:
            process.stdin.write(f"{count}\n".encode())
        losses = [answer["loss"] for answer in self._answers()]
        loss = sum(losses) / len(losses)
        if not math.isfinite(loss):
            raise WorkerError(f"the loss of {self._script} is {loss}", "use a smaller learning rate")
        return loss

    def close(self) -> None:
        """End the processes and remove their control groups. Closing twice is harmless."""
        self._ended.set()
        if self._limiting is not None:
            self._limiting.join()
        for process in self._processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        for group in self._groups:
            group.remove()
        for log in self._logs:
            log.close()
        self._processes, self._groups, self._logs = [], [], []

    def _start(self, command: Sequence[str], order: dict[str, Any], log: Any) -> None:
        # by path: the Python of another environment runs it, which finds this clone by PYTHONPATH alone
        arguments = [command[0], str(HERE / command[1]), json.dumps(order), *command[2:]]
        environment, pipe = child_variables({**ONE_THREAD, **self._places.variables}), subprocess.PIPE
        options = {"stdin": pipe, "stdout": pipe, "stderr": log, "bufsize": 0, "env": environment}
        self._processes.append(self._places.start(order["task"], arguments, **options))

    def _answers(self) -> list[dict[str, float]]:
        end_s = time.monotonic() + self._limit_s
        texts = [b""] * len(self._processes)
        while not all(text.endswith(b"\n") for text in texts):
            waiting = [task for task, text in enumerate(texts) if not text.endswith(b"\n")]
            outputs = {self._processes[task].stdout.fileno(): task for task in waiting}
            ready, _, _ = select.select(list(outputs), [], [], max(0.0, end_s - time.monotonic()))
            if not ready:
                raise WorkerError(f"{self._script} did not answer within {self._limit_s:g} s", "free the machine or use a smaller batch")
            for output in ready:
                chunk = os.read(output, 4096)
                if not chunk:
                    raise self._death(outputs[output])
                texts[outputs[output]] += chunk
        return [json.loads(text) for text in texts]

    def _death(self, task: int) -> WorkerError:
        code = self._processes[task].wait()
        self._logs[task].seek(0)
        said = log_end(self._logs[task].read().decode(errors="replace")) or "it wrote nothing"
        return WorkerError(f"process {task} of {self._script} ended with exit code {code} ({said})", "run it by hand to see why")

    def _limited(self, shares: Sequence[float], method: str | None) -> str:
        """Limit the processes, and return how."""
        threaded = self._limit == "compute"
        if method != "duty_cycle" or threaded:
            try:
                self._group(shares, threaded)
                return limit_text("cgroup", self._limit)
            except OSError:
                if method == "cgroup" or threaded:
                    raise
                for group in self._groups:
                    group.set_share(1.0)
        self._keep(self._turn, list(shares))
        return "duty_cycle"

    def _keep(self, limiting: Callable[[Any], None], argument: Any) -> None:
        self._limiting = threading.Thread(target=limiting, args=(argument,), daemon=True)
        self._limiting.start()

    def _group(self, shares: Sequence[float], threaded: bool) -> None:
        parent = cgroup.parent_folder()
        if parent is None:
            raise OSError("there is no control group for the cpu controller; leave method and limit out")
        for process in self._processes:
            self._groups.append(_new_group(*parent, threaded))
            self._groups[-1].add(process.pid)
        for group, share in zip(self._groups, shares):
            group.set_share(share)
        if threaded:
            parts = zip(self._processes, self._groups, self._cores)
            sorted_threads = [SortedThreads(process.pid, group, core, available_cores()) for process, group, core in parts]
            for threads in sorted_threads:
                threads.sort(time.monotonic())
            self._keep(self._sort, sorted_threads)

    def _sort(self, sorted_threads: list[SortedThreads]) -> None:
        while not self._ended.is_set():
            for threads in sorted_threads:
                threads.sort(time.monotonic())
            self._ended.wait(LOOK_S)

    def _turn(self, shares: list[float]) -> None:
        cycles = [DutyCycle(share, time.monotonic()) for share in shares]
        while not self._ended.is_set():
            for process, cycle in zip(self._processes, cycles):
                if cycle.switch(time.monotonic()):
                    process.send_signal(signal.SIGCONT if cycle.running else signal.SIGSTOP)
            due_s = min(cycle.next_s() for cycle in cycles) - time.monotonic()
            self._ended.wait(min(0.5, max(0.0, due_s)))


def _start_here(task: int, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    return subprocess.Popen(command, **options)


def _new_group(parent: pathlib.Path, version: int, threaded: bool) -> cgroup.CpuGroup:
    """Return a group of a number that no other of this process has: those of emulated devices and of other baselines live beside it."""
    for number in itertools.count():
        with contextlib.suppress(FileExistsError):
            return cgroup.CpuGroup.make(parent, version, number, threaded)
    raise AssertionError("numbers do not end")
