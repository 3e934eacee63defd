"""The budget of a calibration: the points to measure first, the windows, and the seconds for refining curves after that.

With budget B, s seconds for links and devices alone, and d devices measured one after another, the first (points, windows) is taken of
(fine, 3), (fine, 2), (fine, 1), (coarse, 1) whose expected seconds a device are at most (B - s) / d; what is left of that is for refining.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence

from hetero_mtf.calibration.points import Point, points
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.graph.records import LayerGraph

# A limited core runs the first milliseconds after a wait at full speed: windows are long compared with them.
WINDOW_S = 0.2
WINDOWS = 3
# Layers with a small part of the work get one window of this length.
MINOR_WINDOW_S = 0.1
# More pairs of devices than these get one short window each.
MANY_PAIRS = 3
# So many of a device's layers are measured once more while the other devices of its host are idle.
ALONE_LAYERS = 5
# Windows that a pair of devices takes, beside one that warms up and finds the repetitions; likewise the launch overhead.
_LINK_WINDOWS = 12.5
_LAUNCH_WINDOWS = 3.0


class CalibrationWarning(UserWarning):
    """A fault of a calibration that does not end it, such as a wide spread."""


@dataclasses.dataclass(frozen=True)
class Effort:
    """What a calibration measures and how long.

    Parameters
    ----------
    points : what every device measures first.
    windows : how.
    refine_s : seconds that each device may spend on further points.
    limit_s : seconds after which a device measures no further points, counted from its first one.
    alone : how many layers are measured on each device while the others of its host are idle, at most.
    """

    points: tuple[Point, ...]
    windows: Windows
    refine_s: float
    limit_s: float = math.inf
    alone: int = ALONE_LAYERS

    @property
    def refinements(self) -> int:
        """How many further points there is time for."""
        return int(self.refine_s / self.refinement_s)

    @property
    def refinement_s(self) -> float:
        """Seconds of a further point."""
        return 2 * (self.windows.count + 1) * self.windows.window_s


def effort_within(graph: LayerGraph, batch: int, budget_s: float | None, sequential_devices: int = 1, besides_s: float = 0.0) -> Effort:
    """Return what to measure and how: fewer windows, then fewer points, then shorter windows where the budget asks for it.

    Parameters
    ----------
    batch : samples of the whole batch.
    budget_s : seconds, or None for as long as one further point a curve takes.
    sequential_devices : devices that are measured one after another.
    besides_s : seconds of the budget that links and devices alone take, in three windows each.

    Warns
    -----
    CalibrationWarning
        If the budget cannot be kept.
    """
    fine, coarse = points(graph, batch), points(graph, batch, coarse=True)
    if budget_s is None:
        bending = {(point.layer, point.dimension) for point in fine if not point.minor and point.dimension in ("output", "input")}
        full = Effort(fine, Windows(WINDOW_S, WINDOWS), 0.0)
        return dataclasses.replace(full, refine_s=len(bending) * full.refinement_s)
    for wanted, count in ((fine, WINDOWS), (fine, 2), (fine, 1), (coarse, 1)):
        left_s = (budget_s - besides_s * (count + 1) / (WINDOWS + 1)) / sequential_devices
        if expected_s(wanted, count) <= left_s:
            return Effort(wanted, Windows(WINDOW_S, count), left_s - expected_s(wanted, count), left_s)
    least = sequential_devices * expected_s(coarse, 1) + besides_s * 2 / (WINDOWS + 1)
    warnings.warn(
        CalibrationWarning(f"a budget of {budget_s:g} s is short, {least:.0f} s would do; the windows are cut, expect a wider spread"),
        stacklevel=4,
    )
    return Effort(coarse, Windows(max(0.02, WINDOW_S * budget_s / least), 1), 0.0, alone=0)


def expected_s(wanted: Sequence[Point], count: int) -> float:
    """Return the seconds that measuring takes on one device: two or three loops a point, each with about a window to warm up.

    Parameters
    ----------
    wanted : what is measured.
    count : windows of each loop.
    """
    first = {point.layer: point for point in reversed(wanted) if point.full}
    measured = [point for point in wanted if not point.full or first[point.layer] is point]
    return sum((2 + point.updates) * (2 * MINOR_WINDOW_S if point.minor else (count + 1) * WINDOW_S) for point in measured)


def link_windows(windows: Windows, pairs: int) -> Windows:
    """Return how links are measured: as layers are, but in one short window each where there are many.

    Parameters
    ----------
    windows : how layers are measured.
    pairs : pairs of devices.
    """
    return windows if pairs <= MANY_PAIRS else Windows(min(windows.window_s, MINOR_WINDOW_S), 1)


def expected_alone_s(devices: int) -> float:
    """Return the seconds that measuring devices alone takes, in three windows each.

    Parameters
    ----------
    devices : how many are measured so, one after another.
    """
    return devices * ALONE_LAYERS * 2 * (WINDOWS + 1) * WINDOW_S


def expected_links_s(pairs: int) -> float:
    """Return the seconds that measuring the links and the launch overhead takes in three windows each.

    Parameters
    ----------
    pairs : pairs of devices.
    """
    windows = link_windows(Windows(WINDOW_S, WINDOWS), pairs)
    return (pairs * _LINK_WINDOWS + _LAUNCH_WINDOWS) * (windows.count + 1) * windows.window_s
