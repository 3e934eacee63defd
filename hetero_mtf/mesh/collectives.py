"""Collectives among processors whose slices may be unequal.

Every function takes one tensor a processor and the processors' device strings, and returns one
tensor a processor. Reductions give every processor the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# Below this many elements an all-reduce sends the whole tensor along a chain: splitting it would
# only multiply the latency.
CHUNKED_ELEMENTS = 1024

Combine = Callable[[Any, Any], Any]


def chunk_sizes(elements: int, processors: int) -> list[int]:
    """Return sizes of `processors` chunks of `elements` that differ by at most one.

    >>> chunk_sizes(10, 3)
    [4, 3, 3]
    """
    share, rest = divmod(elements, processors)
    return [share + (1 if index < rest else 0) for index in range(processors)]


def all_reduce(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine = tf.add) -> list[tf.Tensor]:
    """Return the combination of all tensors, on every processor.

    Two processors exchange their tensors whole: as many bytes as a ring, in one round. More form a
    ring over unequal chunks: chunk k is combined on its way round from processor k+1 to k, then
    copied on, 2 (p-1) rounds and 2 n (p-1)/p elements sent a processor.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    devices : (processors,) device strings.
    combine : associative function of two tensors.
    """
    count = len(tensors)
    if count == 1:
        return list(tensors)
    if count == 2:
        return [_on(device, combine, tensors[0], tensors[1]) for device in devices]
    elements = int(tensors[0].shape.num_elements())
    if elements < CHUNKED_ELEMENTS:
        return _chain(tensors, devices, combine, first=0)
    sizes = chunk_sizes(elements, count)
    pieces = [_on(device, _flat_split, tensor, sizes) for tensor, device in zip(tensors, devices)]
    reduced = [_chain([piece[k] for piece in pieces], devices, combine, first=(k + 1) % count) for k in range(count)]
    shape = tensors[0].shape
    return [_on(device, _join, [chunk[p] for chunk in reduced], shape) for p, device in enumerate(devices)]


def _chain(tensors: Sequence[tf.Tensor], devices: Sequence[str], combine: Combine, first: int) -> list[tf.Tensor]:
    """Combine along the ring from processor `first`, then copy the result along the ring."""
    count = len(tensors)
    order = [(first + step) % count for step in range(count)]
    total = tensors[order[0]]
    for p in order[1:]:
        total = _on(devices[p], combine, total, tensors[p])
    results = {order[-1]: total}
    for p in order[:-1]:
        total = _on(devices[p], tf.identity, total)
        results[p] = total
    return [results[p] for p in range(count)]


def reduce_scatter(tensors: Sequence[tf.Tensor], devices: Sequence[str], axis: int, sizes: Sequence[int]) -> list[tf.Tensor]:
    """Return on processor p the sum of everybody's p-th piece along `axis`.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    axis : the axis that is cut.
    sizes : (processors,) extents of the pieces; they sum to the extent of `axis`.
    """
    pieces = [_on(device, tf.split, tensor, list(sizes), axis) for tensor, device in zip(tensors, devices)]
    return [_on(device, tf.add_n, [piece[p] for piece in pieces]) for p, device in enumerate(devices)]


def all_gather(tensors: Sequence[tf.Tensor], devices: Sequence[str], axis: int) -> list[tf.Tensor]:
    """Return the concatenation of all tensors along `axis`, on every processor; empty slices are not sent."""
    present = [tensor for tensor in tensors if tensor.shape[axis] != 0]
    if len(present) == 1:
        return [_on(device, tf.identity, present[0]) for device in devices]
    return [_on(device, tf.concat, present, axis) for device in devices]


def all_to_all(
    tensors: Sequence[tf.Tensor], devices: Sequence[str], split_axis: int, concat_axis: int, sizes: Sequence[int]
) -> list[tf.Tensor]:
    """Return on processor p everybody's p-th piece along `split_axis`, joined along `concat_axis`; empty pieces are not sent.

    Parameters
    ----------
    tensors : (processors,) tensors that differ in extent along `concat_axis` only.
    split_axis, concat_axis : two different axes.
    sizes : (processors,) extents of the pieces; they sum to the extent of `split_axis`.
    """
    pieces = [_on(device, tf.split, tensor, list(sizes), split_axis) for tensor, device in zip(tensors, devices)]
    sent = [piece for tensor, piece in zip(tensors, pieces) if tensor.shape[concat_axis] != 0]
    return [_on(device, tf.concat, [piece[p] for piece in sent], concat_axis) for p, device in enumerate(devices)]


def _on(device: str, function: Callable[..., Any], *arguments: Any) -> Any:
    with tf.device(device):
        return function(*arguments)


def _flat_split(tensor: tf.Tensor, sizes: Sequence[int]) -> list[tf.Tensor]:
    return tf.split(tf.reshape(tensor, [-1]), list(sizes))


def _join(chunks: Sequence[tf.Tensor], shape: tf.TensorShape) -> tf.Tensor:
    return tf.reshape(tf.concat(list(chunks), 0), shape)
