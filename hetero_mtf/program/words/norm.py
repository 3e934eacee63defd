"""Words for normalisation."""

from __future__ import annotations

import dataclasses

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import norm
from hetero_mtf.mesh.variables import assign
from hetero_mtf.program.site import Site
from hetero_mtf.program.value import Value


class NormWords(Site):
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
        y, *statistics = norm.normalize_batch(x.tensor, scale, offset, epsilon)
        for name, old, new in zip(("moving_mean", "moving_variance"), moving, statistics):
            self.updates.append(assign(self.parameters[self.index, name], norm.moving_average(old, new, momentum)))
        return dataclasses.replace(x, tensor=y, logits=None)
