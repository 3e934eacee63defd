"""Convolutions, transposed ones, and the gradients of both, in two and three dimensions.

The strides, paddings and output sizes are Mesh-TensorFlow's: with a stride, `SAME` must divide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.implementation import is_empty
from hetero_mtf.mesh.lowering import Lowering, lower_operation


def _convolve(operation: mtf.Operation, rank: int, image: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    function = tf.nn.conv2d if rank == 2 else tf.nn.conv3d
    return function(image, weights, operation._strides, operation._padding)


def _spread(operation: mtf.Operation, rank: int, shape: Sequence[int], weights: tf.Tensor, image: tf.Tensor) -> tf.Tensor:
    """Return the gradient of a convolution by an input of `shape`, which is a transposed convolution."""
    options = {"strides": operation._strides, "padding": operation._padding}
    if rank == 2:
        return tf.raw_ops.Conv2DBackpropInput(input_sizes=shape, filter=weights, out_backprop=image, **options)
    return tf.raw_ops.Conv3DBackpropInputV2(input_sizes=shape, filter=weights, out_backprop=image, **options)


def _correlate(operation: mtf.Operation, rank: int, image: tf.Tensor, shape: Sequence[int], dy: tf.Tensor) -> tf.Tensor:
    """Return the gradient of a convolution by a filter of `shape`."""
    options = {"strides": operation._strides, "padding": operation._padding}
    if rank == 2:
        return tf.raw_ops.Conv2DBackpropFilter(input=image, filter_sizes=shape, out_backprop=dy, **options)
    return tf.raw_ops.Conv3DBackpropFilterV2(input=image, filter_sizes=shape, out_backprop=dy, **options)


def _check_space(operation: mtf.Operation, lowering: Lowering, rank: int) -> None:
    """Refuse a layout of the dimensions that the window moves over."""
    impl = lowering.mesh_impl(operation)
    for tensor in (*operation.inputs, *operation.outputs):
        dims = tensor.shape.dims
        for dimension in dims[:rank] if _is_filter(operation, tensor) else dims[-1 - rank : -1]:
            if impl.axis_of(dimension.name) is not None:
                fault = f"operation {operation.name} ({type(operation).__name__}) needs dimension {dimension.name} whole"
                remedy = "leave it out of the layout, or cut the image into blocks (mtf.layers.conv2d_with_blocks)"
                raise LayoutError(f"{fault}, it lies on a mesh axis", remedy)


def _is_filter(operation: mtf.Operation, tensor: tf.Tensor) -> bool:
    if isinstance(operation, mtf.Conv2or3dBackpropFilterOperation):
        return tensor is operation.outputs[0]
    return tensor is operation.inputs[1]


def _lower(
    operation: mtf.Operation, lowering: Lowering, rank: int, summed: Sequence[mtf.Dimension], local: Callable[..., tf.Tensor]
) -> None:
    """Run `local` on every processor without empty slices; the sum over `summed` dimensions is pending.

    Parameters
    ----------
    local : (shape of the output's slice with one batch dimension, *input slices with one) -> slice.
    """
    _check_space(operation, lowering, rank)
    impl, output = lowering.mesh_impl(operation), operation.outputs[0]
    inputs = [lowering.slices(tensor) for tensor in operation.inputs]

    def work(pnum: int) -> tf.Tensor:
        own = [pieces[pnum] for pieces in inputs]
        shape = impl.processor_shape(output.shape, pnum)
        if 0 in shape or any(map(is_empty, own)):
            return tf.zeros(shape, output.dtype)
        flat = [piece if _is_filter(operation, t) else _flattened(piece, rank) for piece, t in zip(own, operation.inputs)]
        if _is_filter(operation, output):
            return local(shape, *flat)
        result = local(_flat(shape, rank), *flat)
        return tf.reshape(result, [*shape[: -1 - rank], *result.shape.as_list()[1:]])

    result = impl.on_processors(work)
    axes = sorted({axis for dimension in summed if (axis := impl.axis_of(dimension.name)) is not None})
    lowering.set_partial_sums(output, result, axes)


def _flat(shape: Sequence[int], rank: int) -> list[int]:
    """Return the shape with all batch dimensions made one."""
    return [math.prod(shape[: -1 - rank]), *shape[-1 - rank :]]


def _flattened(image: tf.Tensor, rank: int) -> tf.Tensor:
    return tf.reshape(image, _flat(image.shape.as_list(), rank))


@lower_operation.register(mtf.Conv2dOperation)
@lower_operation.register(mtf.Conv3dOperation)
def _lower_convolution(operation: mtf.Operation, lowering: Lowering) -> None:
    rank = 2 if isinstance(operation, mtf.Conv2dOperation) else 3
    channels = operation.inputs[0].shape.dims[-1]
    _lower(operation, lowering, rank, [channels], lambda shape, image, weights: _convolve(operation, rank, image, weights))


@lower_operation.register(mtf.Conv2dTransposeOperation)
@lower_operation.register(mtf.Conv3dTransposeOperation)
def _lower_transposed(operation: mtf.Operation, lowering: Lowering) -> None:
    rank = 2 if isinstance(operation, mtf.Conv2dTransposeOperation) else 3
    channels = operation.inputs[0].shape.dims[-1]
    _lower(operation, lowering, rank, [channels], lambda shape, image, weights: _spread(operation, rank, shape, weights, image))


@lower_operation.register(mtf.Conv2or3dBackpropInputOperation)
def _lower_gradient_by_input(operation: mtf.Operation, lowering: Lowering) -> None:
    rank = operation._conv_dimension

    def local(shape: Sequence[int], dy: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        if operation._is_transpose:
            return _convolve(operation, rank, dy, weights)
        return _spread(operation, rank, shape, weights, dy)

    _lower(operation, lowering, rank, [operation.inputs[0].shape.dims[-1]], local)


@lower_operation.register(mtf.Conv2or3dBackpropFilterOperation)
def _lower_gradient_by_filter(operation: mtf.Operation, lowering: Lowering) -> None:
    rank = operation._conv_dimension

    def local(shape: Sequence[int], image: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        wide, narrow = (dy, image) if operation._is_transpose else (image, dy)
        return _correlate(operation, rank, wide, shape, narrow)

    _lower(operation, lowering, rank, operation.inputs[1].shape.dims[: -1 - rank], local)
