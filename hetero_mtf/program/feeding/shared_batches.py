"""Batches in memory that the workers of this host share with their client."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.program.feeding.staged_batches import SLOTS, StagedBatches
from hetero_mtf.runtime.shared.batch_memory import BatchMemory, Form
from hetero_mtf.runtime.shared.worker_functions import READ_PART


class SharedBatches(StagedBatches):
    """Batches that are written once, and read in place; parameters as for `StagedBatches`.

    Raises
    ------
    OSError, AttributeError
        If the system has no anonymous files.
    """

    def __init__(self, container: str, forms: Sequence[Form | None], dtypes: Sequence[tf.DType]) -> None:
        self._memory = BatchMemory([form for form in forms if form is not None], SLOTS)
        self._name = uuid.uuid4().hex
        super().__init__(container, forms, dtypes)

    def _write(self, slot: int, arrays: Sequence[np.ndarray]) -> None:
        self._memory.write(slot, arrays)

    def _select(self, slot: int) -> dict[tf.Tensor, Any]:
        self._memory.select(slot)
        return {}

    def close(self) -> None:
        self._memory.close()

    def _part(self, number: int, device: str, begins: Sequence[int], extents: Sequence[int], dtype: tf.DType) -> tf.Tensor:
        """Return a part.

        TensorFlow may overwrite a tensor that has one reader, and this one lies in memory that is not its own; so a variable holds it too.
        """
        own = tf.as_dtype(self._memory.forms[number][1])
        order = tf.constant(self._memory.order(number, begins, extents))
        part = tf.raw_ops.PyFunc(input=[order], token=READ_PART, Tout=[own], name="batch_part")[0]
        part.set_shape(extents)
        if own != dtype:
            return tf.cast(part, dtype)
        name = f"{self._name}/{len(self._parts)}"
        holder = tf.raw_ops.VarHandleOp(dtype=own, shape=list(extents), container=self._container, shared_name=name)
        with tf.control_dependencies([tf.raw_ops.AssignVariableOp(resource=holder, value=part)]):
            return tf.raw_ops.ReadVariableOp(resource=holder, dtype=own)
