"""Pooling over space, overlapping windows included, and other operations on the spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import keras
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.halo import read_again
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.output_space import spatial

NO_SLABS: Mapping[int, mtf.Dimension] = MappingProxyType({})
_WITHOUT_KERNELS = (tf.float64, tf.float16)  # TensorFlow has none to pool volumes in these


def pool(
    x: Tensor, mode: str, window: Sequence[int], strides: Sequence[int], padding: str, slabs: Mapping[int, mtf.Dimension] = NO_SLABS
) -> Tensor:
    """Return the maxima or means of windows of `x`.

    Ties and padding are TensorFlow's: the first maximum gets the gradient, padded elements do not
    count in a mean.

    Parameters
    ----------
    x : [batch, *space, channels], one to three spatial dimensions, whole.
    mode : "max" or "average".
    window, strides : (space,).
    padding : "SAME" or "VALID".
    slabs : number of a spatial dimension -> that of the output in its place, where each processor has all that its slab reads ("VALID").

    Notes
    -----
    TensorFlow has no 3-D kernels for float64 and float16: there height and width are pooled first, depth after.
    """
    batch, *space, channels = x.shape.dims
    extents = [-(-n.size // s) if padding == "SAME" else -(-(n.size - k + 1) // s) for n, k, s in zip(space, window, strides)]
    made, renamed, whole = spatial(space, [slabs.get(at, n) for at, n in enumerate(extents)])
    output, space = mtf.Shape([batch, *made, channels]), whole
    if len(extents) == 3 and x.dtype in _WITHOUT_KERNELS:
        return compute(f"{mode}_pool", _in_two(mode, window, strides, padding), [x], output, unsplit=space, renamed=renamed)
    if len(extents) == 1:
        return compute(f"{mode}_pool", _of_steps(mode, window, strides, padding), [x], output, unsplit=space, renamed=renamed)
    rule = _Pool(mode, len(extents), window, strides, padding)

    def gradient(operation: Local, dy: Tensor) -> Sequence[Tensor]:
        function = rule.max_gradient if mode == "max" else rule.average_gradient
        inputs = [read_again(x, dy), operation.outputs[0], dy] if mode == "max" else [dy]
        return Local(f"{mode}_pool_gradient", function, inputs, [(x.shape, x.dtype)], unsplit=space).outputs

    return Local(f"{mode}_pool", rule.forward, [x], [(output, x.dtype)], unsplit=space, gradient=gradient).outputs[0]


_MAX = {2: (tf.raw_ops.MaxPool, tf.raw_ops.MaxPoolGrad), 3: (tf.raw_ops.MaxPool3D, tf.raw_ops.MaxPool3DGrad)}
_AVERAGE = {2: (tf.raw_ops.AvgPool, tf.raw_ops.AvgPoolGrad), 3: (tf.raw_ops.AvgPool3D, tf.raw_ops.AvgPool3DGrad)}


class _Pool:
    """TensorFlow's pooling kernels on one processor."""

    def __init__(self, mode: str, rank: int, window: Sequence[int], strides: Sequence[int], padding: str) -> None:
        self.mode = mode
        self._forward, self._backward = (_MAX if mode == "max" else _AVERAGE)[rank]
        self._value = "value" if mode == "average" and rank == 2 else "input"
        self._options = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}

    def forward(self, _: Processor, value: tf.Tensor) -> tf.Tensor:
        return self._forward(**{self._value: value}, **self._options)

    def max_gradient(self, _: Processor, value: tf.Tensor, y: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return self._backward(orig_input=value, orig_output=y, grad=dy, **self._options)

    def average_gradient(self, p: Processor, dy: tf.Tensor) -> tf.Tensor:
        return self._backward(orig_input_shape=p.shapes[0], grad=dy, **self._options)


def _of_steps(mode: str, window: Sequence[int], strides: Sequence[int], padding: str) -> Callable[[tf.Tensor], tf.Tensor]:
    kernel = tf.nn.max_pool1d if mode == "max" else tf.nn.avg_pool1d
    return lambda value: kernel(value, window[0], strides[0], padding)


def _in_two(mode: str, window: Sequence[int], strides: Sequence[int], padding: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a 3-D pool as two 2-D pools: of height and width, with depth as samples, and of depth, with all positions in one row."""
    kernel = tf.nn.max_pool2d if mode == "max" else tf.nn.avg_pool2d

    def function(value: tf.Tensor) -> tf.Tensor:
        samples, depth, height, width, channels = value.shape.as_list()
        flat = kernel(tf.reshape(value, [samples * depth, height, width, channels]), window[1:], strides[1:], padding)
        *_, height, width, _ = flat.shape.as_list()
        deep = kernel(tf.reshape(flat, [samples, depth, height * width, channels]), [window[0], 1], [strides[0], 1], padding)
        return tf.reshape(deep, [samples, deep.shape[1], height, width, channels])

    return function


def mean_over_space(x: Tensor) -> Tensor:
    """Return the means of `x` [batch, *space, channels] over its spatial dimensions, [batch, channels]."""
    batch, *space, channels = x.shape.dims
    axes = list(range(1, 1 + len(space)))
    count = math.prod(dimension.size for dimension in space)

    def forward(_: Processor, value: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(value, axes)

    def backward(p: Processor, dy: tf.Tensor) -> tf.Tensor:
        narrow = [n if i not in axes else 1 for i, n in enumerate(p.shapes[0])]
        return tf.broadcast_to(tf.reshape(dy / count, narrow), p.shapes[0])

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("mean_over_space_gradient", backward, [dy], [(x.shape, x.dtype)], unsplit=space).outputs

    output = mtf.Shape([batch, channels])
    return Local("mean_over_space", forward, [x], [(output, x.dtype)], unsplit=space, gradient=gradient).outputs[0]


def pad_space(x: Tensor, padding: Sequence[Sequence[int]], fill: float = 0.0, *, rematerialized: bool = False) -> Tensor:
    """Return `x` [batch, *space, channels] with zeros before and after each spatial dimension.

    Parameters
    ----------
    padding : (space, 2) zeros before and after; where there are none the dimension may lie in slabs.
    fill : what is there instead of zeros.
    rematerialized : as for `Local`.
    """
    batch, *space, channels = x.shape.dims
    wider = [mtf.Dimension(d.name, d.size + sum(sides)) for d, sides in zip(space, padding)]
    padded = [d for d, sides in zip(space, padding) if any(sides)]
    paddings = [[0, 0], *(list(sides) for sides in padding), [0, 0]]

    def forward(_: Processor, value: tf.Tensor) -> tf.Tensor:
        return tf.pad(value, paddings, constant_values=tf.constant(fill, value.dtype))

    def backward(p: Processor, dy: tf.Tensor) -> tf.Tensor:
        return tf.slice(dy, [before for before, _ in paddings], p.shapes[0])

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("pad_gradient", backward, [dy], [(x.shape, x.dtype)], unsplit=padded).outputs

    output = mtf.Shape([batch, *wider, channels])
    outputs = [(output, x.dtype)]
    return Local("pad", forward, [x], outputs, unsplit=padded, gradient=gradient, rematerialized=rematerialized).outputs[0]


def crop_space(x: Tensor, cropping: Sequence[Sequence[int]]) -> Tensor:
    """Return `x` [batch, *space, channels] without positions at the ends of each spatial dimension.

    Parameters
    ----------
    cropping : (space, 2) positions left out before and after; where there are none the dimension may lie in slabs.
    """
    batch, *space, channels = x.shape.dims
    narrower = [mtf.Dimension(d.name, d.size - sum(sides)) for d, sides in zip(space, cropping)]
    cropped = [d for d, sides in zip(space, cropping) if any(sides)]
    begins = [0, *(before for before, _ in cropping), 0]

    def function(value: tf.Tensor) -> tf.Tensor:
        left = [n - sum(sides) for n, sides in zip(value.shape[1:-1], cropping)]
        return tf.slice(value, begins, [value.shape[0], *left, value.shape[-1]])

    return compute("crop", function, [x], mtf.Shape([batch, *narrower, channels]), unsplit=cropped)


def repeated(size: Sequence[int]) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the function that repeats each position of [batch, *space, channels] `size` times along each spatial dimension."""

    def function(value: tf.Tensor) -> tf.Tensor:
        for axis, times in enumerate(size, 1):
            shape = value.shape.as_list()
            apart = tf.reshape(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
            value = tf.broadcast_to(apart, [*shape[: axis + 1], times, *shape[axis + 1 :]])
            value = tf.reshape(value, [*shape[:axis], shape[axis] * times, *shape[axis + 1 :]])
        return value

    return function


def resized(extents: Sequence[int], interpolation: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the function that resizes [batch, height, width, channels] to `extents` as Keras does (in float32, whatever the dtype)."""

    def function(value: tf.Tensor) -> tf.Tensor:
        return keras.ops.image.resize(value, tuple(extents), interpolation, data_format="channels_last")

    return function


def concatenate(inputs: Sequence[Tensor], dimension: mtf.Dimension, *, rematerialized: bool = False) -> Tensor:
    """Return the concatenation of `inputs` along their last dimensions, all whole, into `dimension`; see `Local` for `rematerialized`."""
    last = [x.shape.dims[-1] for x in inputs]
    output = mtf.Shape([*inputs[0].shape.dims[:-1], dimension])

    def forward(_: Processor, *values: tf.Tensor) -> tf.Tensor:
        return tf.concat(values, -1)

    def backward(_: Processor, dy: tf.Tensor) -> Sequence[tf.Tensor]:
        return tf.split(dy, [d.size for d in last], -1)

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("concatenate_gradient", backward, [dy], [(x.shape, x.dtype) for x in inputs], unsplit=[*last, dimension]).outputs

    outputs, unsplit = [(output, inputs[0].dtype)], [*last, dimension]
    return Local("concatenate", forward, inputs, outputs, unsplit=unsplit, gradient=gradient, rematerialized=rematerialized).outputs[0]
