"""All-reduce by recursive doubling, and how processors beyond a power of two fold in and out."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.collectives.placement import AllReduce, Combine, on
from hetero_mtf.planning.cost.rounds import folded


def butterfly(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine) -> list[tf.Tensor]:
    """Return the combination of all tensors, on every processor: log2 q rounds of the whole tensor, 2 more if p > q.

    In round t the partners are q processors whose numbers differ in bit t, q the largest power of two up to p:

        q = 4         round 1             round 2
                      0 <-> 1, 2 <-> 3    0 <-> 2, 1 <-> 3

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    devices : (processors,) device strings.
    combine : associative and commutative function of two tensors; both partners put the lower one first, so results are bitwise equal.

    Notes
    -----
    Every processor adds by itself: results are bitwise equal on devices that add as IEEE 754 prescribes.
    """
    return fold(tensors, devices, combine, _doubling)


def fold(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine, inner: AllReduce) -> list[tf.Tensor]:
    """Return the all-reduce of `inner` among a power of two of processors, to which the odd ones send their tensors first.

    Parameters
    ----------
    tensors, devices, combine : as for `butterfly`.
    inner : all-reduce for a power of two of processors.
    """
    members, pairs = folded(len(tensors))
    sums = dict(enumerate(tensors))
    for odd, neighbour in pairs:
        sums[neighbour] = on(devices[neighbour], combine, sums[neighbour], sums[odd])
    sums |= zip(members, inner([sums[p] for p in members], [devices[p] for p in members], combine))
    for odd, neighbour in pairs:
        sums[odd] = on(devices[odd], tf.identity, sums[neighbour])
    return [sums[p] for p in range(len(tensors))]


def _doubling(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine) -> list[tf.Tensor]:
    sums, distance = list(tensors), 1
    while distance < len(sums):
        sums = [on(device, combine, sums[p & ~distance], sums[p | distance]) for p, device in enumerate(devices)]
        distance *= 2
    return sums
