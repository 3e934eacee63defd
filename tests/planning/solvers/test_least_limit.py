from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.solvers.least_limit import least_limit

VALUES = st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20)


def _solver(values: list[float]) -> object:
    def solve(limit: float) -> tuple[float, int] | None:
        return next(((value, at) for at, value in enumerate(values) if value <= limit), None)

    return solve


@given(VALUES, st.floats(0.0, 1.0))
def test_the_least_value_is_returned_to_a_billionth(values: list[float], part: float) -> None:
    best = least_limit(_solver(values), part * min(values))  # type: ignore[arg-type]
    assert best.answer is not None and best.value == values[best.answer] == best.bound
    assert min(values) <= best.value <= min(values) * (1 + 2e-9)


def test_the_least_numbers_that_a_float_can_have_are_no_obstacle() -> None:
    assert least_limit(_solver([5e-324]), 0.0).value == 5e-324  # type: ignore[arg-type]


@pytest.mark.parametrize("known", [math.inf, 5e-324, 1.0])
def test_a_value_of_the_least_number_is_found_even_below_the_least_float(known: float) -> None:
    best = least_limit(_solver([5e-324, 0.0]), 0.0, known=known)  # type: ignore[arg-type]
    assert best.answer == 1 and best.value == 0.0


def test_only_a_value_below_a_known_one_is_searched_for() -> None:
    assert least_limit(_solver([3.0, 2.0]), 1.0, known=2.0).answer is None  # type: ignore[arg-type]
    assert least_limit(_solver([3.0, 2.0]), 1.0, known=2.5).answer == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("least", [0.0, 1.0])
def test_without_an_answer_the_bound_is_infinite(least: float) -> None:
    nothing = least_limit(lambda limit: None, least)
    assert nothing.answer is None and math.isinf(nothing.value) and math.isinf(nothing.bound)


def test_out_of_time_leaves_the_bound_reached() -> None:
    stopped = least_limit(_solver([3.0]), 1.0, out_of_time=lambda: True)  # type: ignore[arg-type]
    assert math.isinf(stopped.value) and stopped.bound == 1.0 and stopped.solved == 0
