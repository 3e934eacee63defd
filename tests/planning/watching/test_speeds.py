"""Speeds of devices from a change: the profile with them predicts what is measured then."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.planning.watching.evidence import Evidence
from hetero_mtf.planning.watching.levels import usual_passes
from hetero_mtf.planning.watching.speeds import LogFactors, evidence_at_start, log_factors_after, profile_at
from hetero_mtf.planning.watching.step_watch import Baseline
from tests.planning.refinement.simulated import slower
from tests.training.control.simulated_training import PROFILE, SimulatedTraining

PLAN = make_plan(PROFILE)


def step_s(*factors: float, plan: Plan = PLAN) -> float:
    truth = PROFILE
    for device, factor in enumerate(factors):
        truth = slower(truth, device, factor)
    return prediction(Costs(truth), plan).step_s


@pytest.mark.fast("0.85-0.3")
@pytest.mark.parametrize("factor", [0.3, 0.5, 1.5, 2.5, 6.0])
@pytest.mark.parametrize("off", [0.85, 1.0, 1.15])
def test_steps_correct_what_traces_show_of_a_slower_device(factor: float, off: float) -> None:
    evidence = Evidence({0: 0.05, 1: math.log(factor * off)}, (1,), step_s(1.0, factor), step_s(1.0, 1.0))
    log_factors = log_factors_after(PROFILE, PLAN, {}, evidence)
    assert set(log_factors) == {1}
    assert math.exp(log_factors[1]) == pytest.approx(factor, rel=0.05 if factor > 1 else 0.2)


def test_two_devices_change_at_once() -> None:
    evidence = Evidence({0: math.log(1.5), 1: math.log(3.0)}, (0, 1), step_s(1.5, 3.0), step_s(1.0, 1.0))
    log_factors = log_factors_after(PROFILE, PLAN, {}, evidence)
    assert math.exp(log_factors[0]) == pytest.approx(1.5, rel=0.1) and math.exp(log_factors[1]) == pytest.approx(3.0, rel=0.05)


@pytest.mark.slow
def test_changes_add_up_and_a_device_that_recovers_is_as_in_the_profile() -> None:
    slowed = {1: math.log(2.5)}
    plan = make_plan(slower(PROFILE, 1, 2.5))
    present = step_s(1.0, 1.0, plan=plan), step_s(1.0, 2.5, plan=plan)
    assert log_factors_after(PROFILE, plan, slowed, Evidence({0: 0.0, 1: -math.log(2.6)}, (1,), *present)) == {}
    later = step_s(1.8, 2.5, plan=plan), present[1]
    after = log_factors_after(PROFILE, plan, slowed, Evidence({0: math.log(1.8), 1: 0.0}, (0,), *later))
    assert {device: math.exp(factor) for device, factor in after.items()} == {0: pytest.approx(1.8, rel=0.05), 1: pytest.approx(2.5)}


def test_a_profile_at_other_speeds_predicts_them() -> None:
    changed = profile_at(PROFILE, {1: math.log(2.5), 0: math.log(0.5)})
    assert prediction(Costs(changed), PLAN).step_s == pytest.approx(step_s(0.5, 2.5))


def baseline_at(plan: Plan, *factors: float) -> Baseline:
    """Return the baseline of a plan on devices that take so many times as long as by the profile."""
    training = SimulatedTraining()
    training.change(*factors)
    training.runner.running = [plan]
    traces = tuple(training.runner.trace(plan) for _ in range(3))
    return Baseline(step_s(*factors, plan=plan), 0.0, usual_passes(traces), traces)


@pytest.mark.parametrize(
    "before, factors, changed",
    [
        ({}, (1.0, 1.0), ()),
        ({}, (1.0, 2.0), (1,)),
        ({1: math.log(2.0)}, (1.0, 2.0), ()),
        ({1: math.log(2.0)}, (1.0, 5.0), (1,)),
        ({1: math.log(2.0)}, (1.0, 1.0), (1,)),  # it has recovered
        ({}, (1.0, 0.5), ()),  # nothing says that it was slower before
        ({1: math.log(2.0)}, (2.0, 1.0), (0, 1)),
    ],
)
@pytest.mark.parametrize("halves", [False, True])
def test_a_baseline_beside_what_is_thought_of_devices(
    before: LogFactors, factors: tuple[float, ...], changed: tuple[int, ...], halves: bool
) -> None:
    plan = make_plan(profile_at(PROFILE, before))
    if halves:  # whose layers run twice a step
        plan = dataclasses.replace(plan, schedule="fill_drain", microbatches=2)
    evidence = evidence_at_start(PROFILE, plan, baseline_at(plan, *factors), before)
    assert (() if evidence is None else evidence.changed) == changed
