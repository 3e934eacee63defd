from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.profile.corrections import Corrections, MeasuredStep
from hetero_mtf.planning.profile.prediction_error import LARGEST_ERROR, LEAST_ERROR, prediction_error, untried_error
from tests.planning.networks import pair_net, profile_of

PROFILE = profile_of(pair_net(24, 24, 24), [2e6, 1e6], 1e-6)


def step(predicted_s: float, measured_s: float) -> MeasuredStep:
    return MeasuredStep("batch", "abc", predicted_s, measured_s, 0.0, "2026-01-01")


def test_short_steps_are_predicted_worst() -> None:
    errors = [untried_error(step_s) for step_s in (0.0, 0.005, 0.05, 0.5, 5.0)]
    assert errors == sorted(errors, reverse=True) and errors[0] == LARGEST_ERROR and errors[-1] < 0.11


def test_steps_that_were_run_decide() -> None:
    steps = (step(1.0, 3.0), step(1.0, 1.1), step(1.0, 1.2), step(1.0, 0.9))
    refined = dataclasses.replace(PROFILE, corrections=Corrections(steps=steps))
    assert prediction_error(refined, 0.001) == pytest.approx(0.105, abs=0.01)
    exact = dataclasses.replace(PROFILE, corrections=Corrections(steps=(step(1.0, 1.0),) * 3))
    assert prediction_error(exact, 0.001) == LEAST_ERROR


def test_a_split_is_taken_only_where_it_promises_more_than_predictions_err() -> None:
    alone = plan(PROFILE, strategy="single")
    assert alone.predicted is not None
    slow = profile_of(PROFILE.graph, [2e6, 1.5e5], 1e-6)
    exact = dataclasses.replace(slow, corrections=Corrections(steps=(step(1.0, 1.0),) * 3))
    doubtful, certain = plan(slow), plan(exact)
    assert certain.strategy != "single" and certain.predicted is not None
    if certain.predicted.step_s * (1 + untried_error(certain.predicted.step_s)) >= alone.predicted.step_s:
        assert doubtful.strategy == "single"
        assert any("within the error" in other.reason for other in doubtful.alternatives)
    else:
        pytest.fail("the profile was to be one in which a split promises little")
