"""Reliability: whether what is predicted with a probability p occurs in a part p of the cases."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 10


@dataclasses.dataclass(frozen=True)
class Bin:
    """The samples whose probability lies in one interval.

    Parameters
    ----------
    low, high : its limits; a probability that is a limit is in the lower interval.
    samples : how many.
    mean_probability : of them; None where there are none.
    fraction : the part of them that is of the class; None likewise.
    """

    low: float
    high: float
    samples: int
    mean_probability: float | None = None
    fraction: float | None = None


@dataclasses.dataclass(frozen=True)
class Reliability:
    """How well probabilities of a class fit what occurs.

    Parameters
    ----------
    bins : intervals of equal width from 0 to 1, empty ones too.
    brier : Brier score, the mean of (p - y)^2, y being 1 for a sample of the class and 0 for another.
    error : expected calibration error, the mean over samples of |fraction - mean probability| in their bin.
    """

    bins: tuple[Bin, ...]
    brier: float
    error: float


def reliability(probability: ArrayLike, own: ArrayLike, bins: int = BINS) -> Reliability:
    """Return the reliability of the probabilities of a class.

    Parameters
    ----------
    probability : (samples,) array of float, 0 to 1; at least one.
    own : (samples,) array of bool, whether a sample is of the class.
    bins : how many.

    References
    ----------
    Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78, 1950; Guo and others, "On
    calibration of modern neural networks", ICML 2017. Bins and curve are those of `sklearn.calibration.calibration_curve`.

    Examples
    --------
    >>> fit = reliability([0.1, 0.1, 0.9, 0.9], [False, False, True, False], bins=2)
    >>> [(bin.samples, bin.fraction) for bin in fit.bins], round(fit.brier, 3), round(fit.error, 3)
    ([(2, 0.0), (2, 0.5)], 0.21, 0.25)
    """
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss

    p, y = np.clip(np.asarray(probability, np.float64), 0.0, 1.0), np.asarray(own).astype(np.int64)
    limits = np.linspace(0.0, 1.0, bins + 1)
    counts = np.bincount(np.searchsorted(limits[1:-1], p), minlength=bins)
    fractions, means = calibration_curve(y, p, pos_label=1, n_bins=bins)
    curve = dict(zip(np.flatnonzero(counts), zip(means, fractions)))
    error = sum(counts[at] * abs(fraction - mean) for at, (mean, fraction) in curve.items()) / len(p)
    return Reliability(_bins(limits, counts, curve), float(brier_score_loss(y, p, pos_label=1)), float(error))


def _bins(limits: NDArray[np.float64], counts: NDArray[np.int64], curve: dict[int, tuple[float, float]]) -> tuple[Bin, ...]:
    empty = [Bin(float(low), float(high), int(count)) for low, high, count in zip(limits, limits[1:], counts)]
    return tuple(
        dataclasses.replace(bin, mean_probability=float(curve[at][0]), fraction=float(curve[at][1])) if at in curve else bin
        for at, bin in enumerate(empty)
    )
