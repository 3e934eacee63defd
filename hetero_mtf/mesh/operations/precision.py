"""Operations of mixed precision: casts, and the count of what is not finite."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation


def cast(x: Tensor, dtype: tf.DType, pending_gradient: bool = False) -> Tensor:
    """Return `x` in another dtype; its gradient is cast back.

    A pending all-reduce is done in the dtype of fewer bits: before `x` is widened, after it is narrowed.

    Parameters
    ----------
    x : mtf.Tensor, float.
    pending_gradient : whether an all-reduce of the gradient stays pending also where this is widened, as the gradients of a variable over
        several microbatches are added up before they are sent.
    """
    return x if x.dtype == dtype else Cast(x, dtype, False, pending_gradient).outputs[0]


class Cast(mtf.Operation):
    """The operation of `cast`.

    Parameters
    ----------
    x, dtype, pending_gradient : as there.
    keeps_pending : whether partial sums are cast and their all-reduce stays pending also where they are widened.
    """

    def __init__(self, x: Tensor, dtype: tf.DType, keeps_pending: bool, pending_gradient: bool) -> None:
        super().__init__([x], name="cast")
        self.keeps_pending = keeps_pending or dtype.size < x.dtype.size
        self._pending_gradient = pending_gradient
        self._outputs = [mtf.Tensor(self, x.shape, dtype)]

    def gradient(self, grad_ys: Sequence[Tensor]) -> list[Tensor]:
        return [Cast(grad_ys[0], self.inputs[0].dtype, self._pending_gradient, False).outputs[0]]


@lower_operation.register(Cast)
def _lower_cast(operation: Cast, lowering: Lowering) -> None:
    (x,), (y,) = operation.inputs, operation.outputs
    lowered, axes = lowering.tensors[x], []
    if operation.keeps_pending and isinstance(lowered, mtf.LazyAllreduceSum):
        lowered, axes = lowered.laid_out_input, lowered.mesh_axes
    slices = lowered.to_laid_out_tensor().tensor_list
    lowering.set_partial_sums(y, lowering.mesh_impl(x).on_processors(lambda p: tf.cast(slices[p], y.dtype)), axes)


class NotFinite(mtf.Operation):
    """How many of some tensors' slices have elements that are NaN or infinite, over all processors; of replicas each counts.

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
