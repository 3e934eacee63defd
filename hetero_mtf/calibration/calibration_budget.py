"""The budget of a calibration: the points to measure first, the windows, and the seconds for refining curves after that.

A thorough calibration (budget infinity) measures all points in three windows each, and one further point a curve.

With budget B, s seconds for links and devices alone, and d devices measured one after another, the first (points, windows) is taken of
(fine, 3), (fine, 2), (fine, 1), (coarse, 1) whose expected seconds a device are at most (B - s) / d; what is left of that is for refining.
Of a budget too short for the last, windows are shorter, but not so short that a limited core still runs at full speed, and points of curves
other than their upper ends are measured as long as there is time.

Without a budget B is `DEFAULT_S`. A thorough calibration is taken if it fits. Else the ends of each curve are measured first, of light
layers the upper end only, with the first of `SHORT` that takes at most `FIRST_PART` of (B - s) / d; what is left is for the points where
most seconds are expected to be wrong. The last of `SHORT` is the least: it is taken where nothing fits.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence

from hetero_mtf.calibration.points import Point, extreme_points, points
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.graph.records import LayerGraph

# Seconds of a calibration without a budget.
DEFAULT_S = 45.0
# A limited core runs the first milliseconds after a wait at full speed: windows are long compared with them.
WINDOW_S = 0.2
LEAST_WINDOW_S = 0.6 * WINDOW_S
WINDOWS = 3
# Layers with a small part of the work get one window of this length.
MINOR_WINDOW_S = 0.1
# More pairs of devices than these get one short window each.
MANY_PAIRS = 3
# So many of a device's layers are measured once more while the other devices of its host are idle.
ALONE_LAYERS = 5
# What a calibration without a budget tries in turn: seconds of a window, windows of full layers, windows of parts of layers, layers alone.
SHORT = (
    (WINDOW_S, WINDOWS, WINDOWS, ALONE_LAYERS),
    (WINDOW_S, WINDOWS, 2, ALONE_LAYERS),
    (WINDOW_S, WINDOWS, 1, ALONE_LAYERS),
    (LEAST_WINDOW_S, WINDOWS, 1, ALONE_LAYERS),
    (LEAST_WINDOW_S, 1, 1, 3),
)
# The part of a device's seconds that its first points may take then. The rest is for refining, and for layers of which one repetition is
# longer than a window.
FIRST_PART = 0.85
# Seconds that it takes beside the windows, on the two cores of `docs/results.md`, to build and first run a probe, one of a device alone
# (of which one repetition is often longer than a window), the chains of a link, and steps for the launch overhead.
PROBE_BUILD_S = 0.15
ALONE_BUILD_S = 0.4
LINK_BUILD_S = 2.4
LAUNCH_BUILD_S = 1.0
# Windows that a pair of devices takes, beside one that warms up and finds the repetitions; likewise the launch overhead.
_LINK_WINDOWS = 12.5
_LAUNCH_WINDOWS = 3.0


class CalibrationWarning(UserWarning):
    """A fault of a calibration that does not end it, such as a wide spread."""


@dataclasses.dataclass(frozen=True)
class DeviceCounts:
    """How many devices a calibration measures, and how.

    Parameters
    ----------
    sequential : devices that are measured one after another, those of other processes at the same time.
    pairs : pairs of devices, whose links are measured.
    accompanied : devices that are measured once more while the others of their host are idle.
    link_kinds : kinds of pairs, whose links are alike; None for as many as there are pairs.
    processors : of the cluster, that a batch may be split over.
    """

    sequential: int = 1
    pairs: int = 0
    accompanied: int = 0
    link_kinds: int | None = None
    processors: int = 2

    @property
    def shared_links(self) -> int:
        """How many links are measured where pairs of one kind share theirs."""
        return self.pairs if self.link_kinds is None else self.link_kinds


@dataclasses.dataclass(frozen=True)
class EffortWindows:
    """The windows of all measurements.

    Parameters
    ----------
    full : of layers with all their units and samples, and of the launch overhead.
    part : of layers with some of them, and of devices alone.
    links : of links.
    """

    full: Windows
    part: Windows
    links: Windows

    @classmethod
    def equal(cls, windows: Windows, pairs: int = 0) -> EffortWindows:
        """Return the same windows for all layers, and shorter ones for links where there are many.

        Parameters
        ----------
        windows : of layers.
        pairs : pairs of devices.
        """
        return cls(windows, windows, link_windows(windows, pairs))

    def of(self, point: Point) -> Windows:
        """Return the windows of a point: one short window if its layer has a small part of the work.

        Parameters
        ----------
        point : what is measured.
        """
        if point.minor:
            return Windows(min(MINOR_WINDOW_S, self.part.window_s), 1)
        return self.full if point.full else self.part


@dataclasses.dataclass(frozen=True)
class Effort:
    """What a calibration measures and how long.

    Parameters
    ----------
    points : what every device measures first.
    windows : how.
    refine_s : seconds that each device may spend on further points.
    limit_s : seconds after which a device measures no further points, counted from its first one; the first points but the upper ends of
        curves end half as much later.
    alone : how many layers are measured on each device while the others of its host are idle, at most.
    optional : points of curves of one point that are among the further points.
    shares_links : whether pairs of one kind have the link of the first of them.
    """

    points: tuple[Point, ...]
    windows: EffortWindows
    refine_s: float
    limit_s: float = math.inf
    alone: int = ALONE_LAYERS
    optional: tuple[Point, ...] = ()
    shares_links: bool = False

    @property
    def refinements(self) -> int:
        """How many further points there is time for."""
        return int(self.refine_s / self.refinement_s)

    @property
    def refinement_s(self) -> float:
        """Seconds of a further point."""
        return 2 * (self.windows.part.count + 1) * self.windows.part.window_s


def effort_within(graph: LayerGraph, batch: int, budget_s: float | None, counts: DeviceCounts = DeviceCounts()) -> Effort:
    """Return what to measure and how within a budget.

    Parameters
    ----------
    batch : samples of the whole batch.
    budget_s : seconds; None for `DEFAULT_S`, or what the least effort takes; infinity for a thorough calibration.
    counts : of the devices.

    Warns
    -----
    CalibrationWarning
        If a budget is given that cannot be kept.
    """
    if budget_s is None:
        return _default_effort(graph, batch, counts)
    if math.isinf(budget_s):
        return _thorough_effort(graph, batch, counts)
    return _given_effort(graph, batch, budget_s, counts)


def _thorough_effort(graph: LayerGraph, batch: int, counts: DeviceCounts) -> Effort:
    """Return all points in three windows each, and the time of one further point a curve that may bend."""
    fine = points(graph, batch, devices=counts.processors)
    bending = {(point.layer, point.dimension) for point in fine if not point.minor and point.dimension in ("output", "input")}
    effort = Effort(fine, EffortWindows.equal(Windows(WINDOW_S, WINDOWS), counts.pairs), 0.0)
    return dataclasses.replace(effort, refine_s=len(bending) * effort.refinement_s)


def _given_effort(graph: LayerGraph, batch: int, budget_s: float, counts: DeviceCounts) -> Effort:
    """Return what fits into a given budget: fewer windows, then fewer points, then shorter windows where the budget asks for it."""
    fine, coarse = (points(graph, batch, few, counts.processors) for few in (False, True))
    besides_s = expected_links_s(counts.pairs) + expected_alone_s(counts.accompanied)
    for wanted, count in ((fine, WINDOWS), (fine, 2), (fine, 1), (coarse, 1)):
        windows = EffortWindows.equal(Windows(WINDOW_S, count), counts.pairs)
        left_s = (budget_s - besides_s * (count + 1) / (WINDOWS + 1)) / counts.sequential
        if expected_s(wanted, windows) <= left_s:
            return Effort(wanted, windows, left_s - expected_s(wanted, windows), left_s)
    least_s = counts.sequential * expected_s(coarse, windows) + besides_s * 2 / (WINDOWS + 1)
    warnings.warn(
        CalibrationWarning(
            f"a budget of {budget_s:g} s is short, {least_s:.0f} s would do; windows and points are cut, expect larger errors"
        ),
        stacklevel=5,
    )
    cut = Windows(max(LEAST_WINDOW_S, WINDOW_S * budget_s / least_s), 1)
    return Effort(coarse, EffortWindows.equal(cut, counts.pairs), 0.0, limit_s=budget_s / counts.sequential, alone=0)


def _default_effort(graph: LayerGraph, batch: int, counts: DeviceCounts) -> Effort:
    """Return a thorough effort if it fits into `DEFAULT_S`, else the ends of all curves and time for further points, or the least."""
    thorough = _thorough_effort(graph, batch, counts)
    measuring_s = expected_s(thorough.points, thorough.windows) + thorough.refine_s
    besides_s = expected_links_s(counts.pairs) + expected_alone_s(counts.accompanied)
    if counts.sequential * measuring_s + besides_s <= DEFAULT_S:
        return thorough
    extremes, optional = extreme_points(graph, thorough.points)
    links = counts.shared_links
    for window_s, full, part, alone in SHORT:
        windows = _short_windows(window_s, full, part, links)
        besides_s = expected_links_s(links, windows.links) + expected_alone_s(counts.accompanied, windows.part, alone)
        besides_s += links * LINK_BUILD_S + counts.accompanied * alone * ALONE_BUILD_S + LAUNCH_BUILD_S
        left_s = (DEFAULT_S - besides_s) / counts.sequential
        extremes_s = expected_s(extremes, windows) + len(probed(extremes)) * PROBE_BUILD_S
        if extremes_s <= FIRST_PART * left_s:
            break
    return Effort(extremes, windows, max(0.0, left_s - extremes_s), max(0.0, left_s), alone=alone, optional=optional, shares_links=True)


def _short_windows(window_s: float, full: int, part: int, pairs: int) -> EffortWindows:
    """Return windows of which links have several where there is one pair of devices, as they are differences of measurements."""
    links = link_windows(Windows(LEAST_WINDOW_S, WINDOWS if pairs == 1 else 1), pairs)
    return EffortWindows(Windows(window_s, full), Windows(window_s, part), links)


def expected_s(wanted: Sequence[Point], windows: EffortWindows) -> float:
    """Return the seconds that measuring takes on one device: two or three loops a point, each with about a window to warm up.

    Parameters
    ----------
    wanted : what is measured.
    windows : how.
    """
    measured = [(point, windows.of(point)) for point in probed(wanted)]
    return sum((2 + point.updates) * (each.count + 1) * each.window_s for point, each in measured)


def probed(wanted: Sequence[Point]) -> list[Point]:
    """Return the points without those of full layers that were measured for another curve.

    Parameters
    ----------
    wanted : points to measure.
    """
    first = {point.layer: point for point in reversed(wanted) if point.full}
    return [point for point in wanted if not point.full or first[point.layer] is point]


def link_windows(windows: Windows, pairs: int) -> Windows:
    """Return how links are measured: as layers are, but in one short window each where there are many.

    Parameters
    ----------
    windows : how layers are measured.
    pairs : pairs of devices.
    """
    return windows if pairs <= MANY_PAIRS else Windows(min(windows.window_s, MINOR_WINDOW_S), 1)


def expected_alone_s(devices: int, windows: Windows | None = None, layers: int = ALONE_LAYERS) -> float:
    """Return the seconds that measuring devices alone takes.

    Parameters
    ----------
    devices : how many are measured so, one after another.
    windows : of each measurement; None for those of a thorough calibration.
    layers : layers of each.
    """
    windows = windows or Windows(WINDOW_S, WINDOWS)
    return devices * layers * 2 * (windows.count + 1) * windows.window_s


def expected_links_s(pairs: int, windows: Windows | None = None) -> float:
    """Return the seconds that measuring the links and the launch overhead takes.

    Parameters
    ----------
    pairs : pairs of devices.
    windows : of each measurement; None for those of a thorough calibration.
    """
    windows = windows or link_windows(Windows(WINDOW_S, WINDOWS), pairs)
    return (pairs * _LINK_WINDOWS + _LAUNCH_WINDOWS) * (windows.count + 1) * windows.window_s
