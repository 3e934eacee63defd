from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.refinement.terms import LARGEST, SMALLEST, StepParts, link_and_launch_factors

FACTORS = st.floats(0.5, 2.0)


@given(FACTORS, FACTORS)
def test_factors_of_many_steps_are_recovered(links: float, launch: float) -> None:
    parts = [(1.0, 0.5, 0.1), (1.0, 0.0, 0.3), (0.2, 0.6, 0.2), (0.5, 0.1, 0.4)] * 10
    steps = [StepParts(compute + links * sent + launch * called, compute, sent, called) for compute, sent, called in parts]
    assert link_and_launch_factors(steps) == pytest.approx((links, launch), rel=0.03)


def test_what_no_step_has_stays_one() -> None:
    assert link_and_launch_factors([]) == (1.0, 1.0)
    links, launch = link_and_launch_factors([StepParts(1.3, 1.0, 0.0, 0.1)])
    assert links == 1.0 and launch > 1.5


def test_a_step_that_says_little_leaves_factors_near_one() -> None:
    links, launch = link_and_launch_factors([StepParts(1.1, 1.0, 0.01, 0.01)])
    assert links == pytest.approx(launch) and 1.0 < links < 1.5


def test_factors_are_bounded() -> None:
    assert link_and_launch_factors([StepParts(100.0, 1.0, 1.0, 0.0)] * 50)[0] == LARGEST
    assert link_and_launch_factors([StepParts(1.0, 5.0, 1.0, 0.0)] * 50)[0] == SMALLEST
