"""Pooling over space, overlapping windows included, and other operations on the spatial dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.local import Local, Processor

Tensor = Any


def pool_2d(x: Tensor, mode: str, window: Sequence[int], strides: Sequence[int], padding: str) -> Tensor:
    """Return the maxima or means of windows of `x`.

    Ties of a maximum and padded means are TensorFlow's: the first maximum takes the gradient, padded
    elements do not count.

    Parameters
    ----------
    x : [batch, height, width, channels], height and width whole.
    mode : "max" or "average".
    window, strides : (2,).
    padding : "SAME" or "VALID".
    """
    batch, height, width, channels = x.shape.dims
    options = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
    extents = [-(-n // s) if padding == "SAME" else -(-(n - k + 1) // s) for n, k, s in zip((height.size, width.size), window, strides)]
    output = mtf.Shape([batch, mtf.Dimension(height.name, extents[0]), mtf.Dimension(width.name, extents[1]), channels])

    def forward(_: Processor, value: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.MaxPool(input=value, **options) if mode == "max" else tf.raw_ops.AvgPool(value=value, **options)

    def max_gradient(_: Processor, value: tf.Tensor, y: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.MaxPoolGrad(orig_input=value, orig_output=y, grad=dy, **options)

    def average_gradient(p: Processor, dy: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.AvgPoolGrad(orig_input_shape=p.shapes[0], grad=dy, **options)

    def gradient(operation: Local, dy: Tensor) -> Sequence[Tensor]:
        function, inputs = (max_gradient, [x, operation.outputs[0], dy]) if mode == "max" else (average_gradient, [dy])
        return Local(f"{mode}_pool_gradient", function, inputs, [(x.shape, x.dtype)], whole=[height, width]).outputs

    return Local(f"{mode}_pool", forward, [x], [(output, x.dtype)], whole=[height, width], gradient=gradient).outputs[0]


def mean_over_space(x: Tensor) -> Tensor:
    """Return the means of `x` [batch, *space, channels] over its spatial dimensions, [batch, channels]."""
    batch, *space, channels = x.shape.dims
    axes = list(range(1, 1 + len(space)))
    count = 1
    for dimension in space:
        count *= dimension.size

    def forward(_: Processor, value: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(value, axes)

    def backward(p: Processor, dy: tf.Tensor) -> tf.Tensor:
        narrow = [n if i not in axes else 1 for i, n in enumerate(p.shapes[0])]
        return tf.broadcast_to(tf.reshape(dy / count, narrow), p.shapes[0])

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("mean_over_space_gradient", backward, [dy], [(x.shape, x.dtype)], whole=space).outputs

    output = mtf.Shape([batch, channels])
    return Local("mean_over_space", forward, [x], [(output, x.dtype)], whole=space, gradient=gradient).outputs[0]


def pad_space(x: Tensor, padding: Sequence[Sequence[int]]) -> Tensor:
    """Return `x` [batch, *space, channels] with zeros before and after each spatial dimension.

    Parameters
    ----------
    padding : (space, 2) zeros before and after.
    """
    batch, *space, channels = x.shape.dims
    wider = [mtf.Dimension(d.name, d.size + sum(sides)) for d, sides in zip(space, padding)]
    paddings = [[0, 0], *(list(sides) for sides in padding), [0, 0]]

    def forward(_: Processor, value: tf.Tensor) -> tf.Tensor:
        return tf.pad(value, paddings)

    def backward(p: Processor, dy: tf.Tensor) -> tf.Tensor:
        return tf.slice(dy, [before for before, _ in paddings], p.shapes[0])

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("pad_gradient", backward, [dy], [(x.shape, x.dtype)], whole=space).outputs

    output = mtf.Shape([batch, *wider, channels])
    return Local("pad", forward, [x], [(output, x.dtype)], whole=space, gradient=gradient).outputs[0]


def concatenate(inputs: Sequence[Tensor], dimension: Any) -> Tensor:
    """Return the concatenation of `inputs` along their last dimensions, all whole, into `dimension`."""
    last = [x.shape.dims[-1] for x in inputs]
    output = mtf.Shape([*inputs[0].shape.dims[:-1], dimension])

    def forward(_: Processor, *values: tf.Tensor) -> tf.Tensor:
        return tf.concat(values, -1)

    def backward(_: Processor, dy: tf.Tensor) -> Sequence[tf.Tensor]:
        return tf.split(dy, [d.size for d in last], -1)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("concatenate_gradient", backward, [dy], [(x.shape, x.dtype) for x in inputs], whole=[*last, dimension]).outputs

    operation = Local("concatenate", forward, inputs, [(output, inputs[0].dtype)], whole=[*last, dimension], gradient=gradient)
    return operation.outputs[0]
