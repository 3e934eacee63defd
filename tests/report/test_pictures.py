from __future__ import annotations

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.pictures import EVERYWHERE, alternative_bars, size_bars, time_bars
from tests.planning.networks import cluster_of, pair_net, profile_of

GRAPH = pair_net(24, 24, 24)


def test_every_bar_of_sizes_is_full_and_says_what_each_device_has() -> None:
    for made in (
        Plan.filters(GRAPH, [3, 0, 1], cluster_of(3), 8),
        Plan.batch(GRAPH, [5, 2, 1], cluster_of(3), 8),
        Plan.grid(GRAPH, [3, 1], [2, 1], cluster_of(4), 8),
        Plan.single(GRAPH, 1, cluster_of(2), 8),
    ):
        bars = size_bars(made)
        assert bars is not None and bars.series[-1] == EVERYWHERE and len(bars.bars) == len(GRAPH.layers)
        for bar in bars.bars:
            assert sum(bar.parts) == pytest.approx(1.0)
            assert all(bool(text) == bool(part) for part, text in zip(bar.parts, bar.texts))


def test_the_parts_of_a_bar_are_the_sizes() -> None:
    bars = size_bars(Plan.filters(GRAPH, [3, 0, 1], cluster_of(3), 8))
    assert bars is not None and bars.series == ("worker:0", "worker:2", EVERYWHERE)
    assert bars.bars[1].parts == (0.75, 0.25, 0.0) and bars.bars[1].texts == ("18", "6", "")
    assert bars.bars[0].parts == (0.0, 0.0, 1.0) and bars.bars[0].texts == ("", "", "all")


def test_what_the_one_device_of_a_stage_has_is_drawn_as_its_part() -> None:
    bars = size_bars(Plan.pipeline(GRAPH, ["first", "second"], [[0, 2], [1]], [[3, 1], [1]], cluster_of(3), 8))
    assert bars is not None and bars.series[:3] == ("worker:0", "worker:1", "worker:2")
    assert bars.bars[0].parts == (0.0, 0.0, 0.0, 1.0) and bars.bars[1].parts == (0.75, 0.0, 0.25, 0.0)
    assert bars.bars[2].parts == (0.0, 1.0, 0.0, 0.0) and bars.bars[2].texts == ("", "all", "", "")


def test_more_devices_than_can_be_told_apart_are_not_drawn() -> None:
    assert size_bars(Plan.batch(GRAPH, [1] * 17, cluster_of(17), 34)) is None


def test_the_bars_of_time_are_the_predicted_parts() -> None:
    made = plan(profile_of(GRAPH, [2e6, 1e6], 1e-6), strategy="equal")
    bars = time_bars(made)
    assert bars is not None and made.predicted is not None and bars.full_length == made.predicted.step_s
    for bar, part in zip(bars.bars, made.predicted.parts):
        assert bar.parts == (part.compute_s, part.communication_s, part.idle_s) and sum(bar.parts) == pytest.approx(made.predicted.step_s)
    assert time_bars(Plan.single(GRAPH, 0, cluster_of(1), 8)) is None


def test_each_strategy_is_drawn_by_the_parts_of_its_binding_device_unless_it_is_far_slower() -> None:
    made = plan(profile_of(GRAPH, [2e6, 1e6, 1e4], 1e-6))
    bars = alternative_bars(made)
    assert bars is not None and made.predicted is not None and bars.bars[0].label == f"{made.strategy} (chosen)"
    near = [a for a in made.alternatives if a.step_s is not None and a.step_s <= 3 * made.predicted.step_s]
    assert [bar.label for bar in bars.bars[1:]] == [a.strategy for a in near] and "equal" not in {a.strategy for a in near}
    assert [sum(bar.parts) for bar in bars.bars] == pytest.approx([made.predicted.step_s, *(a.step_s for a in near)])
    assert alternative_bars(plan(profile_of(GRAPH, [2e6]), strategy="single")) is None
