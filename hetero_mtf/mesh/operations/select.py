"""Choosing one of two tensors while a program runs."""

from __future__ import annotations

import tensorflow as tf

COPIED_UP_TO = 2**14  # elements: copying so many takes less time than the nodes of a conditional


def select(condition: tf.Tensor, one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Return one of two tensors: a copy of small ones, large ones by reference.

    Parameters
    ----------
    condition : () bool, whether it is the first one.
    one, other : of the same static shape.
    """
    if is_copied(one):
        return tf.where(condition, one, other)
    return tf.cond(condition, lambda: one, lambda: other)


def is_copied(tensor: tf.Tensor) -> bool:
    """Return whether copying a tensor is quicker than a conditional.

    Parameters
    ----------
    tensor : of static shape.
    """
    return int(tensor.shape.num_elements()) <= COPIED_UP_TO
