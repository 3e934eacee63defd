"""Convolutions in groups of channels, the depthwise ones on slices of the channels or the batch."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.output_space import spatial


def convolve_depthwise(
    x: Tensor,
    kernel: Tensor,
    extents: Sequence[int | mtf.Dimension],
    strides: Sequence[int],
    padding: str,
    dilation: Sequence[int],
    name: str,
) -> Tensor:
    """Return the depthwise 1-D or 2-D convolution of `x` with `kernel`, [batch, *extents, channels * multiplier].

    Parameters
    ----------
    x : [batch, *space, channels].
    kernel : [*taps, channels, multiplier]; the channels may be laid out where the multiplier is 1.
    extents : (space,) of the output; a dimension where it lies in slabs.
    strides, dilation : (space,).
    padding : "same" or "valid".
    name : name of the output's channels where the multiplier is above 1.
    """
    batch, *space, channels = x.shape.dims
    multiplier = kernel.shape.dims[-1]
    output = channels if multiplier.size == 1 else mtf.Dimension(name, channels.size * multiplier.size)
    made, renamed, whole = spatial(space, extents)
    shape = mtf.Shape([batch, *made, output])

    def function(value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return keras.ops.depthwise_conv(value, weights, tuple(strides), padding, "channels_last", tuple(dilation))

    unsplit = [*whole, *kernel.shape.dims[:-2], *([channels] if multiplier.size > 1 else [])]
    return compute("depthwise", function, [x, kernel], shape, unsplit=unsplit, renamed=renamed)


def convolve_apart(
    x: Tensor, kernel: Tensor, extents: Sequence[int | mtf.Dimension], strides: Sequence[int], padding: str, dilation: Sequence[int]
) -> Tensor:
    """Return the convolution of each channel of `x` with its own kernel, [batch, *extents, channels], in any layout of the channels.

    Parameters
    ----------
    x : [batch, *space, channels].
    kernel : [*taps, 1, channels], the kernel of a convolution with as many groups as channels and filters.
    extents, strides, dilation : (space,); of the extents a dimension where it lies in slabs.
    padding : "SAME" or "VALID".
    """
    batch, *space, channels = x.shape.dims
    made, renamed, whole = spatial(space, extents)
    shape = mtf.Shape([batch, *made, channels])

    def function(value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        return convolved_in_groups(value, weights, value.shape[-1], strides, padding, dilation)

    unsplit = [*whole, *kernel.shape.dims[:-1]]
    return compute("apart", function, [x, kernel], shape, unsplit=unsplit, renamed=renamed)


def convolved_in_groups(
    value: tf.Tensor, weights: tf.Tensor, groups: int, strides: Sequence[int], padding: str, dilation: Sequence[int]
) -> tf.Tensor:
    """Return the convolution in groups of channels, each with its own filters.

    Parameters
    ----------
    value : (batch, *space, channels).
    weights : (*taps, channels / groups, filters), the filters of a group side by side.
    groups : number of groups.
    strides, dilation : (space,); an empty dilation is 1.
    padding : "SAME" or "VALID".

    Notes
    -----
    TensorFlow's kernels for CPUs have no gradients of groups. One channel a group is a depthwise convolution, which it has in one and two
    dimensions with equal strides; else there is a convolution for each group.
    """
    rank = value.shape.rank - 2
    if weights.shape[-2] == 1 and rank <= 2 and len(set(strides)) == 1:
        apart = tf.reshape(weights, [*weights.shape[:-2], groups, weights.shape[-1] // groups])
        return keras.ops.depthwise_conv(value, apart, tuple(strides), padding.lower(), "channels_last", tuple(dilation or [1] * rank))
    pairs = zip(tf.split(value, groups, -1), tf.split(weights, groups, -1))
    return tf.concat([tf.nn.convolution(v, w, list(strides), padding, dilations=list(dilation) or None) for v, w in pairs], -1)
