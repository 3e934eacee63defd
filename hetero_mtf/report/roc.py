"""Areas under ROC curves, and how uncertain they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hetero_mtf.report.intervals import CONFIDENCE, Interval, area_interval, logit_interval

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def areas(probabilities: Floats, true: Ints) -> tuple[Floats, Floats]:
    """Return the area under the ROC curve of each class against the others, and what each sample has to do with it.

    The area of class c is the part of pairs (i of class c, j of another) with p_ic > p_jc; a tie is half a pair.

    Parameters
    ----------
    probabilities : (samples, classes) array of float, larger where a class is more likely.
    true : (samples,) array of int, class numbers; every class occurs, and two at least.

    Returns
    -------
    (classes,) array of areas, and (samples, classes) array of DeLong's structural components: for a sample of class c the part of the
    others below it, for another the part of class c above it.

    Notes
    -----
    From ranks among all and within the two groups, O(classes x samples log samples).
    """
    count, classes = probabilities.shape
    components = np.empty((count, classes))
    for c in range(classes):
        column, is_c = probabilities[:, c], true == c
        ranks = stats.rankdata(column)
        inside = np.empty(count)
        inside[is_c], inside[~is_c] = stats.rankdata(column[is_c]), stats.rankdata(column[~is_c])
        below = (ranks - inside) / np.where(is_c, (~is_c).sum(), is_c.sum())
        components[:, c] = np.where(is_c, below, 1 - below)
    return np.array([components[true == c, c].mean() for c in range(classes)]), components


def area(probabilities: Floats, true: Ints, positive: int, confidence: float = CONFIDENCE) -> tuple[float, Interval]:
    """Return the area of one class against the others and its confidence interval.

    DeLong's variance on the logit scale; Newcombe's score interval where that has none, which is where all samples are told apart, all
    are alike, or a side has only one.

    Parameters
    ----------
    probabilities, true : as for `areas`.
    positive : number of the class.
    confidence : between 0 and 1.

    Notes
    -----
    From ten samples a side on, intervals of 95 % held the true area of normal scores 92 to 98 times of 100; with 5 beside 50 of the
    others 90 times, with 2 beside 30 as few as 82, where `hetero_mtf.report.intervals.area_interval` held it 95 times and more.

    References
    ----------
    DeLong, DeLong, Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating characteristic curves: a
    nonparametric approach", Biometrics 44, 1988; by ranks as in Sun, Xu, "Fast implementation of DeLong's algorithm", IEEE Signal
    Processing Letters 21, 2014; logit: Pepe, "The statistical evaluation of medical tests", 2003, section 5.2.
    """
    two = np.stack([-probabilities[:, positive], probabilities[:, positive]], axis=1)
    return mean_area(two, (true == positive).astype(np.int64), confidence)


def mean_area(probabilities: Floats, true: Ints, confidence: float = CONFIDENCE) -> tuple[float, Interval]:
    """Return the mean over classes of the area of each against the others, and its confidence interval.

    A sample counts in every class's area, as one of it or one of the others; the sum of its components, each over the size of its
    group, is its influence on the mean, and the variance is that of the influences within each class. Of two classes that is DeLong's.

    Parameters
    ----------
    probabilities, true, confidence : as for `area`.
    """
    each, components = areas(probabilities, true)
    count, classes = probabilities.shape
    sizes = np.bincount(true, minlength=classes)
    own = true[:, None] == np.arange(classes)
    influence = (components / np.where(own, sizes, count - sizes)).sum(axis=1) / classes
    variance = sum(sizes[c] * influence[true == c].var(ddof=1) for c in range(classes)) if sizes.min() > 1 else 0.0
    mean = float(each.mean())
    if variance > 1e-15:
        return mean, logit_interval(mean, float(variance), confidence)
    limits = np.array([area_interval(float(a), int(m), int(count - m), confidence) for a, m in zip(each, sizes)])
    return mean, (float(limits[:, 0].mean()), float(limits[:, 1].mean()))
