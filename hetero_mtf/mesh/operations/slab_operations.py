"""Operations on tensors of which one spatial dimension lies in slabs, where those of whole tensors do not do."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.output_space import spatial
from hetero_mtf.mesh.operations.pool import repeated


def enlarge_slabs(
    x: Tensor, size: Sequence[int], extents: Sequence[int | mtf.Dimension], along: int, held: Sequence[tuple[int, int, int]]
) -> Tensor:
    """Return `x` with each position repeated `size` times along each spatial dimension, in slabs.

    Parameters
    ----------
    x : [batch, *space, channels], one spatial dimension in slabs, all that its slab of the output reads.
    size : (space,) factors.
    extents : (space,) of the output; its dimension where it lies in slabs.
    along : number of the spatial dimension in slabs.
    held : (processors,) first position of `x`, and first and last but one of the output, of each.
    """
    batch, *space, channels = x.shape.dims
    made, renamed, whole = spatial(space, extents)
    repeat = repeated(size)

    def function(pnum: int, value: tf.Tensor) -> tf.Tensor:
        first, begin, end = held[pnum]
        larger = repeat(value)
        begins, ends = [0] * larger.shape.rank, larger.shape.as_list()
        begins[1 + along], ends[1 + along] = begin - first * size[along], end - begin
        return tf.slice(larger, begins, ends)

    return compute("enlarge", function, [x], mtf.Shape([batch, *made, channels]), unsplit=whole, renamed=renamed, placed=True)


def scale_positions(x: Tensor, factors: Sequence[np.ndarray], along: int, begins: Sequence[int]) -> Tensor:
    """Return `x` times a factor for each position: the product of one for each spatial dimension.

    Parameters
    ----------
    x : [batch, *space, channels], one spatial dimension in slabs.
    factors : (space,) arrays of the whole extents.
    along : number of the spatial dimension in slabs.
    begins : (processors,) first position of each.
    """

    def function(pnum: int, value: tf.Tensor) -> tf.Tensor:
        for at, numbers in enumerate(factors):
            begin, extent = begins[pnum] if at == along else 0, value.shape[1 + at]
            own = numbers[begin : begin + extent]
            if np.any(own != 1):
                shape = [extent if axis == 1 + at else 1 for axis in range(value.shape.rank)]
                value = value * tf.constant(own.reshape(shape), value.dtype)
        return value

    return compute("positions", function, [x], x.shape, placed=True)


def mean_over_slabs(x: Tensor) -> Tensor:
    """Return the means of `x` [batch, *space, channels] over its spatial dimensions, of which one lies in slabs, [batch, channels]."""
    batch, *space, channels = x.shape.dims
    axes, count = list(range(1, 1 + len(space))), math.prod(d.size for d in space)
    return compute("mean_over_slabs", lambda value: tf.reduce_sum(value, axes) / count, [x], mtf.Shape([batch, channels]))


def maximum_over_slabs(x: Tensor, parts: mtf.Dimension) -> Tensor:
    """Return the maxima of `x` over its spatial dimensions, [batch, channels]; equal maxima, on whatever processors, share the gradient.

    Parameters
    ----------
    x : [batch, *space, channels], one spatial dimension in slabs.
    parts : dimension with one unit on each processor of the slabs' mesh axis.
    """
    batch, *space, channels = x.shape.dims
    axes = list(range(1, 1 + len(space)))

    def own(_: Processor, value: tf.Tensor) -> tf.Tensor:
        # a processor without positions has zeros (see Local): a maximum that it has no times
        maxima = tf.reduce_max(value, axes)
        return tf.stack([maxima, tf.reduce_sum(_equal(value, maxima), axes)])[tf.newaxis]

    def own_gradient(_: Processor, value: tf.Tensor, both: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        return _equal(value, both[0, 0]) * _between(dy[0, 0], len(space))

    def joint(_: Processor, every: tf.Tensor) -> tf.Tensor:
        return tf.reduce_max(tf.where(every[:, 1] > 0, every[:, 0], every.dtype.min), 0)

    def joint_gradient(_: Processor, every: tf.Tensor, y: tf.Tensor, dy: tf.Tensor) -> tf.Tensor:
        times = tf.where(tf.equal(every[:, 0], y), every[:, 1], 0.0)
        shared = tf.where(times > 0, dy / tf.reduce_sum(times, 0), 0.0)
        return tf.stack([shared, tf.zeros_like(shared)], 1)

    def of_own(operation: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("maxima_own_gradient", own_gradient, [x, operation.outputs[0], dy], [(x.shape, x.dtype)]).outputs

    def of_joint(operation: Local, dy: Tensor) -> Sequence[Tensor]:
        return Local("maxima_gradient", joint_gradient, [every, operation.outputs[0], dy], [(every.shape, x.dtype)]).outputs

    two = mtf.Dimension("maxima", 2)
    own_shape = mtf.Shape([parts, two, batch, channels])
    each = Local("maxima_own", own, [x], [(own_shape, x.dtype)], gradient=of_own).outputs[0]
    every = mtf.reshape(each, mtf.Shape([mtf.Dimension(f"{parts.name}:all", parts.size), two, batch, channels]))
    return Local("maxima", joint, [every], [(mtf.Shape([batch, channels]), x.dtype)], gradient=of_joint).outputs[0]


def _equal(value: tf.Tensor, maxima: tf.Tensor) -> tf.Tensor:
    """Return 1 where a value [batch, *space, channels] is the maximum [batch, channels], else 0."""
    return tf.cast(tf.equal(value, _between(maxima, value.shape.rank - 2)), value.dtype)


def _between(value: tf.Tensor, count: int) -> tf.Tensor:
    """Return [batch, channels] with `count` dimensions of 1 in between."""
    return tf.reshape(value, [value.shape[0], *(1 for _ in range(count)), value.shape[1]])
