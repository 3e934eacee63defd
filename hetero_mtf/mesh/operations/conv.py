"""Convolution and matrix product on slices: columns, rows, or whole, with any sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.local import Local, Processor

Tensor = Any


def convolve_2d(x: Tensor, kernel: Tensor, strides: Sequence[int], padding: str) -> Tensor:
    """Return the 2-D convolution of `x` with `kernel`.

    Laid-out input channels give partial sums (rows), laid-out output channels slices (columns).

    Parameters
    ----------
    x : [batch, height, width, input channels].
    kernel : [kernel height, kernel width, input channels, output channels].
    strides : (2,) along height and width.
    padding : "SAME" (output extent ceil(n / stride)) or "VALID".
    """
    batch, height, width, channels_in = x.shape.dims
    taps, channels_out = kernel.shape.dims[:2], kernel.shape.dims[3]
    space = _output_space((height, width), taps, strides, padding)
    output = mtf.Shape([batch, *space, channels_out])
    whole = [height, width, *taps]
    options = {"strides": [1, *strides, 1], "padding": padding}

    def forward(_: Processor, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.Conv2D(input=value, filter=weights, **options)

    def input_gradient(p: Processor, weights: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.Conv2DBackpropInput(input_sizes=p.shapes[0], filter=weights, out_backprop=dy, **options)

    def kernel_gradient(p: Processor, value: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.Conv2DBackpropFilter(input=value, filter_sizes=p.shapes[0], out_backprop=dy, **options)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        to_input = Local("conv2d_input_gradient", input_gradient, [kernel, dy], [(x.shape, x.dtype)], summed=[channels_out], whole=whole)
        outputs = [(kernel.shape, kernel.dtype)]
        to_kernel = Local("conv2d_kernel_gradient", kernel_gradient, [x, dy], outputs, summed=[batch], whole=whole, after=to_input)
        return [to_input.outputs[0], to_kernel.outputs[0]]

    operation = Local("conv2d", forward, [x, kernel], [(output, x.dtype)], summed=[channels_in], whole=whole, gradient=gradient)
    return operation.outputs[0]


def _output_space(space: Sequence[Any], taps: Sequence[Any], strides: Sequence[int], padding: str) -> list[Any]:
    """Return the output's spatial dimensions, named as the input's."""
    if padding == "SAME":
        return [mtf.Dimension(n.name, -(-n.size // s)) for n, s in zip(space, strides)]
    return [mtf.Dimension(n.name, -(-(n.size - k.size + 1) // s)) for n, k, s in zip(space, taps, strides)]


def multiply_matrix(x: Tensor, kernel: Tensor) -> Tensor:
    """Return `x` times `kernel`, summed over all dimensions of `kernel` but its last.

    Parameters
    ----------
    x : [..., *features].
    kernel : [*features, units].
    """
    features, units = kernel.shape.dims[:-1], kernel.shape.dims[-1]
    outer = x.shape.dims[: -len(features)]
    output = mtf.Shape([*outer, units])

    def forward(p: Processor, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.matmul(_rows(value, len(features)), _rows(weights, 1)), p.shapes[0])

    def input_gradient(p: Processor, weights: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.matmul(_rows(dy, 1), _rows(weights, 1), transpose_b=True), p.shapes[0])

    def kernel_gradient(p: Processor, value: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tf.matmul(_rows(value, len(features)), _rows(dy, 1), transpose_a=True), p.shapes[0])

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        to_input = Local("matmul_input_gradient", input_gradient, [kernel, dy], [(x.shape, x.dtype)], summed=[units])
        to_kernel = Local("matmul_kernel_gradient", kernel_gradient, [x, dy], [(kernel.shape, kernel.dtype)], summed=outer, after=to_input)
        return [to_input.outputs[0], to_kernel.outputs[0]]

    return Local("matmul", forward, [x, kernel], [(output, x.dtype)], summed=features, gradient=gradient).outputs[0]


def _rows(value: tf.Tensor, features: int) -> tf.Tensor:
    """Return `value` as a matrix whose columns are its last `features` dimensions."""
    extents = value.shape.as_list()
    inner = 1
    for extent in extents[len(extents) - features :]:
        inner *= extent
    return tf.reshape(value, [-1, inner])


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return `x` [..., units] plus `bias` [units]."""

    def bias_gradient(_: Processor, dy: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.BiasAddGrad(out_backprop=dy)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        to_bias = Local("bias_gradient", bias_gradient, [dy], [(bias.shape, bias.dtype)], summed=x.shape.dims[:-1])
        return [dy, to_bias.outputs[0]]

    operation = Local("bias", lambda _, value, offset: tf.nn.bias_add(value, offset), [x, bias], [(x.shape, x.dtype)], gradient=gradient)
    return operation.outputs[0]
