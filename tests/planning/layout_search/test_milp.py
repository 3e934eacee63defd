from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_stage
from hetero_mtf.planning.layout_search.layout_program import solve_layouts, solve_within_memory
from hetero_mtf.planning.layout_search.layout_space import Space, layout_space
from hetero_mtf.planning.layout_search.memory import LayoutMemory
from hetero_mtf.planning.layout_search.milp import solve_milp
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.memory.shortfall import lack_of_memory
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.strategies.layers import best_layers
from tests.cases import first_fast
from tests.planning.layout_objective import drawn_graph, drawn_profile, every_choice, few_states, objective
from tests.planning.networks import Net, profile_of, residual_net
from tools.generated.profiles import Figures, Interconnect, generated_profile


def apart(profile: Profile, free: list[int]) -> Profile:
    """Return the profile with a memory pool of its own for each device."""
    devices = tuple(dataclasses.replace(d, pool=f"pool{i}") for i, d in enumerate(profile.cluster.devices))
    pools = tuple(dataclasses.replace(profile.memory[0], name=f"pool{i}", free_bytes=n) for i, n in enumerate(free))
    return dataclasses.replace(profile, cluster=dataclasses.replace(profile.cluster, devices=devices, pools=pools), memory=pools)


@pytest.mark.fast("5", "6")
@pytest.mark.parametrize("seed", first_fast(range(25), 8))
def test_the_integer_program_finds_what_elimination_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, int(rng.integers(4, 14)))
    costs = Costs(drawn_profile(rng, graph))
    cost = LayoutCost(costs, layout_space(costs, tuple(range(len(costs.profile.cluster.devices)))))
    found, exact = solve_milp(cost), solve_layouts(cost)
    assert found.status == "optimal" and cost.total(found.choice) == pytest.approx(exact.value, rel=2e-6)
    assert found.bound <= exact.value * (1 + 1e-9)


def drawn_space(seed: int) -> tuple[Costs, Space, LayoutMemory]:
    """Return a space few states large, and memory as large in each pool as some choice needs."""
    rng = np.random.default_rng(seed)
    graph = drawn_graph(rng, int(rng.integers(3, 6)))
    profile = drawn_profile(rng, graph)
    count = len(profile.cluster.devices)
    space = few_states(rng, layout_space(Costs(profile), tuple(range(count))), 4)
    every = LayoutMemory(Costs(apart(profile, [10**15] * count)), space, {})
    needs = [every.needed(tuple(int(rng.integers(len(s))) for s in space.states), pool) for pool in every.pools]
    costs = Costs(apart(profile, [int(n) for n in needs]))
    return costs, space, LayoutMemory(costs, space, {})


@pytest.mark.fast("1", "2", "5", "6")
@pytest.mark.parametrize("seed", first_fast(range(25), 8))
def test_within_memory_it_finds_what_enumerating_the_choices_that_fit_finds(seed: int) -> None:
    costs, space, memory = drawn_space(seed)
    found = solve_milp(LayoutCost(costs, space), memory)
    least = np.inf
    for states in every_choice(space):
        choice = tuple(legal.index(state) for legal, state in zip(space.states, states))
        if all(memory.needed(choice, pool) <= pool.free for pool in memory.pools):
            least = min(least, objective(costs, space, states))
    if np.isinf(least):
        assert found.status == "infeasible"
    else:
        assert found.status == "optimal" and LayoutCost(costs, space).total(found.choice) == pytest.approx(least, rel=2e-6)


def test_nothing_free_is_infeasible_without_a_search() -> None:
    costs = Costs(apart(profile_of(residual_net(), [1e6, 1e6]), [0, 0]))
    space = layout_space(costs, (0, 1))
    assert solve_milp(LayoutCost(costs, space), LayoutMemory(costs, space, {})).status == "infeasible"


def test_no_time_is_a_time_limit_with_a_bound_that_holds() -> None:
    rng = np.random.default_rng(1)
    graph = drawn_graph(rng, 30)
    costs = Costs(drawn_profile(rng, graph))
    cost = LayoutCost(costs, layout_space(costs, tuple(range(len(costs.profile.cluster.devices)))))
    found = solve_milp(cost, None, 0.0)
    assert found.status == "time limit" and 0 <= found.bound <= solve_layouts(cost).value * (1 + 1e-9)


def heavy() -> Profile:
    """Return two devices on a slow network, and a network whose weights are so large that only a split of them fits on one."""
    net = Net((64,))
    for at in range(4):
        net.dense(f"dense{at}", 2048)
    network = Interconnect(near_latency_s=1e-3, near_bytes_per_s=1e8)
    return generated_profile(net.graph(), [Figures(1e12), Figures(1e12)], 256, network)


@pytest.mark.slow
def test_weights_that_fit_on_no_device_are_split_where_the_least_seconds_would_not_split_them() -> None:
    roomy = heavy()
    free = best_layers(Costs(roomy))
    needed = [part.memory_bytes for part in free.prediction.parts]
    tight = Costs(apart(roomy, [int(0.8 * max(needed))] * 2))
    space = layout_space(tight, (0, 1))
    cost = LayoutCost(tight, space)
    assert lack_of_memory(tight.profile, trimmed_stage(solve_layouts(cost).layouts, (0, 1)))
    found = solve_within_memory(cost, 10.0)
    assert found is not None and found.status == "optimal" and found.value > solve_layouts(cost).value
    stage, best = trimmed_stage(found.layouts, (0, 1)), best_layers(tight)
    assert not lack_of_memory(tight.profile, stage)
    assert not lack_of_memory(tight.profile, best.stage)
    assert best.prediction.step_s <= predict(tight, stage).step_s


def test_what_fits_nowhere_has_no_solution_within_memory() -> None:
    costs = Costs(apart(heavy(), [2**20] * 2))
    assert solve_within_memory(LayoutCost(costs, layout_space(costs, (0, 1))), 5.0) is None


@pytest.mark.slow
def test_sizes_by_memory_are_found_where_those_by_speed_do_not_fit() -> None:
    profile = heavy()
    figures = [Figures(4e12), Figures(1e12)]
    unequal = generated_profile(profile.graph, figures, 256, Interconnect(near_latency_s=1e-6, near_bytes_per_s=1e11))
    needed = [part.memory_bytes for part in best_layers(Costs(unequal)).prediction.parts]
    tight = apart(unequal, [int(0.82 * max(needed)), int(1.2 * max(needed))])
    best = best_layers(Costs(tight))
    assert len(best.stage.devices) == 2 and not lack_of_memory(tight, best.stage)
    assert best.proof is not None and best.proof.status in ("optimal", "time limit") and best.proof.bound_s <= best.proof.value_s
    assert best.proof.space.endswith("within the memory that is free")
