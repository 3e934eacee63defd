"""Operations for batch normalisation."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.normalization import batch_norm as norm
from hetero_mtf.mesh.operations.normalization.split_batch_norm import SplitNorm, normalize_split_batch, normalize_split_batches
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class NormOps(LayerContext):
    """Batch normalisation."""

    # layer index -> (y, mean, variance) of norms whose synchronisations were merged
    _normalized_together: dict[int, tuple[Tensor, Tensor, Tensor]]

    def normalize_batch(self, x: Value, gamma: str | None, beta: str | None, momentum: float, epsilon: float) -> Value:
        """Return `x` normalised over all but its channels: by its own statistics in training, else by the moving ones."""
        channels = x.feature_dims
        scale, offset = self._scale_and_offset(x, gamma, beta)
        moving = [self.parameter(name, channels) for name in ("moving_mean", "moving_variance")]
        if not (self.training and self.layer.attributes["trainable"]):
            y = norm.normalize_by(x.tensor, scale, offset, moving[0], moving[1], epsilon)
            return dataclasses.replace(x, tensor=y, logits=None)
        y, *statistics = self._by_own_statistics(x, scale, offset, epsilon)
        for name, old, new in zip(("moving_mean", "moving_variance"), moving, statistics):
            self.set_after_step(name, old, functools.partial(norm.moving_average, value=new, momentum=momentum))
        return dataclasses.replace(x, tensor=y, logits=None)

    def normalize_together(self, inputs: Mapping[int, Value]) -> None:
        """Normalise the inputs of several batch norms, whose layers are built next, with one synchronisation for all.

        Parameters
        ----------
        inputs : layer index -> its input as the layer reads it, its batch split and its channels whole.
        """
        norms = []
        for index, x in inputs.items():
            self.index, attributes = index, self.graph.layers[index].attributes
            names = ["gamma" if attributes["scale"] else None, "beta" if attributes["center"] else None]
            norms.append(SplitNorm(x.tensor, *self._scale_and_offset(x, *names), attributes["epsilon"], f"layer{index}"))
        self.sources.begin(None)
        batch = next(iter(inputs.values())).batch
        self._normalized_together = dict(zip(inputs, normalize_split_batches(norms, self.parts_dimension(batch), self.sizes[batch.name])))

    def _scale_and_offset(self, x: Value, gamma: str | None, beta: str | None) -> tuple[Tensor, Tensor]:
        """Return the layer's scale and offset, constants where it has none."""
        channels = x.feature_dims
        shape = mtf.Shape(channels)
        scale = self.parameter(gamma, channels) if gamma else mtf.Constant(self.mesh, 1.0, shape, self.dtype).outputs[0]
        offset = self.parameter(beta, channels) if beta else mtf.Constant(self.mesh, 0.0, shape, self.dtype).outputs[0]
        return scale, offset

    def _by_own_statistics(self, x: Value, scale: Tensor, offset: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
        """Return `x` normalised by the statistics of the whole batch, in any layout of its samples, and these."""
        if self.index in self._normalized_together:
            return self._normalized_together.pop(self.index)
        laid_out = [d for d in x.tensor.shape.dims[: -x.features] if self.axis_of(d) is not None]
        if not laid_out:
            return norm.normalize_batch(x.tensor, scale, offset, epsilon)
        parts = [self.parts_dimension(d) for d in laid_out]
        return normalize_split_batch(x.tensor, scale, offset, epsilon, parts, [self.sizes[d.name] for d in laid_out])
