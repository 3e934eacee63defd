from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import HeteroError
from hetero_mtf.report.step_time import StepTime, StepTimes, ideal_s

ALONE = (StepTime("worker:0", 0.2, 0.25), StepTime("worker:1", 0.4, 0.5))


def test_the_ideal_adds_up_speeds() -> None:
    times = StepTimes(ALONE, StepTime("planned split", 0.15, 0.2), StepTime("equal split", None, 0.3))
    assert times.ideal.predicted_s == pytest.approx(0.4 / 3) and times.ideal.measured_s == pytest.approx(0.5 / 3)
    assert times.efficiency(measured=True) == pytest.approx(0.5 / 3 / 0.2)
    assert times.efficiency(measured=False) == pytest.approx(0.4 / 3 / 0.15)


def test_what_was_not_measured_has_no_ideal_and_no_efficiency() -> None:
    times = StepTimes((StepTime("worker:0", 0.2), ALONE[1]), StepTime("planned split", 0.15))
    assert times.ideal.measured_s is None and times.efficiency(measured=True) is None
    assert ideal_s([]) is None


def test_a_ratio_is_of_measured_times_where_both_are_there() -> None:
    times = StepTimes(ALONE, StepTime("planned split", 0.1, 0.2))
    assert times.ratio(StepTime("equal split", 0.3, 0.3)) == pytest.approx(1.5)
    assert times.ratio(StepTime("equal split", 0.3)) == pytest.approx(3.0)
    assert times.ratio(StepTime("equal split")) is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_no_time_is_refused(value: float) -> None:
    with pytest.raises(HeteroError, match="the step time of worker:0 is .* s; it must be finite and above zero"):
        StepTime("worker:0", value)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=6))
def test_the_ideal_lies_between_the_fastest_over_their_number_and_the_fastest(alone: list[float]) -> None:
    ideal = ideal_s(list(alone))
    assert ideal is not None and min(alone) / len(alone) * (1 - 1e-9) <= ideal <= min(alone) * (1 + 1e-9)
