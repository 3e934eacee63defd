"""Precision, F1 and the area under the precision-recall curve of a class against the others, by scikit-learn."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def precision(guess: Ints, true: Ints, c: int) -> float | None:
    """Return the part of the samples predicted to be of a class that are of it, None where none is.

    Parameters
    ----------
    guess, true : (samples,) arrays of int, class numbers.
    c : number of the class.

    Examples
    --------
    >>> precision(np.array([0, 0, 1]), np.array([0, 1, 1]), 0), precision(np.array([1, 1]), np.array([0, 1]), 0)
    (0.5, None)
    """
    from sklearn.metrics import precision_score

    return _defined(precision_score(true == c, guess == c, zero_division=np.nan))


def f1(guess: Ints, true: Ints, c: int) -> float | None:
    """Return the harmonic mean of precision and sensitivity, 2 TP / (2 TP + FP + FN), None where no sample is or is predicted of the class.

    Parameters
    ----------
    guess, true, c : as for `precision`.

    Examples
    --------
    >>> f1(np.array([0, 0, 1]), np.array([0, 1, 1]), 0), f1(np.array([1, 1]), np.array([1, 1]), 0)
    (0.6666666666666666, None)
    """
    from sklearn.metrics import f1_score

    return _defined(f1_score(true == c, guess == c, zero_division=np.nan))


def average_precision(probabilities: Floats, true: Ints, c: int) -> float | None:
    """Return the area under the precision-recall curve of a class, None where every sample or none is of it.

    It is the sum of the precision at each threshold, weighted by the increase in recall from the one before; of a network that tells
    nothing it is the part of the samples that are of the class.

    Parameters
    ----------
    probabilities : (samples, classes) array of float.
    true, c : as for `precision`.

    Examples
    --------
    >>> round(average_precision(np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]), np.array([0, 1, 0]), 0), 4)
    0.8333
    """
    from sklearn.metrics import average_precision_score

    own = int((true == c).sum())
    return None if own in (0, len(true)) else float(average_precision_score(true == c, probabilities[:, c]))


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
