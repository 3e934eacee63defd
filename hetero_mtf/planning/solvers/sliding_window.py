"""Runs of neighbours of any lengths at once: how far one reaches, and the least value in it."""

from __future__ import annotations

import numpy as np


class WindowMinimum:
    """The least value in runs that begin behind each place, for many rows: `window_minimum` with what depends on the ends kept.

    Parameters
    ----------
    last : (places,) array of int, for each place the last of its run, the same in all rows.
    """

    def __init__(self, last: np.ndarray) -> None:
        places = len(last)
        begins = np.arange(places) + 1
        last = np.minimum(last, places - 1)
        lengths, size = last - begins + 1, 1
        self._levels: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []
        while size <= lengths.max(initial=0):
            # runs of size <= n < 2 size: the first `size` values of each and its last `size` values overlap and leave nothing out
            here = np.flatnonzero((lengths >= size) & (lengths < 2 * size))
            self._levels.append((size, here, begins[here], last[here] - size + 1))
            size *= 2

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return (rows, places) array: at place i the least of values i + 1 up to and with its end; infinite for none."""
        minima, least = np.full(values.shape, np.inf), values
        for size, here, left, right in self._levels:
            if len(here):
                minima[:, here] = np.minimum(least[:, left], least[:, right]) if size > 1 else least[:, left]
            least = np.minimum(least[:, :-size], least[:, size:])
        return minima


def window_minimum(values: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return (rows, places) array: at place i the least of values i + 1 up to and with its end; infinite for none.

    Parameters
    ----------
    values : (rows, places) array of float.
    last : (places,) array of int, for each place the last of its run, the same in all rows.

    Notes
    -----
    From the least of runs of 1, 2, 4, ... values: two of them that overlap make up any run. O(rows * places * log(places)).

    References
    ----------
    Bender, Farach-Colton, "The LCA problem revisited", LATIN 2000, LNCS 1776, 88-94.

    Examples
    --------
    >>> window_minimum(np.array([[4.0, 2.0, 3.0, 1.0]]), np.array([2, 3, 2, 3]))
    array([[ 2.,  1., inf, inf]])
    """
    return WindowMinimum(last)(values)


def time_reach(times_s: np.ndarray, limit_s: float) -> np.ndarray:
    """Return array like `times_s`: for each place the last whose value is not more than `limit_s` above its own.

    Parameters
    ----------
    times_s : (rows, places) array of float, rising along each row, seconds.
    limit_s : seconds; what rounding adds to them counts as nothing.

    Notes
    -----
    A binary search for each place; O(rows * places * log(places)).

    Examples
    --------
    >>> time_reach(np.array([[0.0, 1.0, 3.0, 4.0]]), 2.0)
    array([[1, 2, 3, 3]])
    """
    return np.stack([np.searchsorted(row, row + limit_s * (1 + 1e-12), side="right") - 1 for row in times_s])
