"""Which threads of a process compute, by their names, and keeping them in its limited control group."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Sequence

from hetero_mtf.runtime.limits.cgroup import CpuGroup

LOOK_S = 0.25
"""Seconds between two looks for new threads."""
_SETTLED_LOOKS = 2  # a thread has its creator's name until it gives itself its own
_COMPUTE_NAME = "tf_"  # TensorFlow names the threads of its pools, such as tf_Compute; of gRPC and its queues none is named so


def computes(name: str, main: bool) -> bool:
    """Return whether a thread computes; one that does not sends, receives or waits.

    Measured on workers that send 50 MB: gRPC's threads (event_engine) write and read sockets, unnamed ones (python) of its queues copy what
    arrives; kernels run in tf_Compute only, which has 2 % of the processor time of such a transfer. A main thread runs Python or, in other
    libraries, kernels.

    Parameters
    ----------
    name : the kernel's name of the thread, at most 15 characters.
    main : whether it is the first thread of its process.
    """
    return main or name.startswith(_COMPUTE_NAME)


def processor_s(process: int) -> tuple[float, float]:
    """Return the processor seconds that threads of a process have used: those that compute, and the others.

    Parameters
    ----------
    process : process id; threads that have ended are not counted.
    """
    used_s = [0.0, 0.0]
    for name in os.listdir(f"/proc/{process}/task"):
        folder = pathlib.Path(f"/proc/{process}/task/{name}")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            nanoseconds = int((folder / "schedstat").read_text().split()[0])
            used_s[not computes(_name(folder), int(name) == process)] += 1e-9 * nanoseconds
    return used_s[0], used_s[1]


def _name(folder: pathlib.Path) -> str:
    return (folder / "comm").read_text().rstrip("\n")


class SortedThreads:
    """Keeps the threads of a process that compute limited and on one core, and those that send and receive free, on any core.

    A thread is sorted when it is first seen, and once more at the next look.

    Parameters
    ----------
    process : process id; the process was added to the group.
    group : group that limits single threads.
    core : core of the threads that compute.
    cores : cores of the others.

    Attributes
    ----------
    limited : ids of the threads that are limited.
    """

    def __init__(self, process: int, group: CpuGroup, core: int, cores: Sequence[int]) -> None:
        self._process = process
        self._folder = pathlib.Path(f"/proc/{process}/task")
        self._group = group
        self._core = core
        self._cores = tuple(cores)
        self._looks: dict[int, int] = {}
        self.limited: set[int] = set()
        self._next_s = float("-inf")

    def sort(self, now_s: float) -> None:
        """Sort the threads that are new since the last look, if it is time to look.

        Parameters
        ----------
        now_s : the clock now, seconds.

        Raises
        ------
        OSError
            If a thread cannot be moved; one that has ended meanwhile is no fault.
        """
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_S
        looks = {thread: self._looks.get(thread, 0) for thread in self._present()}
        for thread, count in looks.items():
            if count < _SETTLED_LOOKS:
                self._place(thread)
        self._looks = {thread: count + 1 for thread, count in looks.items()}
        self.limited.intersection_update(looks)

    def _present(self) -> list[int]:
        try:
            return [int(name) for name in os.listdir(self._folder)]
        except FileNotFoundError:
            return []

    def _place(self, thread: int) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if computes(_name(self._folder / str(thread)), thread == self._process):
                os.sched_setaffinity(thread, {self._core})
                self._group.limit_thread(thread)
                self.limited.add(thread)
            else:
                self.limited.discard(thread)
                os.sched_setaffinity(thread, self._cores)
                self._group.free_thread(thread)
