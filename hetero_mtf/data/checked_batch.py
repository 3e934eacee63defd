"""Batch: samples, labels and weights that are trained on together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hetero_mtf.data.array import Array, as_numbers, check_finite
from hetero_mtf.data.form import Form
from hetero_mtf.errors import DataError


class Batch(NamedTuple):
    """One batch, at its true size.

    A network with several inputs has a tuple of arrays as x, in the order of its inputs; one with several outputs likewise as y,
    and one array or a tuple as sample_weight. Labels and weights of an output may be None.

    Parameters
    ----------
    x : (samples, ...) array.
    y : (samples, ...) array of labels, or None where only predictions are wanted.
    sample_weight : (samples,) array of float, or (samples, ...) with one for each value of the loss; None where all weigh one.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.x[0] if isinstance(self.x, tuple) else self.x)

    def taken(self, chosen: Array) -> Batch:
        """Return the samples of some indices.

        Parameters
        ----------
        chosen : (chosen samples,) array of int, or (samples,) array of bool.
        """
        return Batch(*(each(part, lambda array: array[chosen]) for part in self))


def each(part: Any, change: Callable[[Array], Array]) -> Any:
    """Return a part of a batch with all its arrays changed.

    Parameters
    ----------
    part : an array, a tuple of arrays, or None, in a tuple too.
    change : array -> array.
    """
    if isinstance(part, tuple):
        return tuple(each(item, change) for item in part)
    return None if part is None else change(part)


def check_batch(x: Any, y: Any, sample_weight: Any, where: str = "", form: Form | None = None, *, finite: bool = False) -> Batch:
    """Return `x`, `y` and `sample_weight` as arrays that fit each other.

    Parameters
    ----------
    x : (samples, ...) array-like of numbers, at least one sample.
    y : (samples, ...) array-like of finite numbers, or None.
    sample_weight : (samples,) or (samples, ...) array-like, finite and not negative, or None; one array for several outputs has one weight
        a sample.
    where : how the message calls the place, such as " of batch 3"; empty for whole data.
    form : how the model packs several of them; None where each is one array.
    finite : whether NaN and infinity in `x` are refused too, as for training.

    Raises
    ------
    DataError
        If one is no array, is empty, differs in length, or holds values that cannot be meant.
    """
    if form is not None:
        x = form.x(x, where)
        y = None if y is None else form.y(y, where)
        sample_weight = None if sample_weight is None else form.weight(sample_weight, where)
    names, first_name = (form.outputs.names, form.inputs.names[0]) if form else ((), "")
    samples = _each_named(x, "x", where, form.inputs.names if form else (), lambda array, what: _check_samples(array, what, finite))
    first = samples[0] if isinstance(samples, tuple) else samples
    for name, part in zip(form.inputs.names if form else (), samples if isinstance(samples, tuple) else ()):
        if len(part) != len(first):
            wrong = f"input {name} has {len(part)} samples and input {first_name} {len(first)}"
            raise DataError(f"x{where} does not fit together: {wrong}", "there must be as many of each")
    if form is not None and isinstance(y, (list, tuple)) and len(y) == form.outputs.count == 1 and np.shape(y[0])[:1] == (len(first),):
        y = y[0]  # a list of one output
    one = isinstance(sample_weight, (list, tuple)) and len(sample_weight) == 1 == len(names)
    if one and np.shape(sample_weight[0])[:1] == (len(first),) and np.ndim(sample_weight[0]):
        sample_weight = sample_weight[0]
    labels = _each_named(y, "y", where, names, lambda array, what: _check_labels(array, len(first), where, what))
    weights = _each_named(sample_weight, "sample_weight", where, names, lambda w, what: _check_weights(w, len(first), where, what))
    if len(names) > 1 and weights is not None and not isinstance(weights, tuple) and weights.ndim > 1:
        wrong = f"sample_weight{where} has shape {weights.shape} and there are {len(names)} outputs"
        raise DataError(wrong, "give one weight a sample for all, or one array for each")
    return Batch(samples, labels, weights)


def _each_named(part: Any, what: str, where: str, names: Sequence[str], check: Callable[[Array, str], Array]) -> Any:
    """Return a part of a batch with its arrays checked, each called by its name where there are several."""
    if not isinstance(part, tuple) or not names:
        return None if part is None else check(as_numbers(part, f"{what}{where}"), f"{what}{where}")
    if len(part) != len(names):
        raise DataError(f"{what}{where} has {len(part)} arrays and the model {len(names)} of them", "hand over one array for each")
    called = [f"{what} of {name}{where}" for name in names]
    return tuple(None if array is None else check(as_numbers(array, name), name) for name, array in zip(called, part))


