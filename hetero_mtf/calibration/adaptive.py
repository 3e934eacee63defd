"""Where to measure next: the units at which a curve is expected to deviate most from the line through its points.

The next sample is the one of largest expected error: argmax over curves c and intervals i of error(c, i), as `expected_errors` gives it,
subject to error(c, i) > noise(c, i), the uncertainty of the seconds that bound the interval.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import TypeVar

# A curve that is straight so far may still have steps: this part of the rise between two points is expected as error.
PRIOR = 1 / 16
# An error of this part of the seconds is as small as planning needs it.
LEAST_ERROR = 0.025
# Of a curve of one point, which is continued by a line through zero, this part of the seconds is expected as error.
ONE_POINT_ERROR = 1 / 8

Key = TypeVar("Key", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Sampled:
    """The points of a curve measured so far.

    Parameters
    ----------
    units : (points,) units, above 0 and increasing.
    seconds : (points,) seconds.
    spread : (points,) spread of each, relative to its seconds.
    weight : how often the seconds count: layers that the curve serves.
    lower : units to measure next where there is one point only; None for none.
    """

    units: tuple[int, ...]
    seconds: tuple[float, ...]
    spread: tuple[float, ...]
    weight: float = 1.0
    lower: int | None = None


def expected_errors(curve: Sampled) -> list[tuple[int, float]]:
    """Return (units, seconds) of the middle of each interval and the error expected of the straight line there.

    Between two points of a curve that bends by b seconds a unit at one of them, the line is off by up to b w / 4 in the middle, w
    the interval's width. So

        error = weight * min(rise / 2, max(b w / 4, rise / 16))

    where b is the larger change of slope at the two ends: a curve that rises is never off by more than half its rise.

    Parameters
    ----------
    curve : its points so far.

    Notes
    -----
    Heuristic: a step between two points that lie on one line with their neighbours is seen by its rise only. Below the first point
    nothing is expected; a curve is continued there. O(points).

    Examples
    --------
    >>> expected_errors(Sampled((2, 4, 8), (1.0, 1.0, 3.0), (0.0, 0.0, 0.0)))
    [(3, 0.0), (6, 0.5)]
    """
    widths = [high - low for low, high in zip(curve.units, curve.units[1:])]
    rises = [abs(high - low) for low, high in zip(curve.seconds, curve.seconds[1:])]
    slopes = [(high - low) / width for low, high, width in zip(curve.seconds, curve.seconds[1:], widths)]
    bends = [0.0, *(abs(after - before) for before, after in zip(slopes, slopes[1:])), 0.0]
    return [
        (low + width // 2, curve.weight * min(rise / 2, max(max(bends[at], bends[at + 1]) * width / 4, PRIOR * rise)))
        for at, (low, width, rise) in enumerate(zip(curve.units, widths, rises))
    ]


def next_units(curve: Sampled) -> tuple[int, float] | None:
    """Return the units to measure next and the error expected there, or None where no error is expected above the noise.

    Parameters
    ----------
    curve : its points so far.

    Notes
    -----
    Of a curve of one point, whose time t is taken to grow in proportion, weight * t / 8 is expected as error.
    """
    if len(curve.units) == 1:
        return None if curve.lower is None else (curve.lower, curve.weight * ONE_POINT_ERROR * curve.seconds[0])
    candidates = [
        (units, error) for at, (units, error) in enumerate(expected_errors(curve)) if curve.units[at] < units and error > _noise(curve, at)
    ]
    return max(candidates, key=lambda entry: entry[1], default=None)


def next_sample(curves: Mapping[Key, Sampled]) -> tuple[Key, int] | None:
    """Return which curve to measure next and with how many units: where most seconds are expected to be wrong; None if nowhere.

    Parameters
    ----------
    curves : the points so far of each curve.
    """
    candidates = [(error, key, units) for key, curve in curves.items() for units, error in filter(None, [next_units(curve)])]
    if not candidates:
        return None
    _, key, units = max(candidates, key=lambda entry: entry[0])
    return key, units


def _noise(curve: Sampled, at: int) -> float:
    """Return the uncertainty of the points that bound an interval, seconds."""
    interval = zip(curve.seconds[at : at + 2], curve.spread[at : at + 2])
    return curve.weight * max(max(LEAST_ERROR, spread) * seconds for seconds, spread in interval)
