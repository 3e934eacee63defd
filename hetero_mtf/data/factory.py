"""Which form data have, and one entry point to the batches that are drawn here: of arrays, and of sources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.data.form import Form
from hetero_mtf.data.source import BatchSource
from hetero_mtf.data.stream import is_tensor_dataset
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
    x : (samples, ...) array, several packed as the model's inputs, or a BatchSource, which is returned as it is.
    y : (samples, ...) array of labels.
    batch_size : samples a batch, of arrays.
    sample_weight : (samples,) or (samples, ...) array of float, of arrays.
    class_weight : weight of each class number; becomes sample weights.
    shuffle : whether arrays are taken in an order of their own in each epoch.
    seed : seed of that order.
    steps_per_epoch : batches an epoch, of arrays.
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
    packed = _is_packed(x, y, labels, form)
    if not is_array(x) and not packed and (is_tensor_dataset(x) or not isinstance(x, (list, tuple))):
        _refuse(f"a {type(x).__name__}", y=y)
    if y is None and labels:
        raise DataError(f"x is {'a dict' if packed else 'an array'} and y is missing", "pass the labels as y")
    options: dict[str, Any] = {"class_weight": class_weight, "dtype": dtype, "form": form, "finite": finite}
    return ArraySource(x, y, sample_weight, batch_size, shuffle, seed, steps_per_epoch=steps_per_epoch, **options)


def is_stream(x: Any, y: Any = None, sample_weight: Any = None, *, labels: bool = True, form: Form | None = None) -> bool:
    """Return whether data are a stream of batches, which Keras itself draws from, rather than arrays or a BatchSource.

    Parameters
    ----------
    x, y, sample_weight, labels, form : as for `batch_source`.

    Raises
    ------
    DataError
        If they are, and weights are given beside them.
    """
    if isinstance(x, BatchSource) or y is not None or is_array(x) or _is_packed(x, y, labels, form):
        return False
    if isinstance(x, (list, tuple)) and not labels:
        return False
    _refuse("a stream of batches", sample_weight=sample_weight)
    return True


def _is_packed(x: Any, y: Any, labels: bool, form: Form | None) -> bool:
    return form is not None and not is_array(x) and form.holds_arrays(x, y, labels)


def is_array(x: Any) -> bool:
    """Return whether data are one array, of NumPy, Keras, TensorFlow or pandas."""
    return hasattr(x, "shape") and hasattr(x, "dtype") or hasattr(x, "to_numpy")


def _refuse(form: str, **options: Any) -> None:
    names = [name for name, value in options.items() if value is not None]
    if names:
        raise DataError(f"x is {form} and {', '.join(names)} cannot go with it", "leave it out, or hand it over within x")
