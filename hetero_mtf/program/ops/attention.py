"""Operations for attention."""

from __future__ import annotations

import dataclasses

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import attention, elementwise
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class AttentionOps(LayerContext):
    """Attention by scalar products, and multiplication by scalar variables."""

    def attend(self, query: Value, value: Value, key: Value, scale: str | None = None) -> Value:
        """Return softmax(scale query key') value, the softmax over the positions of the keys.

        Split values must be split alike: the scores are then partial sums, added up before the softmax. A processor without channels
        does not compute the softmax, as it does not need it.

        Parameters
        ----------
        query, value, key : values of [batch, positions, channels].
        scale : name of the layer's scalar variable that the scores are multiplied by; None for no scale.
        """
        batch, _, channels = query.tensor.shape.dims
        keys = mtf.Dimension(f"keys{self.index}", key.tensor.shape.dims[1].size)
        keyed = mtf.reshape(key.tensor, mtf.Shape([batch, keys, channels]))
        queries = query.tensor if scale is None else attention.times(query.tensor, self.parameter(scale, []))
        values = mtf.reshape(value.tensor, mtf.Shape([batch, keys, value.channels]))
        weights = elementwise.softmax(attention.scores(queries, keyed), [values])
        return Value(attention.mean(weights, values), value.sizes)

    def weigh(self, x: Value, weight: str) -> Value:
        """Return `x` times the layer's scalar variable `weight`."""
        return dataclasses.replace(x, tensor=attention.times(x.tensor, self.parameter(weight, [])), logits=None)
