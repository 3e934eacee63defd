"""BatchMemory: memory in which workers of this host read the batches that their client writes.

A batch is written once, whichever devices read it, and every device reads its own part in place: nothing is sent through TensorFlow's
servers. The memory has slots: while a step reads one of them, the next batch is written into another.

The memory is an anonymous file of the client, which ends with it; workers open it through the client's process. Reading is a Python
function in the worker, called by an operation of the graph: TensorFlow has no operation that reads shared memory.
"""

from __future__ import annotations

import functools
import json
import math
import mmap
import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.errors import ClusterError

TOKEN = "pyfunc_0"  # by which TensorFlow calls the first Python function that a process registers
_ALIGNMENT = 64  # of what TensorFlow reads in place
_HEADER_BYTES = _ALIGNMENT  # the number of the slot that is read, int64
_MAPPED: dict[tuple[str, int], mmap.mmap] = {}  # in a worker, by path and inode
_MAPPING = threading.Lock()  # several operations of a step read at once

Form = tuple[tuple[int, ...], str]
"""Shape and dtype of an array."""


class BatchMemory:
    """Slots for batches of one form.

    Parameters
    ----------
    forms : (arrays,) form of each array of a batch.
    slots : number of batches that it holds.

    Raises
    ------
    OSError
        If the system has no anonymous files.
    """

    def __init__(self, forms: Sequence[Form], slots: int) -> None:
        self.forms = tuple(forms)
        ends = np.cumsum([_aligned(math.prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in forms], dtype=np.int64)
        self._offsets = [0, *ends[:-1].tolist()]
        self._slot_bytes = int(ends[-1])
        self._descriptor = os.memfd_create("hetero_mtf-batches")
        try:
            os.ftruncate(self._descriptor, _HEADER_BYTES + slots * self._slot_bytes)
            memory = mmap.mmap(self._descriptor, 0)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._selected = np.frombuffer(memory, np.int64, 1)
        self._arrays = [[_view(memory, self._offset(slot, number), form) for number, form in enumerate(forms)] for slot in range(slots)]
        self._place = [f"/proc/{os.getpid()}/fd/{self._descriptor}", os.fstat(self._descriptor).st_ino]

    def _offset(self, slot: int, number: int) -> int:
        return _HEADER_BYTES + slot * self._slot_bytes + self._offsets[number]

    def write(self, slot: int, arrays: Sequence[np.ndarray]) -> None:
        """Write a batch.

        Parameters
        ----------
        slot : one that no step reads.
        arrays : (arrays,) of the forms of this memory.
        """
        for own, array in zip(self._arrays[slot], arrays, strict=True):
            np.copyto(own, array, casting="no")

    def select(self, slot: int) -> None:
        """Make the steps that begin from now on read a slot; none may be under way.

        Parameters
        ----------
        slot : its number.
        """
        self._selected[0] = slot

    def order(self, number: int, begins: Sequence[int], extents: Sequence[int]) -> bytes:
        """Return what a worker is given to read a part of an array, by `read_part`.

        Parameters
        ----------
        number : index of the array.
        begins, extents : where the part begins in each dimension, and its shape.
        """
        shape, dtype = self.forms[number]
        where = {"place": self._place, "slot_bytes": self._slot_bytes, "offset": self._offset(0, number)}
        return json.dumps({**where, "shape": shape, "dtype": dtype, "begins": list(begins), "extents": list(extents)}).encode()

    def close(self) -> None:
        """Give the memory back, as soon as no worker reads it; closing twice is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
        self._arrays, self._selected = [], np.zeros(1, np.int64)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def read_part(order: bytes) -> np.ndarray:
    """Return a part of an array of the batch whose slot is selected, in place where it is contiguous.

    Parameters
    ----------
    order : from `BatchMemory.order`.
    """
    part = _parsed(bytes(order))
    memory = _mapped(*part["place"])
    slot = int(np.frombuffer(memory, np.int64, 1)[0])
    whole = _view(memory, part["offset"] + slot * part["slot_bytes"], (tuple(part["shape"]), part["dtype"]))
    return whole[tuple(slice(begin, begin + extent) for begin, extent in zip(part["begins"], part["extents"]))]


def register() -> Any:
    """Make `read_part` callable by operations in this process; return what must live as long as they are.

    Raises
    ------
    ClusterError
        If TensorFlow gives it another token than the one that clients use.
    """
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        token = tf.numpy_function(read_part, [tf.constant(b"")], tf.float32).op.get_attr("token").decode()
    if token != TOKEN:
        raise ClusterError(f"TensorFlow calls the function that reads batches {token}, not {TOKEN}; use the TensorFlow that pip installs")
    return graph


@functools.lru_cache(maxsize=4096)
def _parsed(order: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(order)
    return parsed


def _mapped(path: str, inode: int) -> mmap.mmap:
    """Return the memory behind a path, mapped once; what belongs to no client any more is given back."""
    with _MAPPING:
        if (path, inode) not in _MAPPED:
            for known in [known for known in _MAPPED if not _is_there(*known)]:
                del _MAPPED[known]
            descriptor = os.open(path, os.O_RDWR)
            try:
                _MAPPED[path, inode] = mmap.mmap(descriptor, 0)
            finally:
                os.close(descriptor)
        return _MAPPED[path, inode]


def _is_there(path: str, inode: int) -> bool:
    try:
        return os.stat(path).st_ino == inode
    except OSError:
        return False


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT


def _view(memory: mmap.mmap, offset: int, form: Form) -> np.ndarray:
    shape, dtype = form
    return np.ndarray(shape, dtype, memory, offset)
