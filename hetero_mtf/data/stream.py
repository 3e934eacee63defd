"""Streams: what Keras itself draws batches from."""

from __future__ import annotations

import sys
import types
from typing import Any

from hetero_mtf.errors import DataError

KINDS = "a generator, a keras.utils.PyDataset, a tf.data.Dataset or a torch DataLoader"


def is_tensor_dataset(value: Any) -> bool:
    """Return whether `value` is a tf.data.Dataset, without importing TensorFlow to find out."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.data.Dataset)


def is_torch_loader(value: Any) -> bool:
    """Return whether `value` is a DataLoader of PyTorch, by the names of its classes, as Keras does: PyTorch need not be installed."""
    return any(kind.__name__ == "DataLoader" and "torch.utils.data" in str(kind.__module__) for kind in type(value).__mro__)


def is_py_dataset(value: Any) -> bool:
    """Return whether `value` is a keras.utils.PyDataset, without importing Keras to find out."""
    return any(kind.__name__ == "PyDataset" and str(kind.__module__).startswith("keras.") for kind in type(value).__mro__)


def checked_stream(value: Any, steps: int | None) -> Any:
    """Return what Keras takes for a stream of batches.

    Parameters
    ----------
    value : a generator, another iterator, a keras.utils.PyDataset, a tf.data.Dataset that is batched, or a torch DataLoader.
    steps : batches that are drawn an epoch, None for a full pass.

    Raises
    ------
    DataError
        If it is nothing of the kind, or endless without `steps`.
    """
    if is_tensor_dataset(value):
        if steps is None and int(value.cardinality()) == -1:
            raise DataError("the stream of batches never ends", "pass steps, or cut it, as with dataset.take(100)")
        return value
    if isinstance(value, types.GeneratorType) or is_py_dataset(value) or is_torch_loader(value):
        return value
    if hasattr(value, "__next__"):
        return (item for item in value)
    call = "; call it, for its generator" if callable(value) and not isinstance(value, type) else f"; pass {KINDS}, or arrays x and y"
    raise DataError(f"batches cannot be drawn from a {type(value).__name__}{call}")
