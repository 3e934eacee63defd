"""Gathering, scattering and exchanging slices, each in one round: pieces go directly from their owner to their destination."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.mesh.collectives.placement import on


def reduce_scatter(tensors: Sequence[tf.Tensor], devices: Sequence[str], axis: int, sizes: Sequence[int]) -> list[tf.Tensor]:
    """Return on processor p the sum of all processors' p-th pieces along `axis`; empty pieces are not sent.

    Parameters
    ----------
    tensors : (processors,) tensors of one static shape.
    axis : the axis that is split.
    sizes : (processors,) extents of the pieces; they sum to the extent of `axis`.
    """
    pieces = [on(device, tf.split, tensor, list(sizes), axis) for tensor, device in zip(tensors, devices)]
    return [on(device, tf.add_n, [piece[p] for piece in (pieces if sizes[p] else pieces[p : p + 1])]) for p, device in enumerate(devices)]


def all_gather(tensors: Sequence[tf.Tensor], devices: Sequence[str], axis: int) -> list[tf.Tensor]:
    """Return the concatenation of all tensors along `axis`, on every processor; empty slices are not sent.

    Parameters
    ----------
    tensors : (processors,) tensors that differ in extent along `axis` only.
    """
    present = [tensor for tensor in tensors if tensor.shape[axis] != 0]
    if not present:
        return list(tensors)
    return [on(device, _concat, present, axis) for device in devices]


def all_to_all(
    tensors: Sequence[tf.Tensor], devices: Sequence[str], split_axis: int, concat_axis: int, sizes: Sequence[int]
) -> list[tf.Tensor]:
    """Return on processor p all processors' p-th pieces along `split_axis`, joined along `concat_axis`; empty pieces are not sent.

    Parameters
    ----------
    tensors : (processors,) tensors that differ in extent along `concat_axis` only.
    split_axis, concat_axis : two different axes.
    sizes : (processors,) extents of the pieces; they sum to the extent of `split_axis`.
    """
    pieces = [on(device, tf.split, tensor, list(sizes), split_axis) for tensor, device in zip(tensors, devices)]
    sent = [piece for tensor, piece in zip(tensors, pieces) if tensor.shape[concat_axis] != 0]
    if not sent:
        return [piece[p] for p, piece in enumerate(pieces)]
    empty_shape = tensors[0].shape.as_list()
    empty_shape[concat_axis], empty_shape[split_axis] = sum(tensor.shape[concat_axis] for tensor in tensors), 0
    nothing = functools.partial(tf.zeros, empty_shape, tensors[0].dtype)
    return [
        on(device, _concat, [piece[p] for piece in sent], concat_axis) if sizes[p] else on(device, nothing)
        for p, device in enumerate(devices)
    ]


def _concat(pieces: Sequence[tf.Tensor], axis: int) -> tf.Tensor:
    return tf.concat(list(pieces), axis) if len(pieces) > 1 else tf.identity(pieces[0])
