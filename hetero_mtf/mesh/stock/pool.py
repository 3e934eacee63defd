"""Pooling with adjacent windows, as in Mesh-TensorFlow."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl, is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation


@lower_operation.register(mtf.PoolOperation)
@lower_operation.register(mtf.PoolBackPropOperation)
def _lower_pool(operation: mtf.Operation, lowering: Lowering) -> None:
    """Pool each slice; the pool of an empty slice is empty."""
    impl = lowering.mesh_impl(operation)
    backward = isinstance(operation, mtf.PoolBackPropOperation)
    image, pooled = operation.inputs[0].shape, (operation.inputs[1] if backward else operation.outputs[0]).shape
    _check_windows(operation, impl, image, pooled)
    inputs = [lowering.slices(tensor) for tensor in operation.inputs]
    output = operation.outputs[0]

    def pool(pnum: int) -> tf.Tensor:
        own = [pieces[pnum] for pieces in inputs]
        if any(map(is_empty, own)):
            return tf.zeros(impl.processor_shape(output.shape, pnum), output.dtype)
        return _backward(operation, *own) if backward else _forward(operation, *own)

    lowering.set_tensor_lowering(output, impl.on_processors(pool))


def _check_windows(operation: mtf.Operation, impl: UnevenMeshImpl, image: Any, pooled: Any) -> None:
    """Refuse windows that would cross the edge of a slice."""
    for window, dimension, pooled_dimension in zip(
        operation._ksize, image.dims[-1 - len(operation._ksize) : -1], pooled.dims[-1 - len(operation._ksize) : -1]
    ):
        if impl.axis_of(dimension.name) is None:
            continue
        extents = impl.sizes_of(dimension)
        if [n * window for n in impl.sizes_of(pooled_dimension)] != list(extents):
            kind = type(operation).__name__
            fault = f"operation {operation.name} ({kind}) pools {window} along dimension {dimension.name}, whose sizes are {list(extents)}"
            raise LayoutError(fault, "leave it out of the layout, or give sizes that the window divides")


def _forward(operation: mtf.Operation, image: tf.Tensor) -> tf.Tensor:
    return mtf.ops.pool_fn(operation._pool_fn_string)(image, operation._ksize, operation._strides, "VALID")


def _backward(operation: mtf.Operation, image: tf.Tensor, pooled: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
    """Return dx: every element equal to its window's maximum gets all of its gradient, as in Mesh-TensorFlow."""
    windows = operation._ksize
    spread = mtf.ops._tf_upscale(dy, -1 - len(windows), -1, operation._strides)
    if operation._pool_fn_string.startswith("AVG"):
        return spread / tf.constant(math.prod(windows), dtype=image.dtype)
    maxima = mtf.ops._tf_upscale(pooled, -1 - len(windows), -1, operation._strides)
    return tf.cast(tf.equal(image, maxima), image.dtype) * spread
