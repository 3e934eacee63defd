"""Batch normalisation on channel slices, fused where TensorFlow has the kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.sums.parts import Parts

Tensor = Any


def normalize_batch(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return (y, mean, variance): `x` normalised by its batch's statistics, and these.

    y = gamma (x - mean) / sqrt(variance + epsilon) + beta; the variance is the biased one, as in Keras 3,
    also in the moving average. Statistics are taken over all dimensions that `gamma` lacks.

    Parameters
    ----------
    x : [batch, ..., channels]; all but the channels whole.
    gamma, beta : [*channels], the last dimensions of `x`.
    epsilon : added to the variance.
    """
    channels = gamma.shape.dims
    reduced = x.shape.dims[: -len(channels)]
    rule: _Fused | _Explicit = _Fused(epsilon) if _is_fused(x, gamma) else _Explicit(epsilon, len(reduced))

    def gradient(operation: Local, dy: Tensor, *others: Tensor) -> Sequence[Tensor]:
        outputs = [(tensor.shape, tensor.dtype) for tensor in (x, gamma, beta)]
        return Local("batch_norm_gradient", rule.backward, [x, gamma, dy], outputs, unsplit=reduced, needs=operation).outputs

    outputs = [(tensor.shape, tensor.dtype) for tensor in (x, gamma, gamma)]
    operation = Local("batch_norm", rule.forward, [x, gamma, beta], outputs, unsplit=reduced, gradient=gradient)
    y, mean, variance = operation.outputs
    return y, mean, variance


