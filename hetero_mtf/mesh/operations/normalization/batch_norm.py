"""Batch normalisation on channel slices, fused where TensorFlow has the kernel."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor
from hetero_mtf.mesh.operations.local import Local, Processor


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
    rule: _Fused | _Explicit = _Fused(epsilon) if is_fused(x, gamma) else _Explicit(epsilon, len(reduced))

    def gradient(operation: Local, dy: Tensor, *others: Tensor) -> Sequence[Tensor]:
        outputs = [(tensor.shape, tensor.dtype) for tensor in (x, gamma, beta)]
        return Local("batch_norm_gradient", rule.backward, [x, gamma, dy], outputs, unsplit=reduced, needs=operation).outputs

    outputs = [(tensor.shape, tensor.dtype) for tensor in (x, gamma, gamma)]
    operation = Local("batch_norm", rule.forward, [x, gamma, beta], outputs, unsplit=reduced, gradient=gradient)
    y, mean, variance = operation.outputs
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


def is_fused(x: Tensor, gamma: Tensor) -> bool:
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
