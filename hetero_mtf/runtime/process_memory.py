"""The memory of processes: returning to the system what this one does not use, and the peak of another."""

from __future__ import annotations

import ctypes
import gc
import pathlib


def return_memory() -> None:
    """Collect garbage and return free memory to the system.

    A TensorFlow graph is in cycles of references, so it stays until the garbage collector runs; the C library keeps its many small blocks
    until `malloc_trim`, which is left out where the C library is not glibc.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def peak_bytes(process: int) -> int:
    """Return the high-water mark of a process's resident memory.

    Parameters
    ----------
    process : its id, on Linux.
    """
    status = pathlib.Path(f"/proc/{process}/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
