from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hetero_mtf.planning.allocation import dual_bound as chain_dual
from hetero_mtf.planning.allocation.dual_bound import dual_bound
from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.fluid_bound import fluid_bound
from hetero_mtf.planning.allocation.problem import ChainProblem
from tests.cases import first_fast
from tests.planning.chains import SMALL, linked, plain, small
from tools.generated.chains import drawn_chain, drawn_operations


@pytest.mark.fast("0")
@pytest.mark.parametrize("seed", first_fast(SMALL, 6))
def test_no_optimum_is_below_the_bound(seed: int) -> None:
    problem = small(seed)
    for stages in (None, problem.most_stages):
        best = exact_allocation(problem, stages).value
        if best < math.inf:
            bound = dual_bound(problem, stages, 1.1 * best, rounds=200)
            assert min(1.1 * best, fluid_bound(problem, stages)) <= bound <= best * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(4), 1))
def test_it_is_nearer_than_if_work_could_flow(seed: int) -> None:
    problem = drawn_chain(seed, 30, 6, 16)
    best = exact_allocation(problem).value
    fluid, dual = fluid_bound(problem), dual_bound(problem, None, 1.01 * best, rounds=500)
    assert best - dual <= 0.7 * (best - fluid) and dual <= best * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("blocks, groups", [(12, 4), pytest.param(30, 6, marks=pytest.mark.slow)])
def test_more_rounds_are_never_worse_and_time_may_run_out(blocks: int, groups: int) -> None:
    problem = drawn_chain(0, blocks, groups, 16)
    value = 1.02 * exact_allocation(problem).value
    bounds = [dual_bound(problem, None, value, rounds) for rounds in (0, 50, 200, 800)]
    assert bounds == sorted(bounds) and bounds[0] == fluid_bound(problem)
    assert dual_bound(problem, None, value, out_of_time=lambda: True) == fluid_bound(problem)


@pytest.mark.slow
def test_whole_blocks_count() -> None:
    problem = plain([[1.0] * 3] * 2, microbatches=101)  # 2 and 1 blocks, though 1.5 each would do
    assert fluid_bound(problem) == pytest.approx(3 + 150) and exact_allocation(problem).value == 203
    assert dual_bound(problem, None, 210.0) == pytest.approx(203, rel=0.02)


def test_no_bound_is_above_what_is_reached() -> None:
    problem = plain([[1.0] * 6] * 3, microbatches=100)
    assert dual_bound(problem, None, 204.0) == pytest.approx(204.0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 400, 50))
def test_no_optimum_of_hundreds_of_chains_is_below_the_bound(first: int) -> None:
    for seed in range(first, first + 50):
        problem = linked(seed)
        best = exact_allocation(problem).value
        if best < math.inf:
            assert dual_bound(problem, None, 1.1 * best, rounds=60) <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", SMALL[::2])
def test_so_it_is_for_the_coarse_relaxation_of_many_groups(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_dual, "_LARGE", 0.0)
    problem = linked(seed)
    best = exact_allocation(problem).value
    if best < math.inf:
        assert fluid_bound(problem) <= dual_bound(problem, None, 1.1 * best, rounds=60) <= best * (1 + 1e-9)


@pytest.mark.fast("1")
@pytest.mark.parametrize("seed", first_fast([1, 2, 4], 1))
def test_where_memory_and_links_bind_the_bound_is_near(seed: int) -> None:
    problem = drawn_operations(seed, 40, 5, 8, 0.45)
    free = exact_allocation(dataclasses.replace(problem, memory_bytes=np.full(5, math.inf))).answer
    best = exact_allocation(problem).value
    assert free is not None and problem.shortfall_bytes(free) > 0 and fluid_bound(problem) < 0.8 * best
    assert 0.9 * best <= dual_bound(problem, None, 1.01 * best, rounds=400) <= best * (1 + 1e-9)


@pytest.mark.parametrize("seed", first_fast(range(4), 2))
def test_with_one_microbatch_it_goes_on_rising_after_the_first_batch_of_rounds(seed: int) -> None:
    rng, ones = np.random.default_rng(seed), np.ones(12)
    seconds = rng.uniform(1, 3, (5, 12)) * np.array([[1.0], [1.5], [2.0], [3.0], [4.0]])
    apart = 1.0 - np.eye(5)
    groups = tuple((device,) for device in range(5))
    problem = ChainProblem(seconds, groups, ones[1:], 0.01 * apart, 0.0 * apart, 5 * ones, ones, np.full(5, 25.0), microbatches=1)
    best = exact_allocation(problem).value
    assert dual_bound(problem, None, best) == pytest.approx(best)
