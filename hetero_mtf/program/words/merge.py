"""Words for layers that join branches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import pool
from hetero_mtf.program.site import Site
from hetero_mtf.program.value import Value


class MergeWords(Site):
    """Sum and concatenation."""

    def add(self, inputs: Sequence[Value]) -> Value:
        """Return the sum of values of one shape and layout."""
        first, *others = inputs
        total = first.tensor
        for other in others:
            same = other.tensor if other.tensor.shape == total.shape else mtf.reshape(other.tensor, total.shape)
            total = mtf.add(total, same)
        return dataclasses.replace(first, tensor=total, logits=None)

    def concatenate(self, inputs: Sequence[Value]) -> Value:
        """Return whole values joined along the channels."""
        first = inputs[0].tensor.shape.dims
        aligned = [
            x.tensor if x.tensor.shape.dims[:-1] == first[:-1] else mtf.reshape(x.tensor, mtf.Shape([*first[:-1], x.channels]))
            for x in inputs
        ]
        return Value(pool.concatenate(aligned, mtf.Dimension(f"layer{self.index}", self.layer.units)))
