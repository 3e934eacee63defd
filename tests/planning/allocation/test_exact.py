from __future__ import annotations

import dataclasses
import math

import pytest

from hetero_mtf.planning.allocation.exact import any_allocation, exact_allocation, exact_work
from tests.cases import each
from tests.planning.chains import SMALL, least, plain, small
from tools.generated.chains import drawn_chain


@each("seed", SMALL)
def test_the_optimum_is_what_enumeration_finds(seed: int) -> None:
    problem = small(seed)
    found, wanted = exact_allocation(problem), least(problem)
    assert found.value == pytest.approx(wanted, rel=1e-9) and found.bound == found.value
    assert (found.answer is None) == math.isinf(wanted)
    if found.answer is not None:
        assert problem.value(found.answer) == pytest.approx(found.value) and problem.shortfall_bytes(found.answer) == 0


@pytest.mark.slow
@each("seed", SMALL)
def test_for_so_many_stages_too(seed: int) -> None:
    problem = small(seed)
    for stages in range(1, problem.most_stages + 1):
        found = exact_allocation(problem, stages)
        assert found.value == pytest.approx(least(problem, stages), rel=1e-9)
        assert found.answer is None or len(found.answer.boundaries) == stages


def test_equal_blocks_on_equal_devices_are_dealt_equally() -> None:
    found = exact_allocation(plain([[1.0] * 6] * 3, microbatches=100))
    assert found.answer is not None and found.answer.boundaries == (0, 2, 4) and found.value == 6 + 99 * 2


def test_one_microbatch_goes_where_the_sum_is_least() -> None:
    found = exact_allocation(plain([[5.0, 1, 1], [1, 5, 5]], microbatches=1))
    assert found.value == 1 + 2 and found.answer is not None and found.answer.groups == (1, 0)


@pytest.mark.fast("2", "4")
@pytest.mark.parametrize("seed", range(5))
def test_more_memory_and_more_devices_never_make_it_worse(seed: int) -> None:
    problem = drawn_chain(seed, 14, 4, 8, 0.5)
    best = exact_allocation(problem).value
    assert exact_allocation(dataclasses.replace(problem, memory_bytes=2 * problem.memory_bytes)).value <= best
    fewer = dataclasses.replace(problem, seconds=problem.seconds[:3], groups=problem.groups[:3])
    assert exact_allocation(fewer).value >= best


def test_permuting_the_groups_permutes_the_answer() -> None:
    problem = drawn_chain(3, 12, 4, 8)
    order = [2, 0, 3, 1]
    permuted = dataclasses.replace(problem, seconds=problem.seconds[order], groups=tuple(problem.groups[g] for g in order))
    one, other = exact_allocation(problem).answer, exact_allocation(permuted).answer
    assert one is not None and other is not None
    assert one.boundaries == other.boundaries and one.groups == tuple(order[g] for g in other.groups)


def test_only_less_than_what_is_known_is_looked_for() -> None:
    problem = drawn_chain(0, 12, 3, 8)
    best = exact_allocation(problem).value
    found = exact_allocation(problem, known=best)
    assert found.answer is None and found.value == found.bound == best
    assert exact_allocation(problem, known=best * 1.1).value == pytest.approx(best)


def test_when_time_runs_out_the_best_so_far_has_a_bound() -> None:
    problem = drawn_chain(1, 20, 5, 8)
    calls = iter([False, False, False, True])
    found, best = exact_allocation(problem, out_of_time=lambda: next(calls)), exact_allocation(problem).value
    assert found.solved == 3 and found.bound <= best * (1 + 1e-9) <= found.value * (1 + 2e-9)
    assert exact_allocation(problem, out_of_time=lambda: True).answer is None


def test_any_allocation_is_one_that_fits_if_there_is_one() -> None:
    found = any_allocation(plain([[1.0] * 4] * 2, memory=6.0))
    assert found is not None and len(found.boundaries) == 2
    assert any_allocation(plain([[1.0] * 4] * 2, memory=5.0)) is None


def test_the_work_doubles_with_a_device() -> None:
    works = [exact_work(drawn_chain(0, 10, devices, 4)) / devices for devices in (4, 5, 6)]
    assert works[1] == 2 * works[0] and works[2] == 2 * works[1]
