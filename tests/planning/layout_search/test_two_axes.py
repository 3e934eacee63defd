from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import launch_s, predict
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_grid
from hetero_mtf.planning.layout_search.layout_program import solve_layouts
from hetero_mtf.planning.layout_search.layout_space import LayoutState, Space, state_of
from hetero_mtf.planning.layout_search.two_axes import GridCost, grid_space
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.planning.strategies.grid import best_grid
from hetero_mtf.planning.strategies.layers import proven
from hetero_mtf.planning.strategies.split_search import Candidate
from tests.cases import first_fast
from tests.planning.layout_objective import drawn_graph, every_choice, few_states
from tests.planning.networks import attention_net, pair_net, profile_of, residual_net


def drawn_space(rng: np.random.Generator, layers: int, speeds: list[float], optimizer: str | None = None) -> tuple[Costs, Space]:
    """Return the space of typed grids with uneven parts, the first row and column with the most, for a network that they can split.

    Without layers the network has attention.
    """
    columns = len(speeds) // 2
    shares = [([2, 1], [3, 1, 1]), ([1, 1], [2, 1, 1])]
    while True:
        graph = drawn_graph(rng, layers) if layers else attention_net()
        profile = profile_of(graph, speeds, float(10 ** rng.uniform(-6, -3)), float(10 ** rng.uniform(5, 8)), batch_size=6)
        costs = Costs(dataclasses.replace(profile, optimizer=OptimizerSpec(optimizer) if optimizer else profile.optimizer))
        stages = [
            Plan.grid(graph, rows, parts[:columns], costs.profile.cluster, 6, pairing=pairing).stages[0]
            for (rows, parts), pairing in itertools.product(shares, ("pairs", "gather"))
        ]
        alike = [stage for stage in stages if len(stage.axes) == 2 and stage.axes == stages[0].axes]
        if alike:
            return costs, grid_space(costs, alike)


