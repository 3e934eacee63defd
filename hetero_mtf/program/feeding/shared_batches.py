"""How the batches of a program reach devices: through placeholders, or through memory that devices read."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.batch_parts import BatchArray
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.objective import Objective
from hetero_mtf.runtime.shared.batch_memory import BatchMemory, Form
from hetero_mtf.runtime.shared.worker_functions import READ_PART

_SLOTS = 2  # one that a step reads, and one for the next batch


class SharedBatches:
    """The batches of one program in memory that workers of this host share with their client.

    Parameters
    ----------
    container : resource container on every worker.
    forms : (arrays,) form of each array of a batch.
    dtypes : (arrays,) what devices get of each.

    Raises
    ------
    OSError
        If there can be no such memory.
    """

    def __init__(self, container: str, forms: Sequence[Form], dtypes: Sequence[tf.DType]) -> None:
        self._container = container
        self._memory = BatchMemory(forms, _SLOTS)
        self._parts: dict[tuple[int, str, tuple[int, ...], tuple[int, ...]], tf.Tensor] = {}
        self._held: list[weakref.ref[BatchArrays] | None] = [None] * _SLOTS
        self._read = 0
        self._lock = threading.Lock()
        self.arrays = tuple(self._array(number, shape, dtype) for number, ((shape, _), dtype) in enumerate(zip(forms, dtypes, strict=True)))

    def stage(self, batch: BatchArrays, arrays: Sequence[np.ndarray]) -> None:
        """Write a batch while a step may read another one.

        Parameters
        ----------
        batch : the batch, by which `use` knows it again.
        arrays : its arrays, in the order of the forms.
        """
        with self._lock:
            if self._slot_of(batch) is None:
                self._write(batch, arrays)

    def use(self, batch: BatchArrays, arrays: Sequence[np.ndarray]) -> None:
        """Make the next step read a batch, which is written now unless it was staged; no step of the program may be under way.

        Parameters
        ----------
        batch, arrays : as for `stage`.
        """
        with self._lock:
            slot = self._slot_of(batch)
            self._read = self._write(batch, arrays) if slot is None else slot
            self._memory.select(self._read)

    def close(self) -> None:
        """Give the memory back."""
        self._memory.close()

    def _slot_of(self, batch: BatchArrays) -> int | None:
        return next((slot for slot, held in enumerate(self._held) if held is not None and held() is batch), None)

    def _write(self, batch: BatchArrays, arrays: Sequence[np.ndarray]) -> int:
        slot = (self._read + 1) % _SLOTS
        self._held[slot] = None
        self._memory.write(slot, arrays)
        self._held[slot] = weakref.ref(batch)
        return slot

    def _array(self, number: int, shape: tuple[int, ...], dtype: tf.DType) -> BatchArray:
        def read(device: str, begins: Sequence[int], extents: Sequence[int]) -> tf.Tensor:
            key = number, device, tuple(begins), tuple(extents)
            if key not in self._parts:
                with tf.device(device), tf.control_dependencies(None):
                    self._parts[key] = self._part(number, begins, extents, dtype)
            return self._parts[key]

        return BatchArray(shape, dtype, read)

    def _part(self, number: int, begins: Sequence[int], extents: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        """Return a part in what devices get.

        TensorFlow may overwrite a tensor that has one reader, and this one lies in memory that is not its own; so a variable holds it too.
        """
        own = tf.as_dtype(self._memory.forms[number][1])
        order = tf.constant(self._memory.order(number, begins, extents))
        part = tf.raw_ops.PyFunc(input=[order], token=READ_PART, Tout=[own], name="batch_part")[0]
        part.set_shape(extents)
        if own != dtype:
            return tf.cast(part, dtype)
        name = f"{part.op.name}/{number}/{own.name}"
        holder = tf.raw_ops.VarHandleOp(dtype=own, shape=list(extents), container=self._container, shared_name=name)
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=holder, value=part)]):
            return tf.raw_ops.ReadVariableOp(resource=holder, dtype=own)


def fed_arrays(batch: BatchArrays, objective: Objective) -> list[np.ndarray]:
    """Return the arrays of a batch that a program reads: samples, and targets and weights of the outputs that have a loss.

    Parameters
    ----------
    objective : the loss of each output.
    """
    pairs = [(y, weight) for part, y, weight in zip(objective, batch.y, batch.weight) if part is not None and y is not None]
    return [*batch.x, *(array for pair in pairs for array in pair)]


def shared_batches(container: str, forms: Sequence[Form], dtypes: Sequence[tf.DType]) -> SharedBatches | None:
    """Return shared memory for the batches of a program; None where the system has none, or an array has no fixed size in bytes.

    Parameters
    ----------
    container, forms, dtypes : as for `SharedBatches`.
    """
    if any(np.dtype(dtype).hasobject or np.dtype(dtype).kind in "US" for _, dtype in forms):
        return None
    try:
        return SharedBatches(container, forms, dtypes)
    except (OSError, AttributeError):  # no memfd_create
        return None
