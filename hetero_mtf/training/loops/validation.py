"""Which options of `Trainer.fit` are refused, and the samples that it validates on."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import keras
import numpy as np

from hetero_mtf.errors import DataError
from hetero_mtf.report.progress import check_verbose


def check_fit(epochs: int, verbose: str | int, shuffle: Any = True) -> None:
    """Raise if there is no epoch to train for, the verbosity is none, or data are to be shuffled by batches.

    Raises
    ------
    DataError
        If so.
    """
    if not isinstance(shuffle, (bool, np.bool_, int)):
        raise DataError(f"shuffle is {shuffle!r}", "give True for an order of samples that is drawn for each epoch, or False for theirs")
    if epochs < 1:
        raise DataError(f"epochs is {epochs}", "train for at least 1")
    check_verbose(verbose)


def check_validation(every: Any, batch_size: int | None, steps: int | None) -> None:
    """Raise if an option of validation is out of range.

    Parameters
    ----------
    every, batch_size, steps : `validation_freq`, `validation_batch_size` and `validation_steps` of `Trainer.fit`.

    Raises
    ------
    DataError
        If so.
    """
    if isinstance(every, bool) or not (every >= 1 if isinstance(every, int) else isinstance(every, Collection)):
        raise DataError(f"validation_freq is {every!r}", "give a number of epochs from 1, or the numbers of the epochs")
    for name, number in {"validation_batch_size": batch_size, "validation_steps": steps}.items():
        if number is not None and number < 1:
            raise DataError(f"{name} is {number!r}", "give a number from 1")


def split_off(x: Any, y: Any, sample_weight: Any, part: float) -> tuple[tuple[Any, Any, Any], tuple[Any, ...]]:
    """Return samples to train on, and the last part of them to validate on, as Keras does with `validation_split`.

    Parameters
    ----------
    x, y, sample_weight : as for `Trainer.fit`.
    part : `validation_split` there.

    Raises
    ------
    DataError
        If it is out of range, or the data cannot be split.
    """
    leaves = keras.tree.flatten(x)
    if isinstance(part, bool) or not 0 < part < 1:
        raise DataError(f"validation_split is {part!r}", "give a part between 0 and 1")
    if y is None or not all(hasattr(leaf, "shape") or isinstance(leaf, (list, tuple)) for leaf in leaves):
        raise DataError("validation_split is for arrays", "give validation_data beside a stream of batches")
    count = len(leaves[0])
    at = math.floor(count * (1.0 - part))
    if not 0 < at < count:
        raise DataError(f"validation_split is {part!r}, which leaves nothing on one side of {count} samples", "give more, or another part")

    def of(where: slice, value: Any) -> Any:
        return None if value is None else keras.tree.map_structure(lambda leaf: None if leaf is None else leaf[where], value)

    train, test = slice(at), slice(at, None)
    kept = (of(test, x), of(test, y), of(test, sample_weight))
    return (of(train, x), of(train, y), of(train, sample_weight)), kept if sample_weight is not None else kept[:2]
