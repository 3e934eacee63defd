"""Operations for multi-head attention, heads last."""

from __future__ import annotations

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.kept import compute_kept
from hetero_mtf.mesh.operations.local import Processor
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class HeadOps(LayerContext):
    """Projection to heads, attention of each head, and their sum."""

    def project_heads(self, x: Value, kernel: str, bias: str | None) -> Value:
        """Return `x` [batch, positions, channels] times the variable `kernel` [channels, heads, size], [batch, positions, size, heads]."""
        batch, positions, channels = x.tensor.shape.dims
        _, count, extent = self.shape_of(kernel)
        heads, size = self.output_dimension(count), mtf.Dimension("size", extent)
        variables = [self.parameter(kernel, [channels, heads, size]), *([self.parameter(bias, [heads, size])] if bias else [])]

        def function(value: tf.Tensor, weights: tf.Tensor, *offset: tf.Tensor) -> tf.Tensor:
            projected = tf.einsum("btd,dnk->btkn", value, weights)
            return projected + tf.transpose(offset[0]) if offset else projected

        shape = mtf.Shape([batch, positions, size, heads])
        return Value(compute("heads", function, [x.tensor, *variables], shape, unsplit=[positions, channels, size]), self.output_sizes)

    def attend_heads(self, query: Value, key: Value, value: Value, scale: float, causal: bool) -> Value:
        """Return the attention of each head, [batch, positions, size of values, heads]; heads may be split, all three alike.

        Parameters
        ----------
        query, key, value : values of [batch, positions, size, heads].
        scale : factor of the scores.
        causal : whether a position sees those up to its own only.
        """
        batch, positions, _, heads = query.tensor.shape.dims
        keys = mtf.Dimension(f"keys{self.index}", key.tensor.shape.dims[1].size)
        sizes = [mtf.Dimension(f"size{self.index}:{name}", each.tensor.shape.dims[2].size) for name, each in zip("qv", (query, value))]
        tensors = [
            mtf.reshape(query.tensor, mtf.Shape([batch, positions, sizes[0], heads])),
            mtf.reshape(key.tensor, mtf.Shape([batch, keys, sizes[0], heads])),
            mtf.reshape(value.tensor, mtf.Shape([batch, keys, sizes[1], heads])),
        ]

        def function(_: Processor, *slices: tf.Tensor) -> list[tf.Tensor]:
            import keras

            q, k, v = (tf.transpose(piece, [0, 1, 3, 2]) for piece in slices)
            attention = keras.ops.dot_product_attention(q, k, v, scale=scale, is_causal=causal)
            return [tf.transpose(attention, [0, 1, 3, 2])]

        shape = mtf.Shape([batch, positions, sizes[1], heads])
        (y,) = compute_kept("attend", function, tensors, [(shape, query.tensor.dtype)], unsplit=[positions, keys, *sizes])
        return Value(y, query.sizes)

    def merge_heads(self, x: Value, kernel: str) -> Value:
        """Return the sum over heads of `x` [batch, positions, size, heads] times the variable `kernel` [heads, size, units]."""
        batch, positions, size, heads = x.tensor.shape.dims
        units = self.output_dimension(self.layer.units)
        variable = self.parameter(kernel, [heads, size, units])

        def function(value: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
            return tf.einsum("btvn,nvo->bto", value, weights)

        shape = mtf.Shape([batch, positions, units])
        return Value(compute("merge_heads", function, [x.tensor, variable], shape, unsplit=[positions, size, units]), None)
