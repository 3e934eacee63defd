"""Operations for layers with kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.layers import kind_of
from hetero_mtf.layers.windowed.window import dilated
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.compute_once import compute_once
from hetero_mtf.mesh.operations.convolution import conv, depthwise
from hetero_mtf.mesh.operations.convolution.conv_in_slabs import convolve_slabs
from hetero_mtf.mesh.operations.local import Processor
from hetero_mtf.program.ops.slab_windows import WindowOps
from hetero_mtf.program.ops.value import Value


class KernelOps(WindowOps):
    """Convolutions, matrix product and bias."""

    def convolve(
        self, x: Value, kernel: str, strides: Sequence[int], padding: str, dilation_rate: Sequence[int] = (), groups: int = 1
    ) -> Value:
        """Return the convolution of `x` with the layer's variable `kernel`, in the layer's output shape."""
        *taps, channels_in, filters = self.shape_of(kernel)
        own = x.channels if groups == 1 else mtf.Dimension("group", channels_in)
        variable = self.parameter(kernel, [*_taps(taps), own, self.output_dimension(filters)])
        slabs = self.output_slabs
        if slabs is not None and kind_of(self.layer).pads_slabs(self.layer.attributes):
            return Value(convolve_slabs(x.tensor, variable, self.output_space(), slabs.dimension, self.halos(), self.mirrored(x, taps)))
        read, extents, padding = self.windows(x, dilated(taps, dilation_rate or [1] * len(taps)), strides, padding)
        y = conv.convolve(read, variable, extents, strides, padding, dilation_rate, groups)
        return Value(y, self.output_sizes)

    def convolve_apart(self, x: Value, kernel: str, strides: Sequence[int], padding: str, dilation_rate: Sequence[int]) -> Value:
        """Return the convolution of `x` in as many groups as it has channels and filters; channels may be split."""
        *taps, _, _ = self.shape_of(kernel)
        variable = self.parameter(kernel, [*_taps(taps), mtf.Dimension("group", 1), x.channels])
        read, extents, padding = self.windows(x, dilated(taps, dilation_rate or [1] * len(taps)), strides, padding)
        y = depthwise.convolve_apart(read, variable, extents, strides, padding, dilation_rate)
        return Value(y, x.sizes)

    def convolve_transposed(
        self, x: Value, kernel: str, strides: Sequence[int], padding: str, output_padding: Sequence[int] | None
    ) -> Value:
        """Return the transposed convolution of `x` with the layer's variable `kernel`."""
        *taps, filters, _ = self.shape_of(kernel)
        variable = self.parameter(kernel, [*_taps(taps), self.output_dimension(filters), x.channels])
        slabs, extents = self.output_slabs, self.output_space()
        if slabs is None:
            y = conv.convolve_transposed(x.tensor, variable, self.layer.output_shape[:-1], strides, padding, output_padding)
        else:
            reach = self.reach
            held = self.held(reach[slabs.dimension])
            y = conv.convolve_transposed_slabs(x.tensor, variable, extents, strides, [r.before for r in reach], slabs.dimension, held)
        return Value(y, self.output_sizes)

    def convolve_depthwise(self, x: Value, kernel: str, strides: Sequence[int], padding: str, dilation_rate: Sequence[int]) -> Value:
        """Return the convolution of each channel of `x` with its own part of the layer's variable `kernel`."""
        *taps, _, multiplier = self.shape_of(kernel)
        variable = self.parameter(kernel, [*_taps(taps), x.channels, mtf.Dimension("multiplier", multiplier)])
        read, extents, padding = self.windows(x, dilated(taps, dilation_rate), strides, padding)
        name = f"layer{self.index}:depth"
        y = depthwise.convolve_depthwise(read, variable, extents, strides, padding.lower(), dilation_rate, name)
        return Value(y, x.sizes)

    def multiply_matrix(self, x: Value, kernel: str) -> Value:
        """Return `x` times the layer's variable `kernel` over the channels."""
        units = self.output_dimension(self.layer.units)
        return Value(conv.multiply_matrix(x.tensor, self.parameter(kernel, [*x.feature_dims, units])), self.output_sizes)

    def look_up(self, x: Value, table: str) -> Value:
        """Return the rows of the layer's variable `table` [numbers, units] that the whole numbers `x` [batch, ...] name."""
        batch, *outer = x.tensor.shape.dims
        count, _ = self.shape_of(table)
        units = self.output_dimension(self.layer.units)
        space = [mtf.Dimension(f"space{i}", d.size) for i, d in enumerate(outer)]
        numbers = mtf.reshape(x.tensor, mtf.Shape([batch, *space]))
        variable = self.parameter(table, [mtf.Dimension("numbers", count), units])

        def function(_: Processor, value: tf.Tensor, rows: tf.Tensor, *zeros: tf.Tensor) -> list[tf.Tensor]:
            places = value if value.dtype.is_integer else tf.cast(value, tf.int32)
            return [looked_up(rows, places, *zeros) if zeros else tf.gather(rows, places)]

        shape = mtf.Shape([batch, *space, units])
        inputs = [numbers, variable, *self.row_squares_of(table, variable.shape)]
        (y,) = compute_once("look_up", function, inputs, [(shape, self.dtype)], unsplit=space)
        return Value(y, self.output_sizes)

    def add_bias(self, x: Value, bias: str) -> Value:
        """Return `x` plus the layer's variable `bias` [channels]."""
        return dataclasses.replace(x, tensor=conv.add_bias(x.tensor, self.parameter(bias, [x.channels])))


def looked_up(rows: tf.Tensor, places: tf.Tensor, zeros: tf.Tensor) -> tf.Tensor:
    """Return rows of a table; the gradient of `zeros`, of the table's shape, is the sum of the squared gradients of each row's occurrences.

    Parameters
    ----------
    rows : [numbers, units] table.
    places : [...] whole numbers.
    zeros : [numbers, units].
    """

    @tf.custom_gradient
    def look_up(table: tf.Tensor, nothing: tf.Tensor) -> Any:
        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            count, units = table.shape
            flat, at = tf.reshape(dy, [-1, units]), tf.reshape(places, [-1])
            squares = tf.square(tf.cast(flat, nothing.dtype))
            return tf.math.unsorted_segment_sum(flat, at, count), tf.math.unsorted_segment_sum(squares, at, count)

        return tf.gather(table, places), gradient

    return look_up(rows, zeros)


def _taps(extents: Sequence[int]) -> list[Any]:
    return [mtf.Dimension(f"tap{i}", n) for i, n in enumerate(extents)]
