"""Statistics of each sample over channels that may be laid out: what layer and group normalisation divide by.

The statistics are one tensor [2, ...], mean and variance, so that their gradient is one pending sum. In the forward pass processors
exchange two numbers for each mean they share, in the backward pass they add up two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.local import Local, Processor

TWO = "statistics"


def layer_statistics(x: Tensor, count: int, parts: mtf.Dimension) -> Tensor:
    """Return [2, batch, ...]: mean and variance of `x` over its last `count` dimensions, of which one is laid out.

    Each processor has the mean m_i and the sum of squared deviations M_i of its n_i values; these are gathered, and

        mean = sum_i n_i m_i / n,   variance = (sum_i M_i + n_i (m_i - mean)^2) / n,   n = sum_i n_i,

    which avoids cancellation.

    Parameters
    ----------
    x : [batch, ..., channels].
    count : dimensions that the statistics are over.
    parts : dimension with one unit on each processor of that dimension's mesh axis.

    References
    ----------
    Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    """
    outer, inner = x.shape.dims[:-count], x.shape.dims[-count:]
    axes = list(range(-count, 0))
    total = math.prod(d.size for d in inner)
    three, two = mtf.Dimension(f"{TWO}:parts", 3), mtf.Dimension(TWO, 2)

    def own(_: Processor, value: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_mean(value, axes, keepdims=True)
        deviation = tf.reduce_sum(tf.math.squared_difference(value, mean), axes)
        number = tf.fill(deviation.shape, tf.constant(math.prod(value.shape[-count:]), value.dtype))
        return tf.stack([tf.squeeze(mean, axes), deviation, number])[tf.newaxis]

    def joint(_: Processor, every: tf.Tensor) -> tf.Tensor:
        return _joint_moments(every, total)

    def backward(_: Processor, value: tf.Tensor, both: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        # d mean / dx = 1 / n and d variance / dx = 2 (x - mean) / n: what the variance owes to the mean is 0, as sum (x - mean) = 0
        mean, dmean, dvariance = (tf.reshape(each, [*each.shape, *(1 for _ in axes)]) for each in (both[0], dy[0], dy[1]))
        return (dmean + 2.0 * dvariance * (value - mean)) / total

    own_shape = mtf.Shape([parts, three, *outer])
    gathered = mtf.Shape([mtf.Dimension(f"{parts.name}:all", parts.size), three, *outer])
    return _statistics(x, "layer_statistics", own, own_shape, gathered, joint, mtf.Shape([two, *outer]), backward)


def group_statistics(x: Tensor, groups: int) -> Tensor:
    """Return [2, batch, channels]: for each channel mean and variance over all positions and the channels of its group.

    Processors gather the mean and the mean squared deviation of each channel. The variance of a group is the mean of its channels'
    variances plus the variance of their means. So a group may lie on several processors.

    Parameters
    ----------
    x : [batch, *space, channels], channels in any layout, positions whole.
    groups : number of groups; as many as channels need no exchange.
    """
    batch, *space, channels = x.shape.dims
    two, axes = mtf.Dimension(TWO, 2), list(range(1, 1 + len(space)))
    size = channels.size // groups
    positions = math.prod(d.size for d in space)
    alone = size == 1

    def own(_: Processor, value: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_mean(value, axes)
        return tf.stack([mean, tf.reduce_mean(tf.math.squared_difference(value, tf.reduce_mean(value, axes, keepdims=True)), axes)])

    def of_groups(each: tf.Tensor) -> tf.Tensor:
        return tf.reshape(each, [each.shape[0], groups, size])

    def of_channels(p: Processor, each: tf.Tensor) -> tf.Tensor:
        """Return the own channels' part of a number for each group."""
        begin, extent = p.begins[0][-1], p.shapes[0][-1]
        return tf.repeat(each, size, axis=-1)[..., begin : begin + extent]

    def joint(p: Processor, every: tf.Tensor) -> tf.Tensor:
        # all channels have as many values, so both means over channels are without weights
        means, variances = of_groups(every[0]), of_groups(every[1])
        mean = tf.reduce_mean(means, -1)
        variance = tf.reduce_mean(variances + tf.math.squared_difference(means, mean[..., tf.newaxis]), -1)
        return tf.stack([of_channels(p, mean), of_channels(p, variance)])

    def backward(p: Processor, value: tf.Tensor, both: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        if not alone:
            dy = tf.stack([of_channels(p, tf.reduce_sum(of_groups(each), -1)) for each in (dy[0], dy[1])])
        ones = [1 for _ in space]
        mean, dmean, dvariance = (tf.reshape(each, [each.shape[0], *ones, each.shape[1]]) for each in (both[0], dy[0], dy[1]))
        return (dmean + 2.0 * dvariance * (value - mean)) / (positions * size)

    own_shape = mtf.Shape([two, batch, channels])
    gathered = mtf.Shape([two, batch, mtf.Dimension(f"{channels.name}:all", channels.size)])
    return _statistics(x, "group_statistics", own, own_shape, gathered, None if alone else joint, own_shape, backward)


def slab_group_statistics(x: Tensor, groups: int, parts: mtf.Dimension) -> Tensor:
    """Return [2, batch, channels] as `group_statistics` does, of positions in slabs and whole channels.

    Parameters
    ----------
    x : [batch, *space, channels], one spatial dimension laid out.
    groups : number of groups.
    parts : dimension with one unit on each processor of that dimension's mesh axis.
    """
    batch, *space, channels = x.shape.dims
    three, two = mtf.Dimension(f"{TWO}:parts", 3), mtf.Dimension(TWO, 2)
    size = channels.size // groups
    total = math.prod(d.size for d in space) * size

    def own(_: Processor, value: tf.Tensor) -> tf.Tensor:
        samples, *extents, _ = value.shape.as_list()
        apart = tf.reshape(value, [samples, math.prod(extents), groups, size])
        mean = tf.reduce_mean(apart, [1, 3], keepdims=True)
        deviation = tf.reduce_sum(tf.math.squared_difference(apart, mean), [1, 3])
        number = tf.fill(deviation.shape, tf.constant(math.prod(extents) * size, value.dtype))
        return tf.stack([tf.squeeze(mean, [1, 3]), deviation, number])[tf.newaxis]

    def joint(_: Processor, every: tf.Tensor) -> tf.Tensor:
        return tf.repeat(_joint_moments(every, total), size, axis=-1)

    def backward(_: Processor, value: tf.Tensor, both: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        of_groups = tf.reduce_sum(tf.reshape(dy, [2, dy.shape[1], groups, size]), -1)
        read = both[0], *tf.unstack(tf.repeat(of_groups, size, axis=-1))
        mean, dmean, dvariance = (tf.reshape(each, [each.shape[0], *(1 for _ in space), each.shape[1]]) for each in read)
        return (dmean + 2.0 * dvariance * (value - mean)) / total

    of_groups = mtf.Dimension("groups", groups)
    own_shape = mtf.Shape([parts, three, batch, of_groups])
    gathered = mtf.Shape([mtf.Dimension(f"{parts.name}:all", parts.size), three, batch, of_groups])
    return _statistics(x, "group_statistics", own, own_shape, gathered, joint, mtf.Shape([two, batch, channels]), backward)


def _joint_moments(every: tf.Tensor, total: int) -> tf.Tensor:
    """Return mean and variance, from means, sums of squared deviations and numbers of values of the parts [parts, 3, ...]."""
    means, deviations, numbers = every[:, 0], every[:, 1], every[:, 2]  # a processor without values has zeros
    mean = tf.reduce_sum(numbers * means, 0) / total
    spread = tf.reduce_sum(deviations + numbers * tf.math.squared_difference(means, mean), 0)
    return tf.stack([mean, spread / total])


def _statistics(x: Tensor, name: str, own: Any, own_shape: mtf.Shape, gathered: Any, joint: Any, shape: mtf.Shape, backward: Any) -> Tensor:
    """Return statistics: `own` of each processor's slice, gathered, and `joint` of them; without `joint`, the processor's own.

    Their gradient arrives in the form of `shape`; where that has the channels, it is gathered as the forward pass gathers them.
    """

    def gradient(operation: Local, dy: Tensor) -> Sequence[Tensor | None]:
        read = mtf.reshape(dy, gathered) if joint is not None and own_shape == shape else dy
        results = Local(f"{name}_gradient", backward, [x, operation.outputs[0], read], [(x.shape, x.dtype)]).outputs
        return [*results, *(None for _ in operation.inputs[1:])]

    if joint is None:
        return Local(name, own, [x], [(shape, x.dtype)], gradient=gradient).outputs[0]
    every = mtf.reshape(Local(f"{name}_own", own, [x], [(own_shape, x.dtype)]).outputs[0], gathered)
    return Local(name, lambda p, _, each: joint(p, each), [x, every], [(shape, x.dtype)], gradient=gradient).outputs[0]


def sum_of_squares(x: Tensor, count: int) -> Tensor:
    """Return [batch, ...]: the sums of squares over the last `count` dimensions, pending where one is laid out.

    Parameters
    ----------
    x : [batch, ..., *channels].
    """
    axes = list(range(-count, 0))
    return compute("squares", lambda value: tf.reduce_sum(tf.square(value), axes), [x], mtf.Shape(x.shape.dims[:-count]))
