"""Limiting a process to a share of a core with a control group of the kernel, version 1 or 2."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import time

from hetero_mtf.devices.cgroup_paths import cgroup_folder
from hetero_mtf.runtime.parent_death import start_time

PERIOD_US = 10_000
_SMALLEST_QUOTA_US = 1_000
_NAME = re.compile(r"hetero_mtf-(\d+)-(\d+)-\d+")


class CpuGroup:
    """A control group that gives its processes together at most a share of a core.

    Parameters
    ----------
    folder : its folder, which exists.
    version : 1 (cpu.cfs_quota_us) or 2 (cpu.max).
    """

    def __init__(self, folder: pathlib.Path, version: int) -> None:
        self.folder = folder
        self.version = version

    @classmethod
    def make(cls, parent: pathlib.Path, version: int, number: int) -> CpuGroup:
        """Return a new group below `parent`, named for this process so that it can be swept when the process is gone.

        Raises
        ------
        OSError
            If the group cannot be made or has no quota.
        """
        name = f"hetero_mtf-{os.getpid()}-{start_time(os.getpid())}-{number}"
        if version == 2:
            _delegate(parent)
        folder = parent / name
        folder.mkdir()
        group = cls(folder, version)
        try:
            group.set_share(1.0)
        except OSError:
            group.remove()
            raise
        return group

    def set_share(self, share: float) -> None:
        """Limit the group to `share` of a core; 1 lifts the limit, as one thread on one core cannot use more."""
        period_us = max(PERIOD_US, round(_SMALLEST_QUOTA_US / share))
        quota_us = round(share * period_us)
        if self.version == 2:
            _write(self.folder / "cpu.max", f"max {period_us}" if share >= 1 else f"{quota_us} {period_us}")
            return
        _write(self.folder / "cpu.cfs_quota_us", "-1")
        _write(self.folder / "cpu.cfs_period_us", str(period_us))
        if share < 1:
            _write(self.folder / "cpu.cfs_quota_us", str(quota_us))

    def add(self, process: int) -> None:
        """Move a process with all its threads into the group."""
        _write(self.folder / "cgroup.procs", str(process))

    def remove(self, limit_s: float = 2.0) -> None:
        """Remove the group once its processes are gone; the kernel may need a moment to notice that."""
        end_s = time.monotonic() + limit_s
        while self.folder.exists() and not _removed(self.folder) and time.monotonic() < end_s:
            time.sleep(0.01)


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
