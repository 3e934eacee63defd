from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_stage
from hetero_mtf.planning.layout_search.layout_program import solve_layouts
from hetero_mtf.planning.layout_search.layout_space import layout_space, state_of
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.plan.plan import Plan
from tests.cases import first_fast
from tests.planning.layout_objective import drawn_graph, drawn_profile, every_choice, few_states, objective
from tests.planning.networks import pair_net, profile_of, residual_net


@pytest.mark.fast("1")
@pytest.mark.parametrize("seed", first_fast(range(40), 4))
def test_the_program_finds_what_enumerating_every_choice_of_states_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, int(rng.integers(3, 6)))
    costs = Costs(drawn_profile(rng, graph))
    devices = tuple(range(len(costs.profile.cluster.devices)))
    space = few_states(rng, layout_space(costs, devices))
    found = solve_layouts(LayoutCost(costs, space))
    least = min(objective(costs, space, states) for states in every_choice(space))
    assert found.value == pytest.approx(least, rel=1e-9)
    chosen = [state_of(entry) for entry in found.layouts]
    assert objective(costs, space, chosen) == pytest.approx(found.value, rel=1e-9)
    assert (found.bound, found.gap, found.status) == (found.value, 0.0, "optimal")


@pytest.mark.fast("graph0-0.001", "graph0-0.1", "graph0-1e-06")
@pytest.mark.parametrize("latency_s", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("graph", [pair_net(24, 24, 24), residual_net(16)])
def test_the_objective_is_near_the_predicted_step(graph: LayerGraph, latency_s: float) -> None:
    costs = Costs(profile_of(graph, [2e6, 1e6, 1.5e6], latency_s, 1e6))
    found = solve_layouts(LayoutCost(costs, layout_space(costs, (0, 1, 2))))
    assert predict(costs, trimmed_stage(found.layouts, (0, 1, 2))).step_s == pytest.approx(found.value, rel=0.02)


@pytest.mark.fast("1", "4", "6")
@pytest.mark.parametrize("seed", first_fast(range(20), 8))
def test_every_optimum_is_a_legal_plan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, int(rng.integers(4, 16)))
    costs = Costs(drawn_profile(rng, graph))
    devices = tuple(range(len(costs.profile.cluster.devices)))
    stage = trimmed_stage(solve_layouts(LayoutCost(costs, layout_space(costs, devices))).layouts, devices)
    names = tuple(device.name for device in costs.profile.cluster.devices)
    Plan(graph.digest, graph.dtype, costs.profile.batch_size, "layers", names, (stage,)).check(graph)


def test_devices_without_a_part_are_left_out_and_nothing_split_is_one_device() -> None:
    costs = Costs(profile_of(pair_net(), [1e6, 1e6, 1e-3], latency_s=1e-6))
    stage = trimmed_stage(solve_layouts(LayoutCost(costs, layout_space(costs, (0, 1, 2)))).layouts, (0, 1, 2))
    assert stage.devices == (0, 1)
    dear = Costs(profile_of(pair_net(), [1e6, 1e6], latency_s=1e6))
    assert trimmed_stage(solve_layouts(LayoutCost(dear, layout_space(dear, (0, 1)))).layouts, (0, 1)).devices == (0,)
