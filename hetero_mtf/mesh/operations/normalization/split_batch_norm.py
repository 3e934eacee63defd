"""Batch normalisation of a batch that is split over processors: of one tensor, or of several whose synchronisations are merged."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.normalization.batch_norm import is_fused
from hetero_mtf.mesh.sums.parts import Parts


def normalize_split_batch(
    x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, parts: Sequence[mtf.Dimension], sizes: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (y, mean, variance) as `normalize_batch` does, for a batch of which samples or positions are split over processors.

    Each processor computes the mean m_i and the sum of squared deviations M_i of its n_i values per channel; these are gathered, and

        mean = sum_i n_i m_i / n,   variance = (sum_i M_i + n_i (m_i - mean)^2) / n,   n = sum_i n_i,

    which avoids cancellation. The backward pass adds up two sums per channel over the processors: with r = 1 / sqrt(variance + epsilon),
    the normalised value xhat = (x - mean) r, and sums over all n values of a channel,

        dbeta = sum dy,   dgamma = sum dy xhat,   dx = gamma r (dy - dbeta / n - xhat dgamma / n).

    Parameters
    ----------
    x : [batch, *space, channels]; some of batch and space laid out, each along its own mesh axis.
    gamma, beta : [*channels], the last dimensions of `x`.
    epsilon : added to the variance.
    parts : (laid-out dimensions,) dimensions with one unit on each processor of their mesh axes.
    sizes : (laid-out dimensions, processors) samples or positions of each of them, zero allowed.

    References
    ----------
    Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979; Ioffe, Szegedy, "Batch
    normalization", ICML 2015, section 3, for the gradients.
    """
    channels = gamma.shape.dims
    reduced = x.shape.dims[: -len(channels)]
    rule = _rule(x, gamma, epsilon, sizes)
    two = mtf.Dimension("statistics", 2)

    def own_part(p: Processor, value: tf.Tensor) -> tf.Tensor:
        own = rule.own(p, value)
        return tf.reshape(own, [*(1 for _ in parts), *own.shape[1:]])

    def joint(p: Processor, every: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return rule.joint(p, tf.reshape(every, [-1, *every.shape[len(parts) :]]))

    own = Local("own_statistics", own_part, [x], [(mtf.Shape([*parts, two, *channels]), x.dtype)]).outputs[0]
    # names that are not laid out: the reshape gathers the parts on every processor
    every = mtf.reshape(own, mtf.Shape([*(mtf.Dimension(f"{part.name}:all", part.size) for part in parts), two, *channels]))
    statistic = (gamma.shape, x.dtype)
    mean, variance = Local("joint_statistics", joint, [every], [statistic, statistic]).outputs

    def gradient(_: Local, dy: Tensor) -> Sequence[Tensor | None]:
        both = [(mtf.Shape([two, *channels]), x.dtype)]
        pending = Local("batch_norm_sums", rule.sums, [x, gamma, mean, variance, dy], both, summed=reduced).outputs[0]
        sums = Parts(pending).outputs
        # reading the sums does their all-reduce: dx needs those of the whole batch
        inputs = [x, gamma, mean, variance, dy, *sums]
        dx = Local("batch_norm_gradient", rule.backward, inputs, [(x.shape, x.dtype)]).outputs[0]
        # the sums are dgamma and dbeta; mean and variance depend on x, and dx includes their part
        return [dx, *sums, None, None]

    inputs = [x, gamma, beta, mean, variance]
    y = Local("batch_norm", rule.forward, inputs, [(x.shape, x.dtype)], gradient=gradient).outputs[0]
    return y, mean, variance


@dataclasses.dataclass(frozen=True)
class SplitNorm:
    """A tensor to normalise.

    Parameters
    ----------
    x, gamma, beta, epsilon : as for `normalize_split_batch`; the channels whole.
    name : beginning of the names of its TensorFlow operations, before "_forward" or "_backward"; empty for none.
    """

    x: Tensor
    gamma: Tensor
    beta: Tensor
    epsilon: float
    name: str = ""

    @property
    def channels(self) -> list[mtf.Dimension]:
        """The dimensions of the channels."""
        return list(self.gamma.shape.dims)

    @property
    def elements(self) -> int:
        """Number of channels."""
        return int(self.gamma.shape.size)

    def scope(self, step_pass: str) -> contextlib.AbstractContextManager[Any]:
        """Return the context of the operations of a pass."""
        return tf.name_scope(f"{self.name}_{step_pass}") if self.name else contextlib.nullcontext()


def normalize_split_batches(
    norms: Sequence[SplitNorm], parts: mtf.Dimension, samples: Sequence[int]
) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return (y, mean, variance) of each tensor as `normalize_split_batch` does, their statistics and sums in one message each.

    Every processor computes each tensor's own statistics, and each output, as soon as what it needs is there.

    Parameters
    ----------
    norms : at least one, of one dtype; no input depends on another one's output.
    parts : dimension with one unit on each processor of the batch's mesh axis.
    samples : (processors,) samples of each of them, zero allowed.
    """
    rules = [_rule(norm.x, norm.gamma, norm.epsilon, [samples]) for norm in norms]
    dtype, batch = norms[0].x.dtype, norms[0].x.shape.dims[0]
    width = mtf.Dimension("statistics", 2 * sum(norm.elements for norm in norms))

    def own(p: Processor, *xs: tf.Tensor) -> tf.Tensor:
        return tf.concat([_flat(norm, "forward", rule.own, p, x) for norm, rule, x in zip(norms, rules, xs)], 0)[tf.newaxis]

    def joint(p: Processor, every: tf.Tensor) -> list[tf.Tensor]:
        statistics: list[tf.Tensor] = []
        for norm, rule, piece in zip(norms, rules, tf.split(every, [2 * norm.elements for norm in norms], 1)):
            with norm.scope("forward"):
                extents = [-1, 2, *norm.gamma.shape.to_integer_list]
                statistics += rule.joint(p, tf.reshape(piece, extents))
        return statistics

    gathered = mtf.Shape([mtf.Dimension(f"{parts.name}:all", parts.size), width])
    own_statistics = Local("own_statistics", own, [norm.x for norm in norms], [(mtf.Shape([parts, width]), dtype)]).outputs[0]
    outputs = [(norm.gamma.shape, dtype) for norm in norms for _ in range(2)]
    joint_statistics = Local("joint_statistics", joint, [mtf.reshape(own_statistics, gathered)], outputs).outputs
    pairs = list(zip(joint_statistics[::2], joint_statistics[1::2]))

    def forward(p: Processor, *slices: tf.Tensor) -> list[tf.Tensor]:
        return [_scoped(norm, "forward", rule.forward, p, *own) for norm, rule, own in zip(norms, rules, _runs(slices, 5))]

    def gradient(_: Local, *dys: Tensor | None) -> Sequence[Tensor | None]:
        # an output without a gradient takes no part in the merged sums
        differentiated = [(*each, dy) for *each, dy in zip(norms, rules, pairs, dys) if dy is not None]
        gradients = iter(_gradients(differentiated, batch, dtype))
        return [piece for dy in dys for piece in (next(gradients) if dy is not None else [None] * 5)]

    inputs = [tensor for norm, pair in zip(norms, pairs) for tensor in (norm.x, norm.gamma, norm.beta, *pair)]
    ys = Local("batch_norm", forward, inputs, [(norm.x.shape, dtype) for norm in norms], gradient=gradient).outputs
    return [(y, *pair) for y, pair in zip(ys, pairs)]


def _gradients(differentiated: Sequence[tuple[Any, ...]], batch: mtf.Dimension, dtype: tf.DType) -> list[list[Tensor | None]]:
    """Return the gradients of (x, gamma, beta, mean, variance) of each tensor.

    Parameters
    ----------
    differentiated : (tensors,) norm, rule, (mean, variance) and gradient of the output of each.
    """
    norms, rules, pairs, dys = zip(*differentiated)
    inputs = [[norm.x, norm.gamma, *pair, dy] for norm, pair, dy in zip(norms, pairs, dys)]

    def sums(p: Processor, *slices: tf.Tensor) -> tf.Tensor:
        return tf.concat([_flat(norm, "backward", rule.sums, p, *own) for norm, rule, own in zip(norms, rules, _runs(slices, 5))], 0)

    width = mtf.Shape([mtf.Dimension("statistics", 2 * sum(norm.elements for norm in norms))])
    pending = Local("batch_norm_sums", sums, [x for each in inputs for x in each], [(width, dtype)], summed=[batch]).outputs[0]
    parts = Parts(pending, [norm.gamma.shape for norm in norms for _ in range(2)]).outputs
    gradients: list[list[Tensor | None]] = []
    for norm, rule, own, both in zip(norms, rules, inputs, _runs(parts, 2)):

        # bound here: it is called when the graph is lowered, after the loop has moved on
        def backward(p: Processor, *slices: tf.Tensor, norm: SplitNorm = norm, rule: _Spread = rule) -> tf.Tensor:
            return _scoped(norm, "backward", rule.backward, p, *slices)

        dx = Local("batch_norm_gradient", backward, [*own, *both], [(norm.x.shape, dtype)]).outputs[0]
        gradients.append([dx, *both, None, None])
    return gradients


def _scoped(norm: SplitNorm, step_pass: str, function: Callable[..., Any], *arguments: Any) -> Any:
    with norm.scope(step_pass):
        return function(*arguments)


def _flat(norm: SplitNorm, step_pass: str, function: Callable[..., Any], *arguments: Any) -> tf.Tensor:
    with norm.scope(step_pass):
        return tf.reshape(function(*arguments), [-1])


def _runs(values: Sequence[Any], length: int) -> list[Sequence[Any]]:
    """Return values in runs of one length."""
    return [values[start : start + length] for start in range(0, len(values), length)]


def _rule(x: Tensor, gamma: Tensor, epsilon: float, sizes: Sequence[Sequence[int]]) -> _Spread:
    return (_FusedSpread if is_fused(x, gamma) else _Spread)(epsilon, x, gamma, sizes)


class _Spread:
    """Batch normalisation whose statistics come from several processors."""

    def __init__(self, epsilon: float, x: Tensor, gamma: Tensor, sizes: Sequence[Sequence[int]]) -> None:
        self.epsilon = epsilon
        reduced = x.shape.dims[: -len(gamma.shape.dims)]
        self.axes = list(range(len(reduced)))
        whole = math.prod(dimension.size for dimension in reduced) // math.prod(map(sum, sizes))
        self.counts = [float(math.prod(each) * whole) for each in itertools.product(*sizes)]

    def own(self, _: Processor, x: tf.Tensor) -> tf.Tensor:
        # m_i first, then M_i about it: sum x^2 - n m^2 would cancel where the mean is large against the deviations
        mean = tf.reduce_mean(x, self.axes)
        deviation = tf.reduce_sum(tf.math.squared_difference(x, mean), self.axes)
        return tf.stack([mean, deviation])[tf.newaxis]

    def joint(self, _: Processor, every: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # a processor without samples sends zeros (see Local); its count of 0 keeps them out
        counts = tf.reshape(tf.constant(self.counts, every.dtype), [-1, *(1 for _ in range(every.shape.rank - 2))])
        means, deviations = every[:, 0], every[:, 1]
        # for two parts, sum_i n_i (m_i - mean)^2 = (m_a - m_b)^2 n_a n_b / n, the update of Chan et al.; this form is for any number
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
        # mean and variance depend on x: the last two terms of dx are their part, which is why it needs the sums of the whole batch
        inverse = tf.math.rsqrt(variance + self.epsilon)
        count = sum(self.counts)
        return (dy - (x - mean) * (inverse * dgamma / count) - dbeta / count) * (gamma * inverse)


class _FusedSpread(_Spread):
    """The same by TensorFlow's fused kernels, one pass each: in inference form they normalise by given statistics.

    The kernel of the backward pass's sums returns dy gamma / sqrt(variance + epsilon) with them, which is kept for dx.
    """

    def __init__(self, epsilon: float, x: Tensor, gamma: Tensor, sizes: Sequence[Sequence[int]]) -> None:
        super().__init__(epsilon, x, gamma, sizes)
        self.scaled: dict[int, tf.Tensor] = {}

    def own(self, _: Processor, x: tf.Tensor) -> tf.Tensor:
        nothing, scale = tf.zeros([0], tf.float32), tf.ones([x.shape[-1]], tf.float32)
        _, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=scale, mean=nothing, variance=nothing)
        count = x.shape.num_elements() // x.shape[-1]
        # the kernel's variance is unbiased, M / (count - 1); what is sent is M
        return tf.stack([mean, variance * max(count - 1.0, 1.0)])[tf.newaxis]

    def forward(self, _: Processor, x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        return _normalized(x, gamma, beta, mean, variance, self.epsilon)

    def sums(self, p: Processor, x: tf.Tensor, gamma: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        # read by backward, which is lowered later, as dx reads these sums
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
        # dx = scaled - gamma inverse (xhat dgamma + dbeta) / n: the second term is a normalisation of x too
        factor = gamma * inverse / -sum(self.counts)
        return self.scaled[p.pnum] + _normalized(x, factor * dgamma, factor * dbeta, mean, variance, self.epsilon)


def _normalized(x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, epsilon: float) -> tf.Tensor:
    """Return scale (x - mean) / sqrt(variance + epsilon) + offset."""
    return tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=mean, variance=variance, epsilon=epsilon, is_training=False)[0]
