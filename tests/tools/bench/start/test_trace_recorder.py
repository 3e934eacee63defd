"""The recorder: what it notes of a training from outside is what happened in it."""

from __future__ import annotations

import pytest

from tests.training.control.simulated_exploration import SimulatedExploration
from tests.training.control.simulated_training import PROFILE
from tools.bench.start.start_trace import COUNTED, OVERLAPPED, StartTrace
from tools.bench.start.trace_recorder import TraceRecorder

STEPS = 200


@pytest.fixture(scope="module")
def recorded() -> tuple[StartTrace, SimulatedExploration]:
    training, recorder, ends_s = SimulatedExploration(PROFILE, steps=STEPS), TraceRecorder(), list[float]()
    for _ in range(STEPS):
        start_s = training.runner.clock.now_s
        training.train(1)
        controller = training.controller
        recorder.note(controller.known, controller.profile, training.runner.clock.now_s - start_s)
        ends_s.append(training.runner.clock.now_s)
    trace = recorder.trace("vgg8", (1.0, 1.0), training.controller.moves, ends_s[0], ends_s[-1])
    return trace, training


def test_every_step_is_noted_once(recorded: tuple[StartTrace, SimulatedExploration]) -> None:
    trace, training = recorded
    assert trace.steps == STEPS == len(list(trace.seconds()))
    moves_s = sum(event.seconds or 0.0 for event in trace.events if event.name == "move")
    assert sum(list(trace.seconds())[1:]) + moves_s == pytest.approx(trace.trained_s)


def test_moves_builds_and_solutions_are_noted_where_they_were(recorded: tuple[StartTrace, SimulatedExploration]) -> None:
    trace, training = recorded
    assert [event.step for event in trace.events if event.name == "move"] == [move.step for move in training.controller.moves] != []
    built = [event.seconds for event in trace.events if event.name == "built"]
    assert built == [build.seconds for build in training.controller.known.builds[1:]]
    assert {"solve", "solved", "build"} <= {event.name for event in trace.events}


def test_steps_that_count_are_those_that_the_policy_counts(recorded: tuple[StartTrace, SimulatedExploration]) -> None:
    trace, training = recorded
    known = training.controller.known
    counted = [list(run.seconds) for run in trace.runs if run.state == COUNTED and run.plan == 0]
    assert counted[0] == pytest.approx(list(known.trials[0].step_s))
    assert any(run.state == OVERLAPPED and run.beside == "build" for run in trace.runs)


def test_tried_plans_have_what_was_predicted_of_them(recorded: tuple[StartTrace, SimulatedExploration]) -> None:
    trace, training = recorded
    trials = training.controller.known.trials
    assert [plan.predicted_s for plan in trace.plans if plan.predicted_s is not None] == [trial.predicted_s for trial in trials]
    assert trace.layers and all(0.5 < entry[5] < 2.0 for entry in trace.layers if entry[0] == 0)
