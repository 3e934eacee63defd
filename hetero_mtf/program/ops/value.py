"""The output of a layer, with its layout on the mesh."""

from __future__ import annotations

import dataclasses

from hetero_mtf.mesh.compat import Tensor, mtf


@dataclasses.dataclass(frozen=True)
class Value:
    """The output of a layer.

    Parameters
    ----------
    tensor : mtf.Tensor [batch, ..., channels].
    sizes : (processors,) units of each processor of the last dimension; None where it is unsplit.
    features : number of last dimensions that Flatten joins; they are kept while split.
    unflat : for an unsplit flattened value, its shape before Flatten.
    logits : for the output of an activation, its input and its name.
    mask : for an output that carries one, mtf.Tensor [batch, ...] of truth values.
    """

    tensor: Tensor
    sizes: tuple[int, ...] | None = None
    features: int = 1
    unflat: tuple[int, ...] = ()
    logits: tuple[Tensor, str] | None = None
    mask: Tensor | None = None

    @property
    def batch(self) -> mtf.Dimension:
        """The batch dimension, whole or split."""
        return self.tensor.shape.dims[0]

    @property
    def channels(self) -> mtf.Dimension:
        """The last dimension."""
        return self.tensor.shape.dims[-1]

    @property
    def feature_dims(self) -> list[mtf.Dimension]:
        """The dimensions of the channels: one, or more after a split Flatten."""
        return list(self.tensor.shape.dims[-self.features :])
