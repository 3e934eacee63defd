"""Operations for the spatial dimensions: pooling, padding, flattening."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.batch_parts import import_batch
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations import pool
from hetero_mtf.mesh.operations import slab_operations as in_slabs
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.output_space import spatial
from hetero_mtf.program.ops.slab_windows import WindowOps
from hetero_mtf.program.ops.value import Slabs, Value, lies_in_slabs


class SpaceOps(WindowOps):
    """The batch itself, pooling, padding and flattening."""

    def batch(self) -> Value:
        """Return the batch of the present input layer, whole or split by samples or space."""
        return self._batch_of(self.index, self.batch_dimension(), self.output_slabs)

    def _batch_of(self, index: int, batch: mtf.Dimension, slabs: Slabs | None = None) -> Value:
        """Return the batch of an input layer under a dimension of the batch, and in slabs."""
        *space, channels = self.graph.layers[index].output_shape
        dimensions = [batch, *(mtf.Dimension(f"space{i}", n) for i, n in enumerate(space)), mtf.Dimension(f"layer{index}", channels)]
        if slabs is not None:
            dimensions[1 + slabs.dimension] = self.dimension_in(slabs, space[slabs.dimension])
        return Value(import_batch(self.mesh, self.x[index], mtf.Shape(dimensions)))

    def pool(self, x: Value, mode: str, pool_size: Sequence[int], strides: Sequence[int], padding: str) -> Value:
        """Return the maxima ("max") or means ("average") of windows of `x`."""
        slabs = self.output_slabs
        read, extents, left = self.windows(x, pool_size, strides, padding, -math.inf if mode == "max" else 0.0)
        made = {at: n for at, n in enumerate(extents) if isinstance(n, mtf.Dimension)}
        y = pool.pool(read, mode, pool_size, strides, left, made)
        if slabs is not None and mode == "average" and padding == "same":  # positions outside do not count in the mean
            begins = [begin for _, begin, _ in self.held(self.reach[slabs.dimension])]
            y = in_slabs.scale_positions(y, self.padding_factors(pool_size, strides), slabs.dimension, begins)
        return dataclasses.replace(x, tensor=y, logits=None)

    def mean_over_space(self, x: Value, keepdims: bool = False) -> Value:
        """Return the means over all positions."""
        if self.slabs_of(x) is None:
            return self._spaced(x, pool.mean_over_space(x.tensor), keepdims)
        return self._spaced(x, in_slabs.mean_over_slabs(x.tensor), keepdims)

    def maximum_over_space(self, x: Value, keepdims: bool = False) -> Value:
        """Return the maxima over all positions; equal maxima share the gradient."""
        batch, *space, channels = x.tensor.shape.dims
        laid_out = [d for d in space if lies_in_slabs(d)]
        if laid_out:
            return self._spaced(x, in_slabs.maximum_over_slabs(x.tensor, self.parts_dimension(laid_out[0])), keepdims)
        axes = list(range(1, 1 + len(space)))
        y = compute("maximum_over_space", lambda value: tf.reduce_max(value, axes), [x.tensor], mtf.Shape([batch, channels]), unsplit=space)
        return self._spaced(x, y, keepdims)

    def _spaced(self, x: Value, tensor: Tensor, keepdims: bool) -> Value:
        """Return a reduction over all positions, with spatial dimensions of 1 if `keepdims`."""
        batch, *space, channels = x.tensor.shape.dims
        ones = [mtf.Dimension(f"space{i}", 1) for i, _ in enumerate(space)] if keepdims else []
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
        slabs = self.output_slabs
        if slabs is not None:
            return dataclasses.replace(x, tensor=self._moved(pool.pad_space(x.tensor, _but(padding, slabs))), logits=None)
        return dataclasses.replace(x, tensor=pool.pad_space(x.tensor, padding), logits=None)

    def crop_space(self, x: Value, cropping: Sequence[Sequence[int]]) -> Value:
        """Return `x` without positions at the ends of its spatial dimensions."""
        slabs = self.output_slabs
        if slabs is not None:
            return dataclasses.replace(x, tensor=self._moved(pool.crop_space(x.tensor, _but(cropping, slabs))), logits=None)
        return dataclasses.replace(x, tensor=pool.crop_space(x.tensor, cropping), logits=None)

    def _moved(self, tensor: Tensor) -> Tensor:
        """Return a tensor of which each processor has what becomes its slab of the output, as that."""
        batch, *_, channels = tensor.shape.dims
        extents = self.output_space()
        made, renamed, _ = spatial(tensor.shape.dims[1:-1], extents)
        return compute("moved", tf.identity, [tensor], mtf.Shape([batch, *made, channels]), renamed=renamed)

    def enlarge_space(self, x: Value, size: Sequence[int], interpolation: str = "nearest") -> Value:
        """Return `x` with `size` times as many positions along each spatial dimension.

        Parameters
        ----------
        size : (space,) integer factors.
        interpolation : "nearest", or in two dimensions "bilinear".
        """
        batch, *space, channels = x.tensor.shape.dims
        slabs = self.output_slabs
        if slabs is not None:
            held = self.held(self.reach[slabs.dimension])
            y = in_slabs.enlarge_slabs(x.tensor, size, self.output_space(), slabs.dimension, held)
            return dataclasses.replace(x, tensor=y, logits=None)
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


def _but(sides: Sequence[Sequence[int]], slabs: Slabs) -> list[Sequence[int]]:
    """Return what is added or left out around dimensions but that in slabs, where the halo has it."""
    return [(0, 0) if at == slabs.dimension else each for at, each in enumerate(sides)]


def _check_apart(x: Value, operation: str, keeps: bool) -> None:
    """Raise if a split value would lose the order of its channels."""
    if x.features > 1 or (x.sizes is not None and not keeps):
        raise LayoutError(
            f"{operation} moves the channels of an input that is split {list(x.sizes or ())}", "give the layer whole channels"
        )
