"""Batches as Keras's loops hand them over."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from hetero_mtf.errors import DataError


def arrays_of(data: Any, as_given: bool = False) -> Any:
    """Return (x, y, sample_weight) of a batch with NumPy arrays for TensorFlow's tensors, and None for what an iterator gives instead.

    Parameters
    ----------
    data : a batch as Keras gives it.
    as_given : whether to return it in its own structure.

    Raises
    ------
    DataError
        If it is ragged, or one of `tf.distribute`.
    """
    def array(leaf: Any) -> Any:
        if isinstance(leaf, tf.experimental.Optional):
            return None
        if isinstance(leaf, tf.SparseTensor):
            return tf.sparse.to_dense(leaf).numpy()
        if isinstance(leaf, tf.RaggedTensor):
            raise DataError(f"a batch has a ragged tensor of shape {leaf.shape}", "make its rows equally long with .to_tensor()")
        if type(leaf).__name__ == "PerReplica":
            raise DataError(
                "the data are a distributed dataset of tf.distribute", "give the dataset itself, each device gets its part of it"
            )
        return leaf.numpy() if isinstance(leaf, tf.Tensor) else leaf

    if as_given:
        return keras.tree.map_structure(array, data)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    return tuple(keras.tree.map_structure(array, part) if part is not None else None for part in (x, y, sample_weight))
