"""A training moves where a device has changed and that pays, and never without a change."""

from __future__ import annotations

import dataclasses

import pytest

from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.exploration.next_action import IN_BACKGROUND, MARGIN
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.plan_run import TracedStep
from hetero_mtf.training.control.controller import DRIFTED
from tests.planning.refinement.simulated import slower
from tests.training.control.simulated_training import PROFILE, SimulatedTraining, best_s

NOISE = 0.03


@pytest.mark.slow
@pytest.mark.fast("1-1.6-0.0")
@pytest.mark.parametrize("noise", [0.0, NOISE])
@pytest.mark.parametrize("device, times", [(0, 2.5), (1, 2.5), (1, 1.6), (0, 6.0)])
def test_a_device_that_becomes_slower_gets_less_work_within_50_steps(device: int, times: float, noise: float) -> None:
    training = SimulatedTraining(noise)
    training.train(60)
    assert training.controller.moves == []
    factors = [1.0, 1.0]
    factors[device] = times
    training.change(*factors)
    training.train(50)
    move, *_ = training.controller.moves
    assert f"{PROFILE.cluster.devices[device].name} became" in move.reason and "times as slow" in move.reason
    assert training.true_s <= 1.05 * best_s(*factors) < move.before_s
    assert move.expected_s == pytest.approx(training.true_s, rel=0.1)
    training.train(500)
    assert training.true_s <= 1.05 * best_s(*factors) and training.step == 610
    assert len(training.controller.changes) == 1 and [each for each in training.controller.moves if each.step > 150] == []


@pytest.mark.slow
def test_a_device_that_recovers_gets_its_work_back() -> None:
    training = SimulatedTraining(NOISE, steps=5000)
    first = training.plan
    training.train(60)
    training.change(1.0, 2.5)
    training.train(400)
    training.change(1.0, 1.0)
    training.train(400)
    slowed, recovered = training.controller.changes
    assert slowed.devices[0].times > 2 and recovered.devices[0].times < 0.5
    assert training.true_s <= 1.05 * training.runner.true_s(first)


@pytest.mark.slow
def test_a_device_that_becomes_faster_gets_more_work() -> None:
    training = SimulatedTraining(NOISE, steps=5000)
    training.train(60)
    training.change(1.0, 0.4)
    training.train(300)
    assert "times as fast" in training.controller.moves[0].reason and training.true_s <= 1.05 * best_s(1.0, 0.4)


@pytest.mark.slow
@pytest.mark.fast("10-second0")
@pytest.mark.parametrize("second", [(1.0, 6.0), (2.5, 1.0), (1.0, 1.0)])
@pytest.mark.parametrize("later", [10, 18, 24, 34, 44])  # while a change is looked at, a plan is built, tried, watched
def test_devices_that_change_again_while_plans_are_tried_get_what_they_can_do(later: int, second: tuple[float, float]) -> None:
    training = SimulatedTraining(NOISE, steps=5000, seed=later)
    training.train(60)
    training.change(1.0, 2.5)
    training.train(later)
    training.change(*second)
    training.train(600)
    assert training.true_s <= 1.1 * best_s(*second)


def _let_others_take_longer(training: SimulatedTraining) -> Plan:
    """Let all plans but the one in force, which is returned, take four times as long."""
    before = training.plan
    training.penalty = lambda plan: 1.0 if plan.built_from == before.built_from else 4.0
    return before


def test_steps_that_are_disturbed_after_going_back_end_no_search_for_plans() -> None:
    training = SimulatedTraining(steps=5000)
    training.train(60)
    _let_others_take_longer(training)
    training.change(1.0, 2.5)
    while len(training.controller.moves) < 2:
        training.train(1)
    training.penalty = lambda plan: 2.0
    training.train(3)
    assert training.controller.known.rest is DRIFTED and len(training.controller.known.trials) == 1
    training.penalty = lambda plan: 1.0
    training.train(600)
    assert len(training.controller.changes) == 1 and training.true_s <= 1.05 * best_s(1.0, 2.5)


@pytest.mark.slow
def test_devices_that_change_alike_keep_their_sizes() -> None:
    training = SimulatedTraining(NOISE)
    training.train(60)
    training.change(1.8, 1.8)
    training.train(500)
    assert len(training.controller.moves) <= 1 and training.true_s <= 1.01 * best_s(1.8, 1.8)
    assert [len(change.devices) for change in training.controller.changes] == [2]


