"""The memory of this process: how much it holds, and giving back what it does not use."""

from __future__ import annotations

import ctypes
import gc


def return_memory() -> None:
    """Collect what nothing refers to any more, and give memory that is free to the system again.

    A TensorFlow graph is in cycles of references, so it stays until these are looked for; the C library keeps the many small pieces that
    it was made of, unless told otherwise. Where the C library is not glibc, the second is left out.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
