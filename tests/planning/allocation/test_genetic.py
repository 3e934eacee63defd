from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.genetic import genetic_allocation, suited
from hetero_mtf.planning.allocation.genetic_islands import Evolution
from hetero_mtf.planning.allocation.partition import equal_partition, proportional_partition
from hetero_mtf.planning.allocation.problem import ChainProblem, check_allocation
from tests.cases import first_fast
from tests.planning.chains import SMALL, least, plain, small
from tests.planning.profiled import densenet_chain
from tools.generated.chains import drawn_chain, drawn_operations, drawn_operations_size

SHORT = Evolution(generations=60, islands=2)


@pytest.mark.fast("0")
@pytest.mark.parametrize("seed", first_fast(SMALL, 6))
def test_small_chains_are_solved_to_the_optimum(seed: int) -> None:
    problem = small(seed)
    best = least(problem)
    found = genetic_allocation(problem, evolution=SHORT)
    check_allocation(problem, found.allocation)
    assert (found.broken > 0) == math.isinf(best) == (problem.shortfall_bytes(found.allocation) > 0)
    if best < math.inf:
        assert found.value == pytest.approx(problem.value(found.allocation)) and found.value <= found.value_before_local_search
        assert best <= found.value * (1 + 1e-9) <= best * (1.0 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(4), 2))
def test_larger_chains_come_near_and_are_never_above_the_simple_cuts(seed: int) -> None:
    problem = drawn_chain(seed, 24, 6, 8, 0.4 * (seed % 2))
    found = genetic_allocation(problem, evolution=dataclasses.replace(SHORT, generations=150))
    assert not found.broken and problem.shortfall_bytes(found.allocation) == 0
    assert found.value_before_local_search <= 1.05 * exact_allocation(problem).value
    for cut in (equal_partition(problem), proportional_partition(problem)):
        assert problem.shortfall_bytes(cut) or found.value_before_local_search <= problem.value(cut) * (1 + 1e-12)


@pytest.mark.fast("1")
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_so_many_stages_are_made_as_are_asked_for(stages: int) -> None:
    problem = drawn_chain(1, 12, 5, 8)
    found = genetic_allocation(problem, stages=stages, evolution=SHORT)
    assert len(found.allocation.boundaries) == stages and not found.broken
    assert found.value <= 1.01 * exact_allocation(problem, stages).value


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer_and_another_one_another_way() -> None:
    problem = drawn_chain(0, 30, 6, 16)
    one, same, other = (genetic_allocation(problem, seed=seed, evolution=SHORT) for seed in (5, 5, 6))
    assert one.allocation == same.allocation and one.history == same.history and one.state == same.state
    assert other.history != one.history


def test_a_search_that_is_taken_up_again_ends_as_if_it_had_not_been_stopped() -> None:
    problem = drawn_chain(0, 30, 6, 16)
    whole = genetic_allocation(problem, seed=1, evolution=SHORT)
    calls = iter([False] * 19 + [True])
    first = genetic_allocation(problem, seed=1, evolution=SHORT, out_of_time=lambda: next(calls))
    assert first.generations == 20
    second = genetic_allocation(problem, seed=9, evolution=SHORT, state=json.loads(json.dumps(first.state)))
    assert second.history == whole.history and second.allocation == whole.allocation and second.state == whole.state


def _above_optimum(problem: ChainProblem, seed: int) -> tuple[float, float]:
    """Return how far the genetic allocator is above the optimum, before and after its local search."""
    best, found = exact_allocation(problem).value, genetic_allocation(problem, seed=seed)
    assert not found.broken and found.value == pytest.approx(problem.value(found.allocation))
    return found.value_before_local_search / best - 1, found.value / best - 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_profiled_network_over_slow_links_is_within_a_hundredth_of_the_optimum(seed: int) -> None:
    assert max(_above_optimum(densenet_chain(), seed)) <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize("index", range(20_000, 20_006))
def test_chains_of_operations_are_within_a_hundredth_of_the_optimum(index: int) -> None:
    assert max(_above_optimum(drawn_operations(index, *drawn_operations_size(index)), 0)) <= 0.01


def test_a_state_of_another_problem_is_refused() -> None:
    state = genetic_allocation(drawn_chain(0, 10, 3, 4), evolution=SHORT).state
    with pytest.raises(PlanError, match="not one of 48 allocations of 4 groups and 10 blocks; start again"):
        genetic_allocation(drawn_chain(0, 10, 4, 4), evolution=SHORT, state=state)
    with pytest.raises(PlanError, match="start again"):
        genetic_allocation(drawn_chain(0, 11, 3, 4), evolution=SHORT, state=state)
    with pytest.raises(PlanError, match="start again"):
        genetic_allocation(drawn_chain(0, 10, 3, 4), evolution=SHORT, state={})


@pytest.mark.slow
def test_the_best_never_gets_worse_and_progress_is_told() -> None:
    told: list[tuple[int, int, float]] = []
    found = genetic_allocation(drawn_chain(2, 30, 6, 16), evolution=SHORT, progress=lambda *step: told.append(step))
    assert list(found.history) == sorted(found.history, reverse=True) == [best for _, _, best in told]
    assert [at for at, _, _ in told] == list(range(1, 61)) and found.value_before_local_search == pytest.approx(found.history[-1])


def test_it_ends_when_time_runs_out_but_has_a_generation_first() -> None:
    assert genetic_allocation(drawn_chain(0, 10, 3, 4), out_of_time=lambda: True).generations == 1


def test_it_ends_when_nothing_gets_better() -> None:
    found = genetic_allocation(plain([[1.0] * 4] * 2), evolution=dataclasses.replace(SHORT, stopping=7))
    assert found.generations == 8 and found.value == found.value_before_local_search


def test_memory_is_repaired() -> None:
    problem = plain([[1.0] * 9, [1.5] * 9, [2.0] * 9], microbatches=4)
    tight = dataclasses.replace(problem, memory_bytes=np.array([8.0, 12.0, 10.0]))
    assert tight.shortfall_bytes(equal_partition(problem)) and tight.shortfall_bytes(proportional_partition(problem))
    found = genetic_allocation(tight, evolution=SHORT)
    assert not found.broken and found.value == pytest.approx(exact_allocation(tight).value)


def test_large_chains_have_more_generations() -> None:
    assert suited(drawn_chain(0, 40, 20, 4)).generations > suited(drawn_chain(0, 40, 10, 4)).generations
