"""Operations for layers that join branches."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations import pool
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value, lies_in_slabs

_MERGES: Mapping[str, Callable[..., tf.Tensor]] = {
    "add": lambda *values: functools.reduce(tf.add, values),
    "multiply": lambda *values: functools.reduce(tf.multiply, values),
    "subtract": lambda *values: functools.reduce(tf.subtract, values),
    "average": lambda *values: functools.reduce(tf.add, values) / len(values),
    "maximum": lambda *values: functools.reduce(tf.maximum, values),
    "minimum": lambda *values: functools.reduce(tf.minimum, values),
}


class MergeOps(LayerContext):
    """Elementwise functions of several values, and concatenation."""

    def merge(self, inputs: Sequence[Value], name: str) -> Value:
        """Return the sum, product ("multiply"), difference, mean, maximum or minimum of values, broadcast to one shape.

        Values of fewer dimensions get dimensions of 1 after the batch; split values must be split alike.
        """
        rank = max(len(x.tensor.shape.dims) for x in inputs)
        channels = next(x for x in inputs if x.channels.size == max(y.channels.size for y in inputs))
        tensors = [self._of_rank(x, rank, channels) for x in inputs]
        shape = mtf.Shape([max(column, key=lambda d: int(d.size)) for column in zip(*(t.shape.dims for t in tensors))])
        features = max(x.features for x in inputs)
        unflat = inputs[0].unflat if inputs[0].channels.size == channels.channels.size else ()
        if name == "add" and all(t.shape == shape for t in tensors):
            return Value(functools.reduce(mtf.add, tensors), channels.sizes, features, unflat)
        unsplit = self.whole(shape.dims[1:-1] if channels.sizes is not None else shape.dims[1:])
        return Value(compute(name, _MERGES[name], tensors, shape, unsplit=unsplit), channels.sizes, features, unflat)

    def _of_rank(self, x: Value, rank: int, like: Value) -> Tensor:
        """Return the tensor of `x` with dimensions of 1 after the batch, its channels named as those of `like` where there are as many."""
        batch, *outer, last = x.tensor.shape.dims
        ones = [mtf.Dimension(f"one{i}", 1) for i in range(rank - len(x.tensor.shape.dims))]
        space = [d if lies_in_slabs(d) else mtf.Dimension(f"space{i}", d.size) for i, d in enumerate([*ones, *outer])]
        shape = mtf.Shape([batch, *space, like.channels if last.size == like.channels.size else last])
        return x.tensor if x.tensor.shape == shape else mtf.reshape(x.tensor, shape)

    def with_mask(self, x: Value, mask: Value) -> Value:
        """Return `x`, which has whole channels, with a mask for the loss."""
        return dataclasses.replace(x, mask=mask.tensor)

    def concatenate(self, inputs: Sequence[Value]) -> Value:
        """Return unsplit values joined along the channels."""
        first = inputs[0].tensor.shape.dims
        aligned = [
            x.tensor if x.tensor.shape.dims[:-1] == first[:-1] else mtf.reshape(x.tensor, mtf.Shape([*first[:-1], x.channels]))
            for x in inputs
        ]
        channels = mtf.Dimension(f"layer{self.index}", self.layer.units)
        return Value(pool.concatenate(aligned, channels, rematerialized=self.output_slabs is not None))
