"""One-hot vectors and the largest elements, along dimensions that may be split into unequal slices."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering, lower_operation


@lower_operation.register(mtf.OneHotOperation)
def _lower_one_hot(operation: mtf.Operation, lowering: Lowering) -> None:
    """Mark the indices in each processor's part of the output dimension."""
    impl, output = lowering.mesh_impl(operation), operation.outputs[0]
    indices = lowering.slices(operation.inputs[0])
    on, off = operation._on_value, operation._off_value

    def mark(pnum: int) -> tf.Tensor:
        shape = impl.processor_shape(output.shape, pnum)
        if 0 in shape:
            return tf.zeros(shape, output.dtype)
        begin = impl.slice_begin(output.shape, pnum)[-1]
        return tf.one_hot(indices[pnum] - begin, shape[-1], tf.cast(on, output.dtype), tf.cast(off, output.dtype), dtype=output.dtype)

    lowering.set_tensor_lowering(output, impl.on_processors(mark))


@lower_operation.register(mtf.TopKOperation)
def _lower_top_k(operation: mtf.Operation, lowering: Lowering) -> None:
    """Take the largest elements of each slice, send them with their positions, and take the largest of these.

    Equal elements keep the order of their positions.
    """
    impl, x = lowering.mesh_impl(operation), operation.inputs[0]
    reduced, count = operation._reduced_dim, operation._k_dim.size
    slices = lowering.slices(x)
    place = x.shape.dims.index(reduced)

    def largest(pnum: int) -> tuple[tf.Tensor, tf.Tensor]:
        last = tf.transpose(slices[pnum], [i for i in range(x.shape.ndims) if i != place] + [place])
        values, indices = _top_k(last, min(count, last.shape[-1]))
        return values, indices + impl.slice_begin(x.shape, pnum)[place]

    values, indices = _unzipped(impl, impl.on_processors(largest))
    axis = impl.axis_of(reduced.name)
    if axis is not None:
        values, indices = (impl.allconcat(pieces, axis, x.shape.ndims - 1) for pieces in (values, indices))
    candidates = list(zip(values.tensor_list, indices.tensor_list))

    def largest_of_all(pnum: int) -> tuple[tf.Tensor, tf.Tensor]:
        largest_values, where = _top_k(candidates[pnum][0], count)
        places = tf.gather(candidates[pnum][1], where, batch_dims=x.shape.ndims - 1)
        window = impl.slice_begin(operation.outputs[0].shape, pnum)[-1], impl.processor_shape(operation.outputs[0].shape, pnum)[-1]
        begin, extent = [0] * (x.shape.ndims - 1) + [window[0]], [-1] * (x.shape.ndims - 1) + [window[1]]
        return tf.slice(largest_values, begin, extent), tf.slice(places, begin, extent)

    for tensor, laid_out in zip(operation.outputs, _unzipped(impl, impl.on_processors(largest_of_all))):
        lowering.set_tensor_lowering(tensor, laid_out)


def _top_k(x: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    shape = [*x.shape.as_list()[:-1], count]
    if 0 in shape:
        return tf.zeros(shape, x.dtype), tf.zeros(shape, tf.int32)
    return tf.math.top_k(x, count)


def _unzipped(impl: UnevenMeshImpl, pairs: Any) -> tuple[Any, Any]:
    """Return two laid-out tensors made from one of pairs."""
    first, second = zip(*pairs.tensor_list)
    return impl.LaidOutTensor(list(first)), impl.LaidOutTensor(list(second))
