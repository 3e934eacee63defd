"""Operations for batch normalisation."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import norm
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class NormOps(LayerContext):
    """Batch normalisation."""

    def normalize_batch(self, x: Value, gamma: str | None, beta: str | None, momentum: float, epsilon: float) -> Value:
        """Return `x` normalised over all but its channels: by its own statistics in training, else by the moving ones."""
        channels = x.feature_dims
        shape = mtf.Shape(channels)
        scale = self.parameter(gamma, channels) if gamma else mtf.Constant(self.mesh, 1.0, shape, self.dtype).outputs[0]
        offset = self.parameter(beta, channels) if beta else mtf.Constant(self.mesh, 0.0, shape, self.dtype).outputs[0]
        moving = [self.parameter(name, channels) for name in ("moving_mean", "moving_variance")]
        if not (self.training and self.layer.attributes["trainable"]):
            y = norm.normalize_by(x.tensor, scale, offset, moving[0], moving[1], epsilon)
            return dataclasses.replace(x, tensor=y, logits=None)
        y, *statistics = self._by_own_statistics(x, scale, offset, epsilon)
        for name, old, new in zip(("moving_mean", "moving_variance"), moving, statistics):
            self.set_after_step(name, old, functools.partial(norm.moving_average, value=new, momentum=momentum))
        return dataclasses.replace(x, tensor=y, logits=None)

    def _by_own_statistics(self, x: Value, scale: Any, offset: Any, epsilon: float) -> tuple[Any, Any, Any]:
        """Return `x` normalised by the statistics of the whole batch, in any layout of its samples, and these."""
        if self.axis_of(x.batch) is None:
            return norm.normalize_batch(x.tensor, scale, offset, epsilon)
        samples = self.sizes[x.batch.name]
        return norm.normalize_split_batch(x.tensor, scale, offset, epsilon, self.parts_dimension(x.batch), samples)
