"""Ending with the parent process, however it ends."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys

_PR_SET_PDEATHSIG = 1


def tie_to_parent(parent: int, signal_number: int) -> bool:
    """Ask the kernel to send this process a signal when the thread that started it ends; return whether the parent is still there.

    Parameters
    ----------
    parent : process id of the parent.
    signal_number : the signal to get.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    return os.getppid() == parent


def start_time(process: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None where there is no such process (a dead, unreaped one included)."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
