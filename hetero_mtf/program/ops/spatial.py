"""Operations for the spatial dimensions: pooling, padding, flattening."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.batch_parts import import_batch
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations import pool
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.program.ops.layer_context import LayerContext
from hetero_mtf.program.ops.value import Value


class SpaceOps(LayerContext):
    """The batch itself, pooling, padding and flattening."""

    def batch(self) -> Value:
        """Return the batch of the present input layer, whole or split by samples."""
        return self._batch_of(self.index, self.batch_dimension())

    def _batch_of(self, index: int, batch: mtf.Dimension) -> Value:
        """Return the batch of an input layer under a dimension of the batch."""
        *space, channels = self.graph.layers[index].output_shape
        dimensions = [batch, *(mtf.Dimension(f"space{i}", n) for i, n in enumerate(space)), mtf.Dimension(f"layer{index}", channels)]
        return Value(import_batch(self.mesh, self.x[index], mtf.Shape(dimensions)))

    def pool(self, x: Value, mode: str, pool_size: Sequence[int], strides: Sequence[int], padding: str) -> Value:
        """Return the maxima ("max") or means ("average") of windows of `x`."""
        return dataclasses.replace(x, tensor=pool.pool(x.tensor, mode, pool_size, strides, padding.upper()), logits=None)

    def mean_over_space(self, x: Value, keepdims: bool = False) -> Value:
        """Return the means over all positions."""
        return self._spaced(x, pool.mean_over_space(x.tensor), keepdims)

    def maximum_over_space(self, x: Value, keepdims: bool = False) -> Value:
        """Return the maxima over all positions; equal maxima share the gradient."""
        batch, *space, channels = x.tensor.shape.dims
        axes = list(range(1, 1 + len(space)))
        y = compute("maximum_over_space", lambda value: tf.reduce_max(value, axes), [x.tensor], mtf.Shape([batch, channels]), unsplit=space)
        return self._spaced(x, y, keepdims)

    def _spaced(self, x: Value, tensor: Tensor, keepdims: bool) -> Value:
        """Return a reduction over all positions, with spatial dimensions of 1 if `keepdims`."""
        batch, *space, channels = x.tensor.shape.dims
        ones = [mtf.Dimension(d.name, 1) for d in space] if keepdims else []
        return dataclasses.replace(x, tensor=mtf.reshape(tensor, mtf.Shape([batch, *ones, channels])) if ones else tensor, logits=None)

    def reshape(self, x: Value) -> Value:
        """Return `x` in the present layer's output shape; split channels stay as they are."""
        batch, *outer, channels = x.tensor.shape.dims
        *space, last = self.layer.output_shape
        _check_apart(x, "a Reshape", last == channels.size)
        own = channels if last == channels.size else mtf.Dimension(f"layer{self.index}", last)
        shape = mtf.Shape([batch, *(mtf.Dimension(f"space{i}", n) for i, n in enumerate(space)), own])
        return Value(mtf.reshape(x.tensor, shape), x.sizes)

    def pad_space(self, x: Value, padding: Sequence[Sequence[int]]) -> Value:
        """Return `x` with zeros around its spatial dimensions."""
        return dataclasses.replace(x, tensor=pool.pad_space(x.tensor, padding), logits=None)

    def crop_space(self, x: Value, cropping: Sequence[Sequence[int]]) -> Value:
        """Return `x` without positions at the ends of its spatial dimensions."""
        return dataclasses.replace(x, tensor=pool.crop_space(x.tensor, cropping), logits=None)

    def enlarge_space(self, x: Value, size: Sequence[int], interpolation: str = "nearest") -> Value:
        """Return `x` with `size` times as many positions along each spatial dimension.

        Parameters
        ----------
        size : (space,) integer factors.
        interpolation : "nearest", or in two dimensions "bilinear".
        """
        batch, *space, channels = x.tensor.shape.dims
        extents = [d.size * n for d, n in zip(space, size)]
        shape = mtf.Shape([batch, *(mtf.Dimension(d.name, n) for d, n in zip(space, extents)), channels])
        function = pool.repeated(size) if interpolation == "nearest" else pool.resized(extents, interpolation)
        return dataclasses.replace(x, tensor=compute("enlarge", function, [x.tensor], shape, unsplit=space), logits=None)

    def permute(self, x: Value, dims: Sequence[int]) -> Value:
        """Return `x` with its dimensions in the order `dims`, the batch being 0; a split channel dimension stays the last."""
        _check_apart(x, "a Permute", dims[-1] == len(dims))
        order = [0, *dims]
        batch, *_, channels = x.tensor.shape.dims
        *outer, last = self.layer.output_shape
        own = channels if dims[-1] == len(dims) else mtf.Dimension(f"layer{self.index}", last)
        shape = mtf.Shape([batch, *(mtf.Dimension(f"space{i}", n) for i, n in enumerate(outer)), own])
        unsplit = [*x.tensor.shape.dims[1:-1], *([] if own == channels else [channels])]
        y = compute("permute", lambda value: tf.transpose(value, order), [x.tensor], shape, unsplit=unsplit)
        return Value(y, x.sizes)

    def flatten(self, x: Value) -> Value:
        """Return `x` with all dimensions but the batch joined; a split value keeps them."""
        dimensions = x.tensor.shape.dims
        if len(dimensions) <= 2 or x.features > 1:
            return dataclasses.replace(x, logits=None)
        if x.sizes is not None:
            return dataclasses.replace(x, features=len(dimensions) - 1, logits=None)
        flat = mtf.Dimension(f"layer{self.index}", x.tensor.size // dimensions[0].size)
        return Value(mtf.reshape(x.tensor, mtf.Shape([dimensions[0], flat])), unflat=tuple(d.size for d in dimensions[1:]))


def _check_apart(x: Value, operation: str, keeps: bool) -> None:
    """Raise if a split value would lose the order of its channels."""
    if x.features > 1 or (x.sizes is not None and not keeps):
        raise LayoutError(
            f"{operation} moves the channels of an input that is split {list(x.sizes or ())}", "give the layer whole channels"
        )