def normalize_split_batch(
    x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, parts: Any, samples: Sequence[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (y, mean, variance) as `normalize_batch` does, for a batch that is split over processors, in any sizes.

    Each processor computes the mean m_i and the sum of squared deviations M_i of its n_i values per channel; these are gathered, and

        mean = sum_i n_i m_i / n,   variance = (sum_i M_i + n_i (m_i - mean)^2) / n,   n = sum_i n_i,

    which avoids cancellation. The backward pass adds up two sums per channel over the processors.

    Parameters
    ----------
    x : [batch, ..., channels], the batch laid out.
    gamma, beta : [*channels], the last dimensions of `x`.
    epsilon : added to the variance.
    parts : dimension with one unit on each processor of the batch's mesh axis.
    samples : (processors,) samples of each of them, zero allowed.

    References
    ----------
    Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    """
    channels = gamma.shape.dims
    rule = (_FusedSpread if _is_fused(x, gamma) else _Spread)(epsilon, x, gamma, samples)
    two = mtf.Dimension("statistics", 2)
    own = Local("own_statistics", rule.own, [x], [(mtf.Shape([parts, two, *channels]), x.dtype)]).outputs[0]
    every = mtf.reshape(own, mtf.Shape([mtf.Dimension(f"{parts.name}:all", parts.size), two, *channels]))
    statistic = (gamma.shape, x.dtype)
    mean, variance = Local("joint_statistics", rule.joint, [every], [statistic, statistic]).outputs

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor | None]:
        both = [(mtf.Shape([two, *channels]), x.dtype)]
        pending = Local("batch_norm_sums", rule.sums, [x, gamma, mean, variance, dy], both, summed=x.shape.dims[:1]).outputs[0]
        sums = Parts(pending).outputs
        inputs = [x, gamma, mean, variance, dy, *sums]
        dx = Local("batch_norm_gradient", rule.backward, inputs, [(x.shape, x.dtype)]).outputs[0]
        return [dx, *sums, None, None]

    inputs = [x, gamma, beta, mean, variance]
    y = Local("batch_norm", rule.forward, inputs, [(x.shape, x.dtype)], gradient=gradient).outputs[0]
    return y, mean, variance


def normalize_by(x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, epsilon: float) -> Tensor:
    """Return `x` normalised by given statistics, as in inference; any layout of `x`.

    Parameters
    ----------
    gamma, beta, mean, variance : [*channels]; no gradient flows to mean and variance.
    """
    channels = gamma.shape.dims
    reduced = x.shape.dims[: -len(channels)]
    axes = list(range(len(reduced)))

    def forward(_: Processor, value: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, m: tf.Tensor, v: tf.Tensor) -> tf.Tensor:
        factor = tf.math.rsqrt(v + epsilon) * scale
        return value * factor + (offset - m * factor)

    def backward(_: Processor, value: tf.Tensor, scale: tf.Tensor, m: tf.Tensor, v: tf.Tensor, dy: tf.Tensor) -> Sequence[tf.Tensor]:
        return [dy * (tf.math.rsqrt(v + epsilon) * scale)]

    def backward_scale(_: Processor, value: tf.Tensor, m: tf.Tensor, v: tf.Tensor, dy: tf.Tensor) -> Sequence[tf.Tensor]:
        return [tf.reduce_sum(dy * (value - m), axes) * tf.math.rsqrt(v + epsilon), tf.reduce_sum(dy, axes)]

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor | None]:
        dx = Local("normalize_gradient", backward, [x, gamma, mean, variance, dy], [(x.shape, x.dtype)]).outputs[0]
        shapes = [(gamma.shape, x.dtype), (beta.shape, x.dtype)]
        scales = Local("normalize_scale_gradient", backward_scale, [x, mean, variance, dy], shapes, summed=reduced).outputs
        return [dx, *scales, None, None]

    operation = Local("normalize", forward, [x, gamma, beta, mean, variance], [(x.shape, x.dtype)], gradient=gradient)
    return operation.outputs[0]


def moving_average(moving: Tensor, value: Tensor, momentum: float) -> Tensor:
    """Return `momentum * moving + (1 - momentum) * value`."""
    function = lambda _, old, new: old * momentum + new * (1.0 - momentum)  # noqa: E731
    return Local("moving_average", function, [moving, value], [(moving.shape, moving.dtype)]).outputs[0]


def _is_fused(x: Tensor, gamma: Tensor) -> bool:
    """Return whether TensorFlow has a fused kernel for this dtype and rank."""
    return x.dtype == tf.float32 and x.shape.ndims == 4 and gamma.shape.ndims == 1


class _Fused:
    """TensorFlow's fused kernel: float32, four dimensions; returns the unbiased variance, made biased here."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self.saved: dict[int, tuple[tf.Tensor, tf.Tensor, tf.Tensor]] = {}

    def forward(self, p: Processor, x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        nothing = tf.zeros([0], tf.float32)
        y, mean, variance, *saved = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=gamma, offset=beta, mean=nothing, variance=nothing, epsilon=self.epsilon, is_training=True
        )
        self.saved[p.pnum] = tuple(saved)
        count = x.shape.num_elements() // x.shape[-1]
        return y, mean, variance * ((count - 1) / count if count > 1 else 1.0)

    def backward(self, p: Processor, x: tf.Tensor, gamma: tf.Tensor, dy: tf.Tensor) -> Sequence[tf.Tensor]:
        first, second, third = self.saved[p.pnum]
        gradients = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=gamma,
            reserve_space_1=first,
            reserve_space_2=second,
            reserve_space_3=third,
            epsilon=self.epsilon,
            is_training=True,
        )
        return list(gradients[:3])


class _Explicit:
    """The same in elementary operations, for every dtype and rank."""

    def __init__(self, epsilon: float, reduced: int) -> None:
        self.epsilon = epsilon
        self.axes = list(range(reduced))
        self.saved: dict[int, tuple[tf.Tensor, tf.Tensor]] = {}

    def forward(self, p: Processor, x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        mean = tf.reduce_mean(x, self.axes)
        variance = tf.reduce_mean(tf.math.squared_difference(x, mean), self.axes)
        inverse = tf.math.rsqrt(variance + self.epsilon)
        self.saved[p.pnum] = mean, inverse
        return (x - mean) * (inverse * gamma) + beta, mean, variance

    def backward(self, p: Processor, x: tf.Tensor, gamma: tf.Tensor, dy: tf.Tensor) -> Sequence[tf.Tensor]:
        mean, inverse = self.saved[p.pnum]
        normal = (x - mean) * inverse
        count = x.shape.num_elements() // gamma.shape.num_elements()
        dbeta = tf.reduce_sum(dy, self.axes)
        dgamma = tf.reduce_sum(dy * normal, self.axes)
        dx = (gamma * inverse) * (dy - (dbeta + normal * dgamma) / count)
        return [dx, dgamma, dbeta]


class _Spread:
    """Batch normalisation whose statistics come from several processors."""

    def __init__(self, epsilon: float, x: Tensor, gamma: Tensor, samples: Sequence[int]) -> None:
        self.epsilon = epsilon
        reduced = x.shape.dims[: -len(gamma.shape.dims)]
        self.axes = list(range(len(reduced)))
        positions = math.prod(dimension.size for dimension in reduced[1:])
        self.counts = [float(n * positions) for n in samples]

    def own(self, _: Processor, x: tf.Tensor) -> tf.Tensor:
        mean = tf.reduce_mean(x, self.axes)
        deviation = tf.reduce_sum(tf.math.squared_difference(x, mean), self.axes)
        return tf.stack([mean, deviation])[tf.newaxis]

    def joint(self, _: Processor, every: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        counts = tf.reshape(tf.constant(self.counts, every.dtype), [-1, *(1 for _ in range(every.shape.rank - 2))])
        means, deviations = every[:, 0], every[:, 1]
        mean = tf.reduce_sum(counts * means, 0) / sum(self.counts)
        spread = tf.reduce_sum(deviations + counts * tf.math.squared_difference(means, mean), 0)
        return mean, spread / sum(self.counts)

    def forward(self, _: Processor, x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        factor = tf.math.rsqrt(variance + self.epsilon) * gamma
        return (x - mean) * factor + beta

    def sums(self, _: Processor, x: tf.Tensor, gamma: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        inverse = tf.math.rsqrt(variance + self.epsilon)
        return tf.stack([tf.reduce_sum(dy * (x - mean), self.axes) * inverse, tf.reduce_sum(dy, self.axes)])

    def backward(
        self,
        _: Processor,
        x: tf.Tensor,
        gamma: tf.Tensor,
        mean: tf.Tensor,
        variance: tf.Tensor,
        dy: tf.Tensor,
        dgamma: tf.Tensor,
        dbeta: tf.Tensor,
    ) -> tf.Tensor:
        inverse = tf.math.rsqrt(variance + self.epsilon)
        count = sum(self.counts)
        return (dy - (x - mean) * (inverse * dgamma / count) - dbeta / count) * (gamma * inverse)


class _FusedSpread(_Spread):
    """The same by TensorFlow's fused kernels, one pass each: in inference form they normalise by given statistics.

    The kernel of the backward pass's sums returns dy gamma / sqrt(variance + epsilon) with them, which is kept for dx.
    """

    def __init__(self, epsilon: float, x: Tensor, gamma: Tensor, samples: Sequence[int]) -> None:
        super().__init__(epsilon, x, gamma, samples)
        self.scaled: dict[int, tf.Tensor] = {}

    def own(self, _: Processor, x: tf.Tensor) -> tf.Tensor:
        nothing, scale = tf.zeros([0], tf.float32), tf.ones([x.shape[-1]], tf.float32)
        _, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=scale, mean=nothing, variance=nothing)
        count = x.shape.num_elements() // x.shape[-1]
        return tf.stack([mean, variance * max(count - 1.0, 1.0)])[tf.newaxis]

    def forward(self, _: Processor, x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        return _normalized(x, gamma, beta, mean, variance, self.epsilon)

    def sums(self, p: Processor, x: tf.Tensor, gamma: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        self.scaled[p.pnum], *sums = tf.raw_ops.FusedBatchNormGradV3(
            y_backprop=dy,
            x=x,
            scale=gamma,
            reserve_space_1=mean,
            reserve_space_2=variance,
            reserve_space_3=tf.zeros([0], tf.float32),
            epsilon=self.epsilon,
            is_training=False,
        )
        return tf.stack(sums[:2])

    def backward(
        self,
        p: Processor,
        x: tf.Tensor,
        gamma: tf.Tensor,
        mean: tf.Tensor,
        variance: tf.Tensor,
        dy: tf.Tensor,
        dgamma: tf.Tensor,
        dbeta: tf.Tensor,
    ) -> tf.Tensor:
        inverse = tf.math.rsqrt(variance + self.epsilon)
        factor = gamma * inverse / -sum(self.counts)
        return self.scaled[p.pnum] + _normalized(x, factor * dgamma, factor * dbeta, mean, variance, self.epsilon)


def _normalized(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Return scale (x - mean) / sqrt(variance + epsilon) + offset."""
    return tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=epsilon, is_training=False)[0]
