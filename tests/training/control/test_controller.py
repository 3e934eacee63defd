"""The controller: plans are tried as steps, the fastest stays, and then the steps are watched."""

from __future__ import annotations

import pytest

from hetero_mtf.errors import WorkerError
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.training.control.calibration_between import CalibrationBetween
from hetero_mtf.training.control.controller import Controller
from tests.planning.refinement.simulated import slower
from tests.training.control.simulated_exploration import SimulatedEngine, SimulatedExploration
from tests.training.control.simulated_training import PROFILE, best_s


def rough(*factors: float) -> Profile:
    """Return a profile that is wrong by some factors of its devices."""
    profile = PROFILE
    for device, factor in enumerate(factors):
        profile = slower(profile, device, factor)
    return profile


@pytest.mark.parametrize("factors", [(1.0, 1.0), (1.0, 1.5), (0.7, 1.3), (2.0, 2.0)])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_training_comes_to_the_best_plan_though_it_began_with_a_rough_profile(factors: tuple[float, ...], noise: float) -> None:
    training = SimulatedExploration(rough(*factors), noise=noise)
    assert len(training.plan.used) == 1
    training.train(150)
    assert len(training.plan.used) == 2 and training.true_s <= 1.05 * best_s(1.0, 1.0)
    best, profile, is_final, _ = training.ended[-1]
    assert is_final and best.built_from == training.plan.built_from and profile.corrections.steps
    assert len({move.after.built_from for move in training.controller.moves}) <= 4


def test_a_plan_that_turns_out_slower_is_left_with_the_plan_before_as_it_was() -> None:
    training = SimulatedExploration(rough(1.0, 1.2), truth=rough(1.0, 4.0))  # the second device is far slower than it seemed
    first = training.engine
    while len(training.controller.moves) < 2:
        training.train(1)
    assert training.engine is first and not first.closed and len(training.plan.used) == 1
    tried, back = training.controller.moves
    assert (tried.before, back.after) == (first.plan, first.plan) and back.step - tried.step == 4
    assert "it is faster" in back.reason and back.before_s > tried.before_s


@pytest.mark.parametrize("steps", [3, 8, 15])
def test_a_short_training_stays_on_one_device(steps: int) -> None:
    training = SimulatedExploration(rough(1.0, 1.0), steps=steps)
    training.train(steps)
    assert training.controller.moves == [] and len(training.plan.used) == 1


def test_a_training_of_unknown_length_tries_later_than_one_that_is_known_to_be_long() -> None:
    known, unknown = SimulatedExploration(rough(1.0, 1.0), steps=2000), SimulatedExploration(rough(1.0, 1.0), steps=None)
    known.train(300)
    unknown.train(300)
    assert 0 < known.controller.moves[0].step < unknown.controller.moves[0].step < 100


def test_a_plan_that_cannot_be_built_is_told_of_once_and_others_are_tried() -> None:
    training = SimulatedExploration(rough(1.0, 1.0))
    chosen = make_plan(PROFILE)
    training.refused = lambda plan: plan.built_from == chosen.built_from
    with pytest.warns(UserWarning, match="is not tried, as it could not be built") as told:
        training.train(200)
    assert len(told) == 1 and all(move.after.built_from != chosen.built_from for move in training.controller.moves)


def test_a_worker_that_dies_while_a_plan_is_built_is_raised() -> None:
    training = SimulatedExploration(rough(1.0, 1.0))

    def dies(plan: object) -> bool:
        raise WorkerError("worker:1 ended", "open the cluster again")

    training.refused = dies
    with pytest.raises(WorkerError, match="worker:1 ended"):
        training.train(200)


def test_batches_of_another_size_are_trained_on_as_they_are() -> None:
    training = SimulatedExploration(rough(1.0, 1.0))
    training.train(3, batch_size=1)
    assert training.controller.known.taken == 0  # type: ignore[attr-defined]


def test_a_device_that_changes_later_is_answered() -> None:
    training = SimulatedExploration(rough(1.0, 1.3), steps=5000)
    training.train(150)
    tried = len(training.controller.moves)
    training.change(1.0, 2.5)
    training.train(120)
    assert len(training.controller.moves) == tried + 1
    assert "times as slow" in training.controller.moves[-1].reason and training.true_s <= 1.05 * best_s(1.0, 2.5)


def test_what_was_built_is_freed_at_the_end() -> None:
    training = SimulatedExploration(rough(1.0, 1.0))
    made = []
    make = training.beside
    training.beside = lambda *given: made.append(make(*given)) or made[-1]  # type: ignore[method-assign,func-returns-value]
    training.train(20)
    controller = training.controller
    assert isinstance(controller, Controller)
    controller.close()
    assert made and all(engine.closed for engine in made if engine is not training.engine)