def _check_samples(samples: Array, what: str, finite: bool) -> Array:
    if not samples.ndim:
        raise DataError(f"{what} is a single number", "hand over an array of shape (samples, ...)")
    if not len(samples):
        raise DataError(f"{what} is empty, its shape is {samples.shape}", "there must be at least one sample")
    if finite:
        check_finite(samples, what)
    return samples


def _check_labels(y: Array, samples: int, where: str, what: str) -> Array:
    if y.shape[:1] != (samples,):
        shown = what.removesuffix(where)
        raise DataError(f"x{where} has {samples} samples and {shown} has shape {y.shape}", "there must be one label a sample")
    check_finite(y, what)
    return y


def _check_weights(weights: Array, samples: int, where: str, what: str) -> Array:
    if weights.shape[:1] != (samples,):
        shown = what.removesuffix(where)
        wrong = f"x{where} has {samples} samples and {shown} has shape {weights.shape}"
        raise DataError(wrong, "there must be one weight a sample, or one for each value of its loss")
    check_finite(weights, what)
    if (weights < 0).any():
        raise DataError(f"{what} goes down to {weights.min():g}", "weights must not be negative")
    return weights.reshape(samples) if weights.shape[1:] == (1,) else weights


def check_class_weight(class_weight: Any) -> dict[int, float]:
    """Return `class_weight` with plain numbers.

    Parameters
    ----------
    class_weight : dict from class number to weight, finite and not negative.

    Raises
    ------
    DataError
        If it is no such dict.
    """
    try:
        weights = {int(number): float(weight) for number, weight in dict(class_weight).items()}
    except (TypeError, ValueError) as fault:
        wrong = f"class_weight {class_weight!r} is not a dict from class number to weight"
        raise DataError(wrong, "write for instance {0: 1.0, 1: 3.0}") from fault
    bad = {number: weight for number, weight in weights.items() if not 0 <= weight < np.inf or number < 0}
    if bad:
        raise DataError(f"class_weight has {bad}", "class numbers and weights must not be negative, and weights be finite")
    return weights


def weights_by_class(y: Array, class_weight: dict[int, float], where: str = "", numbered: bool = False) -> Array:
    """Return the weight of every sample, or of each of its pixels or places: its class's, or 1 for a class that is not listed.

    The last dimension of `y` holds classes, one-hot, or has the size 1, as in Keras. Keras takes the classes of places from a
    tf.data.Dataset only, and those of numbers without such a dimension not at all; here both are taken everywhere.

    Parameters
    ----------
    y : (samples,) array of class numbers, (samples, ..., 1) array of these, or (samples, ..., classes) array, one-hot.
    class_weight : weight of each class number.
    where : how the message calls the place.
    numbered : whether all numbers in `y` are class numbers, whatever its last dimension.

    Returns
    -------
    (samples, ...) array of float64, without the last dimension of `y` but where it is the only one or `numbered`.

    Raises
    ------
    DataError
        If `y` is not made of whole numbers.
    """
    numbers = y if numbered or y.ndim == 1 else y.argmax(axis=-1) if y.shape[-1] > 1 else y[..., 0]
    between = numbers[numbers != np.round(numbers)]
    if len(between):
        raise DataError(f"class_weight needs class numbers and y{where} has values such as {between[0]:g}", "pass sample_weight instead")
    classes, place = np.unique(numbers, return_inverse=True)
    return np.array([class_weight.get(int(c), 1.0) for c in classes])[place].reshape(numbers.shape)


def add_class_weight(batch: Batch, class_weight: dict[int, float], where: str = "", form: Form | None = None) -> Batch:
    """Return `batch` with its classes' weights as sample weights.

    Parameters
    ----------
    batch : with labels and without sample weights.
    class_weight : weight of each class number.
    where : how the message calls the place.
    form : how many dimensions arrays of class numbers have.

    Raises
    ------
    DataError
        If there are several outputs, no labels, or sample weights already, as Keras refuses both at once.
    """
    if isinstance(batch.y, tuple):
        raise DataError(f"class_weight goes with one output and there are {len(batch.y)}{where}", "pass sample_weight instead")
    if batch.y is None:
        raise DataError(f"class_weight needs labels and there are none{where}", "pass y")
    if batch.sample_weight is not None:
        raise DataError(f"class_weight and sample_weight are both given{where}", "multiply them yourself and pass sample_weight")
    numbered = form is not None and batch.y.ndim in form.number_ranks
    return batch._replace(sample_weight=weights_by_class(batch.y, class_weight, where, numbered))


def cast_batch(batch: Batch, dtype: str | None) -> Batch:
    """Return `batch` with its samples and weights in `dtype`; labels stay as they are.

    Parameters
    ----------
    batch : any batch.
    dtype : name of a NumPy type, or None to leave everything.
    """
    if dtype is None:
        return batch
    x, weights = (each(part, lambda array: array.astype(dtype, copy=False)) for part in (batch.x, batch.sample_weight))
    return batch._replace(x=x, sample_weight=weights)
