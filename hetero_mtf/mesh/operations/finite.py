"""The count of elements that are NaN or infinite, over all processors of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation

Tensor = Any


class NotFinite(mtf.Operation):  # type: ignore[misc]
    """How many elements of some tensors are NaN or infinite, summed over all slices of all processors; replicas count each.

    It is 0 on every processor or on none, so that all decide alike by it.

    Parameters
    ----------
    tensors : (tensors,) mtf.Tensor of one mesh, at least one; float.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        super().__init__(list(tensors), name="not_finite")
        self._outputs = [mtf.Tensor(self, mtf.Shape([]), tf.float32)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(NotFinite)
def _lower_not_finite(operation: NotFinite, lowering: Lowering) -> None:
    impl = lowering.mesh_impl(operation)
    slices = [lowering.slices(tensor) for tensor in operation.inputs]

    def count(pnum: int) -> tf.Tensor:
        own = [pieces[pnum] for pieces in slices if not is_empty(pieces[pnum])]
        strange = [tf.logical_not(tf.reduce_all(tf.math.is_finite(piece))) for piece in own]
        return tf.add_n([tf.cast(flag, tf.float32) for flag in strange]) if strange else tf.zeros([], tf.float32)

    axes = [axis for axis, dimension in enumerate(impl.shape.dims) if dimension.size > 1]
    lowering.set_partial_sums(operation.outputs[0], impl.on_processors(count), axes)