def test_steps_settle_where_the_engine_was_replaced_meanwhile() -> None:
    training = SimulatedExploration(rough(1.0, 1.0), steps=12)
    training.train(4)
    controller = training.controller
    assert isinstance(controller, Controller)
    counted = len(controller.known.trial.step_s)
    training.engine = SimulatedEngine(training.plan, training)
    training.train(2)  # the first builds, and one settles
    assert len(controller.known.trial.step_s) == counted
    training.train(1)
    assert len(controller.known.trial.step_s) == counted + 1


def test_a_plan_with_one_lucky_step_is_left_all_the_same() -> None:
    training = SimulatedExploration(rough(1.0, 1.2), truth=rough(1.0, 4.0))
    lucky = iter([1.0, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    training.penalty = lambda plan: next(lucky, 1.0) if len(plan.used) == 2 and len(training.controller.moves) == 1 else 1.0
    while len(training.controller.moves) < 2:
        training.train(1)
    tried, back = training.controller.moves
    assert 4 <= back.step - tried.step <= 8 and len(training.plan.used) == 1


def test_a_longer_fit_goes_on_trying_where_a_short_one_ended() -> None:
    training = SimulatedExploration(rough(1.0, 1.0), steps=5)
    training.train(5)
    assert training.controller.moves == [] and training.ended == []
    training.controller.steps_ahead = lambda: 505 - training.step
    training.train(300)
    assert len(training.plan.used) == 2 and training.ended[-1].is_final


def test_a_build_that_fails_in_an_unforeseen_way_ends_no_training() -> None:
    training = SimulatedExploration(rough(1.0, 1.0))

    def fails(plan: object) -> bool:
        raise MemoryError("no memory for the graph")

    training.refused = fails  # type: ignore[assignment]
    with pytest.warns(UserWarning, match="could not be built .no memory for the graph."):
        training.train(300)
    assert len(training.plan.used) == 1


def test_what_runs_beside_steps_is_forgotten_at_a_close_and_tried_again() -> None:
    training = SimulatedExploration(rough(1.0, 1.0))
    controller = training.controller
    assert isinstance(controller, Controller)
    while controller.known.building is None:
        training.train(1)
    controller.close()
    assert not controller.known.busy and controller.known.built is None
    training.train(100)
    assert len(training.plan.used) == 2


def test_steps_are_not_watched_where_that_is_not_wanted() -> None:
    training = SimulatedExploration(rough(1.0, 1.0), watches=False)
    training.train(150)
    moves = len(training.controller.moves)
    training.change(1.0, 2.5)
    training.train(100)
    assert training.ended and len(training.controller.moves) == moves


class SimulatedCalibration(CalibrationBetween):
    """Takes simulated seconds, a turn at a time, and comes to a profile.

    Parameters
    ----------
    training : what it goes on between the steps of.
    turns : how many there are before its end.
    """

    def __init__(self, training: SimulatedExploration, turns: int = 3) -> None:
        super().__init__(lambda turns: PROFILE)
        self._training, self._left = training, turns
        self.taken: list[int] = []

    def measure(self, seconds: float) -> float:
        self.taken.append(self._training.step)
        self._left -= 1
        self._training.runner.clock.now_s += seconds
        if not self._left:
            self.profile = PROFILE
        return seconds


@pytest.mark.parametrize("steps, turns", [(3000, 3), (60, 0), (None, 3)])
def test_curves_are_measured_between_steps_once_trials_promise_no_more_and_that_pays(steps: int | None, turns: int) -> None:
    training = SimulatedExploration(rough(1.0, 1.3), steps=steps, calibrates=SimulatedCalibration)
    training.train(60 if steps == 60 else 400)
    calibration = training.calibration
    assert isinstance(calibration, SimulatedCalibration) and len(calibration.taken) == turns
    assert calibration.taken == sorted(set(calibration.taken))  # a step between two turns, at least
    assert training.ended[-1].is_rough == (turns == 0)
    if turns:
        assert training.controller.known.calibration_s is None
        assert training.true_s <= 1.05 * best_s(1.0, 1.0) and training.controller.profile.curves == PROFILE.curves


def test_a_plan_that_was_freed_and_is_the_best_again_is_built_once() -> None:
    training = SimulatedExploration(rough(1.0, 1.2), truth=rough(1.0, 4.0), watches=False)
    first = training.engine.plan
    while len(training.controller.moves) < 2:  # to the other plan, and back
        training.train(1)
    training.train(3)  # those after going back are as before
    training.penalty = lambda plan: 60.0 if plan.built_from == first.built_from else 1.0
    training.train(20)
    assert training.plan.built_from == training.controller.moves[0].after.built_from
