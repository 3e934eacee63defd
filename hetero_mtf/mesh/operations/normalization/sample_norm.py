"""Statistics of each sample over channels that may be laid out: what layer and group normalisation divide by.

The statistics are one tensor [2, ...], mean and variance, so that their gradient is one pending sum. In the forward pass processors
exchange two numbers for each mean they share, in the backward pass they add up two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


def normalize_groups(
    x: Tensor, scales: Mapping[str, Tensor], groups: int, epsilon: float, parts: mtf.Dimension | None = None
) -> Tensor:
    """Return `x` normalised over all positions and the channels of each of `groups` groups, times gamma and plus beta.

    With F = gamma / sqrt(variance + epsilon) and, over the positions of a sample and channel, s = sum dy and t = sum dy (x - mean),

        dbeta = sum s,   dgamma = sum t / sqrt(variance + epsilon),   dx = dy F - (sum gamma s + (x - mean) sum gamma t / (variance +
        epsilon)) / (n sqrt(variance + epsilon)),

    the latter sums over the channels of the group, n its values. Of a tensor in slabs, processors gather mean and squared deviations of
    their own positions (`layer_statistics`), and add s and t up.

    Parameters
    ----------
    x : [batch, *space, channels], channels whole.
    scales : "gamma" and "beta" -> [channels], as far as there are any.
    groups : number of groups.
    epsilon : added to the variance.
    parts : dimension with one unit on each processor of the mesh axis of the slabs; None where space is whole.

    References
    ----------
    Wu, He, "Group normalization", ECCV 2018.
    """
    _, *space, channels = x.shape.dims
    rule = _Groups(math.prod(d.size for d in space), groups, channels.size // groups, epsilon)
    statistics = rule.statistics(x, parts)
    names, tensors = list(scales), list(scales.values())
    unsplit = [channels, *(space if parts is None else [])]

    def forward(_: Processor, value: tf.Tensor, both: tf.Tensor, *scaling: tf.Tensor) -> tf.Tensor:
        of = dict(zip(names, scaling))
        factor = tf.math.rsqrt(both[1] + epsilon)
        factor = factor * of["gamma"] if "gamma" in of else factor
        normal = (value - _over(both[0], value)) * _over(factor, value)
        return normal + of["beta"] if "beta" in of else normal

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor | None]:
        sums = Local("group_norm_sums", rule.sums, [x, statistics, dy], [(statistics.shape, x.dtype)], summed=space).outputs[0]
        # reading the sums does their all-reduce: dx needs those of all positions
        gamma = [scales["gamma"]] if "gamma" in scales else []
        dx = Local("group_norm_gradient", rule.backward, [x, statistics, dy, sums, *gamma], [(x.shape, x.dtype)]).outputs[0]
        outputs = [(tensor.shape, x.dtype) for tensor in tensors]
        to_scales = lambda _, both, summed: [rule.of_scale(name, both, summed) for name in names]  # noqa: E731
        of_scales = Local("group_norm_scales", to_scales, [statistics, sums], outputs, summed=x.shape.dims[:1]).outputs if names else []
        return [dx, None, *of_scales]

    inputs = [x, statistics, *tensors]
    return Local("group_norm", forward, inputs, [(x.shape, x.dtype)], unsplit=unsplit, gradient=gradient).outputs[0]


class _Groups:
    """Statistics of groups of channels over all positions, and their gradients, on one processor.

    Parameters
    ----------
    positions : of the whole tensor.
    groups, size : number of groups, and channels of each.
    epsilon : added to the variance.
    """

    def __init__(self, positions: int, groups: int, size: int, epsilon: float) -> None:
        self.groups, self.size, self.epsilon = groups, size, epsilon
        self.total = positions * size

    def statistics(self, x: Tensor, parts: mtf.Dimension | None) -> Tensor:
        """Return [2, batch, channels]: for each channel mean and variance of its group."""
        shape = mtf.Shape([mtf.Dimension(TWO, 2), x.shape.dims[0], x.shape.dims[-1]])
        if parts is None:
            whole = lambda _, value: self._of_channels(_joint_moments(self._own(value), self.total))  # noqa: E731
            return Local("group_statistics", whole, [x], [(shape, x.dtype)]).outputs[0]
        inner = [mtf.Dimension(f"{TWO}:parts", 3), x.shape.dims[0], mtf.Dimension("groups", self.groups)]
        own = Local("group_statistics_own", lambda _, value: self._own(value), [x], [(mtf.Shape([parts, *inner]), x.dtype)]).outputs[0]
        every = mtf.reshape(own, mtf.Shape([mtf.Dimension(f"{parts.name}:all", parts.size), *inner]))
        joint = lambda _, each: self._of_channels(_joint_moments(each, self.total))  # noqa: E731
        return Local("group_statistics", joint, [every], [(shape, x.dtype)]).outputs[0]

    def _own(self, value: tf.Tensor) -> tf.Tensor:
        """Return [1, 3, batch, groups]: mean, sum of squared deviations and number of values of a slice."""
        samples, *extents, channels = value.shape.as_list()
        axes, count = list(range(1, 1 + len(extents))), math.prod(extents)
        # of channels first: TensorFlow sums over neighbouring dimensions in one pass
        mean = tf.reduce_mean(value, axes, keepdims=True)
        deviation = tf.reduce_sum(tf.math.squared_difference(value, mean), axes)
        means, deviations = (tf.reshape(each, [samples, self.groups, self.size]) for each in (mean, deviation))
        joint = tf.reduce_mean(means, -1)
        spread = tf.reduce_sum(deviations + count * tf.math.squared_difference(means, joint[..., tf.newaxis]), -1)
        number = tf.fill(joint.shape, tf.constant(count * self.size, value.dtype))
        return tf.stack([joint, spread, number])[tf.newaxis]

    def _of_channels(self, of_groups: tf.Tensor) -> tf.Tensor:
        return tf.repeat(of_groups, self.size, axis=-1) if self.size > 1 else of_groups

    def sums(self, _: Processor, value: tf.Tensor, both: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        """Return [2, batch, channels]: the sums of dy (x - mean), and of dy."""
        axes = list(range(1, value.shape.rank - 1))
        return tf.stack([tf.reduce_sum(dy * (value - _over(both[0], value)), axes), tf.reduce_sum(dy, axes)])

    def backward(
        self, _: Processor, value: tf.Tensor, both: tf.Tensor, dy: tf.Tensor, sums: tf.Tensor, gamma: tf.Tensor | None = None
    ) -> tf.Tensor:
        inverse = tf.math.rsqrt(both[1] + self.epsilon)
        factor = inverse if gamma is None else inverse * gamma
        of_mean, of_deviation = (self._summed(each if gamma is None else each * gamma) for each in (sums[1], sums[0]))
        slope = -of_deviation * inverse**3 / self.total
        offset = of_mean * inverse / self.total
        return dy * _over(factor, value) + (value - _over(both[0], value)) * _over(slope, value) - _over(offset, value)

    def _summed(self, each: tf.Tensor) -> tf.Tensor:
        """Return for each channel the sum over the channels of its group."""
        if self.size == 1:
            return each
        return self._of_channels(tf.reduce_sum(tf.reshape(each, [each.shape[0], self.groups, self.size]), -1))

    def of_scale(self, name: str, both: tf.Tensor, sums: tf.Tensor) -> tf.Tensor:
        """Return the gradient of gamma or beta."""
        return tf.reduce_sum(sums[0] * tf.math.rsqrt(both[1] + self.epsilon) if name == "gamma" else sums[1], 0)


def _over(each: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Return numbers [batch, channels] with dimensions of 1 for the positions of a value."""
    return tf.reshape(each, [each.shape[0], *(1 for _ in range(value.shape.rank - 2)), each.shape[1]])


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
