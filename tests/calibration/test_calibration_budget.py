"""Budgets: kept by fewer windows, then fewer points, then shorter windows; what is left goes into further points; a short default."""

from __future__ import annotations

import dataclasses
import math

import keras
import pytest

from hetero_mtf.calibration.calibration_budget import (
    ALONE_BUILD_S,
    DEFAULT_S,
    LAUNCH_BUILD_S,
    LEAST_WINDOW_S,
    LINK_BUILD_S,
    PROBE_BUILD_S,
    WINDOW_S,
    WINDOWS,
    CalibrationWarning,
    DeviceCounts,
    Effort,
    EffortWindows,
    effort_within,
    expected_alone_s,
    expected_links_s,
    expected_s,
    link_windows,
    probed,
)
from hetero_mtf.calibration.points import extreme_points, points
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph

L = keras.layers
BATCH = 4


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    i = keras.Input((6, 6, 2))
    x = L.BatchNormalization()(L.Conv2D(16, 3, padding="same")(L.Conv2D(16, 3, padding="same", activation="relu")(i)))
    return layer_graph(keras.Model(i, L.Dense(3)(L.Flatten()(L.MaxPooling2D()(x)))))


@pytest.fixture(scope="module")
def large() -> LayerGraph:
    """Return six convolutions of unequal work, four pools and two dense layers."""
    x = i = keras.Input((32, 32, 3))
    for filters, count in ((8, 1), (16, 1), (32, 2), (64, 2)):
        for _ in range(count):
            x = L.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = L.MaxPooling2D()(x)
    return layer_graph(keras.Model(i, L.Dense(10)(L.Dense(32, activation="relu")(L.Flatten()(x)))))


@pytest.fixture(scope="module")
def deep() -> LayerGraph:
    """Return 24 different convolutions of similar work."""
    x = i = keras.Input((8, 8, 16))
    for number in range(24):
        x = L.Conv2D(20 + number % 2 * 2 + number, 3, padding="same")(x)
    return layer_graph(keras.Model(i, x))


def _equal(window_s: float, count: int) -> EffortWindows:
    return EffortWindows.equal(Windows(window_s, count))


def _seconds(effort: Effort, counts: DeviceCounts) -> float:
    """Return the seconds that an effort is expected to take, further points included."""
    windows = effort.windows
    besides_s = expected_links_s(counts.shared_links, windows.links) + expected_alone_s(counts.accompanied, windows.part, effort.alone)
    building_s = counts.shared_links * LINK_BUILD_S + counts.accompanied * effort.alone * ALONE_BUILD_S + LAUNCH_BUILD_S
    points_s = expected_s(effort.points, windows) + len(probed(effort.points)) * PROBE_BUILD_S
    return besides_s + building_s + counts.sequential * (points_s + effort.refine_s)


def test_a_smaller_budget_takes_windows_first_then_points_then_seconds_of_a_window(graph: LayerGraph) -> None:
    fine, coarse = points(graph, BATCH), points(graph, BATCH, coarse=True)
    launch_s = expected_links_s(0)
    beside = DeviceCounts(pairs=1, accompanied=2)
    besides_s = expected_links_s(1) + expected_alone_s(2)
    for wanted, count in ((fine, 3), (fine, 2), (fine, 1), (coarse, 1)):
        needed_s, part = expected_s(wanted, _equal(WINDOW_S, count)), (count + 1) / (WINDOWS + 1)
        effort = effort_within(graph, BATCH, needed_s + launch_s * part + 1e-6)
        assert (effort.points, effort.windows, effort.refinements) == (wanted, _equal(WINDOW_S, count), 0)
        assert effort.limit_s == pytest.approx(needed_s)
        two = effort_within(graph, BATCH, 2 * needed_s + launch_s * part + 1e-6, DeviceCounts(sequential=2))
        assert (two.points, two.windows, two.refinements) == (effort.points, effort.windows, 0)
        pair = effort_within(graph, BATCH, needed_s + besides_s * part + 1e-6, beside)
        assert (pair.points, pair.windows) == (wanted, effort.windows) and pair.refine_s == pytest.approx(0.0, abs=1e-5)
    least_s = expected_s(coarse, _equal(WINDOW_S, 1)) + launch_s / 2
    with pytest.warns(CalibrationWarning, match="is short"):
        assert effort_within(graph, BATCH, 0.8 * least_s) == Effort(
            coarse, _equal(pytest.approx(0.8 * WINDOW_S), 1), 0.0, pytest.approx(0.8 * least_s), alone=0
        )
    with pytest.warns(CalibrationWarning, match="is short"):
        assert effort_within(graph, BATCH, least_s / 1000) == Effort(
            coarse, _equal(LEAST_WINDOW_S, 1), 0.0, pytest.approx(least_s / 1000), alone=0
        )


