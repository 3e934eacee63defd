"""The spread of measured seconds: their inter-quartile range relative to the median."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def median_and_spread(seconds: Sequence[float]) -> tuple[float, float]:
    """Return the median and the inter-quartile range relative to it; a single figure has no spread.

    Parameters
    ----------
    seconds : (steps,) at least one.

    Examples
    --------
    >>> median_and_spread([1.0, 2.0, 3.0])
    (2.0, 0.5)
    """
    median = statistics.median(seconds)
    if len(seconds) < 2 or median <= 0:
        return median, 0.0
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return median, (high - low) / median
