"""Gradients of convolutions of stride 1 as convolutions of the output's gradient by the kernel turned round.

The gradient of the input is a forward convolution of the output's gradient. That of the kernel may lay windows over the input or over the
output's gradient: in 3-D, oneDNN takes about half the time where windows lie over the one of fewer channels, and with few channels of
both 0.6 of it where that is padded beforehand (`tools.bench.step.kernel_gradients`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

_FEW = 16  # channels
KERNELS = {
    2: (tf.raw_ops.Conv2D, tf.raw_ops.Conv2DBackpropInput, tf.raw_ops.Conv2DBackpropFilter),
    3: (tf.raw_ops.Conv3D, tf.raw_ops.Conv3DBackpropInputV2, tf.raw_ops.Conv3DBackpropFilterV2),
}


class Turned:
    """The gradients of a convolution from that of its output, padded so that windows over it give the positions of the input.

    Parameters
    ----------
    rank : number of spatial dimensions.
    padding : "VALID" where the output's gradient is padded; "SAME" where the convolution is and all extents of its windows are odd.
    """

    def __init__(self, rank: int, padding: str = "VALID") -> None:
        self._forward, _, self._to_kernel = KERNELS[rank]
        self._rank, self._options = rank, {"strides": [1] * (rank + 2), "padding": padding}

    def input_gradient(self, weights: tf.Tensor, read: tf.Tensor) -> tf.Tensor:
        """Return the gradient of the input.

        Parameters
        ----------
        weights : [*taps, input channels, output channels].
        read : the output's gradient.
        """
        return self._forward(input=read, filter=self._turn(weights), **self._options)

    def kernel_gradient(self, value: tf.Tensor, read: tf.Tensor, shape: Sequence[int]) -> tf.Tensor:
        """Return the gradient of the kernel.

        Parameters
        ----------
        value : the input.
        read : the output's gradient.
        shape : of the kernel.
        """
        *taps, channels_in, channels_out = shape
        sizes = [*taps, channels_out, channels_in]
        return self._turn(self._to_kernel(input=read, filter_sizes=sizes, out_backprop=value, **self._options))

    def _turn(self, weights: tf.Tensor) -> tf.Tensor:
        """Return a kernel with its taps in reverse order, and with input and output channels exchanged."""
        taps = list(range(self._rank))
        return tf.transpose(tf.reverse(weights, taps), [*taps, self._rank + 1, self._rank])


def read_sides(window: Sequence[int], padding: str) -> list[tuple[int, int]]:
    """Return by how much the gradient of an output is padded for windows over it to give the positions of the input, by dimension.

    Parameters
    ----------
    window : (space,) positions that a window spans.
    padding : "SAME" or "VALID", of the convolution.

    Examples
    --------
    >>> read_sides([3, 2], "SAME"), read_sides([3, 2], "VALID")
    ([(1, 1), (1, 0)], [(2, 2), (1, 1)])
    """
    if padding == "SAME":
        return [(after, before) for before, after in window_sides(window)]
    return [(k - 1, k - 1) for k in window]


def window_sides(window: Sequence[int]) -> list[tuple[int, int]]:
    """Return the positions before and after its own that a window of padding "same" and stride 1 spans, by dimension.

    Parameters
    ----------
    window : (space,) positions that a window spans.
    """
    return [((k - 1) // 2, k // 2) for k in window]


def pad_sides(value: tf.Tensor, sides: Sequence[tuple[int, int]]) -> tf.Tensor:
    """Return [batch, *space, channels] with zeros before and after each spatial dimension.

    Parameters
    ----------
    value : the tensor.
    sides : (space,) zeros before and after.
    """
    return tf.pad(value, [(0, 0), *sides, (0, 0)])


class KernelForm(NamedTuple):
    """How the gradient of a convolution's kernel is computed.

    Parameters
    ----------
    over_output : whether windows lie over the output's gradient, instead of the input.
    padded : whether what they lie over is padded beforehand, instead of by the kernel of TensorFlow.
    """

    over_output: bool
    padded: bool


TENSORFLOW = KernelForm(over_output=False, padded=False)  # its own form


def has_forms(shape: Sequence[int], device: str, dtype: tf.DType) -> bool:
    """Return whether the forms of a kernel's gradient differ in time as measured: in 3-D on CPUs.

    Parameters
    ----------
    shape : of the kernel, [*taps, input channels, output channels].
    device : TensorFlow device string of the device that computes it.
    dtype : of its tensors; half types are left as they are, as their kernels' sums are rounded otherwise.
    """
    return len(shape) == 5 and dtype in (tf.float32, tf.float64) and tf.DeviceSpec.from_string(device).device_type == "CPU"


def kernel_form(shape: Sequence[int], device: str, dtype: tf.DType) -> KernelForm:
    """Return the form of a kernel's gradient that takes least time, for strides of 1; that of TensorFlow where no other is faster.

    Parameters
    ----------
    shape, device, dtype : as for `has_forms`.
    """
    if not has_forms(shape, device, dtype):
        return TENSORFLOW
    *taps, channels_in, channels_out = shape
    fewer, more = sorted((channels_in, channels_out))
    return KernelForm(channels_in > channels_out, padded=max(taps) > 1 and more <= _FEW and more < 2 * fewer)
