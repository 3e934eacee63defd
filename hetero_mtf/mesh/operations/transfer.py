"""Transfer of a tensor from one mesh to another: only the pieces that a processor needs are sent to it.

Each processor of either mesh holds a box of the tensor: an interval of every dimension. The distinct boxes of the source mesh
tile the tensor. A destination processor takes from each of them the part in its own box, directly from a processor that holds
it, and joins the pieces.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from hetero_mtf.errors import LayoutError
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering, lower_operation

Interval = tuple[int, int]
Box = tuple[Interval, ...]
"""[begin, end) along each dimension."""


def transfer(x: Tensor, mesh: mtf.Mesh, shape: mtf.Shape | None = None) -> Tensor:
    """Return the same values on another mesh, in the layout of that mesh.

    Parameters
    ----------
    x : mtf.Tensor; a pending all-reduce of it is done before it is sent.
    mesh : mtf.Mesh of the same graph, possibly the tensor's own.
    shape : mtf.Shape of the same extents, which names the dimensions on `mesh`; None keeps their names.

    Raises
    ------
    LayoutError
        If the extents of `shape` differ.

    Notes
    -----
    Its gradient is the reverse transfer. A piece is taken from a processor on the same TensorFlow device where one holds it, else from
    the holder whose device has sent least so far. It is sent to a device once, however many processors there need it. O(processors of the
    destination * boxes of the source).
    """
    return Transfer(x, mesh, shape).outputs[0]


def on_every_mesh(terms: Sequence[Tensor]) -> dict[mtf.Mesh, list[Tensor]]:
    """Return the terms of the sum of scalars on each mesh: its own ones, and the sums of the other meshes.

    Parameters
    ----------
    terms : () mtf.Tensor, on one mesh or several.
    """
    own: dict[mtf.Mesh, list[Tensor]] = {}
    for term in terms:
        own.setdefault(term.mesh, []).append(term)
    if len(own) == 1:
        return own
    sums = {mesh: functools.reduce(mtf.add, some) for mesh, some in own.items()}
    return {mesh: [*some, *(transfer(sums[other], mesh) for other in own if other is not mesh)] for mesh, some in own.items()}


class Transfer(mtf.Operation):
    """The operation of `transfer`; its mesh is the destination.

    Parameters
    ----------
    x, mesh, shape : as for `transfer`.
    """

    def __init__(self, x: Tensor, mesh: mtf.Mesh, shape: mtf.Shape | None = None) -> None:
        shape = x.shape if shape is None else shape
        if shape.to_integer_list != x.shape.to_integer_list:
            raise LayoutError(f"{x.name} of {x.shape} cannot be transferred as {shape}", "give a shape of the same extents")
        super().__init__([x], mesh=mesh, name="transfer")
        self._outputs = [mtf.Tensor(self, shape, x.dtype)]

    def gradient(self, grad_ys: Sequence[Tensor]) -> list[Tensor]:
        x = self.inputs[0]
        return [transfer(grad_ys[0], x.mesh, x.shape)]


@lower_operation.register(Transfer)
def _lower_transfer(operation: Transfer, lowering: Lowering) -> None:
    x, y = operation.inputs[0], operation.outputs[0]
    source, destination = lowering.mesh_impl(x), lowering.mesh_impl(y)
    pieces = Pieces(lowering.slices(x), source.devices, boxes_of(source, x.shape))
    results = destination.on_processors(lambda pnum: pieces.join(box_of(destination, y.shape, pnum), destination.devices[pnum]))
    lowering.operations[operation] = [[piece] for piece in results.tensor_list]
    lowering.set_tensor_lowering(y, results)


def box_of(impl: UnevenMeshImpl, shape: mtf.Shape, pnum: int) -> Box:
    """Return the box that processor `pnum` holds of a tensor."""
    begins, extents = impl.slice_begin(shape, pnum), impl.processor_shape(shape, pnum)
    return tuple((begin, begin + extent) for begin, extent in zip(begins, extents))


def boxes_of(impl: UnevenMeshImpl, shape: mtf.Shape) -> dict[Box, list[int]]:
    """Return the distinct boxes of a tensor that are not empty, each with the processors that hold it."""
    holders: dict[Box, list[int]] = {}
    for pnum in range(impl.size):
        box = box_of(impl, shape, pnum)
        if not is_empty_box(box):
            holders.setdefault(box, []).append(pnum)
    return holders


def is_empty_box(box: Box) -> bool:
    """Return whether a box has no elements."""
    return any(begin >= end for begin, end in box)


class Pieces:
    """Pieces of a laid-out tensor, each computed once and sent to a device once.

    Parameters
    ----------
    slices : (processors,) slices of the source mesh.
    devices : (processors,) their device strings.
    holders : distinct boxes, each with the processors that hold it.
    """

    def __init__(self, slices: Sequence[tf.Tensor], devices: Sequence[str], holders: Mapping[Box, Sequence[int]]) -> None:
        self.slices, self.devices, self.holders = slices, devices, holders
        self._cut: dict[tuple[int, Box], tf.Tensor] = {}
        self._sent: dict[tuple[str, Box], int] = {}  # (device, piece) -> the processor that it is taken from
        self._load = dict.fromkeys(devices, 0)  # elements that each device has sent to others

    def join(self, box: Box, device: str) -> tf.Tensor:
        """Return the tensor's values in a box, computed on `device`, which is the present one."""
        if is_empty_box(box):
            return tf.zeros([end - begin for begin, end in box], self.slices[0].dtype)
        needed = {}
        for source_box in self.holders:
            common = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, source_box))
            if not is_empty_box(common):
                needed[common] = source_box
        pieces = {common: self._take(common, source_box, device) for common, source_box in needed.items()}
        if len(pieces) > 1:
            return _join(pieces)
        ((piece, at),) = pieces.values()
        return piece if at == device else tf.identity(piece)

    def _take(self, common: Box, source_box: Box, device: str) -> tuple[tf.Tensor, str]:
        """Return a piece of a box for a device, and the device it is on."""
        pnum = self._sent.get((device, common))
        if pnum is None:
            holders = self.holders[source_box]
            pnum = min(holders, key=lambda p: (self.devices[p] != device, self._load[self.devices[p]], p))
            self._sent[device, common] = pnum
            if self.devices[pnum] != device:
                self._load[self.devices[pnum]] += _elements(common)
        if (pnum, common) not in self._cut:
            self._cut[pnum, common] = self._slice(pnum, common, source_box)
        return self._cut[pnum, common], self.devices[pnum]

    def _slice(self, pnum: int, common: Box, source_box: Box) -> tf.Tensor:
        if common == source_box:
            return self.slices[pnum]
        with tf.device(self.devices[pnum]):
            begins = [begin - first for (begin, _), (first, _) in zip(common, source_box)]
            return tf.slice(self.slices[pnum], begins, [end - begin for begin, end in common])


def _join(piece_of: Mapping[Box, tuple[tf.Tensor, str]]) -> tf.Tensor:
    """Return the concatenation of pieces that tile a box, one axis after the other."""
    pieces = {box: piece for box, (piece, _) in piece_of.items()}
    for axis in reversed(range(len(next(iter(pieces))))):
        others: Callable[[Box], Box] = lambda box, axis=axis: box[:axis] + box[axis + 1 :]  # type: ignore[misc]  # noqa: E731
        joined = {}
        for _, group in itertools.groupby(sorted(pieces, key=lambda box: (others(box), box[axis])), key=others):
            row = list(group)
            joined_box = row[0][:axis] + ((row[0][axis][0], row[-1][axis][1]),) + row[0][axis + 1 :]
            joined[joined_box] = tf.concat([pieces[box] for box in row], axis) if len(row) > 1 else pieces[row[0]]
        pieces = joined
    (tensor,) = pieces.values()
    return tensor


def _elements(box: Box) -> int:
    return math.prod(end - begin for begin, end in box)
