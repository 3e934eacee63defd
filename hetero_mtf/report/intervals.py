"""Confidence intervals of proportions and of areas under a ROC curve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import optimize, special

CONFIDENCE = 0.95
_NEAR = 1e-12  # to an end of the scale
Interval = tuple[float, float]


def quantile(confidence: float) -> float:
    """Return z of a two-sided normal interval.

    Parameters
    ----------
    confidence : between 0 and 1.

    Examples
    --------
    >>> round(quantile(0.95), 3)
    1.96
    """
    return float(special.ndtri(0.5 + confidence / 2))


def wilson(right: int, of: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Wilson's score interval of a proportion: all p with |right/of - p| <= z sqrt(p (1 - p) / of).

    Parameters
    ----------
    right, of : successes, and trials, at least one.
    confidence : between 0 and 1.

    References
    ----------
    Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the American Statistical
    Association 22, 1927.

    Examples
    --------
    >>> [round(limit, 3) for limit in wilson(18, 20)]
    [0.699, 0.972]
    """
    z2, share = quantile(confidence) ** 2, right / of
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = math.sqrt(z2 * (share * (1 - share) / of + z2 / (4 * of**2))) / (1 + z2 / of)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if right == 0 else low, 1.0 if right == of else high)


def mean_of_proportions(counts: Sequence[tuple[int, int]], confidence: float = CONFIDENCE) -> Interval:
    """Return an interval of the mean of independent proportions, from the Wilson interval of each.

    With p_k in (l_k, u_k) and the mean m: m - sqrt(sum (p_k - l_k)^2) / K to m + sqrt(sum (u_k - p_k)^2) / K.

    Parameters
    ----------
    counts : (K,) pairs of successes and trials, at least one of each.
    confidence : between 0 and 1.

    References
    ----------
    Newcombe, "Interval estimation for the difference between independent proportions", Statistics in Medicine 17, 1998, method 10;
    Zou, Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 27, 2008.
    """
    shares = [right / of for right, of in counts]
    limits = [wilson(right, of, confidence) for right, of in counts]
    mean = sum(shares) / len(shares)
    below = math.hypot(*(share - low for share, (low, _) in zip(shares, limits))) / len(shares)
    above = math.hypot(*(high - share for share, (_, high) in zip(shares, limits))) / len(shares)
    return max(0.0, mean - below), min(1.0, mean + above)


def logit_interval(value: float, variance: float, confidence: float = CONFIDENCE) -> Interval:
    """Return the interval that is symmetric on the scale log(v / (1 - v)), and so never leaves 0 to 1.

    Parameters
    ----------
    value : estimate, above 0 and below 1.
    variance : of the estimate.
    confidence : between 0 and 1.
    """
    far = quantile(confidence) * math.sqrt(variance) / (value * (1 - value))
    return float(special.expit(special.logit(value) - far)), float(special.expit(special.logit(value) + far))


def area_interval(area: float, positives: int, negatives: int, confidence: float = CONFIDENCE) -> Interval:
    """Return Newcombe's score interval of an area under a ROC curve, which is of use where all samples are told apart.

    All a with |area - a| <= z sqrt(a (1 - a) (1 + N ((1 - a) / (2 - a) + a / (1 + a))) / (m n)), N = (m + n) / 2 - 1.

    Parameters
    ----------
    area : estimate, 0 to 1.
    positives, negatives : m and n, at least one.
    confidence : between 0 and 1.

    References
    ----------
    Newcombe, "Confidence intervals for an effect size measure based on the Mann-Whitney statistic. Part 2: asymptotic methods and
    evaluation", Statistics in Medicine 25, 2006, method 5.
    """
    z = quantile(confidence)
    more = (positives + negatives) / 2 - 1

    def beyond(a: float) -> float:
        spread = a * (1 - a) * (1 + more * ((1 - a) / (2 - a) + a / (1 + a))) / (positives * negatives)
        return (area - a) ** 2 - z**2 * spread

    low = float(optimize.brentq(beyond, 0.0, min(area, 1 - _NEAR))) if area > 0.0 else 0.0  # 1 solves it too where area is 1
    high = float(optimize.brentq(beyond, max(area, _NEAR), 1.0)) if area < 1.0 else 1.0
    return low, high
