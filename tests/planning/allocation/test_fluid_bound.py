from __future__ import annotations

import pytest

from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.fluid_bound import fluid_bound
from tests.cases import each
from tests.planning.chains import SMALL, linked, plain, small
from tools.generated.chains import drawn_chain


@each("seed", SMALL)
def test_no_optimum_is_below_the_bound(seed: int) -> None:
    problem = small(seed)
    for stages in (None, *range(1, problem.most_stages + 1)):
        best = exact_allocation(problem, stages).value
        assert fluid_bound(problem, stages) <= best * (1 + 1e-9)


@each("seed", range(1, 100, 2))
def test_a_group_of_several_devices_sends_nothing_within_a_stage_however_slow_links_are(seed: int) -> None:
    problem = linked(seed)
    assert fluid_bound(problem) <= exact_allocation(problem).value * (1 + 1e-9)


@pytest.mark.fast("4")
@pytest.mark.parametrize("seed", range(6))
def test_without_a_limit_on_memory_the_bound_is_near(seed: int) -> None:
    problem = drawn_chain(seed, 40, 5, 16)
    best = exact_allocation(problem).value
    assert 0.75 * best <= fluid_bound(problem) <= best * (1 + 1e-9)


def test_work_that_can_be_dealt_evenly_reaches_the_bound() -> None:
    assert fluid_bound(plain([[1.0] * 6] * 3, microbatches=100)) == pytest.approx(6 + 99 * 2)
    assert fluid_bound(plain([[1.0] * 6] * 3, microbatches=1)) == pytest.approx(6)


def test_blocks_that_take_no_time_are_bounded_by_nothing() -> None:
    problem = plain([[0.0] * 3] * 2)
    assert fluid_bound(problem) == exact_allocation(problem).value == 0.0
