"""Batches that are handed to devices before the step that reads them."""

from __future__ import annotations

import abc
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.batch_parts import BatchArray
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.objective import Objective
from hetero_mtf.runtime.shared.batch_memory import Form

SLOTS = 3  # one that a step reads, one for the batch of the step that begins, and one for the next, which may come before that


class StagedBatches(abc.ABC):
    """The batches of one program: while a step reads one, the next is written where devices will read it.

    Parameters
    ----------
    container : resource container on every worker.
    forms : (arrays,) form of each array of a batch; None for those that are fed with their step.
    dtypes : (arrays,) what devices get of each.

    Attributes
    ----------
    arrays : (arrays,) what programs are built of; None likewise.
    waited_s : seconds for which steps have waited until their batch was where devices read it.
    """

    def __init__(self, container: str, forms: Sequence[Form | None], dtypes: Sequence[tf.DType]) -> None:
        self._container = container
        self._numbers = [number for number, form in enumerate(forms) if form is not None]
        self._parts: dict[tuple[int, str, tuple[int, ...], tuple[int, ...]], tf.Tensor] = {}
        self._batch_refs: list[weakref.ref[BatchArrays] | None] = [None] * SLOTS
        self._read = self._filled = 0
        self.waited_s = 0.0
        self._lock = threading.Lock()
        place_of = {number: place for place, number in enumerate(self._numbers)}
        self.arrays = tuple(
            None if form is None else self._array(place_of[number], form[0], dtype)
            for number, (form, dtype) in enumerate(zip(forms, dtypes, strict=True))
        )

    @abc.abstractmethod
    def _write(self, slot: int, arrays: Sequence[np.ndarray]) -> None:
        """Write the arrays of a batch that have a form into a slot that no step reads."""

    @abc.abstractmethod
    def _select(self, slot: int) -> dict[tf.Tensor, Any]:
        """Make the next step read a slot; return what it is fed for that."""

    @abc.abstractmethod
    def _part(self, number: int, device: str, begins: Sequence[int], extents: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        """Return a part of an array with a form on a device, which is the present one, in what devices get."""

    @abc.abstractmethod
    def close(self) -> None:
        """Give the slots back; closing twice is harmless."""

    def stage(self, batch: BatchArrays, arrays: Sequence[np.ndarray]) -> None:
        """Write a batch while a step may read another one.

        Parameters
        ----------
        batch : the batch, by which `use` knows it again.
        arrays : its arrays, in the order of the forms.
        """
        with self._lock:
            if self._slot_of(batch) is None:
                self._fill(batch, arrays)

    def use(self, batch: BatchArrays, arrays: Sequence[np.ndarray]) -> dict[tf.Tensor, Any]:
        """Make the next step read a batch, which is written now unless it was staged; return what the step is fed for that.

        Parameters
        ----------
        batch, arrays : as for `stage`; no step of the program may be under way.
        """
        begun_s = time.perf_counter()
        with self._lock:
            slot = self._slot_of(batch)
            self._read = self._fill(batch, arrays) if slot is None else slot
            self.waited_s += time.perf_counter() - begun_s
            return self._select(self._read)

    def _slot_of(self, batch: BatchArrays) -> int | None:
        return next((slot for slot, batch_ref in enumerate(self._batch_refs) if batch_ref is not None and batch_ref() is batch), None)

    def _fill(self, batch: BatchArrays, arrays: Sequence[np.ndarray]) -> int:
        """Write a batch into a slot that neither is read nor was filled last, which a step may read next; return the slot."""
        slot = next(slot for slot in ((self._filled + step) % SLOTS for step in (1, 2)) if slot != self._read)
        self._batch_refs[slot] = None
        self._write(slot, [arrays[number] for number in self._numbers])
        self._batch_refs[slot], self._filled = weakref.ref(batch), slot
        return slot

    def _array(self, number: int, shape: tuple[int, ...], dtype: tf.DType) -> BatchArray:
        def read(device: str, begins: Sequence[int], extents: Sequence[int]) -> tf.Tensor:
            key = number, device, tuple(begins), tuple(extents)
            if key not in self._parts:
                # the part is kept for all its readers, so it must not wait for what the first one waits for
                with tf.device(device), tf.control_dependencies(None):
                    self._parts[key] = self._part(number, device, begins, extents, dtype)
            return self._parts[key]

        return BatchArray(shape, dtype, read)


def fed_arrays(batch: BatchArrays, objective: Objective) -> list[np.ndarray]:
    """Return the arrays of a batch that a program reads: samples, and targets and weights of the outputs that have a loss.

    Parameters
    ----------
    objective : the loss of each output.
    """
    pairs = [(y, weight) for part, y, weight in zip(objective, batch.y, batch.weight) if part is not None and y is not None]
    return [*batch.x, *(array for pair in pairs for array in pair)]
