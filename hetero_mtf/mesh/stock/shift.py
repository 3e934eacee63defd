"""Shifts along a dimension that may be split into unequal slices; halo exchanges consist of them."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.lowering import Lowering, lower_operation

# A run of elements of one slice: (owner, begin in its slice, length); no owner means zeros.
Run = tuple[int | None, int, int]


def runs(begin: int, length: int, offset: int, sizes: Sequence[int], wrap: bool) -> list[Run]:
    """Return the runs of which [begin, begin + length) consists after all elements move right by `offset`.

    Parameters
    ----------
    sizes : (owners,) elements of each owner, side by side.
    wrap : whether elements that leave at one end enter at the other; else zeros enter.

    Examples
    --------
    >>> runs(0, 4, 1, [3, 2], wrap=True)
    [(1, 1, 1), (0, 0, 3)]
    >>> runs(0, 4, 1, [3, 2], wrap=False)
    [(None, 0, 1), (0, 0, 3)]
    """
    starts = [sum(sizes[:owner]) for owner in range(len(sizes))]
    total = sum(sizes)
    pieces: list[Run] = []
    place, end = begin, begin + length
    while place < end:
        source = place - offset
        if wrap:
            source %= total
        if not 0 <= source < total:
            extent = min(end - place, -source if source < 0 else end - place)
            pieces.append((None, 0, extent))
        else:
            owner = next(o for o, start in enumerate(starts) if start <= source < start + sizes[o])
            extent = min(end - place, starts[owner] + sizes[owner] - source)
            pieces.append((owner, source - starts[owner], extent))
        place += extent
    return pieces


@lower_operation.register(mtf.ShiftOperation)
def _lower_shift(operation: mtf.Operation, lowering: Lowering) -> None:
    """Slice the runs of each processor's new slice on their owners, and join them on the processor."""
    impl, x = lowering.mesh_impl(operation), operation.inputs[0]
    slices, place, dimension = lowering.slices(x), operation._axis, operation._dim
    axis = impl.axis_of(dimension.name)
    sizes = (dimension.size,) if axis is None else impl.sizes_of(dimension)

    def piece(pnum: int, run: Run) -> tf.Tensor:
        owner, begin, extent = run
        shape = impl.processor_shape(x.shape, pnum)
        shape[place] = extent
        if owner is None:
            return tf.zeros(shape, x.dtype)
        source = pnum if axis is None else impl.neighbour(pnum, axis, owner)
        with tf.device(impl.devices[source]):
            return tf.slice(slices[source], [begin if i == place else 0 for i in range(len(shape))], shape)

    def moved(pnum: int) -> tf.Tensor:
        shape = impl.processor_shape(x.shape, pnum)
        if 0 in shape:
            return tf.zeros(shape, x.dtype)
        begin = impl.slice_begin(x.shape, pnum)[place]
        pieces = [piece(pnum, run) for run in runs(begin, shape[place], operation._offset, sizes, operation._wrap)]
        return tf.concat(pieces, place)

    lowering.set_tensor_lowering(operation.outputs[0], impl.on_processors(moved))
