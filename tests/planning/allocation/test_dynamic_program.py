from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hetero_mtf.planning.allocation.dynamic_program import ChainStates
from hetero_mtf.planning.allocation.fluid_bound import Fluid
from tests.cases import each
from tests.planning.chains import SMALL, plain, small


@each("seed", SMALL)
def test_with_all_devices_tracked_nothing_is_relaxed(seed: int) -> None:
    problem = small(seed)
    fluid, every = Fluid(problem), (1 << problem.devices) - 1
    for limit_s in (math.inf, 2 * fluid.least_largest_s):
        exact = ChainStates(problem, fluid, limit_s).solve(None, math.inf)
        tracked = ChainStates(problem, fluid, limit_s, every).solve(None, math.inf)
        assert (exact is None) == (tracked is None)
        assert exact is None or tracked is None or tracked.total == pytest.approx(exact.total)


@pytest.mark.slow
@each("seed", SMALL)
@each("stages", [None, 2])
def test_at_any_prices_the_relaxed_sum_less_the_prices_is_not_above_the_least(seed: int, stages: int | None) -> None:
    problem = small(seed)
    fluid, rng = Fluid(problem), np.random.default_rng(seed)
    exact = ChainStates(problem, fluid, math.inf).solve(stages, math.inf)
    if exact is None:
        return
    totals = []
    prices = exact.total * rng.uniform(0.0, 0.5, problem.devices)
    for tracked in range(1 << problem.devices):
        states = ChainStates(problem, fluid, math.inf, tracked)
        prices_left = np.where([tracked >> d & 1 for d in range(problem.devices)], 0.0, prices)
        price = np.array([prices_left[list(group)].sum() for group in problem.groups])
        relaxed = states.solve(stages, math.inf, price)
        assert relaxed is not None
        totals.append(relaxed.total - float(prices_left.sum()))
        assert totals[-1] <= exact.total * (1 + 1e-9)
    assert max(totals) == pytest.approx(exact.total)


def test_an_untracked_device_has_no_two_stages_in_a_row() -> None:
    links = 0.01 * (1 - np.eye(2))
    problem = dataclasses.replace(plain([[1.0] * 4, [3.0] * 4]), latency_s=links)
    relaxed = ChainStates(problem, Fluid(problem), 2.0, 0).solve(None, math.inf)
    assert relaxed is None  # two blocks take 2 s on device 0, one takes 3 s on device 1
    relaxed = ChainStates(problem, Fluid(problem), 3.0, 0).solve(2, math.inf)
    assert relaxed is not None and set(relaxed.answer.groups) == {0, 1}
