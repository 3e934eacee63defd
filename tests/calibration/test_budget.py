"""Budgets: kept by fewer windows, then fewer points, then shorter windows; what is left goes into further points."""

from __future__ import annotations

import dataclasses

import keras
import pytest

from hetero_mtf.calibration.budget import (
    WINDOW_S,
    WINDOWS,
    CalibrationWarning,
    Effort,
    effort_within,
    expected_links_s,
    expected_s,
    link_windows,
)
from hetero_mtf.calibration.points import points
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import layer_graph

L = keras.layers
BATCH = 4


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    i = keras.Input((6, 6, 2))
    x = L.BatchNormalization()(L.Conv2D(16, 3, padding="same")(L.Conv2D(16, 3, padding="same", activation="relu")(i)))
    return layer_graph(keras.Model(i, L.Dense(3)(L.Flatten()(L.MaxPooling2D()(x)))))


def test_a_smaller_budget_takes_windows_first_then_points_then_seconds_of_a_window(graph: LayerGraph) -> None:
    fine, coarse = points(graph, BATCH), points(graph, BATCH, coarse=True)
    for wanted, count in ((fine, 3), (fine, 2), (fine, 1), (coarse, 1)):
        needed_s = expected_s(wanted, count)
        expected = Effort(wanted, Windows(WINDOW_S, count), 0.0, needed_s)
        assert effort_within(graph, BATCH, needed_s) == expected
        assert effort_within(graph, BATCH, 2 * needed_s, sequential_devices=2) == expected
        found = effort_within(graph, BATCH, needed_s + 8.0 * (count + 1) / (WINDOWS + 1) + 1e-6, besides_s=8.0)
        assert (found.points, found.windows) == (wanted, expected.windows) and found.refine_s == pytest.approx(0.0, abs=1e-5)
    least_s = expected_s(coarse, 1)
    with pytest.warns(CalibrationWarning, match="is short"):
        assert effort_within(graph, BATCH, least_s / 2) == Effort(coarse, Windows(pytest.approx(WINDOW_S / 2), 1), 0.0, alone=0)
    with pytest.warns(CalibrationWarning, match="is short"):
        assert effort_within(graph, BATCH, least_s / 1000) == Effort(coarse, Windows(0.02, 1), 0.0, alone=0)


def test_what_a_budget_leaves_over_goes_into_further_points(graph: LayerGraph) -> None:
    needed_s = expected_s(points(graph, BATCH), WINDOWS)
    found = effort_within(graph, BATCH, needed_s + 10.0)
    assert found.windows == Windows(WINDOW_S, WINDOWS) and found.refine_s == pytest.approx(10.0)
    assert found.refinement_s == pytest.approx(2 * 4 * WINDOW_S) and found.refinements == int(10.0 / found.refinement_s)


def test_without_a_budget_there_is_time_for_one_further_point_a_curve_over_units(graph: LayerGraph) -> None:
    found = effort_within(graph, BATCH, None)
    bending = {(p.layer, p.dimension) for p in found.points if p.dimension in ("output", "input") and not p.minor}
    assert (found.points, found.windows) == (points(graph, BATCH), Windows(WINDOW_S, WINDOWS))
    assert found.refinements == len(bending)


def test_samples_lengthen_a_calibration_by_less_than_two_thirds(graph: LayerGraph) -> None:
    wanted = points(graph, BATCH)
    # Before there were curves over samples, a mixing layer was measured whole twice.
    before = [dataclasses.replace(p, layer=number) for number, p in enumerate(wanted) if p.dimension != "batch"]
    assert expected_s(wanted, WINDOWS) <= 1.66 * expected_s(before, WINDOWS)


def test_links_get_one_short_window_where_there_are_many() -> None:
    windows = Windows(WINDOW_S, WINDOWS)
    assert link_windows(windows, 3) == windows and link_windows(windows, 4) == Windows(0.1, 1)
    assert link_windows(Windows(0.02, 1), 28) == Windows(0.02, 1)
    assert expected_links_s(0) > 0 and expected_links_s(28) < 75 and expected_links_s(1) < 13
