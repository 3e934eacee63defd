"""Differences that are paired by seed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def paired(differences: Sequence[float]) -> dict[str, float]:
    """Return the mean of paired differences and its standard error, 0 for one pair.

    Parameters
    ----------
    differences : (pairs,) at least one.

    Examples
    --------
    >>> paired([-1.0, 0.0])
    {'difference': -0.5, 'error': 0.5}
    """
    error = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    return {"difference": statistics.fmean(differences), "error": error}
