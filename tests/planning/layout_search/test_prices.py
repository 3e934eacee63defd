from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.stage_from_layouts import trimmed_stage
from hetero_mtf.planning.layout_search.layout_program import beside_bytes, solve_layouts, solve_within_memory
from hetero_mtf.planning.layout_search.layout_space import layout_space
from hetero_mtf.planning.layout_search.memory import LayoutMemory
from hetero_mtf.planning.layout_search.prices import solve_priced
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.memory.shortfall import lack_of_memory, pool_bytes
from tests.cases import first_fast
from tests.planning.layout_objective import every_choice
from tests.planning.layout_search.test_memory import held_bytes
from tests.planning.layout_search.test_milp import apart, drawn_space
from tests.planning.networks import Net, profile_of, residual_net
from tools.generated.profiles import Figures, generated_profile


@pytest.mark.fast("1")
@pytest.mark.parametrize("seed", first_fast(range(40), 4))
def test_the_bound_is_below_and_the_choice_not_below_what_enumerating_the_choices_that_fit_finds(seed: int) -> None:
    costs, space, memory = drawn_space(seed)
    cost = LayoutCost(costs, space)

    def short(choice: tuple[int, ...]) -> np.ndarray:
        held = held_bytes(costs, space, choice)
        return np.array([held[list(pool.places)].sum() / pool.free - 1 for pool in memory.pools])

    def fits(choice: tuple[int, ...]) -> bool:
        return bool((short(choice) <= 0).all())

    least = np.inf
    for states in every_choice(space):
        choice = tuple(legal.index(state) for legal, state in zip(space.states, states))
        least = min(least, cost.total(choice)) if fits(choice) else least
    found = solve_priced(cost, memory, short, 5.0)
    assert found.bound <= least * (1 + 1e-9)
    assert not found.choice or (fits(found.choice) and found.value == cost.total(found.choice) >= least * (1 - 1e-9))
    assert found.choice or found.value == np.inf


def test_what_fits_anyway_is_the_optimum_and_its_own_bound() -> None:
    costs = Costs(apart(profile_of(residual_net(), [2e6, 1e6]), [2**40] * 2))
    cost = LayoutCost(costs, layout_space(costs, (0, 1)))
    found = solve_priced(cost, LayoutMemory(costs, cost.space, {}), lambda choice: np.zeros(2), 5.0)
    assert found.value == pytest.approx(found.bound) == pytest.approx(solve_layouts(cost).value)


def residuals(part: float) -> Costs:
    """Return a residual net on three devices, each with a part of the memory that the one which needs most takes without a limit."""
    net = Net((28, 28, 16))
    for _ in range(4):
        start = net.conv(f"conv{len(net.layers)}", 64)
        net.conv(f"conv{len(net.layers)}", 64)
        net.add("BatchNormalization", f"norm{len(net.layers)}")
        net.add("Add", f"add{len(net.layers)}", [start, len(net.layers) - 1])
    roomy = generated_profile(net.graph(), [Figures(1e11, 2e10), Figures(7e10, 2e10), Figures(5e10, 1e10)], 64)
    free = solve_layouts(LayoutCost(Costs(roomy), layout_space(Costs(roomy), (0, 1, 2))))
    wanted = pool_bytes(roomy, trimmed_stage(free.layouts, (0, 1, 2)))
    return Costs(apart(roomy, [int(part * max(wanted.values()))] * 3))


@pytest.mark.slow
def test_a_network_with_residuals_is_planned_within_memory_to_a_hundredth() -> None:
    tight = residuals(0.9)
    cost = LayoutCost(tight, layout_space(tight, (0, 1, 2), by_memory=True))
    assert lack_of_memory(tight.profile, trimmed_stage(solve_layouts(cost).layouts, (0, 1, 2)))
    found = solve_within_memory(cost, 20.0)
    assert found is not None and not lack_of_memory(tight.profile, trimmed_stage(found.layouts, (0, 1, 2)))
    assert solve_layouts(cost).value * (1 - 1e-9) <= found.bound <= found.value and found.gap < 0.05


def test_what_no_states_fit_in_is_known_from_prices_alone() -> None:
    tight = residuals(0.4)
    cost = LayoutCost(tight, layout_space(tight, (0, 1, 2), by_memory=True))
    found = solve_priced(cost, LayoutMemory(tight, cost.space, {}), lambda choice: np.ones(3), 20.0)
    assert (found.choice, found.value, found.bound) == ((), np.inf, np.inf)
    assert solve_within_memory(cost, 20.0) is None


def test_the_least_beside_tensors_is_no_more_than_any_plan_on_all_devices_takes_there() -> None:
    costs = Costs(profile_of(residual_net(), [2e6, 1e6]))
    space = layout_space(costs, (0, 1))
    least = beside_bytes(costs, space)
    needed = pool_bytes(costs.profile, trimmed_stage(solve_layouts(LayoutCost(costs, space)).layouts, (0, 1)))
    assert set(least) == set(needed) and all(0 < least[name] <= needed[name] for name in needed)
    assert least == beside_bytes(costs, dataclasses.replace(space, states=space.states[:]))
