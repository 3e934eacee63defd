from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_stage
from hetero_mtf.planning.layout_search.layout_space import LayoutState, layout_space
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from tests.planning.layout_objective import drawn_graph, drawn_profile, objective
from tests.planning.networks import attention_net


def drawn(seed: int, attention: bool = False, optimizer: str | None = None) -> tuple[np.random.Generator, LayoutCost]:
    rng = np.random.default_rng(seed)
    graph = attention_net() if attention else drawn_graph(rng, int(rng.integers(4, 14)))
    profile = drawn_profile(rng, graph)
    costs = Costs(dataclasses.replace(profile, optimizer=OptimizerSpec(optimizer) if optimizer else profile.optimizer))
    return rng, LayoutCost(costs, layout_space(costs, tuple(range(len(costs.profile.cluster.devices)))))


@pytest.mark.fast("11-False-None", "6-True-adafactor")
@pytest.mark.parametrize(
    ("seed", "attention", "optimizer"),
    [*((s, False, None) for s in range(15)), *((s, True, None) for s in range(5)), *((s, s > 5, "adafactor") for s in range(8))],
)
def test_factors_total_and_the_plan_itself_agree_on_the_objective(seed: int, attention: bool, optimizer: str | None) -> None:
    rng, cost = drawn(seed, attention, optimizer)
    factors = cost.factors()
    for _ in range(20):
        choice = [int(rng.integers(len(states))) if rng.random() < 0.5 else 0 for states in cost.space.states]
        states = [legal[at] for legal, at in zip(cost.space.states, choice)]
        added = math.fsum(float(factor.table[tuple(choice[v] for v in factor.scope)]) for factor in factors)
        expected = objective(cost.costs, cost.space, states)
        assert added == pytest.approx(expected, rel=1e-9) and cost.total(choice) == pytest.approx(expected, rel=1e-9)


@pytest.mark.fast("1")
@pytest.mark.parametrize("seed", range(5))
def test_a_stage_of_the_space_has_its_objective_and_another_has_none(seed: int) -> None:
    _, cost = drawn(seed)
    batch = [next(state for state in states if state.layout == "batch") for states in cost.space.states]
    stage = trimmed_stage([cost.space.entry(index, "", state) for index, state in enumerate(batch)], cost.space.devices)
    if stage.devices == cost.space.devices:
        assert cost.of(stage) == pytest.approx(objective(cost.costs, cost.space, batch), rel=1e-9)
    odd = [LayoutState("batch", samples=(cost.costs.profile.batch_size, *(0 for _ in cost.space.devices[1:]))) for _ in batch]
    entries = [cost.space.entry(index, "", state) for index, state in enumerate(odd)]
    assert math.isinf(cost.of(stage.__class__(stage.layers, cost.space.devices, stage.axes, tuple(entries))))


@pytest.mark.fast("3")
@pytest.mark.parametrize("seed", range(5))
def test_states_of_one_kind_cost_the_same_to_send(seed: int) -> None:
    _, cost = drawn(seed)
    for index, readers in enumerate(cost.graph.readers):
        if len(readers) != 1:
            continue
        sources, wants = cost.kinds(index, readers[0])
        assert sorted(at for group in sources for at in group) == list(range(len(cost.space.states[index])))
        assert sorted(at for group in wants for at in group) == list(range(len(cost.space.states[readers[0]])))
        table = cost.sent(index)
        assert all(np.array_equal(table[group[0]], table[other]) for group in sources for other in group)
