"""One entry point to batches, whatever form the data has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.data.form import Form
from hetero_mtf.data.source import BatchSource
from hetero_mtf.data.stream import is_tensor_dataset
from hetero_mtf.data.stream_source import StreamSource
from hetero_mtf.errors import DataError


def batch_source(
    x: Any,
    y: Any = None,
    *,
    batch_size: int = 32,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
    shuffle: bool = True,
    seed: int = 0,
    steps_per_epoch: int | None = None,
    dtype: str | None = None,
    labels: bool = True,
    form: Form | None = None,
    finite: bool = False,
) -> BatchSource:
    """Return a source of batches of `x` and `y`.

    Parameters
    ----------
    x : (samples, ...) array, several packed as the model's inputs, a stream that gives batches (see `StreamSource`), or a
        BatchSource, which is returned as it is.
    y : (samples, ...) array of labels; None where the stream gives them.
    batch_size : samples a batch, of arrays.
    sample_weight : (samples,) or (samples, ...) array of float, of arrays.
    class_weight : weight of each class number; becomes sample weights.
    shuffle : whether arrays, and the batches of a keras.utils.PyDataset, are taken in an order of their own in each epoch; other streams
        keep theirs.
    seed : seed of that order.
    steps_per_epoch : batches an epoch, of arrays and streams.
    dtype : what samples and weights are cast to; None leaves them.
    labels : whether labels are needed, as for training; not for predicting.
    form : how the model packs several inputs and outputs; None where there is one array of each.
    finite : whether NaN and infinity in `x` are refused, as for training; a BatchSource is not looked into.

    Raises
    ------
    DataError
        If the parts do not fit each other, or an option does not go with the form of the data.

    Examples
    --------
    >>> import numpy as np
    >>> with batch_source(np.zeros((5, 2)), np.arange(5), batch_size=2, shuffle=False) as source:
    ...     [batch.y.tolist() for batch in source]
    [[0, 1], [2, 3], [4]]
    """
    if isinstance(x, BatchSource):
        _refuse("a BatchSource", y=y, sample_weight=sample_weight, class_weight=class_weight, steps_per_epoch=steps_per_epoch)
        return x
    packed = form is not None and not is_array(x) and form.holds_arrays(x, y, labels)
    if y is None and not is_array(x) and not packed:
        _refuse("a stream of batches", sample_weight=sample_weight)
        drawn: dict[str, Any] = {"class_weight": class_weight, "dtype": dtype, "labels": labels, "form": form, "finite": finite}
        return StreamSource(x, steps_per_epoch, **drawn, shuffle=shuffle, seed=seed)
    if not is_array(x) and not packed and (is_tensor_dataset(x) or not isinstance(x, (list, tuple))):
        _refuse(f"a {type(x).__name__}", y=y)
    if y is None and labels:
        raise DataError(f"x is {'a dict' if packed else 'an array'} and y is missing; pass the labels as y")
    options: dict[str, Any] = {"class_weight": class_weight, "dtype": dtype, "form": form, "finite": finite}
    return ArraySource(x, y, sample_weight, batch_size, shuffle, seed, steps_per_epoch=steps_per_epoch, **options)


@contextlib.contextmanager
def opened_source(x: Any, y: Any = None, **options: Any) -> Iterator[BatchSource]:
    """Yield what `batch_source` returns and close it after the block, unless it was handed over as `x`: who made it closes it.

    Parameters
    ----------
    x, y, options : as for `batch_source`.
    """
    source = batch_source(x, y, **options)
    try:
        yield source
    finally:
        if source is not x:
            source.close()


def is_array(x: Any) -> bool:
    """Return whether data are one array, of NumPy, Keras, TensorFlow or pandas."""
    return hasattr(x, "shape") and hasattr(x, "dtype") or hasattr(x, "to_numpy")


def _refuse(form: str, **options: Any) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise DataError(f"x is {form} and {', '.join(given)} cannot go with it; leave it out, or hand it over within x")
