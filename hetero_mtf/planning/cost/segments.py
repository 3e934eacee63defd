"""Segments of a ring over unequal links: how much of the tensor each chunk holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

_TOLERANCE = 1e-6  # of the slowest link's seconds; smaller differences are ignored


def slowest_link_s_per_byte(segments: Sequence[float], seconds_per_byte: Sequence[float]) -> float:
    """Return the seconds that the busiest link of a ring sends for a byte of the tensor: max_k b_k (2 - s_k - s_{k+1}).

    Chunk k is combined from processor k+1 round to k, so it skips the link k -> k+1; then it is copied from k round to k-1
    and skips the link k-1 -> k. The link k -> k+1 thus carries everything twice but chunk k once and chunk k+1 once.

    Parameters
    ----------
    segments : (processors,) fractions s_k, they sum to 1.
    seconds_per_byte : (processors,) b_k of the link from processor k to the next.

    Examples
    --------
    >>> slowest_link_s_per_byte([0.25] * 4, [1.0, 1.0, 1.0, 1.0])
    1.5
    """
    count = len(segments)
    return max(b * (2 - segments[k] - segments[(k + 1) % count]) for k, b in enumerate(seconds_per_byte))


def ring_segments(seconds_per_byte: Sequence[float]) -> tuple[float, ...]:
    """Return the fractions that minimise the seconds of the busiest link, as near to equal as that allows.

    Two linear programs, one after the other:

        T* = min_{s, T} T      subject to  b_k (2 - s_k - s_{k+1}) <= T  for all k,  sum_k s_k = 1,  s >= 0
        min_{s, d} d           subject to  the same with T = T*,  -d <= s_k - 1/p <= d  for all k

    Where equal fractions are optimal they are returned.

    Parameters
    ----------
    seconds_per_byte : (processors,) b_k of the link from processor k to the next, zero or more.

    Returns
    -------
    (processors,) fractions that sum to 1; never worse than equal ones.

    Notes
    -----
    Exact to the solver's tolerance. Only bytes count: the rounds, and so the latencies, are the same for any fractions.

    Examples
    --------
    >>> links = [4.0, 1.0, 1.0]
    >>> even, best = (slowest_link_s_per_byte(parts, links) for parts in ([1 / 3] * 3, ring_segments(links)))
    >>> round(even, 4), round(best, 4)
    (5.3333, 4.0)
    """
    count = len(seconds_per_byte)
    equal = (1.0 / count,) * count
    largest = max(seconds_per_byte)
    # of two, s_0 + s_1 = 1: both links carry the same for any fractions
    if count < 3 or largest <= 0:
        return equal
    scaled = np.asarray(seconds_per_byte, dtype=float) / largest
    limit = _least_busiest(scaled)
    if limit is None or slowest_link_s_per_byte(equal, scaled.tolist()) <= limit + _TOLERANCE:
        return equal
    segments = _nearest_to_equal(scaled, limit + _TOLERANCE / 10)
    if segments is None or slowest_link_s_per_byte(segments, scaled.tolist()) >= slowest_link_s_per_byte(equal, scaled.tolist()):
        return equal
    return segments


def _loads(scaled: np.ndarray) -> np.ndarray:
    """Return the (links, segments) matrix of -b_k (s_k + s_{k+1})."""
    same = np.eye(len(scaled))
    return -scaled[:, None] * (same + np.roll(same, 1, axis=1))


def _least_busiest(scaled: np.ndarray) -> float | None:
    count = len(scaled)
    # b_k (2 - s_k - s_{k+1}) <= T as -b_k (s_k + s_{k+1}) - T <= -2 b_k; b is scaled to a largest of 1, as is the tolerance
    rows = np.hstack([_loads(scaled), -np.ones((count, 1))])
    total_row = np.append(np.ones(count), 0.0)[None]
    bounds = [(0, 1)] * count + [(0, None)]
    solved = linprog(np.append(np.zeros(count), 1.0), A_ub=rows, b_ub=-2 * scaled, A_eq=total_row, b_eq=[1.0], bounds=bounds)
    return float(solved.fun) if solved.status == 0 else None


def _nearest_to_equal(scaled: np.ndarray, limit: float) -> tuple[float, ...] | None:
    count = len(scaled)
    same, ones = np.eye(count), np.ones((count, 1))
    busy = np.hstack([_loads(scaled), np.zeros((count, 1))])
    rows = np.vstack([busy, np.hstack([same, -ones]), np.hstack([-same, -ones])])
    limits = np.concatenate([limit - 2 * scaled, np.full(count, 1 / count), np.full(count, -1 / count)])
    total_row = np.append(np.ones(count), 0.0)[None]
    bounds = [(0, 1)] * count + [(0, None)]
    solved = linprog(np.append(np.zeros(count), 1.0), A_ub=rows, b_ub=limits, A_eq=total_row, b_eq=[1.0], bounds=bounds)
    if solved.status != 0:
        return None
    parts = np.clip(solved.x[:-1], 0.0, 1.0)
    return tuple(float(part) for part in parts / parts.sum())
