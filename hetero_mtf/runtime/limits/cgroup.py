"""Limiting a process, or some of its threads, to a share of a core with a control group of the kernel, version 1 or 2."""

from __future__ import annotations

import contextlib
import math
import os
import pathlib
import re
import time
from collections.abc import Sequence

from hetero_mtf.devices.cgroup_paths import cgroup_folder
from hetero_mtf.runtime.processes.parent_death import start_time

PERIODS_US = (5_000, 10_000)
"""Periods of a quota, the preferred one first. A kernel stops a thread at its next tick, at 250 Hz up to 4 ms late, and drops what is
left of a quota at the end of a period. So part of the share is lost at short periods, unless the rest is carried over to the next
period (Linux 5.14 can). Then shares hold within 1 % at 4 ms; at 3 ms up to 6 % are lost, at 2 ms up to 16 %. Where a kernel cannot
carry anything over, the last period is taken."""
_SMALLEST_QUOTA_US = 1_000
_NAME = re.compile(r"hetero_mtf-(\d+)-(\d+)-\d+")
_COMPUTE = "compute"


class CpuGroup:
    """A control group that gives its processes, or those threads of them that are named, together at most a share of a core.

    Parameters
    ----------
    folder : its folder, which exists.
    version : 1 (cpu.cfs_quota_us) or 2 (cpu.max).
    threaded : whether single threads are limited, by a group below it; processes that are added are then not limited as a whole.
    """

    def __init__(self, folder: pathlib.Path, version: int, threaded: bool = False) -> None:
        self.folder = folder
        self.version = version
        self._limited = folder / _COMPUTE if threaded else folder

    @classmethod
    def make(cls, parent: pathlib.Path, version: int, number: int, threaded: bool = False) -> CpuGroup:
        """Return a new group below `parent`, named for this process so that it can be swept when the process is gone.

        Raises
        ------
        OSError
            If the group cannot be made or has no quota, or takes no single threads where they are wanted.
        """
        name = f"hetero_mtf-{os.getpid()}-{start_time(os.getpid())}-{number}"
        if version == 2:
            _delegate(parent)
        folder = parent / name
        folder.mkdir()
        group = cls(folder, version, threaded)
        try:
            group._prepare()
            group.set_share(1.0)
        except OSError:
            group.remove()
            raise
        return group

    def set_share(self, share: float, periods_us: Sequence[int] = PERIODS_US) -> None:
        """Limit the group to `share` of a core; 1 lifts the limit, as one thread on one core cannot use more.

        Parameters
        ----------
        periods_us : periods of the quota. The first one is taken that the kernel accepts, with what is left of a quota carried over to
            the next period; else the last one, without.

        Raises
        ------
        OSError
            If the group is gone, or the kernel refuses all of them.
        """
        for wanted_us in periods_us[:-1]:
            with contextlib.suppress(OSError):  # a group that is gone raises below
                self._write_limit(share, period_of(share, wanted_us), carry=True)
                return
        self._write_limit(share, period_of(share, periods_us[-1]), carry=False)

    def add(self, process: int) -> None:
        """Move a process with all its threads into the group."""
        _write(self.folder / "cgroup.procs", str(process))

    def limit_thread(self, thread: int) -> None:
        """Move a thread of a process that was added to those that are limited."""
        _write(self._limited / self._threads, str(thread))

    def free_thread(self, thread: int) -> None:
        """Move a thread of a process that was added away from those that are limited."""
        _write(self.folder / self._threads, str(thread))

    def remove(self, limit_s: float = 2.0) -> None:
        """Remove the group once its processes are gone; the kernel may need a moment to notice that."""
        end_s = time.monotonic() + limit_s
        while self.folder.exists() and not _removed(self.folder) and time.monotonic() < end_s:
            time.sleep(0.01)

    @property
    def _threads(self) -> str:
        return "cgroup.threads" if self.version == 2 else "tasks"

    def _prepare(self) -> None:
        if self._limited == self.folder:
            return
        self._limited.mkdir()
        if self.version == 2:
            _write(self._limited / "cgroup.type", "threaded")
            _delegate(self.folder)

    def _write_limit(self, share: float, period_us: int, carry: bool) -> None:
        quota_us = round(share * period_us)
        burst = self._limited / ("cpu.max.burst" if self.version == 2 else "cpu.cfs_burst_us")
        if carry or burst.exists():
            _write(burst, "0")  # a quota below it is refused
        if self.version == 2:
            _write(self._limited / "cpu.max", f"max {period_us}" if share >= 1 else f"{quota_us} {period_us}")
        else:
            _write(self._limited / "cpu.cfs_quota_us", "-1")
            _write(self._limited / "cpu.cfs_period_us", str(period_us))
            if share < 1:
                _write(self._limited / "cpu.cfs_quota_us", str(quota_us))
        if carry and share < 1:
            _write(burst, str(quota_us))


def period_of(share: float, wanted_us: int) -> int:
    """Return the microseconds of a period for a share: those wanted, or more where the quota would be too small.

    Examples
    --------
    >>> period_of(0.5, 2000), period_of(0.2, 2000)
    (2000, 5000)
    """
    return max(wanted_us, math.ceil(_SMALLEST_QUOTA_US / share))


def parent_folder() -> tuple[pathlib.Path, int] | None:
    """Return the folder that groups are made in and its version, or None where there is none for the cpu controller."""
    try:
        mountinfo = pathlib.Path("/proc/self/mountinfo").read_text()
        membership = pathlib.Path("/proc/self/cgroup").read_text()
    except OSError:
        return None
    return cgroup_folder("cpu", mountinfo, membership)


def sweep(parent: pathlib.Path) -> list[str]:
    """Remove the groups in `parent` whose owner is gone, and return their names. A group that still holds a process stays."""
    swept = []
    with contextlib.suppress(OSError):
        for folder in list(parent.glob("hetero_mtf-*")):
            match = _NAME.fullmatch(folder.name)
            if match and start_time(int(match[1])) != int(match[2]) and _removed(folder):
                swept.append(folder.name)
    return swept


def remove_groups(parent: pathlib.Path, owner: int, limit_s: float = 2.0) -> None:
    """Remove what groups of a process that has ended are left, once the processes in them are gone too.

    Parameters
    ----------
    parent : the folder they are in.
    owner : process id of the process that made them.
    limit_s : seconds to wait for their processes.
    """
    for folder in parent.glob(f"hetero_mtf-{owner}-*"):
        CpuGroup(folder, 0).remove(limit_s)


def _delegate(parent: pathlib.Path) -> None:
    control = parent / "cgroup.subtree_control"
    if "cpu" not in control.read_text().split():
        _write(control, "+cpu")


def _removed(folder: pathlib.Path) -> bool:
    with contextlib.suppress(OSError):
        (folder / _COMPUTE).rmdir()
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _write(path: pathlib.Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
