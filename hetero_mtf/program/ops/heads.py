"""Operations for multi-head attention, heads last."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.compute_once import compute_once
from hetero_mtf.mesh.operations.local import Processor
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class HeadOps(LayerContext):
    """Projection to heads, attention of each head, and their sum."""

    def project_heads(self, x: Value, kernel: str, bias: str | None, repeats: int) -> Value:
        """Return the projection of `x` [batch, positions, channels] to heads, [batch, positions, repeats * size, heads].

        Parameters
        ----------
        kernel : name of the variable [channels, heads * repeats, size].
        bias : name of the variable [heads * repeats, size]; None for none.
        repeats : heads of the queries for each head of keys and values; they lie side by side.
        """
        batch, positions, channels = x.tensor.shape.dims
        _, count, extent = self.shape_of(kernel)
        heads, size = self.output_dimension(count // repeats), mtf.Dimension("size", extent)
        variables = [self._of_heads(kernel, [channels], heads, repeats, [size])]
        variables += [self._of_heads(bias, [], heads, repeats, [size])] if bias else []

        def function(value: tf.Tensor, weights: tf.Tensor, *offset: tf.Tensor) -> tf.Tensor:
            projected = tf.einsum("btd,dnrk->btrkn", value, weights)
            projected = projected + tf.transpose(offset[0], [1, 2, 0]) if offset else projected
            return tf.reshape(projected, [*projected.shape[:2], repeats * extent, projected.shape[-1]])

        shape = mtf.Shape([batch, positions, mtf.Dimension("sizes", repeats * extent), heads])
        unsplit = [positions, channels, size, shape.dims[2]]
        return Value(compute("heads", function, [x.tensor, *variables], shape, unsplit=unsplit), self.output_sizes)

    def attend_heads(self, query: Value, key: Value, value: Value, scale: float, causal: bool, repeats: int) -> Value:
        """Return the attention of each head, [batch, positions, repeats * size of values, heads]; heads may be split, all three alike.

        Parameters
        ----------
        query : value of [batch, positions, repeats * size, heads].
        key, value : values of [batch, positions, size, heads].
        scale : factor of the scores.
        causal : whether a position sees those up to its own only.
        repeats : as for `project_heads`.
        """
        batch, positions, _, heads = query.tensor.shape.dims
        keys = mtf.Dimension(f"keys{self.index}", key.tensor.shape.dims[1].size)
        named = {"q": query, "k": key, "v": value}
        sizes = {name: mtf.Dimension(f"size{self.index}:{name}", each.tensor.shape.dims[2].size) for name, each in named.items()}
        tensors = [
            mtf.reshape(each.tensor, mtf.Shape([batch, positions if name == "q" else keys, sizes[name], heads]))
            for name, each in named.items()
        ]

        def function(_: Processor, *slices: tf.Tensor) -> list[tf.Tensor]:
            q, k, v = (tf.transpose(piece, [0, 1, 3, 2]) for piece in slices)
            if repeats > 1:
                q = tf.reshape(q, [*q.shape[:2], q.shape[2] * repeats, q.shape[3] // repeats])
                k, v = tf.repeat(k, repeats, axis=2), tf.repeat(v, repeats, axis=2)
            attention = keras.ops.dot_product_attention(q, k, v, scale=scale, is_causal=causal)
            samples, length, count, size = attention.shape
            attention = tf.reshape(attention, [samples, length, count // repeats, size * repeats])
            return [tf.transpose(attention, [0, 1, 3, 2])]

        out = mtf.Dimension(f"size{self.index}:out", sizes["v"].size * repeats)
        shape = mtf.Shape([batch, positions, out, heads])
        unsplit = [positions, keys, out, *sizes.values()]
        (y,) = compute_once("attend", function, tensors, [(shape, query.tensor.dtype)], unsplit=unsplit)
        return Value(y, query.sizes)

    def merge_heads(self, x: Value, kernel: str, repeats: int) -> Value:
        """Return the sum over heads of `x` [batch, positions, repeats * size, heads] times a variable, [batch, positions, units].

        Parameters
        ----------
        kernel : name of the variable [heads * repeats, size, units].
        repeats : as for `project_heads`.
        """
        batch, positions, sizes, heads = x.tensor.shape.dims
        _, extent, _ = self.shape_of(kernel)
        units = self.output_dimension(self.layer.units)
        size = mtf.Dimension("size", extent)
        variable = self._of_heads(kernel, [], heads, repeats, [size, units])

        def function(value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
            apart = tf.reshape(value, [*value.shape[:2], repeats, extent, value.shape[-1]])
            return tf.einsum("btrvn,nrvo->bto", apart, weights)

        shape = mtf.Shape([batch, positions, units])
        return Value(compute("merge_heads", function, [x.tensor, variable], shape, unsplit=[positions, sizes, size, units]), None)

    def _of_heads(
        self, name: str, before: Sequence[mtf.Dimension], heads: mtf.Dimension, repeats: int, behind: Sequence[mtf.Dimension]
    ) -> Tensor:
        """Return the variable `name` [*before, heads * repeats, *behind] as [*before, heads, repeats, *behind], laid out as `heads` is."""
        repeated = mtf.Dimension("repeats", repeats)
        if repeats == 1:
            variable = self.parameter(name, [*before, heads, *behind])
        else:
            sizes, count = self.sizes.get(heads.name), heads.size * repeats
            joined = mtf.Dimension(f"{heads.name}:repeated", count)
            if sizes is not None:
                joined = self.split_dimension(joined.name, count, tuple(repeats * n for n in sizes), self.axis_of(heads))
            variable = self.parameter(name, [*before, joined, *behind])
        return mtf.reshape(variable, mtf.Shape([*before, heads, repeated, *behind]))
