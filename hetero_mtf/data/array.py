"""Arrays: their type, and the check that something is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hetero_mtf.errors import DataError

Array = npt.NDArray[Any]
_BLOCK = 2**22  # elements looked at together, so that the answer takes little memory


def as_numbers(value: Any, what: str) -> Array:
    """Return `value` as a NumPy array of numbers.

    Parameters
    ----------
    value : an array, a tensor, or nested lists.
    what : how the message calls it, such as "x".

    Raises
    ------
    DataError
        If it is ragged, or holds anything but numbers.
    """
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as fault:
        raise DataError(f"{what} is not an array ({fault})", "pass a NumPy array whose samples all have the same shape") from fault
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise DataError(f"{what} holds values of type {array.dtype}, not numbers", "turn them into numbers first")
    return array


def check_finite(array: Array, what: str) -> None:
    """Refuse NaN and infinity.

    Parameters
    ----------
    array : any shape, numbers.
    what : how the message calls it, such as "y".

    Raises
    ------
    DataError
        Naming how many samples are concerned and the first of them.
    """
    if array.dtype.kind in "biu" or not array.size:
        return
    starts = range(0, len(array), max(1, _BLOCK * len(array) // array.size))
    step = starts.step
    bad = np.concatenate([~np.isfinite(array[at : at + step]).reshape(len(array[at : at + step]), -1).all(axis=1) for at in starts])
    if bad.any():
        extent = f"{int(bad.sum())} of {len(array)} samples, the first at {int(bad.argmax())}"
        raise DataError(f"{what} has NaN or infinite values in {extent}", "remove them")
