"""Factors of devices, links and launch overhead follow from steps, as far as those tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.planning.refinement.step_factors import COMPUTE_SPREAD, LAUNCH, LINKS, Key, StepResidual, step_factors

FIRST, FIRST_ALONE, SECOND = (0, "units"), (0, "alone"), (1, "units")
KEYS: list[Key] = [FIRST, FIRST_ALONE, SECOND, LINKS, LAUNCH]


def residual(log_ratio: float, slopes: dict[Key, float], spread: float = 0.01) -> StepResidual:
    return StepResidual(log_ratio, spread, slopes)


@given(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3))
def test_factors_of_many_steps_are_recovered(first: float, links: float, launch: float) -> None:
    slopes: list[dict[Key, float]] = [{FIRST: 0.9, LINKS: 0.1}, {FIRST: 0.5, LINKS: 0.5}, {FIRST: 0.4, LINKS: 0.1, LAUNCH: 0.5}]
    true = {FIRST: first, LINKS: links, LAUNCH: launch}
    steps = [residual(sum(each[key] * true[key] for key in each), each, 1e-3) for each in slopes * 10]
    found = step_factors(KEYS, steps, {})
    assert [found[key] for key in true] == pytest.approx(list(true.values()), abs=0.02)


def test_no_step_leaves_all_factors_at_one() -> None:
    assert step_factors(KEYS, [], {}) == dict.fromkeys(KEYS, 0.0)


def test_a_split_that_was_not_run_follows_its_device_more_than_another_device() -> None:
    found = step_factors(KEYS, [residual(0.09, {FIRST: 1.0})], {})
    assert found[FIRST] > found[FIRST_ALONE] > found[SECOND] > 0
    assert found[LINKS] == found[LAUNCH] == 0


def test_a_step_that_scatters_says_less() -> None:
    sure, unsure = (step_factors(KEYS, [residual(0.1, {FIRST: 1.0}, spread)], {})[FIRST] for spread in (0.01, 0.1))
    assert sure > 0.09 > 0.06 > unsure > 0


def test_what_is_far_beyond_the_error_of_a_calibration_is_believed() -> None:
    steps = [residual(1.1, {FIRST: 1.0}), residual(0.0, {SECOND: 1.0})]
    found = step_factors(KEYS, steps, {})
    assert found[FIRST] == pytest.approx(1.1, abs=20 * COMPUTE_SPREAD * 0.01) and found[SECOND] == pytest.approx(0.0, abs=0.01)


def test_residuals_about_other_factors_give_the_same_factors() -> None:
    slopes: dict[Key, float] = {FIRST: 0.7, LINKS: 0.3}
    start = {FIRST: 0.05, LINKS: -0.2}
    there = residual(0.1 - sum(slopes[key] * start[key] for key in slopes), slopes)
    assert step_factors(KEYS, [there], start) == pytest.approx(step_factors(KEYS, [residual(0.1, slopes)], {}))
