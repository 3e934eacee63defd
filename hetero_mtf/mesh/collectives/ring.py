"""All-reduce by a ring over chunks, which may hold unequal parts of the tensor."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.collectives.placement import Combine, chunk_sizes, elements_of, flat_split, join, on
from hetero_mtf.planning.plan.collective_rule import segment_sizes


def ring(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine, segments: Sequence[float] = ()) -> list[tf.Tensor]:
    """Return the combination of all tensors, on every processor: 2 (p-1) rounds, 2 n (p-1)/p elements sent a processor.

    Chunk k is combined on its way round from processor k+1 to k, then copied on:

        p = 3         round 1     round 2   |  round 3     round 4
        chunk 0       1 -> 2      2 -> 0    |  0 -> 1      1 -> 2
        chunk 1       2 -> 0      0 -> 1    |  1 -> 2      2 -> 0
        chunk 2       0 -> 1      1 -> 2    |  2 -> 0      0 -> 1

    The link k -> k+1 carries 2 n - n_k - n_{k+1} elements, n_k those of chunk k. Empty chunks are not sent.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    devices : (processors,) device strings.
    combine : associative and commutative function of two tensors.
    segments : (processors,) fractions of the elements in each chunk; empty for chunks that differ by at most one element.
    """
    count, elements = len(tensors), elements_of(tensors[0])
    sizes = segment_sizes(elements, segments) if segments else chunk_sizes(elements, count)
    pieces = [on(device, flat_split, tensor, sizes) for tensor, device in zip(tensors, devices)]
    present = [k for k in range(count) if sizes[k]]
    reduced = [chain([piece[k] for piece in pieces], devices, combine, first=(k + 1) % count) for k in present]
    return [on(device, join, [chunk[p] for chunk in reduced], tensors[0].shape) for p, device in enumerate(devices)]


def chain(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine, first: int) -> list[tf.Tensor]:
    """Return the all-reduce of a ring with a single chunk: combined from processor `first` on round the ring, then copied round.

    Parameters
    ----------
    tensors, devices, combine : as for `ring`.
    first : the processor that begins.
    """
    count = len(tensors)
    order = [(first + step) % count for step in range(count)]
    total = tensors[order[0]]
    for p in order[1:]:
        total = on(devices[p], combine, total, tensors[p])
    results = {order[-1]: total}
    for p in order[:-1]:
        total = on(devices[p], tf.identity, total)
        results[p] = total
    return [results[p] for p in range(count)]
