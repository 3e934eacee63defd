"""Words for the spatial dimensions: pooling, padding, flattening."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import pool
from hetero_mtf.program.site import Site
from hetero_mtf.program.value import Value


class SpaceWords(Site):
    """The batch itself, pooling, padding and flattening."""

    def batch(self) -> Value:
        """Return the batch of the present input layer, whole or split by samples."""
        *space, channels = self.layer.output_shape
        dimensions = [self.batch_dimension(), *(mtf.Dimension(f"space{i}", n) for i, n in enumerate(space))]
        shape = mtf.Shape([*dimensions, mtf.Dimension(f"layer{self.index}", channels)])
        return Value(mtf.import_tf_tensor(self.mesh, self.x[self.index], shape))

    def pool(self, x: Value, mode: str, pool_size: Sequence[int], strides: Sequence[int], padding: str) -> Value:
        """Return the maxima ("max") or means ("average") of windows of `x`."""
        return dataclasses.replace(x, tensor=pool.pool_2d(x.tensor, mode, pool_size, strides, padding.upper()), logits=None)

    def mean_over_space(self, x: Value) -> Value:
        """Return the means over all positions."""
        return dataclasses.replace(x, tensor=pool.mean_over_space(x.tensor), logits=None)

    def pad_space(self, x: Value, padding: Sequence[Sequence[int]]) -> Value:
        """Return `x` with zeros around its spatial dimensions."""
        return dataclasses.replace(x, tensor=pool.pad_space(x.tensor, padding), logits=None)

    def flatten(self, x: Value) -> Value:
        """Return `x` with all dimensions but the batch made one; a split value keeps them apart."""
        dimensions = x.tensor.shape.dims
        if len(dimensions) <= 2 or x.features > 1:
            return dataclasses.replace(x, logits=None)
        if x.sizes is not None:
            return dataclasses.replace(x, features=len(dimensions) - 1, logits=None)
        flat = mtf.Dimension(f"layer{self.index}", x.tensor.size // dimensions[0].size)
        return Value(mtf.reshape(x.tensor, mtf.Shape([dimensions[0], flat])), unflat=tuple(d.size for d in dimensions[1:]))
