"""Buckets: pending all-reduces of small tensors become one of all their elements."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import is_empty, is_pending_sum
from hetero_mtf.mesh.lowering import Lowering, lower_operation
from hetero_mtf.planning.cost.gradient_buckets import buckets


class Buckets(mtf.Operation):
    """Tensors whose pending all-reduces are fused, where they are small; what is not pending stays as it is.

    Tensors over the same mesh axes and in the same dtype share a bucket of the size that the collectives of the mesh say. Every element
    is added up over the processors as it would be alone, in the same order where the method is the same for both sizes and does not cut
    the tensor (exchange, butterfly). It has no gradient.

    Parameters
    ----------
    tensors : (tensors,) mtf.Tensor of one mesh, in the order in which they are computed.
    dtypes : (tensors,) what partial sums are sent and added in.
    """

    def __init__(self, tensors: Sequence[Tensor], dtypes: Sequence[tf.DType]) -> None:
        super().__init__(list(tensors), name="buckets")
        self.dtypes = list(dtypes)
        self._outputs = [mtf.Tensor(self, x.shape, x.dtype, index=index) for index, x in enumerate(tensors)]

    @property
    def has_gradient(self) -> bool:
        return False


@lower_operation.register(Buckets)
def _lower_buckets(operation: Buckets, lowering: Lowering) -> None:
    impl = lowering.mesh_impl(operation)
    pending: dict[tuple[tuple[int, ...], tf.DType], list[int]] = {}
    for index, (x, y) in enumerate(zip(operation.inputs, operation.outputs)):
        lowered = lowering.tensors[x]
        if is_pending_sum(lowered):
            pending.setdefault((tuple(lowered.mesh_axes), operation.dtypes[index]), []).append(index)
        else:
            lowering.set_tensor_lowering(y, lowered.to_laid_out_tensor())
    for (axes, dtype), members in pending.items():
        largest = [impl.slice_size(operation.inputs[index].shape) * dtype.size for index in members]
        for bucket in buckets(largest, impl.bucket_bytes):
            _reduce(operation, [members[at] for at in bucket], lowering, axes, dtype)


def _reduce(operation: Buckets, members: Sequence[int], lowering: Lowering, axes: Sequence[int], dtype: tf.DType) -> None:
    """Record the outputs of the tensors of a bucket; one alone that is sent as it is stays pending."""
    impl, outputs = lowering.mesh_impl(operation), [operation.outputs[index] for index in members]
    pending = [lowering.tensors[operation.inputs[index]] for index in members]
    if len(members) == 1 and outputs[0].dtype == dtype:
        lowering.set_tensor_lowering(outputs[0], pending[0])
        return
    terms = [lazy.laid_out_input.to_laid_out_tensor().tensor_list for lazy in pending]
    partial_sums = impl.on_processors(lambda p: _joined([tf.cast(term[p], dtype) for term in terms]))
    sums = mtf.LazyAllreduceSum(impl, partial_sums, list(axes)).to_laid_out_tensor().tensor_list
    apart = impl.on_processors(lambda p: _apart(sums[p], [term[p] for term in terms])).tensor_list
    for index, tensor in enumerate(outputs):
        lowering.set_tensor_lowering(tensor, impl.LaidOutTensor([parts[index] for parts in apart]))


def _joined(pieces: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the elements of some tensors as one vector; a tensor alone as it is."""
    if len(pieces) == 1:
        return pieces[0]
    present = [tf.reshape(piece, [-1]) for piece in pieces if not is_empty(piece)]
    return tf.concat(present, 0) if present else tf.zeros([0], pieces[0].dtype)


def _apart(total: tf.Tensor, likes: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return what `_joined` joined, in the shapes and dtypes of other tensors."""
    if len(likes) == 1:
        return [tf.cast(total, likes[0].dtype)]
    present = [like for like in likes if not is_empty(like)]
    parts = iter(tf.split(total, [like.shape.num_elements() for like in present]) if present else [])
    return [
        tf.zeros(like.shape, like.dtype) if is_empty(like) else tf.cast(tf.reshape(next(parts), like.shape), like.dtype) for like in likes
    ]
