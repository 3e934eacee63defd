from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan, plan_if
from hetero_mtf.planning.profile.what_if import WhatIf
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.step_time import StepTime, StepTimes
from hetero_mtf.report.verdict import Verdict, measured_verdict, predicted_verdict, relative_text, surprise
from tests.planning.networks import pair_net, profile_of

PROFILE = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6, batch_size=8)
TIMES = StepTimes((StepTime("gpu:0", 0.4, 0.3), StepTime("cpu:0", 0.6, 0.6)), StepTime("planned", 0.25, 0.24))


def test_the_measured_verdict_is_that_of_the_measured_times() -> None:
    verdict = measured_verdict(TIMES, "cpu:0")
    assert verdict is not None and verdict.times_faster == pytest.approx(0.3 / 0.24) and verdict.of_ideal == pytest.approx(0.2 / 0.24)
    assert verdict.text == "measured: 1.25 x faster than the best single device (gpu:0), 0.83 of ideal; bottleneck cpu:0"


def test_there_is_no_measured_verdict_where_no_device_alone_was_measured() -> None:
    assert measured_verdict(StepTimes((StepTime("gpu:0", 0.4),), StepTime("planned", 0.2, 0.3))) is None
    assert measured_verdict(StepTimes((StepTime("gpu:0", 0.4, 0.3),), StepTime("planned", 0.2))) is None


def test_without_the_profile_the_best_single_device_is_among_the_alternatives() -> None:
    made = plan(PROFILE)
    assert made.predicted is not None
    single = next(other.step_s for other in made.alternatives if other.strategy == "single")
    verdict = predicted_verdict(made)
    assert verdict is not None and single is not None and verdict.times_faster == pytest.approx(single / made.predicted.step_s)
    assert verdict.text == f"predicted: {single / made.predicted.step_s:.2f} x faster than the best single device (worker:0)"
    bare = predicted_verdict(dataclasses.replace(made, alternatives=()))
    assert bare is not None and bare.times_faster is None and bare.text.endswith("/step")
    assert predicted_verdict(dataclasses.replace(made, predicted=None)) is None


def test_the_verdict_on_a_what_if_says_so() -> None:
    verdict = predicted_verdict(plan_if(PROFILE, WhatIf(scale=(("worker:1", 2.0),))))
    assert verdict is not None and verdict.text.startswith("predicted for a what-if: ")


def test_a_slower_plan_is_called_slower() -> None:
    assert Verdict("measured", 0.6, StepTime("a", 0.1, 0.3)).text == "measured: 2.00 x slower than the best single device (a)"
    assert relative_text(1.0) == "as fast as"


def test_steps_within_the_trusted_error_are_no_surprise() -> None:
    made = plan(PROFILE)
    assert made.predicted is not None
    step_s = made.predicted.step_s
    times = Measured(made.digest, made.strategy, 8, made.devices, 9, step_s / 1.2)
    assert surprise(times, made) == "" == surprise(times, dataclasses.replace(made, predicted=None))
    assert "0.77 times" in surprise(dataclasses.replace(times, step_s=step_s / 1.3), made)
