from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation import partition as boundaries
from hetero_mtf.planning.allocation.partition import best_partition, equal_partition, groups_in_order, proportional_partition, spaced
from hetero_mtf.planning.allocation.problem import check_allocation
from tests.cases import each
from tests.planning.chains import SMALL, allocations, plain, small
from tools.generated.chains import drawn_chain


def test_the_equal_cut_has_as_many_blocks_everywhere_and_the_first_stages_one_more() -> None:
    assert equal_partition(plain([[1.0] * 8] * 3)).boundaries == (0, 3, 6)
    assert equal_partition(plain([[1.0] * 8] * 3), stages=2).boundaries == (0, 4)
    assert equal_partition(plain([[1.0] * 2] * 3)).boundaries == (0, 1)


def test_the_proportional_cut_gives_a_device_of_twice_the_speed_twice_the_work() -> None:
    assert proportional_partition(plain([[1.0] * 9, [2.0] * 9])).boundaries == (0, 6)
    assert proportional_partition(plain([[4.0, 1, 1, 1, 1], [4.0, 1, 1, 1, 1]])).boundaries == (0, 1)
    assert proportional_partition(plain([[1.0] * 3, [100.0] * 3, [100.0] * 3])).boundaries == (0, 1, 2)


@each("seed", SMALL)
def test_both_cuts_are_allocations_for_any_number_of_stages(seed: int) -> None:
    problem = small(seed)
    for stages in (None, *range(1, len(groups_in_order(problem)) + 1)):
        for cut in (equal_partition, proportional_partition):
            check_allocation(problem, cut(problem, stages))
            assert stages in (None, len(cut(problem, stages).boundaries))


def test_groups_that_share_a_device_with_one_before_them_are_passed_over() -> None:
    problem = dataclasses.replace(plain([[1.0] * 4] * 3), groups=((0, 1), (1, 2), (2,)))
    assert groups_in_order(problem) == (0, 2)
    assert groups_in_order(problem, 2) == (0, 2)
    assert groups_in_order(dataclasses.replace(problem, groups=((0, 1, 2), (1,), (0, 2))), 2) == (1, 2)
    with pytest.raises(PlanError, match="3 stages cannot be made .* ask for 1 to 2"):
        groups_in_order(problem, 3)


@each("seed", SMALL)
def test_the_best_cut_of_an_order_is_what_enumeration_finds(seed: int) -> None:
    problem = small(seed)
    order = tuple(reversed(groups_in_order(problem)))
    fitting = [a for a in allocations(problem) if a.groups == order and not problem.shortfall_bytes(a)]
    found = best_partition(problem, order)
    assert found.value == pytest.approx(min(map(problem.value, fitting), default=math.inf))
    if fitting:
        assert found.answer is not None and problem.value(found.answer) == pytest.approx(found.value)
        assert best_partition(problem, order, known=found.value).answer is None


def test_of_very_many_stages_the_largest_is_rounded_up_a_little(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = drawn_chain(0, 30, 4, 16)
    best = best_partition(problem, (0, 1, 2, 3)).value
    monkeypatch.setattr(boundaries, "_TERMS", 10)
    assert best <= best_partition(problem, (0, 1, 2, 3), known=1.2 * best).value <= best * (1 + 2e-4)


def test_starts_are_spaced_so_that_each_stage_has_a_block() -> None:
    assert spaced(np.array([[0, 0, 0], [0, 5, 5], [0, 2, 4]]), 5).tolist() == [[0, 1, 2], [0, 3, 4], [0, 2, 4]]
