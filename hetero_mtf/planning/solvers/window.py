"""Runs of neighbours of any lengths at once: how far one reaches, and the least value in it."""

from __future__ import annotations

import numpy as np


class WindowMinimum:
    """The least value in runs that begin behind each place, for many rows: `window_minimum` with what depends on the ends kept.

    Parameters
    ----------
    ends : (places,) array of int, for each place the last of its run, the same in all rows.
    """

    def __init__(self, ends: np.ndarray) -> None:
        places = len(ends)
        begins = np.arange(places) + 1
        ends = np.minimum(ends, places - 1)
        lengths, size = ends - begins + 1, 1
        self._levels: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []
        while size <= lengths.max(initial=0):
            here = np.flatnonzero((lengths >= size) & (lengths < 2 * size))
            self._levels.append((size, here, begins[here], ends[here] - size + 1))
            size *= 2

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return (rows, places) array: at place i the least of values i + 1 up to and with its end; infinite for none."""
        found, least = np.full(values.shape, np.inf), values
        for size, here, left, right in self._levels:
            if len(here):
                found[:, here] = np.minimum(least[:, left], least[:, right]) if size > 1 else least[:, left]
            least = np.minimum(least[:, :-size], least[:, size:])
        return found


def window_minimum(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return (rows, places) array: at place i the least of values i + 1 up to and with its end; infinite for none.

    Parameters
    ----------
    values : (rows, places) array of float.
    ends : (places,) array of int, for each place the last of its run, the same in all rows.

    Notes
    -----
    From the least of runs of 1, 2, 4, ... values: two of them that overlap make up any run. O(rows * places * log(places)).

    Examples
    --------
    >>> window_minimum(np.array([[4.0, 2.0, 3.0, 1.0]]), np.array([2, 3, 2, 3]))
    array([[ 2.,  1., inf, inf]])
    """
    return WindowMinimum(ends)(values)


def time_reach(until: np.ndarray, limit_s: float) -> np.ndarray:
    """Return array like `until`: for each place the last whose value is not more than `limit_s` above its own.

    Parameters
    ----------
    until : (rows, places) array of float, rising along each row, seconds.
    limit_s : seconds; what rounding adds to them counts as nothing.

    Examples
    --------
    >>> time_reach(np.array([[0.0, 1.0, 3.0, 4.0]]), 2.0)
    array([[1, 2, 3, 3]])
    """
    return np.stack([np.searchsorted(row, row + limit_s * (1 + 1e-12), side="right") - 1 for row in until])
