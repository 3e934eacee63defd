"""All-reduce by recursive halving, which leaves each processor one chunk of the result, and doubling, which distributes the chunks."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.collectives.butterfly import fold
from hetero_mtf.mesh.collectives.placement import Combine, chunk_sizes, elements_of, flat, on


def halving_doubling(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine) -> list[tf.Tensor]:
    """Return the combination of all tensors, on every processor: 2 log2 q rounds and 2 n (q-1)/q elements a processor, folds apart.

    Partners are those of the butterfly. Halving, each keeps one half of what it holds, sends the other and combines; the parts
    shrink, n/2, n/4, ... Doubling runs the rounds backwards and joins the halves again. The nearest partners exchange most.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    devices : (processors,) device strings.
    combine : associative and commutative function of two tensors; each chunk is combined on one processor and copied, so results
        are bitwise equal.
    """
    return fold(tensors, devices, combine, _among_power_of_two)


def _among_power_of_two(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine) -> list[tf.Tensor]:
    count, shape = len(tensors), tensors[0].shape
    distances = [1 << bit for bit in range(count.bit_length() - 1)]
    chunks = [on(device, flat, tensor) for tensor, device in zip(tensors, devices)]
    sizes = [chunk_sizes(elements_of(tensors[0]), count)] * count
    for distance in distances:
        chunks, sizes = _halve(chunks, sizes, devices, combine, distance)
    for distance in reversed(distances):
        chunks = [on(device, _joined, chunks[p & ~distance], chunks[p | distance], chunks[p]) for p, device in enumerate(devices)]
    return [on(device, tf.reshape, total, shape) for total, device in zip(chunks, devices)]


def _halve(
    chunks: list[tf.Tensor], sizes: list[list[int]], devices: Sequence[str], combine: Combine, distance: int
) -> tuple[list[tf.Tensor], list[list[int]]]:
    """Return what each processor holds, and the sizes of its chunks, after it kept one half and got the partner's part of it."""
    middle = len(sizes[0]) // 2
    halves = [on(d, tf.split, chunks[p], [sum(sizes[p][:middle]), sum(sizes[p][middle:])]) for p, d in enumerate(devices)]
    reduced, left = [], []
    for p, device in enumerate(devices):
        upper = 1 if p & distance else 0
        parts = halves[p & ~distance][upper], halves[p | distance][upper]
        left.append(sizes[p][middle:] if upper else sizes[p][:middle])
        reduced.append(on(device, combine, *parts) if sum(left[p]) else halves[p][upper])
    return reduced, left


def _joined(lower: tf.Tensor, upper: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
    """Return both halves joined; a half without elements is not sent."""
    present = [half for half in (lower, upper) if elements_of(half)]
    if not present:
        return own
    return tf.concat(present, 0) if len(present) == 2 else tf.identity(present[0])
