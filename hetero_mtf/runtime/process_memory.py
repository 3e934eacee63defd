"""The memory of this process: returning what it does not use to the system."""

from __future__ import annotations

import ctypes
import gc


def return_memory() -> None:
    """Collect garbage and return free memory to the system.

    A TensorFlow graph is in cycles of references, so it stays until the garbage collector runs; the C library keeps its many small blocks
    until `malloc_trim`, which is left out where the C library is not glibc.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
