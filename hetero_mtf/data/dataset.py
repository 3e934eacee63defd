"""Dataset: images and labels, a part to train on and a part to test on."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.errors import DataError

HELD_OUT_FRACTION = 0.2
HOLD_OUT_SEED = 0


@dataclasses.dataclass(frozen=True)
class Dataset(LabelledData):
    """A data set in memory.

    Parameters
    ----------
    name : what it was asked for by, such as "digits".
    x_train : (samples, ...) array of float, channels last.
    y_train : (samples,) array of int, class numbers; or (samples, ...) array of float, targets.
    x_test : (test samples, ...) array, as `x_train`.
    y_test : (test samples, ...) array, as `y_train`.
    classes : number of classes, 0 where the labels are not classes.
    x_validation, y_validation : samples and labels to validate on while training, likewise; None for none.

    Raises
    ------
    DataError
        If a part is empty, labels and samples differ in number, or the two parts in shape.
    """

    name: str
    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    classes: int
    x_validation: Array | None = None
    y_validation: Array | None = None

    def __post_init__(self) -> None:
        faults = []
        if (self.x_validation is None) != (self.y_validation is None):
            faults.append("one of x_validation and y_validation is missing")
        for part, (x, y) in self._parts.items():
            if len(x) != len(y):
                faults.append(f"x_{part} has {len(x)} samples and y_{part} {len(y)}")
            elif not len(x):
                faults.append(f"x_{part} is empty")
            if x.shape[1:] != self.x_train.shape[1:]:
                faults.append(f"a sample has shape {self.x_train.shape[1:]} in x_train and {x.shape[1:]} in x_{part}")
            if y.shape[1:] != self.y_train.shape[1:]:
                faults.append(f"a label has shape {self.y_train.shape[1:]} in y_train and {y.shape[1:]} in y_{part}")
        if faults:
            raise DataError(f"data set {self.name} does not fit together: {'; '.join(faults)}", "fix the files it comes from")

    @property
    def _parts(self) -> dict[str, tuple[Array, Array]]:
        parts = {"train": (self.x_train, self.y_train), "test": (self.x_test, self.y_test)}
        if self.x_validation is not None and self.y_validation is not None:
            parts["validation"] = (self.x_validation, self.y_validation)
        return parts

    def with_validation(self, fraction: float) -> Dataset:
        """Return the data set with its last training samples as those to validate on, as Keras splits them off.

        Parameters
        ----------
        fraction : part of the training samples, between 0 and 1.

        Raises
        ------
        DataError
            If it has samples to validate on already, or one side would be empty.
        """
        if self.x_validation is not None:
            raise DataError(f"data set {self.name} has {len(self.x_validation)} samples to validate on", "leave out --validation-split")
        count = len(self.x_train)
        at = math.floor(count * (1.0 - fraction))
        if not 0 < at < count:
            wrong = f"--validation-split is {fraction}, which leaves nothing on one side of the {count} training samples of {self.name}"
            raise DataError(wrong, "give another fraction")
        x, y = self.x_train, self.y_train
        return dataclasses.replace(self, x_train=x[:at], y_train=y[:at], x_validation=x[at:], y_validation=y[at:])

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a sample, its channels last."""
        return tuple(self.x_train.shape[1:])

    @property
    def label_shape(self) -> tuple[int, ...]:
        """Shape of a label; () for class numbers."""
        return tuple(self.y_train.shape[1:])

    @property
    def binary_targets(self) -> bool:
        """Whether each number of each label is 0 or 1, as in masks."""
        return all(bool(((y == 0) | (y == 1)).all()) for _, y in self._parts.values())

    @property
    def counts(self) -> dict[str, int]:
        """Samples of each part."""
        return {part: len(x) for part, (x, _) in self._parts.items()}

    def training(self, batch_size: int, seed: int = 0) -> ArraySource:
        """Return batches to train on; parameters as for `LabelledData.training`."""
        return ArraySource(self.x_train, self.y_train, None, batch_size, seed=seed)

    def testing(self, batch_size: int, part: str = "test") -> ArraySource:
        """Return batches of a part; parameters as for `LabelledData.testing`."""
        x, y = self._parts[part]
        return ArraySource(x, y, None, batch_size, shuffle=False)

    def first(self, count: int) -> tuple[Array, Array]:
        """Return the first samples to train on, and their labels; parameters as for `LabelledData.first`."""
        return self.x_train[:count], self.y_train[:count]


def count_classes(*labels: Array) -> int:
    """Return the number of classes in `labels`.

    Parameters
    ----------
    labels : arrays of labels; integers (samples,) or (samples, 1) are class numbers, 2-D arrays of zeros and ones are one-hot.

    Returns
    -------
    The largest class number plus one, the width of one-hot rows, or 0 for anything else.
    """
    first = labels[0]
    single = first.ndim == 1 or (first.ndim == 2 and first.shape[1] == 1)
    if single and first.dtype.kind in "iub":
        return int(max(y.max() for y in labels)) + 1
    if first.ndim == 2 and not single and all(_one_hot(y) for y in labels):
        return int(first.shape[1])
    return 0


def _one_hot(y: Array) -> bool:
    return bool(np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all())


def hold_out(y: Array, fraction: float = HELD_OUT_FRACTION, seed: int = HOLD_OUT_SEED) -> tuple[Array, Array]:
    """Return the indices of a training part and of a part held out for testing.

    The draw is seeded, and stratified wherever every class has at least two samples and both parts have room for all classes.

    Parameters
    ----------
    y : (samples, ...) array of labels, at least two.
    fraction : part held out, between 0 and 1.
    seed : seed of the draw.

    Returns
    -------
    (kept,) and (held out,) arrays of int, both increasing.
    """
    from sklearn.model_selection import train_test_split  # takes seconds to import; data with a test part do without

    index = np.arange(len(y))
    numbers, counts = np.unique(y, return_counts=True) if y.ndim == 1 and y.dtype.kind in "iub" else (index, np.ones(len(y)))
    test_count = int(np.ceil(fraction * len(y)))
    stratify = y if counts.min() >= 2 and len(numbers) <= min(test_count, len(y) - test_count) else None
    trained, tested = train_test_split(index, test_size=fraction, random_state=seed, stratify=stratify)
    return np.sort(trained), np.sort(tested)
