"""Words for attention."""

from __future__ import annotations

import dataclasses

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations import attention, elementwise
from hetero_mtf.program.layer_context import LayerContext
from hetero_mtf.program.value import Value


class AttentionOps(LayerContext):
    """Attention by scalar products, and weights of one number."""

    def attend(self, query: Value, value: Value, key: Value, scale: str | None = None) -> Value:
        """Return softmax(scale query key') value, the softmax over the positions of the keys.

        Split values must be split alike: the scores are then partial sums, added up before the softmax. A processor without channels
        has no part in the softmax, which is of no use to it.

        Parameters
        ----------
        query, value, key : values of [batch, positions, channels].
        scale : name of the layer's variable, one number, that queries are multiplied by, and so the scores; None for no such.
        """
        batch, _, channels = query.tensor.shape.dims
        keys = mtf.Dimension(f"keys{self.index}", key.tensor.shape.dims[1].size)
        offered = mtf.reshape(key.tensor, mtf.Shape([batch, keys, channels]))
        asked = query.tensor if scale is None else attention.times(query.tensor, self.parameter(scale, []))
        given = mtf.reshape(value.tensor, mtf.Shape([batch, keys, value.channels]))
        weights = elementwise.softmax(attention.scores(asked, offered), [given])
        return Value(attention.mean(weights, given), value.sizes)

    def weigh(self, x: Value, weight: str) -> Value:
        """Return `x` times the layer's variable `weight`, one number."""
        return dataclasses.replace(x, tensor=attention.times(x.tensor, self.parameter(weight, [])), logits=None)
