"""Halo exchange: every processor gets the positions of a dimension that its windows read, from whichever processors hold them.

Along the dimension a processor holds a slab, and reads a range that may begin before its slab, end behind it, or lie elsewhere: windows
that are larger than a neighbour's slab reach over it to the next one. Only what is read is sent, point to point. Positions outside the
tensor are filled. The gradient is the reverse: what processors have for positions of a slab is sent to its holder, and added up there.

What is exchanged may lie in any layout, also on another mesh: samples or channels that are split before and whole after are sent in the
same messages.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering, lower_operation
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.transfer import Box, Interval, Pieces, box_of, boxes_of, is_empty_box


def exchange_halo(
    x: Tensor,
    dimension: mtf.Dimension,
    ranges: Sequence[Interval],
    read: mtf.Dimension,
    fill: float = 0.0,
    others: Sequence[mtf.Dimension] = (),
    mesh: mtf.Mesh | None = None,
) -> Tensor:
    """Return what each processor reads along a dimension; what several read, each of them has.

    Parameters
    ----------
    x : has the dimension, whole or in slabs; a pending all-reduce of it is done before it is sent.
    dimension : along which positions are read.
    ranges : (places of the mesh axis,) [begin, end) that the processors there read, of positions of `dimension`; below 0 and above its
        size are positions that are filled. Nothing where they are equal.
    read : dimension of the result in its place; it lies on the mesh axis with the sizes of the ranges, and its size is their sum.
    fill : value of positions outside the tensor.
    others : (dimensions - 1,) the other dimensions of the result, of the same extents; empty for those of `x`.
    mesh : mesh of the result; None for that of `x`.

    Raises
    ------
    LayoutError
        If the tensor lacks the dimension, the others have other extents, or the sizes are not those of the ranges; the latter when the
        graph is lowered.
    """
    return Halo(x, dimension, ranges, read, fill, others, mesh).outputs[0]


def read_again(x: Tensor, after: Tensor) -> Tensor:
    """Return a tensor for a backward pass to read: what only copies other tensors is copied once more, so that a step does not keep it.

    What was exchanged is joined again from the slab, which other backward passes may need too, and the halo; what is rematerialized
    (`Local`) is computed again from its inputs, which are kept.

    Parameters
    ----------
    x : any tensor; returned as it is where it is no such copy.
    after : on the same mesh; each processor has its slice of it first.
    """
    made_by = x.operation
    if not isinstance(made_by, Local) or not made_by.rematerialized:
        return _joined_again(x, after)

    def again(p: Processor, *slices: tf.Tensor) -> Any:
        *inputs, first = slices
        with tf.control_dependencies([first]):
            return made_by.function(p, *inputs)

    inputs = [_joined_again(each, after) for each in made_by.inputs]
    return Local(f"{made_by.name}_again", again, [*inputs, after], [(x.shape, x.dtype)]).outputs[0]


def _joined_again(x: Tensor, after: Tensor) -> Tensor:
    """Return what was exchanged, joined again after a tensor; any other tensor as it is."""
    return JoinedAgain(x.operation, after).outputs[0] if isinstance(x.operation, Halo) else x


class Halo(mtf.Operation):
    """The operation of `exchange_halo`, with its parameters.

    Attributes
    ----------
    pieces : what is exchanged, from when the operation is lowered on.
    """

    pieces: Pieces

    def __init__(
        self,
        x: Tensor,
        dimension: mtf.Dimension,
        ranges: Sequence[Interval],
        read: mtf.Dimension,
        fill: float = 0.0,
        others: Sequence[mtf.Dimension] = (),
        mesh: mtf.Mesh | None = None,
    ) -> None:
        super().__init__([x], mesh=x.mesh if mesh is None else mesh, name="halo")
        if dimension not in x.shape.dims or read.size != sum(end - begin for begin, end in ranges):
            raise LayoutError(f"{list(ranges)} of {dimension} cannot be read from {x.shape} into {read}", "give ranges of a dimension")
        self.dimension, self.ranges, self.read, self.fill = dimension, tuple(ranges), read, fill
        self.place = x.shape.dims.index(dimension)
        present = [d for d in x.shape.dims if d != dimension]
        dims = list(others) or present
        if [d.size for d in dims] != [d.size for d in present]:
            raise LayoutError(f"{x.shape} cannot be exchanged with the other dimensions {dims}", "give dimensions of the same extents")
        dims.insert(self.place, read)
        self._outputs = [mtf.Tensor(self, mtf.Shape(dims), x.dtype)]

    def gradient(self, grad_ys: Sequence[Tensor]) -> list[Tensor]:
        return [HaloGradient(self, grad_ys[0]).outputs[0]]


class JoinedAgain(mtf.Operation):
    """The operation of `read_again`.

    Parameters
    ----------
    halo : the exchange.
    after : as for `read_again`.
    """

    def __init__(self, halo: Halo, after: Tensor) -> None:
        super().__init__([halo.outputs[0], after], mesh=halo.outputs[0].mesh, name="halo_again")
        self.halo = halo
        self._outputs = [mtf.Tensor(self, halo.outputs[0].shape, halo.outputs[0].dtype)]


class HaloGradient(mtf.Operation):
    """The gradient of a halo exchange.

    Parameters
    ----------
    halo : the exchange.
    dy : gradient of its output.
    """

    def __init__(self, halo: Halo, dy: Tensor) -> None:
        super().__init__([dy], mesh=halo.inputs[0].mesh, name="halo_gradient")
        self.halo = halo
        self._outputs = [mtf.Tensor(self, halo.inputs[0].shape, dy.dtype)]


@lower_operation.register(Halo)
def _lower_halo(operation: Halo, lowering: Lowering) -> None:
    x = operation.inputs[0]
    source, impl = lowering.mesh_impl(x), lowering.mesh_impl(operation.outputs[0])
    operation.pieces = Pieces(lowering.slices(x), source.devices, boxes_of(source, x.shape))
    _set(operation, lowering, impl.on_processors(lambda pnum: _joined(operation, impl, pnum)))


@lower_operation.register(JoinedAgain)
def _lower_again(operation: JoinedAgain, lowering: Lowering) -> None:
    impl, first = lowering.mesh_impl(operation.outputs[0]), lowering.slices(operation.inputs[1])

    def again(pnum: int) -> tf.Tensor:
        with tf.control_dependencies([first[pnum]]):
            return _joined(operation.halo, impl, pnum)

    _set(operation, lowering, impl.on_processors(again))


def _joined(operation: Halo, impl: UnevenMeshImpl, pnum: int) -> tf.Tensor:
    """Return what processor `pnum` reads, joined from the pieces of those who hold it."""
    y = operation.outputs[0]
    begin, end = _range_of(operation, impl, pnum)
    inside = _clipped(begin, end, operation.dimension.size)
    box = _with(box_of(impl, y.shape, pnum), operation.place, inside)
    if is_empty_box(box):
        return tf.fill(impl.processor_shape(y.shape, pnum), tf.constant(operation.fill, y.dtype))
    piece = operation.pieces.join(box, impl.devices[pnum])
    sides = inside[0] - begin, end - inside[1]
    if not any(sides):
        return piece
    paddings = [sides if axis == operation.place else (0, 0) for axis in range(len(box))]
    return tf.pad(piece, paddings, constant_values=tf.constant(operation.fill, y.dtype))


@lower_operation.register(HaloGradient)
def _lower_gradient(operation: HaloGradient, lowering: Lowering) -> None:
    """Send what processors have for positions of a slab to its holders, from each place of the axis, and add it up."""
    halo, dx, dy = operation.halo, operation.outputs[0], operation.inputs[0]
    impl, there = lowering.mesh_impl(dx), lowering.mesh_impl(dy)
    slices = lowering.slices(dy)
    sources = [Pieces(slices_there, there.devices, held) for slices_there, held in _by_place(halo, there, dy.shape, slices)]

    def summed(pnum: int) -> tf.Tensor:
        slab, device = box_of(impl, dx.shape, pnum), impl.devices[pnum]
        if is_empty_box(slab):
            return tf.zeros(impl.processor_shape(dx.shape, pnum), dx.dtype)
        read = [_common(_clipped(*ranges, halo.dimension.size), slab[halo.place]) for ranges in halo.ranges]
        parts = []
        for part in _parts(slab[halo.place], read):
            box = _with(slab, halo.place, part)
            terms = [source.join(box, device) for source, each in zip(sources, read) if each[0] <= part[0] and part[1] <= each[1]]
            parts.append(functools.reduce(tf.add, terms) if terms else tf.zeros([end - begin for begin, end in box], dx.dtype))
        return tf.concat(parts, halo.place) if len(parts) > 1 else parts[0]

    _set(operation, lowering, impl.on_processors(summed))


def _common(first: Interval, second: Interval) -> Interval:
    """Return the positions that lie in both of two intervals."""
    begin = max(first[0], second[0])
    return begin, max(begin, min(first[1], second[1]))


def _parts(slab: Interval, read: Sequence[Interval]) -> list[Interval]:
    """Return a slab in parts each of which the same places read."""
    borders = sorted({*slab, *(border for begin, end in read if begin < end for border in (begin, end))})
    return list(zip(borders, borders[1:]))


def _by_place(
    halo: Halo, impl: UnevenMeshImpl, shape: mtf.Shape, slices: Sequence[tf.Tensor]
) -> list[tuple[list[tf.Tensor], dict[Box, list[int]]]]:
    """Return, for each place of the mesh axis, the gradients without what was filled, and the boxes of the tensor that they are of."""
    found = []
    for place, (begin, end) in enumerate(halo.ranges):
        inside = _clipped(begin, end, halo.dimension.size)
        cut: list[tf.Tensor] = list(slices)
        held: dict[Box, list[int]] = {}
        for pnum, device in enumerate(impl.devices):
            box = _with(box_of(impl, shape, pnum), halo.place, inside)
            if _place_of(halo, impl, pnum) != place or is_empty_box(box):
                continue
            held.setdefault(box, []).append(pnum)
            if inside != (begin, end):
                with tf.device(device):
                    begins = [inside[0] - begin if axis == halo.place else 0 for axis in range(len(box))]
                    cut[pnum] = tf.slice(slices[pnum], begins, [stop - start for start, stop in box])
        found.append((cut, held))
    return found


def _place_of(halo: Halo, impl: UnevenMeshImpl, pnum: int) -> int:
    """Return the place of a processor on the mesh axis that ranges are along."""
    axis = impl.axis_of(halo.read.name)
    if axis is None or list(impl.sizes_of(halo.read)) != [end - begin for begin, end in halo.ranges]:
        raise LayoutError(f"{halo.read} has other sizes than the ranges {list(halo.ranges)}", "lay it out by the sizes of the ranges")
    return impl.place(pnum, axis)


def _range_of(halo: Halo, impl: UnevenMeshImpl, pnum: int) -> Interval:
    return halo.ranges[_place_of(halo, impl, pnum)]


def _clipped(begin: int, end: int, size: int) -> Interval:
    """Return the part of a range that lies in a dimension of a size."""
    first = min(max(begin, 0), size)
    return first, max(first, min(end, size))


def _with(box: Box, axis: int, interval: Interval) -> Box:
    return (*box[:axis], interval, *box[axis + 1 :])


def _set(operation: mtf.Operation, lowering: Lowering, result: tf.Tensor) -> None:
    lowering.operations[operation] = [[piece] for piece in result.tensor_list]
    lowering.set_tensor_lowering(operation.outputs[0], result)
