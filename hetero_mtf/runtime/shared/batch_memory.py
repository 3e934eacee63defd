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
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.runtime.shared.mapped_memory import SharedMemory, mapped

_ALIGNMENT = 64  # of what TensorFlow reads in place
_HEADER_BYTES = _ALIGNMENT  # the number of the slot that is read, int64

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
        limits = np.cumsum([_aligned(math.prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in forms], dtype=np.int64)
        self._offsets = [0, *limits[:-1].tolist()]
        self._slot_bytes = int(limits[-1])
        self._memory = SharedMemory(_HEADER_BYTES + slots * self._slot_bytes)
        memory = self._memory.mapped()
        self._selected = np.frombuffer(memory, np.int64, 1)
        self._arrays = [[_view(memory, self._offset(slot, number), form) for number, form in enumerate(forms)] for slot in range(slots)]

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
        where = {"place": self._memory.place, "slot_bytes": self._slot_bytes, "offset": self._offset(0, number)}
        return json.dumps({**where, "shape": shape, "dtype": dtype, "begins": list(begins), "extents": list(extents)}).encode()

    def close(self) -> None:
        """Give the memory back, as soon as no worker reads it; closing twice is harmless."""
        self._memory.close()
        self._arrays, self._selected = [], np.zeros(1, np.int64)


def read_part(order: bytes) -> np.ndarray:
    """Return a part of an array of the batch whose slot is selected, in place where it is contiguous.

    Parameters
    ----------
    order : from `BatchMemory.order`.
    """
    part = _parsed(bytes(order))
    memory = mapped(*part["place"])
    slot = int(np.frombuffer(memory, np.int64, 1)[0])
    array = _view(memory, part["offset"] + slot * part["slot_bytes"], (tuple(part["shape"]), part["dtype"]))
    return array[tuple(slice(begin, begin + extent) for begin, extent in zip(part["begins"], part["extents"]))]


@functools.lru_cache(maxsize=4096)
def _parsed(order: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(order)
    return parsed


def _aligned(count: int) -> int:
    return -(-count // _ALIGNMENT) * _ALIGNMENT


def _view(memory: mmap.mmap, offset: int, form: Form) -> np.ndarray:
    shape, dtype = form
    return np.ndarray(shape, dtype, memory, offset)
