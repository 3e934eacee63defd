"""Convolutions and matrix products on slices: column, row or replicated, with any sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import keras
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import NOT_RENAMED, Renamed
from hetero_mtf.mesh.operations.convolution.depthwise import convolved_in_groups
from hetero_mtf.mesh.operations.convolution.turned_convolution import (
    KERNELS,
    TENSORFLOW,
    Turned,
    kernel_form,
    pad_sides,
    read_sides,
    window_sides,
)
from hetero_mtf.mesh.operations.halo import read_again
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.output_space import spatial


def convolve(
    x: Tensor,
    kernel: Tensor,
    extents: Sequence[int | mtf.Dimension],
    strides: Sequence[int],
    padding: str,
    dilation: Sequence[int] = (),
    groups: int = 1,
) -> Tensor:
    """Return the 1-D, 2-D or 3-D convolution of `x` with `kernel`, [batch, *extents, output channels].

    Laid-out input channels give partial sums (row), laid-out output channels slices (column); groups need both whole. A spatial dimension
    may lie in slabs where each processor has all that its slab of the output reads ("VALID", see `halo.exchange_halo`).

    Parameters
    ----------
    x : [batch, *space, input channels].
    kernel : [*taps, input channels / groups, output channels].
    extents : (space,) of the output; a dimension where it lies in slabs.
    strides : (space,).
    padding : "SAME" (output extent ceil(n / stride)) or "VALID".
    dilation : (space,) distances of the taps; empty for 1.
    groups : number of groups of channels.
    """
    batch, *space, channels_in = x.shape.dims
    *taps, _, channels_out = kernel.shape.dims
    made, renamed, whole = spatial(space, extents)
    output = mtf.Shape([batch, *made, channels_out])
    unsplit = [*whole, *taps]
    name = f"conv{len(space)}d"
    if groups == 1 and set(dilation) <= {1} and len(space) in KERNELS:
        return bilinear(name, Direct(len(space), strides, padding), x, kernel, output, unsplit, renamed)

    def function(_: int, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        if groups > 1:
            return convolved_in_groups(value, weights, groups, strides, padding, dilation)
        return tf.nn.convolution(value, weights, list(strides), padding, dilations=list(dilation) or None)

    of_groups = [channels_in, *kernel.shape.dims[-2:]] if groups > 1 else []
    return bilinear(name, _Derived(function), x, kernel, output, [*unsplit, *of_groups], renamed)


def convolve_transposed(
    x: Tensor, kernel: Tensor, extents: Sequence[int], strides: Sequence[int], padding: str, output_padding: Sequence[int] | None
) -> Tensor:
    """Return the 1-D, 2-D or 3-D transposed convolution of `x` with `kernel`, [batch, *extents, output channels].

    Parameters
    ----------
    x : [batch, *space, input channels].
    kernel : [*taps, output channels, input channels].
    extents : (space,) of the output.
    strides : (space,).
    padding : "same" or "valid", as in Keras.
    output_padding : (space,) as in Keras, or None.
    """
    batch, *space, _ = x.shape.dims
    *taps, channels_out, _ = kernel.shape.dims
    output = mtf.Shape([batch, *(mtf.Dimension(d.name, n) for d, n in zip(space, extents)), channels_out])

    def function(_: int, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        outer = None if output_padding is None else tuple(output_padding)
        return keras.ops.conv_transpose(value, weights, tuple(strides), padding, outer, "channels_last")

    return bilinear(f"conv{len(space)}d_transposed", _Derived(function), x, kernel, output, [*space, *taps])


def convolve_transposed_slabs(
    x: Tensor,
    kernel: Tensor,
    extents: Sequence[int | mtf.Dimension],
    strides: Sequence[int],
    before: Sequence[int],
    along: int,
    held: Sequence[tuple[int, int, int]],
) -> Tensor:
    """Return the transposed convolution of `x` in slabs, [batch, *extents, output channels].

    Each processor spreads out what it has to all positions that it reaches, and keeps those of its slab.

    Parameters
    ----------
    x, kernel, strides : as for `convolve_transposed`; one spatial dimension of `x` in slabs, all that its slab of the output reads.
    extents : (space,) of the output; its dimension where it lies in slabs.
    before : (space,) positions of the output in front of the first that are left out.
    along : number of the spatial dimension in slabs.
    held : (processors,) first position of `x`, and first and last but one of the output, of each.
    """
    batch, *space, _ = x.shape.dims
    *taps, channels_out, _ = kernel.shape.dims
    made, renamed, whole = spatial(space, extents)
    output = mtf.Shape([batch, *made, channels_out])

    def function(pnum: int, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        samples, *reads, _ = value.shape.as_list()
        reached = [(n - 1) * s + k.size for n, s, k in zip(reads, strides, taps)]
        spread = tf.nn.conv_transpose(value, weights, [samples, *reached, weights.shape[-2]], list(strides), "VALID")
        begins, ends = list(before), [b + d.size for b, d in zip(before, made)]
        first, begin, end = held[pnum]
        offset = before[along] - first * strides[along]
        begins[along], ends[along] = begin + offset, end + offset
        return _window_of(spread, begins, ends)

    unsplit = [*whole, *taps]
    return bilinear(f"conv{len(space)}d_transposed", _Derived(function), x, kernel, output, unsplit, renamed)


def _window_of(value: tf.Tensor, begins: Sequence[int], ends: Sequence[int]) -> tf.Tensor:
    """Return [begin, end) of each spatial dimension of [batch, *space, channels], zeros where there is nothing."""
    samples, *extents, channels = value.shape.as_list()
    inside = [(min(max(b, 0), n), min(max(e, 0), n)) for b, e, n in zip(begins, ends, extents)]
    cut = tf.slice(value, [0, *(b for b, _ in inside), 0], [samples, *(e - b for b, e in inside), channels])
    sides = [(i - b, (e - b) - (i - b) - (j - i)) for b, e, (i, j) in zip(begins, ends, inside)]
    return tf.pad(cut, [(0, 0), *sides, (0, 0)]) if any(map(any, sides)) else cut


class Rule(Protocol):
    """A function that is linear in its input and in its kernel, and its gradients, on one processor."""

    def forward(self, p: Processor, x: tf.Tensor, kernel: tf.Tensor, /) -> tf.Tensor: ...

    def input_gradient(self, p: Processor, kernel: tf.Tensor, dy: tf.Tensor, /) -> tf.Tensor: ...

    def kernel_gradient(self, p: Processor, x: tf.Tensor, dy: tf.Tensor, /) -> tf.Tensor: ...


class Direct:
    """TensorFlow's convolution kernels."""

    def __init__(self, rank: int, strides: Sequence[int], padding: str) -> None:
        self._forward, self._to_input, self._to_kernel = KERNELS[rank]
        self._options = {"strides": [1, *strides, 1], "padding": padding}
        self._rank, self._padding, self._has_stride_one = rank, padding, set(strides) == {1}

    def forward(self, _: Processor, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return self._forward(input=value, filter=weights, **self._options)

    def input_gradient(self, p: Processor, weights: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return self._to_input(input_sizes=p.shapes[0], filter=weights, out_backprop=dy, **self._options)

    def kernel_gradient(self, p: Processor, value: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        shape = p.shapes[0]
        form = kernel_form(shape, p.device, dy.dtype) if self._has_stride_one else TENSORFLOW
        if form.over_output:
            return self._over_output(value, dy, shape, form.padded)
        options = self._options
        if form.padded and self._padding == "SAME":
            value, options = pad_sides(value, window_sides(shape[:-2])), {**options, "padding": "VALID"}
        return self._to_kernel(input=value, filter_sizes=shape, out_backprop=dy, **options)

    def _over_output(self, value: tf.Tensor, dy: tf.Tensor, shape: Sequence[int], is_padded: bool) -> tf.Tensor:
        window = shape[:-2]
        if self._padding == "SAME" and not is_padded and all(k % 2 for k in window):
            return Turned(self._rank, "SAME").kernel_gradient(value, dy, shape)
        return Turned(self._rank).kernel_gradient(value, pad_sides(dy, read_sides(window, self._padding)), shape)


class _Derived:
    """A bilinear function of a processor's slices, whose gradients TensorFlow derives; neither needs the value of its own argument."""

    def __init__(self, function: Callable[[int, tf.Tensor, tf.Tensor], tf.Tensor]) -> None:
        self._function = function

    def forward(self, p: Processor, value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(self._function(p.pnum, value, weights), p.shapes[0])

    def input_gradient(self, p: Processor, weights: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        nothing = tf.zeros(p.shapes[0], dy.dtype)
        return tf.ensure_shape(tf.gradients(self._function(p.pnum, nothing, weights), nothing, dy)[0], p.shapes[0])

    def kernel_gradient(self, p: Processor, value: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        nothing = tf.zeros(p.shapes[0], dy.dtype)
        return tf.ensure_shape(tf.gradients(self._function(p.pnum, value, nothing), nothing, dy)[0], p.shapes[0])


def bilinear(
    name: str,
    rule: Rule,
    x: Tensor,
    kernel: Tensor,
    output: mtf.Shape,
    unsplit: Sequence[mtf.Dimension],
    renamed: Renamed = NOT_RENAMED,
) -> Tensor:
    """Return `rule` of `x` and `kernel`: the gradient of the input is computed first, those of kernels one at a time.

    Each is a pending sum over the laid-out dimensions that its result lacks.

    Parameters
    ----------
    rule : the function and its gradients on one processor.
    x, kernel : mtf.Tensor.
    output : mtf.Shape of the result.
    unsplit : dimensions that the function needs whole.
    renamed : as for `compute.compute`.
    """
    named = lambda shape: {renamed.get(d.name, d.name): d for d in shape.dims}  # noqa: E731
    everything = {**named(x.shape), **named(kernel.shape), **named(output)}
    lacking = lambda shape: [d for n, d in everything.items() if n not in named(shape)]  # noqa: E731

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        to_input = Local(
            f"{name}_input_gradient", rule.input_gradient, [kernel, dy], [(x.shape, x.dtype)], summed=lacking(x.shape), unsplit=unsplit
        )
        outputs = [(kernel.shape, kernel.dtype)]
        summed = lacking(kernel.shape)
        read = [read_again(x, dy), dy]
        to_kernel = Local(f"{name}_kernel_gradient", rule.kernel_gradient, read, outputs, summed=summed, unsplit=unsplit, after=to_input)
        return [to_input.outputs[0], to_kernel.outputs[0]]

    summed = lacking(output)
    operation = Local(name, rule.forward, [x, kernel], [(output, x.dtype)], summed=summed, unsplit=unsplit, gradient=gradient)
    return operation.outputs[0]


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
    return tf.reshape(value, [-1, math.prod(extents[len(extents) - features :])])


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """Return `x` [..., units] plus `bias` [units]."""

    def bias_gradient(_: Processor, dy: tf.Tensor) -> tf.Tensor:
        if dy.dtype == tf.bfloat16:  # which TensorFlow's kernel on CPUs adds up in bfloat16: off by 93 % for 100,000 rows
            return tf.reduce_sum(dy, list(range(dy.shape.rank - 1)))
        return tf.raw_ops.BiasAddGrad(out_backprop=dy)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        to_bias = Local("bias_gradient", bias_gradient, [dy], [(bias.shape, bias.dtype)], summed=x.shape.dims[:-1])
        return [dy, to_bias.outputs[0]]

    operation = Local("bias", lambda _, value, offset: tf.nn.bias_add(value, offset), [x, bias], [(x.shape, x.dtype)], gradient=gradient)
    return operation.outputs[0]
