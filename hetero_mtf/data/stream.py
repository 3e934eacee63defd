"""Stream: whatever makes batches, opened at any batch of a pass."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from hetero_mtf.errors import DataError

KINDS = "a generator, a function that makes one, a list of batches, a keras.utils.PyDataset, a tf.data.Dataset or a torch DataLoader"


@dataclasses.dataclass(frozen=True)
class Stream:
    """Passes over something that makes batches.

    Parameters
    ----------
    open : gives an iterator over one pass, from the batch of the number it is called with.
    length : batches a pass, or None where that is not known.
    endless : whether a pass is known never to end.
    once : whether there is one pass only, which cannot go back.
    open_in : gives an iterator over one pass in an order of its batches, from the one of the given place in it; None where batches are
        not shuffled.
    """

    open: Callable[[int], Iterator[Any]]
    length: int | None = None
    endless: bool = False
    once: bool = False
    open_in: Callable[[Sequence[int], int], Iterator[Any]] | None = None


def is_tensor_dataset(value: Any) -> bool:
    """Return whether `value` is a tf.data.Dataset, without importing TensorFlow to find out."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.data.Dataset)


def is_torch_loader(value: Any) -> bool:
    """Return whether `value` is a DataLoader of PyTorch, by the names of its classes, as Keras does: PyTorch need not be installed."""
    return any(kind.__name__ == "DataLoader" and "torch.utils.data" in str(kind.__module__) for kind in type(value).__mro__)


def is_py_dataset(value: Any) -> bool:
    """Return whether `value` is a keras.utils.PyDataset, of which Keras shuffles the batches, without importing Keras to find out."""
    return any(kind.__name__ == "PyDataset" and str(kind.__module__).startswith("keras.") for kind in type(value).__mro__)


def stream_of(value: Any) -> Stream:
    """Return `value` as a stream.

    Parameters
    ----------
    value : a generator, a function that makes one, an iterable, something with length and index, a tf.data.Dataset, or a torch DataLoader.

    Raises
    ------
    DataError
        If it is nothing of the kind.
    """
    if is_tensor_dataset(value):
        return _tensor_stream(value)
    if is_torch_loader(value):
        return _torch_stream(value)
    if hasattr(value, "__getitem__") and hasattr(value, "__len__") and not isinstance(value, (str, bytes, dict)):
        return _indexed_stream(value)
    if callable(value) and not isinstance(value, type):
        if _needs_arguments(value):
            raise DataError("a function that makes batches must need no arguments; wrap it in a lambda")
        return Stream(lambda first: itertools.islice(iter(value()), first, None))
    if hasattr(value, "__iter__") and not isinstance(value, (str, bytes, dict)):
        return _once(value) if iter(value) is value else Stream(lambda first: itertools.islice(iter(value), first, None))
    raise DataError(f"batches cannot be drawn from a {type(value).__name__}; pass {KINDS}, or arrays x and y")


def _needs_arguments(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return True
    except ValueError:  # without a signature only the call shows it
        return False
    return False


def _tensor_stream(dataset: Any) -> Stream:
    import tensorflow as tf

    with concurrent.futures.ThreadPoolExecutor(1) as thread:  # eager, whatever graph the caller is building
        count = int(thread.submit(dataset.cardinality).result())
    endless = count == tf.data.INFINITE_CARDINALITY
    return Stream(lambda first: iter(dataset.skip(first).as_numpy_iterator()), count if count >= 0 else None, endless)


def _torch_stream(loader: Any) -> Stream:
    """Return passes over a DataLoader, whose tensors become arrays; it has a length if its data set has one."""
    length = len(loader) if hasattr(loader.dataset, "__len__") else None
    return Stream(lambda first: (_of_torch(item) for item in itertools.islice(iter(loader), first, None)), length)


def _of_torch(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {name: _of_torch(value) for name, value in item.items()}
    if isinstance(item, (list, tuple)):
        return tuple(map(_of_torch, item))
    return item.detach().cpu().numpy() if hasattr(item, "detach") else item


def _indexed_stream(sequence: Any) -> Stream:
    length = getattr(sequence, "num_batches", None) if hasattr(sequence, "num_batches") else len(sequence)

    def opened_in(order: Iterable[int], first: int) -> Iterator[Any]:
        if not first:
            getattr(sequence, "on_epoch_begin", _nothing)()
        for number in itertools.islice(order, first, None):
            yield sequence[int(number)]
        getattr(sequence, "on_epoch_end", _nothing)()

    def opened(first: int) -> Iterator[Any]:
        return opened_in(itertools.count() if length is None else range(length), first)

    return Stream(opened, length, length is None, open_in=opened_in if length is not None and is_py_dataset(sequence) else None)


def _nothing() -> None:
    """Stand in for a hook that a sequence does not have."""


def _once(iterator: Iterator[Any]) -> Stream:
    drawn = 0

    def opened(first: int) -> Iterator[Any]:
        nonlocal drawn
        if first < drawn:
            wrong = f"a generator of batches can be drawn once only, and batch {first} was asked for after {drawn} had been drawn"
            raise DataError(f"{wrong}; pass the function that makes the generator, or steps_per_epoch")
        for item in iterator:
            drawn += 1
            if drawn > first:
                yield item

    return Stream(opened, once=True)
