"""What a network is validated on while it trains."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection
from typing import Any

import numpy as np

from hetero_mtf.errors import DataError
from hetero_mtf.report.progress import check_verbose


@dataclasses.dataclass(frozen=True)
class Validation:
    """What a network is validated on while it trains.

    Parameters
    ----------
    data : as `validation_data` of `Trainer.fit`; None for nothing.
    every : after how many epochs, or the numbers of the epochs, from 1.
    batch_size, steps : samples a batch of arrays, and batches at most; None for the plan's, and all.
    """

    data: Any = None
    every: int | Collection[int] = 1
    batch_size: int | None = None
    steps: int | None = None

    def is_due(self, epoch: int) -> bool:
        """Return whether the network is validated after an epoch, counted from 0."""
        if self.data is None:
            return False
        return (epoch + 1) % self.every == 0 if isinstance(self.every, int) else epoch + 1 in self.every


def check_fit(epochs: int, verbose: str | int, shuffle: Any = True) -> None:
    """Raise if there is no epoch to train for, the verbosity is none, or data are to be shuffled by batches.

    Raises
    ------
    DataError
        If so.
    """
    if not isinstance(shuffle, (bool, np.bool_, int)):
        raise DataError(f"shuffle is {shuffle!r}; give True for an order of samples that is drawn for each epoch, or False for theirs")
    if epochs < 1:
        raise DataError(f"epochs is {epochs}; train for at least 1")
    check_verbose(verbose)


def split_validation(x: Any, y: Any, sample_weight: Any, validation: Validation, part: float) -> tuple[tuple[Any, Any, Any], Validation]:
    """Return what to train on, and on what to validate: given data, or a part of the samples.

    Parameters
    ----------
    x, y, sample_weight : as for `Trainer.fit`.
    validation : what is asked for.
    part : `validation_split` there; 0 for none.

    Raises
    ------
    DataError
        If an option is out of range, or the data cannot be split.
    """
    _check_validation(validation)
    if not part or validation.data is not None:
        return (x, y, sample_weight), validation
    trained, kept = _split_off(x, y, sample_weight, part)
    return trained, dataclasses.replace(validation, data=kept)


def _check_validation(validation: Validation) -> None:
    every, numbers = validation.every, {"validation_batch_size": validation.batch_size, "validation_steps": validation.steps}
    if isinstance(every, bool) or not (every >= 1 if isinstance(every, int) else isinstance(every, Collection)):
        raise DataError(f"validation_freq is {every!r}; give a number of epochs from 1, or the numbers of the epochs")
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise DataError(f"{name} is {number!r}; give a number from 1")


def _split_off(x: Any, y: Any, sample_weight: Any, part: float) -> tuple[tuple[Any, Any, Any], tuple[Any, ...]]:
    """Return samples to train on, and the last part of them to validate on, as Keras does with `validation_split`."""
    import keras

    leaves = keras.tree.flatten(x)
    if isinstance(part, bool) or not 0 < part < 1:
        raise DataError(f"validation_split is {part!r}; give a part between 0 and 1")
    if y is None or not all(hasattr(leaf, "shape") or isinstance(leaf, (list, tuple)) for leaf in leaves):
        raise DataError("validation_split is for arrays; give validation_data beside a stream of batches")
    count = len(leaves[0])
    at = math.floor(count * (1.0 - part))
    if not 0 < at < count:
        raise DataError(f"validation_split is {part!r}, which leaves nothing on one side of {count} samples; give more, or another part")

    def of(where: slice, value: Any) -> Any:
        return None if value is None else keras.tree.map_structure(lambda leaf: None if leaf is None else leaf[where], value)

    train, test = slice(at), slice(at, None)
    kept = (of(test, x), of(test, y), of(test, sample_weight))
    return (of(train, x), of(train, y), of(train, sample_weight)), kept if sample_weight is not None else kept[:2]