def stage_with(space: Space, choice: tuple[int, ...]) -> Stage:
    entries = tuple(space.entry(index, "", states[at]) for index, (states, at) in enumerate(zip(space.states, choice)))
    axes = (("batch", space.rows), ("filters", len(space.devices) // space.rows))
    return Stage(tuple(range(len(entries))), space.devices, axes, entries)


@pytest.mark.fast("3")
@pytest.mark.parametrize("seed", first_fast(range(33), 8))
def test_where_one_device_is_slowest_in_all_the_objective_is_the_predicted_step_with_each_norm_by_itself(seed: int) -> None:
    """Which norms share a synchronisation depends on the layouts of all layers: a sum over layers has none, and the step is shorter."""
    rng = np.random.default_rng(seed)
    layers, devices = int(rng.integers(3, 9)), int(rng.choice([4, 6]))
    costs, space = drawn_space(rng, layers if seed < 30 else 0, [1e6] * devices, "adafactor" if seed % 4 == 3 else None)
    graph, cost, met, by_itself = costs.graph, GridCost(costs, space), 0, Costs(costs.profile)
    by_itself.merged = lambda stage, numbers: {}  # type: ignore[method-assign]
    for _ in range(60):
        choice = tuple(int(rng.integers(len(states))) for states in space.states)
        if math.isinf(cost.total(choice)):
            continue
        met += 1
        stage = stage_with(space, choice)
        alike, merged = (predict(each, stage, gradient_sync="", memory=False).step_s - launch_s(costs) for each in (by_itself, costs))
        assert merged <= alike * (1 + 1e-9)
        summed = [(e, sum(v.size for v in graph.layers[e.layer].variables if v.trainable)) for e in stage.layouts if e.samples]
        summed_bytes = sum(4 * size * (max(e.sizes) / sum(e.sizes) if e.sizes else 1.0) for e, size in summed)
        trained = 4 * sum(v.size for layer in graph.layers for v in layer.variables if v.trainable)
        columns = len(space.devices) // space.rows
        rate = costs.ring((0, columns)).all_reduce_s(trained / columns) * columns / trained if trained else 0.0
        assert cost.total(choice) == pytest.approx(alike + rate * summed_bytes, rel=1e-9)
    assert met


@pytest.mark.fast("3")
@pytest.mark.parametrize("seed", first_fast(range(20), 6))
def test_the_program_finds_what_enumerating_every_choice_of_states_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, whole = drawn_space(rng, int(rng.integers(3, 6)), rng.uniform(1e6, 5e6, 4).tolist())
    space = few_states(rng, whole, 4)
    cost = GridCost(costs, space)
    found = solve_layouts(cost)
    every = (tuple(s.index(state) for s, state in zip(space.states, states)) for states in every_choice(space))
    assert found.value == pytest.approx(min(map(cost.total, every)), rel=1e-9)
    chosen = tuple(s.index(state_of(entry)) for s, entry in zip(space.states, found.layouts))
    assert cost.total(chosen) == pytest.approx(found.value, rel=1e-9) and found.gap == 0


@pytest.mark.fast("5")
@pytest.mark.parametrize("seed", first_fast(range(20), 6))
def test_every_optimum_is_a_legal_plan_on_the_rows_and_columns_that_have_a_part(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, space = drawn_space(rng, int(rng.integers(4, 12)), [1e6, 1e6, 2e6, 1e6, 3e6, 1e6])
    graph = costs.graph
    stage = trimmed_grid(solve_layouts(GridCost(costs, space)).layouts, space.devices, space.rows)
    names = tuple(device.name for device in costs.profile.cluster.devices)
    if stage is not None:
        Plan(graph.digest, graph.dtype, 6, "grid", names, (stage,)).check(graph)


def test_rows_and_columns_without_a_part_are_left_out_and_one_that_remains_is_no_grid() -> None:
    graph = pair_net(6, 4, 4)
    batch = LayoutState("batch", samples=(2, 2))
    states = (batch, LayoutState("column", (3, 0, 3), (2, 2)), *[batch] * 3)
    space = Space(tuple(range(6)), tuple((state,) for state in states), {}, 2)
    stage = trimmed_grid(space.layouts(graph, states), space.devices, space.rows)
    assert stage is not None and stage.devices == (0, 2, 3, 5) and stage.axes == (("batch", 2), ("filters", 2))
    assert stage.layouts[1].sizes == (3, 3) and stage.layouts[1].samples == (2, 2)
    whole = [LayoutState("replicated")] * 5
    assert trimmed_grid(space.layouts(graph, whole), space.devices, space.rows) is None
    assert trimmed_grid(space.layouts(graph, [batch] * 5), space.devices, space.rows) is None


@pytest.mark.fast("1e-06-graph0")
@pytest.mark.parametrize("graph", [pair_net(24, 20, 12), residual_net(16)])
@pytest.mark.parametrize("latency_s", [1e-6, 1e-3])
def test_the_best_grid_is_proven_among_the_layouts_of_its_mesh(graph: LayerGraph, latency_s: float) -> None:
    costs = Costs(profile_of(graph, [2e6, 1e6, 2e6, 1e6, 3e6, 1e6], latency_s, 1e7, batch_size=12))
    found = best_grid(costs)
    if len(found.stage.axes) == 2:
        assert found.proof is not None and found.proof.bound_s <= found.proof.value_s * (1 + 1e-9)
        assert "rows of samples by" in found.proof.space and "no communication" not in found.proof.space
        assert found.proof.value_s == pytest.approx(found.prediction.step_s, rel=0.1)


def test_a_grid_found_otherwise_is_proven_with_its_own_samples_and_sizes() -> None:
    graph = residual_net(16)
    costs = Costs(profile_of(graph, [1e6] * 4, 1e-4, 1e7, batch_size=8))
    stage = Plan.grid(graph, [1, 1], [1, 1], costs.profile.cluster, 8).stages[0]
    proof = proven(costs, Candidate(stage, predict(costs, stage))).proof
    assert proof is not None and proof.space.startswith("2 rows of samples by 2 columns of filters over the same 4 devices")
    assert 0 < proof.bound_s <= proof.value_s and proof.gap < 0.5
