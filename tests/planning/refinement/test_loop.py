"""The plan in force has the best measured step, whatever the calibrated profile predicts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import LayoutError
from hetero_mtf.planning.choose import plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.limits import TIME_LIMIT_S
from hetero_mtf.planning.refinement.loop import FINALISTS, MOST_ROUNDS, ROUNDS, Refiner, faster_for_sure
from tests.cases import examples
from tests.planning.networks import deep_net, pair_net, profile_of
from tests.planning.refinement.simulated import SimulatedRunner, slower

GRAPH = pair_net(24, 24, 24)
PROFILE = profile_of(GRAPH, [2e6, 1e6], 1e-6)


def refiner(profile: Profile, runner: SimulatedRunner, time_limit_s: float = 1e9) -> Refiner:
    return Refiner(profile, runner, time_limit_s, runner.clock)


def test_a_right_profile_is_kept_with_factors_of_one() -> None:
    runner = SimulatedRunner(PROFILE)
    start = plan(PROFILE)
    refinement = refiner(PROFILE, runner).refine(start)
    assert refinement.plan.built_from == start.built_from and refinement.gain == 1.0
    assert all(entry.factor == pytest.approx(1.0, rel=0.02) for entry in refinement.profile.corrections.layers)
    assert refinement.profile.corrections.links == pytest.approx(1.0, rel=0.05)


@pytest.mark.slow
def test_a_device_that_is_slower_than_calibrated_gets_less_work() -> None:
    runner = SimulatedRunner(slower(PROFILE, 1, 3.0))
    start = plan(PROFILE)
    refinement = refiner(PROFILE, runner).refine(start)
    best = plan(slower(PROFILE, 1, 3.0))
    assert best.predicted is not None and refinement.plan.predicted is not None
    assert refinement.best.median_s <= 1.02 * best.predicted.step_s < refinement.first.median_s
    assert refinement.plan.predicted.step_s == pytest.approx(refinement.best.median_s, rel=0.05)
    factors = {(e.device, e.split, e.step_pass): e.factor for e in refinement.profile.corrections.layers}
    assert factors[1, "units", "forward"] == pytest.approx(3.0, rel=0.1)
    assert factors[0, "units", "forward"] == pytest.approx(1.0, rel=0.1)


@pytest.mark.slow
def test_links_that_are_slower_than_calibrated_leave_one_device() -> None:
    calibrated, truth = (profile_of(GRAPH, [2e6, 1e6], latency_s) for latency_s in (0.5, 2.0))
    refinement = refiner(calibrated, SimulatedRunner(truth)).refine(plan(calibrated, strategy="batch"))
    assert refinement.plan.strategy == "single" and refinement.plan.stages[0].devices == (0,)
    assert refinement.profile.corrections.links > 2


@examples(2, 25)
@given(st.floats(0.3, 3.0), st.floats(0.3, 3.0), st.floats(1e-7, 0.05), st.integers(0, 2**16))
def test_the_plan_in_force_is_never_slower_than_what_was_run(first: float, second: float, latency_s: float, seed: int) -> None:
    truth = slower(slower(profile_of(GRAPH, [2e6, 1e6], latency_s), 0, first), 1, second)
    runner = SimulatedRunner(truth)
    refinement = refiner(PROFILE, runner, 1e9).refine(plan(PROFILE))
    singles = [run.median_s for run in refinement.runs if len(run.plan.used) == 1]
    assert singles and refinement.best.median_s <= min(singles)
    assert refinement.best.median_s == min(run.median_s for run in refinement.runs)
    assert not runner.running


@pytest.mark.slow
def test_noise_of_measurement_is_not_taken_for_a_factor() -> None:
    refinement = refiner(PROFILE, SimulatedRunner(PROFILE, noise=0.1)).refine(plan(PROFILE))
    assert all(0.8 < entry.factor < 1.25 for entry in refinement.profile.corrections.layers)


@pytest.mark.slow
def test_a_split_that_is_faster_only_within_the_spread_leaves_one_device() -> None:
    truth = profile_of(GRAPH, [2e6, 1e6], 0.45)  # every split takes nearly what one device takes
    taken = {}
    for seed in range(12):
        runner = SimulatedRunner(truth, noise=0.15)
        runner.generator = np.random.default_rng(seed)
        refinement = refiner(truth, runner).refine(plan(truth, strategy="batch"))
        rounds = [run.step_s for run in refinement.runs if len(run.plan.used) == 1]
        taken[seed] = refinement.plan.strategy
        if refinement.plan.strategy != "single":
            assert faster_for_sure(refinement.best.step_s, rounds[0])
    assert "single" in taken.values()


@pytest.mark.slow
def test_more_rounds_are_measured_where_the_best_is_not_sure() -> None:
    truth = profile_of(GRAPH, [2e6, 1e6], 0.45)
    runner = SimulatedRunner(truth, noise=0.3)
    refinement = refiner(truth, runner).refine(plan(truth, strategy="batch"))
    assert ROUNDS <= len(refinement.best.step_s) <= MOST_ROUNDS
    hurried = refiner(truth, SimulatedRunner(truth, noise=0.3), 0.9 * TIME_LIMIT_S).refine(plan(truth, strategy="batch"))
    assert len(hurried.best.step_s) == ROUNDS


@pytest.mark.slow
def test_past_the_usual_limit_the_best_and_one_device_are_still_compared() -> None:
    truth = profile_of(GRAPH, [2e6, 1e6], 0.45)
    unsure = 0
    for seed in range(8):
        runner = SimulatedRunner(truth, noise=0.15, build_s=TIME_LIMIT_S)
        runner.generator = np.random.default_rng(seed)
        refinement = refiner(truth, runner, TIME_LIMIT_S).refine(plan(truth, strategy="batch"))
        first, alone = refinement.runs
        unsure += len(first.step_s) > ROUNDS
        assert len(first.step_s) == len(alone.step_s) <= MOST_ROUNDS
        assert (refinement.plan.strategy != "single") == (first.median_s < alone.median_s and faster_for_sure(first.step_s, alone.step_s))
    assert unsure


def test_without_time_only_the_given_plan_is_run() -> None:
    runner = SimulatedRunner(PROFILE)
    refinement = refiner(PROFILE, runner, 0.0).refine(plan(PROFILE))
    assert len(refinement.runs) == 1 and refinement.reason == "the time limit" and not runner.running


def test_by_the_usual_limit_one_device_is_run_however_long_the_first_plan_took() -> None:
    runner = SimulatedRunner(PROFILE, build_s=100.0)
    refinement = refiner(PROFILE, runner, TIME_LIMIT_S).refine(plan(PROFILE, strategy="batch"))
    assert [len(run.plan.used) for run in refinement.runs] == [2, 1] and refinement.reason == "the time limit"


def test_a_plan_that_cannot_be_built_is_left_out() -> None:
    class Refusing(SimulatedRunner):
        def start(self, plan: Plan) -> None:
            if plan.strategy == "single":
                raise LayoutError("no; try another")
            super().start(plan)

    runner = Refusing(slower(PROFILE, 1, 3.0))
    refinement = refiner(PROFILE, runner).refine(plan(PROFILE))
    assert all(run.plan.strategy != "single" for run in refinement.runs) and not runner.running


@pytest.mark.slow
def test_at_most_a_few_plans_are_held_on_the_cluster() -> None:
    class Counting(SimulatedRunner):
        held = 0  # when a step was last taken: while the best are compared

        def step_s(self, plan: Plan) -> float:
            self.held = len(self.running)
            return super().step_s(plan)

    runner = Counting(slower(PROFILE, 1, 3.0), noise=0.02)
    refiner(PROFILE, runner).refine(plan(PROFILE, strategy="equal"))
    assert runner.held <= FINALISTS < len(runner.started)


@pytest.mark.slow
def test_a_refined_profile_is_a_start_and_is_written_and_read() -> None:
    truth = slower(PROFILE, 1, 3.0)
    first = refiner(PROFILE, SimulatedRunner(truth)).refine(plan(PROFILE))
    document = first.profile.to_json()
    again = Profile.from_json(document)
    assert again.corrections == first.profile.corrections and again.corrections.steps
    second = refiner(again, SimulatedRunner(truth)).refine(plan(again, strategy="equal"))
    assert second.first.predicted_s == pytest.approx(second.first.median_s, rel=0.05)
    assert second.first.first_predicted_s < second.first.median_s


@pytest.mark.slow
def test_raw_measurements_stay_as_they_are() -> None:
    refinement = refiner(PROFILE, SimulatedRunner(slower(PROFILE, 1, 3.0))).refine(plan(PROFILE))
    assert dataclasses.replace(refinement.profile, corrections=Corrections()) == PROFILE


@pytest.mark.slow
def test_a_pipeline_is_run_where_it_promises_to_be_faster() -> None:
    profile = profile_of(deep_net(""), [1e8, 1.9e7], 1e-3, 1e5, 16)
    refinement = refiner(profile, SimulatedRunner(profile)).refine(plan(profile))
    assert refinement.first.plan.strategy == "single" and refinement.plan.strategy == "pipeline"
    assert refinement.gain > 1.05


def test_a_plan_that_is_not_synchronous_has_no_alternatives() -> None:
    mixing = plan(PROFILE, strategy="batch", gradient_sync="butterfly_mixing")
    refinement = refiner(PROFILE, SimulatedRunner(slower(PROFILE, 1, 3.0))).refine(mixing)
    assert len(refinement.runs) == 1 and refinement.plan.gradient_sync == "butterfly_mixing"
