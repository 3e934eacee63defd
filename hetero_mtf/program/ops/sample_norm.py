"""Operations for normalisation of each sample by its own statistics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.normalization import sample_norm
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class SampleNormOps(LayerContext):
    """Layer, group, root-mean-square and unit normalisation, channels in any layout.

    The layer's variables are used as far as it has them: `gamma` and `scale` as factors, `beta` as an offset.
    """

    def normalize_sample(self, x: Value, count: int, epsilon: float) -> Value:
        """Return `x` normalised over its last `count` dimensions."""
        laid_out = [d for d in x.tensor.shape.dims[-count:] if self.axis_of(d) is not None]
        if laid_out:
            both = sample_norm.layer_statistics(x.tensor, count, self.parts_dimension(laid_out[0]))
            return self._normalized(x, "layer_norm", lambda value, own: _by_statistics(value, own, [1] * count, epsilon), count, [both])

        def function(value: tf.Tensor) -> tf.Tensor:
            axes = list(range(value.shape.rank - count, value.shape.rank))
            return _normal(value, axes, epsilon)

        return self._normalized(x, "layer_norm", function, count)

    def normalize_groups(self, x: Value, groups: int, epsilon: float) -> Value:
        """Return `x` normalised over all positions and the channels of each of `groups` groups."""
        if x.sizes is not None:
            both = sample_norm.group_statistics(x.tensor, groups)
            return self._normalized(x, "group_norm", lambda value, own: _by_statistics(value, own, (), epsilon), 1, [both])
        scales = {variable.name: self.parameter(variable.name, [x.channels]) for variable in self.layer.variables}
        slabs = [self.parts_dimension(d) for d in x.tensor.shape.dims[1:-1] if self.axis_of(d) is not None]
        y = sample_norm.normalize_groups(x.tensor, scales, groups, epsilon, *slabs)
        return dataclasses.replace(x, tensor=y, logits=None)

    def normalize_by_squares(self, x: Value, count: int, epsilon: float) -> Value:
        """Return `x` divided by the root of the mean square over its last `count` dimensions, plus `epsilon`."""
        total = math.prod(dimension.size for dimension in x.tensor.shape.dims[-count:])

        def function(value: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
            return value * _behind(tf.math.rsqrt(squares / total + epsilon), count)

        return self._normalized(x, "rms_norm", function, count, [sample_norm.sum_of_squares(x.tensor, count)])

    def normalize_to_unit(self, x: Value, epsilon: float) -> Value:
        """Return `x` divided by the norm of its channels, or by `epsilon` if that is larger."""

        def function(value: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
            return value * _behind(tf.minimum(tf.math.rsqrt(squares), 1.0 / epsilon), 1)

        return self._normalized(x, "unit_norm", function, 1, [sample_norm.sum_of_squares(x.tensor, 1)])

    def _normalized(self, x: Value, name: str, function: Callable[..., tf.Tensor], count: int, statistics: Sequence[Tensor] = ()) -> Value:
        """Return `function` of `x` and statistics, times and plus the layer's variables, which have its last `count` dimensions."""
        dimensions = x.tensor.shape.dims
        names = [variable.name for variable in self.layer.variables]
        scales = [self.parameter(variable, dimensions[-count:]) for variable in names]

        def scaled(value: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
            normal = function(value, *others[: len(statistics)])
            for variable, each in zip(names, others[len(statistics) :]):
                normal = normal + each if variable == "beta" else normal * each
            return normal

        unsplit = self.whole(dimensions[1:] if x.sizes is None else dimensions[1:-1])
        y = compute(name, scaled, [x.tensor, *statistics, *scales], x.tensor.shape, unsplit=unsplit)
        return dataclasses.replace(x, tensor=y, logits=None)


def _behind(value: tf.Tensor, count: int) -> tf.Tensor:
    """Return a tensor with `count` dimensions of 1 behind its own."""
    return tf.reshape(value, [*value.shape, *(1 for _ in range(count))])


def _by_statistics(value: tf.Tensor, both: tf.Tensor, behind: Sequence[int], epsilon: float) -> tf.Tensor:
    """Return a value normalised by given mean and variance: of each position, or, with nothing behind, of each channel."""
    if behind:
        mean, variance = (_behind(each, len(behind)) for each in (both[0], both[1]))
    else:
        samples, *space, channels = value.shape.as_list()
        mean, variance = (tf.reshape(each, [samples, *(1 for _ in space), channels]) for each in (both[0], both[1]))
    return (value - mean) * tf.math.rsqrt(variance + epsilon)


def _normal(value: tf.Tensor, axes: Sequence[int], epsilon: float) -> tf.Tensor:
    mean, variance = tf.nn.moments(value, axes, keepdims=True)
    return (value - mean) * tf.math.rsqrt(variance + epsilon)