@pytest.mark.fast("0-0.05")
@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_500_steady_steps_have_no_move_and_cheap_traces(noise: float, seed: int) -> None:
    training = SimulatedTraining(noise, steps=20_000, seed=seed)
    training.train(500)
    assert training.controller.moves == [] and training.controller.changes == [] and training.controller.devices is not None
    budget = training.controller.devices.budget
    assert budget.spent_s <= 0.02 * budget.run_s


@pytest.mark.slow
def test_no_move_where_few_steps_are_left() -> None:
    training = SimulatedTraining(steps=80)
    training.train(60)
    training.change(1.0, 2.5)
    training.train(20)
    assert len(training.controller.changes) == 1 and training.controller.moves == []


def test_no_move_where_the_gain_is_less_than_what_it_costs() -> None:
    training = SimulatedTraining(steps=85)
    training.train(60)
    training.change(1.0, 1.6)
    training.train(25)
    known = training.controller.known
    assert len(training.controller.changes) == 1 and training.controller.moves == []
    gain_s = (known.trial.median_s - best_s(1.0, 1.6)) * (85 - training.controller.changes[0].step)
    assert 0 < gain_s <= MARGIN * IN_BACKGROUND * training.build_s


@pytest.mark.slow
def test_of_a_run_of_unknown_length_as_many_steps_as_were_taken_are_taken_to_be_left() -> None:
    training = SimulatedTraining(steps=None)
    training.train(25)
    training.change(1.0, 1.6)
    training.train(20)
    assert len(training.controller.changes) == 1 and training.controller.moves == []
    training.train(400)
    assert training.true_s <= 1.05 * best_s(1.0, 1.6) and len(training.controller.changes) == 1


@pytest.mark.slow
def test_following_a_device_that_changes_to_and_fro_costs_no_more_than_not_following_it() -> None:
    seconds = []
    for watches in (True, False):
        training = SimulatedTraining(steps=10_000, watches=watches)
        training.train(60)
        for turn in range(20):
            training.change(1.0, 1.0 if turn % 2 else 2.5)
            training.train(25)
        seconds.append(training.runner.clock.now_s)
    assert seconds[0] <= 1.02 * seconds[1]


def test_a_plan_that_cannot_be_built_is_warned_of_once_and_not_tried_again() -> None:
    training = SimulatedTraining(steps=5000)
    training.train(60)
    before = training.plan
    training.refused = lambda plan: plan.built_from != before.built_from
    training.change(1.0, 2.5)
    with pytest.warns(UserWarning, match="could not be built .*too much memory") as warned:
        training.train(300)
    assert len(warned) == len(training.controller.known.refused) > 0 and training.plan is before and training.step == 360
    assert training.controller.moves == []


def test_a_move_that_makes_steps_longer_is_taken_back_once() -> None:
    training = SimulatedTraining(steps=5000)
    training.train(60)
    before = _let_others_take_longer(training)
    training.change(1.0, 2.5)
    training.train(600)
    away, back, *_ = training.controller.moves
    assert back.after.built_from == before.built_from and back.reason == "it is faster" and back.step - away.step == 4
    assert training.plan.built_from == before.built_from


def test_a_device_that_is_slower_than_in_the_profile_from_the_start_gets_less_work() -> None:
    training = SimulatedTraining(NOISE, truth=slower(PROFILE, 1, 2.5))
    training.train(60)
    move, *_ = training.controller.moves
    assert move.step < 30 and training.true_s <= 1.05 * best_s(1.0, 2.5)


def test_batches_of_another_size_are_trained_on_and_do_not_count() -> None:
    training = SimulatedTraining()
    training.train(30)
    taken = training.controller.known.taken
    training.train(3, batch_size=1)
    assert training.controller.known.taken == taken and training.step == 33


def test_another_engine_is_watched_from_its_first_step_on() -> None:
    training = SimulatedTraining(NOISE)
    training.train(60)
    training.change(1.0, 2.5)
    training.engine = training.beside(make_plan(slower(PROFILE, 1, 2.5)))
    training.train(100)
    assert training.controller.moves == [] and training.controller.changes == []


def test_a_step_that_does_not_bear_out_what_traces_show_leads_to_nothing() -> None:
    training = SimulatedTraining(steps=5000)
    training.train(60)
    trace = training.runner.trace

    def misleading(plan: Plan) -> TracedStep:
        traced = trace(plan)
        layers = tuple(each._replace(compute_s=each.compute_s * (1.3 if each.device == 1 else 1.0)) for each in traced.layers)
        return dataclasses.replace(traced, layers=layers)

    training.runner.trace = misleading  # type: ignore[method-assign]
    training.train(300)
    assert training.controller.moves == []
