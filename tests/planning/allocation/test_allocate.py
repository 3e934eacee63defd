from __future__ import annotations

import math

import numpy as np
import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation import allocate as module
from hetero_mtf.planning.allocation import dual_bound as chain_dual
from hetero_mtf.planning.allocation.allocate import allocate
from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.genetic_islands import Evolution
from hetero_mtf.planning.allocation.problem import check_allocation
from hetero_mtf.planning.names import ALLOCATORS
from tests.planning.chains import plain
from tools.generated.chains import drawn_chain

SHORT = Evolution(generations=40, islands=2)


@pytest.mark.fast("exact")
@pytest.mark.parametrize("allocator", ALLOCATORS)
def test_every_allocator_has_the_optimum_beside_it(allocator: str) -> None:
    problem = drawn_chain(0, 16, 4, 8)
    best = exact_allocation(problem).value
    found = allocate(problem, allocator, evolution=SHORT)
    check_allocation(problem, found.allocation)
    assert found.value == pytest.approx(problem.value(found.allocation)) and found.value <= found.value_before_local_search
    assert found.bound == pytest.approx(best) and found.gap == pytest.approx(found.value / best - 1, abs=1e-8)
    assert found.status == ("optimal" if found.gap < 1e-8 else "heuristic")
    assert bool(found.history) == (allocator == "genetic") and found.allocator == ("exact" if allocator == "auto" else allocator)


@pytest.mark.slow
def test_what_is_cheap_is_solved_exactly_and_what_is_not_has_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = drawn_chain(0, 16, 4, 8)
    assert allocate(problem).reason == "exact, as 16 blocks on 4 groups are cheap to solve; proven best"
    monkeypatch.setattr(module, "CHEAP", 10.0)
    monkeypatch.setattr(chain_dual, "_MOST_ROUNDS", 100)
    found = allocate(problem, evolution=SHORT)
    assert found.reason == "genetic, as 16 blocks on 4 groups are many to solve exactly; beside a lower bound"
    assert found.bound <= exact_allocation(problem).value * (1 + 1e-9) and found.gap == found.value / found.bound - 1


def test_more_devices_than_there_are_bits_are_no_difficulty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_dual, "_MOST_ROUNDS", 100)
    problem = drawn_chain(0, 100, 70, 8)
    found = allocate(problem, evolution=Evolution(generations=5, islands=1))
    assert found.allocator == "genetic" and 0 < found.bound <= found.value
    with pytest.raises(PlanError, match="100 blocks on 70 groups have too many sets of devices .* use allocator genetic"):
        allocate(problem, "exact")


@pytest.mark.slow
def test_so_many_stages_are_made_as_are_asked_for() -> None:
    for allocator in ALLOCATORS:
        assert len(allocate(drawn_chain(0, 16, 4, 8), allocator, stages=2, evolution=SHORT).allocation.boundaries) == 2


def test_time_that_runs_out_leaves_the_best_so_far() -> None:
    problem, ticks = drawn_chain(1, 20, 5, 8), iter(range(1000))
    found = allocate(problem, "exact", time_limit_s=4.5, clock=lambda: float(next(ticks)))
    assert found.status == "time limit" and found.gap > 0 and "stopped by the time limit" in found.reason
    with pytest.raises(PlanError, match="before it had an allocation; allow more seconds"):
        allocate(problem, "exact", time_limit_s=0.0)
    assert len(allocate(problem, "genetic", time_limit_s=0.0).history) == 1


def test_an_allocator_that_is_not_known_is_refused() -> None:
    with pytest.raises(PlanError, match="'best' is not known; use one of auto, exact, genetic, equal, proportional"):
        allocate(plain([[1.0]]), "best")


@pytest.mark.fast("auto")
@pytest.mark.parametrize("allocator", ["auto", "genetic"])
def test_memory_that_nothing_fits_into_is_said_with_what_would_be_enough(allocator: str) -> None:
    with pytest.raises(PlanError) as raised:
        allocate(plain([[1.0] * 4] * 2, memory=5.0), allocator, evolution=SHORT)
    text = "no allocation of 4 blocks to 2 groups of 2 devices fits into memory, the nearest is 1 B short on a device; "
    text += "one with 2 stages fits with 1.21 times the memory of each device; use smaller microbatches or more devices"
    assert str(raised.value) == text


def test_without_an_exact_answer_the_nearest_found_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHEAP", 1.0)
    text = "no allocation of 4 blocks in 2 stages to 2 groups of 2 devices was found that fits into memory, the nearest is 1 B short"
    with pytest.raises(PlanError, match=text):
        allocate(plain([[1.0] * 4] * 2, memory=5.0), stages=2, evolution=SHORT)


def test_no_memory_at_all_is_said() -> None:
    with pytest.raises(PlanError, match="no allocation of 2 blocks to 1 groups of 1 devices fits into memory; use more devices"):
        allocate(plain([[1.0, 1.0]], memory=0.0))


def test_a_simple_cut_that_does_not_fit_is_refused() -> None:
    problem = plain([[1.0] * 5] * 2, memory=8.0)
    assert allocate(problem).gap == 0.0
    with pytest.raises(PlanError, match="the equal partition is 1 B short on a device; use allocator exact or genetic"):
        allocate(problem, "equal")


def test_work_that_takes_no_time_has_no_gap() -> None:
    assert allocate(plain([[0.0, 0.0]])).gap == 0.0
    assert module._gap(1.0, 0.0) == math.inf and np.isclose(module._gap(1.1, 1.0), 0.1)
