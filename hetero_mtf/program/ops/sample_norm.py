"""Operations for normalisation of each sample by its own statistics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class SampleNormOps(LayerContext):
    """Layer and group normalisation; the variables `gamma` and `beta` are used where the layer has them."""

    def normalize_sample(self, x: Value, count: int, epsilon: float) -> Value:
        """Return `x` normalised over its last `count` dimensions."""
        names = [variable.name for variable in self.layer.variables]

        def function(value: tf.Tensor, *scales: tf.Tensor) -> tf.Tensor:
            axes = list(range(value.shape.rank - count, value.shape.rank))
            return _scaled(_normal(value, axes, epsilon), names, scales)

        return self._normalized(x, "layer_norm", function, count)

    def normalize_groups(self, x: Value, groups: int, epsilon: float) -> Value:
        """Return `x` normalised over all positions and the channels of each of `groups` groups."""
        names = [variable.name for variable in self.layer.variables]

        def function(value: tf.Tensor, *scales: tf.Tensor) -> tf.Tensor:
            samples, *space, channels = value.shape.as_list()
            apart = tf.reshape(value, [samples, math.prod(space), groups, channels // groups])
            return _scaled(tf.reshape(_normal(apart, [1, 3], epsilon), value.shape), names, scales)

        return self._normalized(x, "group_norm", function, 1)

    def _normalized(self, x: Value, name: str, function: Callable[..., tf.Tensor], count: int) -> Value:
        dimensions = x.tensor.shape.dims
        scales = [self.parameter(variable.name, dimensions[-count:]) for variable in self.layer.variables]
        return dataclasses.replace(
            x, tensor=compute(name, function, [x.tensor, *scales], x.tensor.shape, unsplit=dimensions[1:]), logits=None
        )


def _scaled(normal: tf.Tensor, names: Sequence[str], scales: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return `normal * gamma + beta`, as far as there are such variables."""
    for name, value in zip(names, scales):
        normal = normal * value if name == "gamma" else normal + value
    return normal


def _normal(value: tf.Tensor, axes: Sequence[int], epsilon: float) -> tf.Tensor:
    mean, variance = tf.nn.moments(value, axes, keepdims=True)
    return (value - mean) * tf.math.rsqrt(variance + epsilon)
