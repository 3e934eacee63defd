from __future__ import annotations

import itertools

import pytest

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.strategies.grid import best_grid
from tests.planning.networks import cluster_of, pair_net, profile_of, residual_net

GRAPH = pair_net(24, 20, 12)


def extents(stage: Stage) -> tuple[int, ...]:
    return tuple(size for _, size in stage.axes)


def test_typed_shares_make_rows_of_samples_by_columns_of_filters() -> None:
    plan = Plan.grid(GRAPH, [3, 1], [2, 1, 1], cluster_of(6), 8)
    (stage,) = plan.stages
    assert stage.axes == (("batch", 2), ("filters", 3)) and stage.devices == (0, 1, 2, 3, 4, 5)
    first = stage.layouts[1]
    assert (first.layout, first.sizes, first.axis, first.samples, first.batch_axis) == ("column", (12, 6, 6), "filters", (6, 2), "batch")
    assert {entry.layout for entry in stage.layouts} == {"batch", "column", "row"} and all(e.samples == (6, 2) for e in stage.layouts)
    plan.check(GRAPH)


def test_rows_and_columns_without_a_share_are_left_out() -> None:
    (stage,) = Plan.grid(GRAPH, [1, 0, 1], [2, 0, 1], cluster_of(9), 8).stages
    assert stage.devices == (0, 2, 6, 8) and extents(stage) == (2, 2)
    assert Plan.grid(GRAPH, [1, 1, 1], [1, 1], cluster_of(6), 2).stages[0].devices == (0, 1, 2, 3)


def test_one_row_or_column_that_remains_is_a_mesh_of_one_axis() -> None:
    filters, batch = Plan.grid(GRAPH, [0, 1], [2, 1], cluster_of(4), 8), Plan.grid(GRAPH, [3, 1], [0, 1], cluster_of(4), 8)
    assert filters.stages[0].devices == (2, 3) and filters.stages[0].layouts[1].sizes == (16, 8)
    assert batch.stages[0].devices == (1, 3) and batch.stages[0].layouts[1].samples == (6, 2)
    assert Plan.grid(GRAPH, [0, 1], [1, 0], cluster_of(4), 8).stages == Plan.single(GRAPH, 2, cluster_of(4), 8).stages
    for plan in (filters, batch):
        assert plan.stages[0].axes == (("devices", 2),)
        plan.check(GRAPH)


def test_shares_that_do_not_multiply_to_the_devices_are_refused() -> None:
    with pytest.raises(PlanError, match=r"2 batch shares by 2 filter shares make 4 places for 3 devices \(.*\); give shares that fit them"):
        Plan.grid(GRAPH, [1, 1], [1, 1], cluster_of(3), 8)


@pytest.mark.fast("speeds0-graph0", "speeds1-graph0", "speeds2-graph0")
@pytest.mark.parametrize("graph", [GRAPH, residual_net()])
@pytest.mark.parametrize("speeds", [[1e6] * 4, [2e6, 1e6, 2e6, 1e6], [3e6, 3e6, 1e6, 1e6, 1e5], [1e6, 2e6, 3e6, 4e6, 5e6, 6e6]])
def test_a_grid_fits_and_is_never_predicted_slower_than_equal_rows_and_columns(graph: LayerGraph, speeds: list[float]) -> None:
    profile = profile_of(graph, speeds, 1e-5, 1e8, batch_size=12)
    costs, names = Costs(profile), tuple(d.name for d in profile.cluster.devices)
    found = best_grid(costs)
    Plan(graph.digest, graph.dtype, 12, "grid", names, (found.stage,)).check(graph)
    if len(speeds) % 2 == 0:
        equal = Plan.grid(graph, [1, 1], [1] * (len(speeds) // 2), profile.cluster, 12)
        assert found.prediction.step_s <= predict(costs, equal.stages[0]).step_s * (1 + 1e-9)


def test_fast_and_slow_devices_get_samples_and_filters_in_proportion() -> None:
    stage = best_grid(Costs(profile_of(pair_net(60, 60, 60), [6e6, 3e6, 2e6, 1e6], batch_size=12))).stage
    shares = [e for e in stage.layouts if e.name == "first"][0]
    assert sorted(shares.samples) in ([3, 9], [4, 8]) and sorted(shares.sizes) in ([15, 45], [20, 40])


def test_samples_and_sizes_come_near_to_what_brute_force_finds() -> None:
    graph = pair_net(6, 4, 4)
    profile = profile_of(graph, [3e6, 1e6, 2e6, 1e6], 1e-6, 1e9, batch_size=6)
    costs = Costs(profile)
    steps = []
    for (a, b), pairing in itertools.product(itertools.product(range(1, 6), repeat=2), ("pairs", "gather")):
        plan = Plan.grid(graph, [a, 6 - a], [b, 6 - b], profile.cluster, 6, pairing=pairing)
        steps.append(predict(costs, plan.stages[0]).step_s)
    assert best_grid(costs).prediction.step_s <= min(steps) * (1 + 1e-9)


def test_three_devices_make_no_grid() -> None:
    with pytest.raises(NothingToSplitError, match="a grid needs at least 4 devices and there are 3; use strategy batch, filters or hybrid"):
        best_grid(Costs(profile_of(GRAPH, [1e6] * 3)))