def test_what_a_budget_leaves_over_goes_into_further_points(graph: LayerGraph) -> None:
    needed_s = expected_s(points(graph, BATCH), _equal(WINDOW_S, WINDOWS)) + expected_links_s(0)
    effort = effort_within(graph, BATCH, needed_s + 10.0)
    assert effort.windows == _equal(WINDOW_S, WINDOWS) and effort.refine_s == pytest.approx(10.0)
    assert effort.refinement_s == pytest.approx(2 * 4 * WINDOW_S) and effort.refinements == int(10.0 / effort.refinement_s)


@pytest.mark.fast("graph")
@pytest.mark.parametrize("name", ["graph", "large", "deep"])
def test_a_thorough_calibration_has_time_for_one_further_point_a_curve_over_units(name: str, request: pytest.FixtureRequest) -> None:
    network = request.getfixturevalue(name)
    effort = effort_within(network, BATCH, math.inf)
    bending = {(p.layer, p.dimension) for p in effort.points if p.dimension in ("output", "input") and not p.minor}
    assert (effort.points, effort.windows, effort.optional) == (points(network, BATCH), _equal(WINDOW_S, WINDOWS), ())
    assert effort.refinements == len(bending)


def test_without_a_budget_a_small_network_is_measured_thoroughly() -> None:
    small = layer_graph(keras.Sequential([keras.Input((4,)), L.Dense(3)]))
    assert effort_within(small, BATCH, None) == effort_within(small, BATCH, math.inf)
    assert _seconds(effort_within(small, BATCH, None), DeviceCounts()) < DEFAULT_S


@pytest.mark.parametrize("counts", [DeviceCounts(1, 0, 0), DeviceCounts(1, 1, 2), DeviceCounts(1, 3, 3, 2)])
def test_without_a_budget_a_larger_network_takes_the_default(counts: DeviceCounts, large: LayerGraph) -> None:
    effort = effort_within(large, BATCH, None, counts)
    thorough = effort_within(large, BATCH, math.inf, counts)
    assert _seconds(thorough, counts) > 2 * DEFAULT_S and _seconds(effort, counts) == pytest.approx(DEFAULT_S)
    assert (effort.points, effort.optional) == extreme_points(large, thorough.points)
    assert effort.windows.full.count == (1 if counts.accompanied else WINDOWS) and effort.refinements >= 4
    assert effort.shares_links and not thorough.shares_links
    assert LEAST_WINDOW_S <= effort.windows.part.window_s <= WINDOW_S
    needed_s = expected_s(effort.points, effort.windows) + len(probed(effort.points)) * PROBE_BUILD_S
    assert effort.limit_s == pytest.approx(needed_s + effort.refine_s)


def test_without_a_budget_a_network_of_many_layers_takes_the_least_effort_without_a_warning(deep: LayerGraph) -> None:
    counts = DeviceCounts(1, 1, 2)
    effort = effort_within(deep, BATCH, None, counts)
    assert DEFAULT_S < _seconds(effort, counts) < _seconds(effort_within(deep, BATCH, math.inf, counts), counts) / 3
    assert effort.windows.full == effort.windows.part == Windows(LEAST_WINDOW_S, 1) and effort.refine_s == 0.0


def test_a_full_layer_has_more_windows_than_a_part_and_a_minor_layer_a_short_one(large: LayerGraph) -> None:
    windows = EffortWindows(Windows(0.2, 3), Windows(0.15, 1), Windows(0.2, 1))
    for point in points(large, BATCH):
        expected = Windows(0.1, 1) if point.minor else Windows(0.2, 3) if point.full else Windows(0.15, 1)
        assert windows.of(point) == expected


def test_samples_lengthen_a_calibration_by_less_than_two_thirds(graph: LayerGraph) -> None:
    wanted = points(graph, BATCH)
    # Before there were curves over samples, a mixing layer was measured whole twice.
    before = [dataclasses.replace(p, layer=number) for number, p in enumerate(wanted) if p.dimension != "batch"]
    assert expected_s(wanted, _equal(WINDOW_S, WINDOWS)) <= 1.66 * expected_s(before, _equal(WINDOW_S, WINDOWS))


def test_links_get_one_short_window_where_there_are_many() -> None:
    windows = Windows(WINDOW_S, WINDOWS)
    assert link_windows(windows, 3) == windows and link_windows(windows, 4) == Windows(0.1, 1)
    assert link_windows(Windows(0.02, 1), 28) == Windows(0.02, 1)
    assert expected_links_s(0) > 0 and expected_links_s(28) < 75 and expected_links_s(1) < 13
