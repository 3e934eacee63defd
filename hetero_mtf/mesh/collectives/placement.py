"""Placement of the operations of a collective on devices, and chunks of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

Combine = Callable[[Any, Any], Any]
"""An associative and commutative function of two tensors of one shape: tf.add, tf.maximum, ..."""
AllReduce = Callable[[Sequence[tf.Tensor], Sequence[str], Combine], list[tf.Tensor]]
"""(tensors, devices, combine) -> the combination, once per processor."""


def on(device: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return `function(*arguments)`, placed on a device."""
    with tf.device(device):
        return function(*arguments)


def chunk_sizes(elements: int, processors: int) -> list[int]:
    """Return sizes of `processors` chunks of `elements` that differ by at most one.

    >>> chunk_sizes(10, 3)
    [4, 3, 3]
    """
    share, rest = divmod(elements, processors)
    return [share + (1 if index < rest else 0) for index in range(processors)]


def flat(tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor as a vector."""
    return tf.reshape(tensor, [-1])


def flat_split(tensor: tf.Tensor, sizes: Sequence[int]) -> list[tf.Tensor]:
    """Return the tensor as vectors of these sizes."""
    return tf.split(flat(tensor), list(sizes))


def join(chunks: Sequence[tf.Tensor], shape: tf.TensorShape) -> tf.Tensor:
    """Return the tensor of `shape` whose elements are those of the chunks, one after the other."""
    return tf.reshape(tf.concat(list(chunks), 0), shape)


def elements_of(tensor: tf.Tensor) -> int:
    """Return the number of elements of a tensor of static shape."""
    return int(tensor.shape.num_elements())
