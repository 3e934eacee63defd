"""Depthwise convolution, on slices of the channels or the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.compute import compute

Tensor = Any


def convolve_depthwise(
    x: Tensor, kernel: Tensor, extents: Sequence[int], strides: Sequence[int], padding: str, dilation: Sequence[int], name: str
) -> Tensor:
    """Return the depthwise 1-D or 2-D convolution of `x` with `kernel`, [batch, *extents, channels * multiplier].

    Parameters
    ----------
    x : [batch, *space, channels].
    kernel : [*taps, channels, multiplier]; the channels may be laid out where the multiplier is 1.
    extents : (space,) of the output.
    strides, dilation : (space,).
    padding : "same" or "valid".
    name : name of the output's channels where the multiplier is above 1.
    """
    batch, *space, channels = x.shape.dims
    multiplier = kernel.shape.dims[-1]
    output = channels if multiplier.size == 1 else mtf.Dimension(name, channels.size * multiplier.size)
    shape = mtf.Shape([batch, *(mtf.Dimension(d.name, n) for d, n in zip(space, extents)), output])

    def function(value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        import keras

        return keras.ops.depthwise_conv(value, weights, tuple(strides), padding, "channels_last", tuple(dilation))

    unsplit = [*space, *kernel.shape.dims[:-2], *([channels] if multiplier.size > 1 else [])]
    return compute("depthwise", function, [x, kernel], shape, unsplit=unsplit)
