"""The simulation of trainings that try plans: it repeats a recording, and says what noise and another policy change."""

from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.planning.exploration.actions import BuildPlan, TakeStep, Watch
from hetero_mtf.planning.exploration.records import Knowledge
from tests.tools.bench.start.made_up_traces import made_up_trace
from tools.bench.start.recorded_world import RecordedPolicy, RecordedWorld
from tools.bench.start.simulated_start import simulated
from tools.bench.start.temper import BLOCK, Temper


def test_with_what_was_decided_a_recording_is_repeated() -> None:
    trace = made_up_trace()
    world = RecordedWorld(trace)
    outcome = simulated(world, RecordedPolicy(world))
    assert outcome.trained_s == pytest.approx(trace.trained_s, rel=1e-3)
    assert [(move.step, move.plan.built_from) for move in outcome.moves] == [(11, 1)] and outcome.ended_at == 17


def test_without_trials_a_training_takes_the_steps_of_its_first_plan() -> None:
    trace = made_up_trace()
    outcome = simulated(RecordedWorld(trace), lambda known: Watch("nothing is tried", True))
    assert outcome.moves == () and outcome.ended_at == 1
    assert outcome.trained_s == pytest.approx(trace.steps - 1, rel=0.15)  # a second each, but for the noise of single steps


def test_the_policy_moves_to_the_faster_plan_as_recorded() -> None:
    trace = made_up_trace()
    outcome = simulated(RecordedWorld(trace))
    assert [move.plan.built_from for move in outcome.moves] == [1]
    assert outcome.trained_s == pytest.approx(trace.trained_s, rel=0.1)
    assert outcome.known.trials[1].median_s == pytest.approx(0.6, rel=0.15)


def test_steps_beside_a_build_are_longer_and_count_for_nothing() -> None:
    states: list[str] = []

    class Watched(RecordedWorld):
        def step_s(self, plan: object, step: int, state: str, beside: str) -> float:
            states.append(f"{state} {beside}".strip())
            return super().step_s(plan, step, state, beside)

    outcome = simulated(Watched(made_up_trace()))
    assert "overlapped build" in states and "overlapped solve" in states
    assert outcome.known.delay_s > 0 and states.index("overlapped solve") < states.index("overlapped build")


def test_work_that_goes_on_at_the_end_is_waited_for() -> None:
    trace = made_up_trace(watched=0)

    def builds_last(known: Knowledge) -> object:
        last = known.left == 1 and not known.busy
        return BuildPlan(RecordedWorld(trace).plans[1]) if last else TakeStep()  # type: ignore[arg-type]

    outcome = simulated(RecordedWorld(trace), builds_last)  # type: ignore[arg-type]
    assert 0 < outcome.waited_s < 3.0


def test_noise_is_drawn_in_blocks_of_recorded_steps() -> None:
    recorded = tuple(1 + 0.001 * at for at in range(100))
    temper = Temper.of([made_up_trace(watched=100, noise=recorded)])
    drawn = temper.noise(np.random.default_rng(3), 500)
    assert len(drawn) == 500 and np.isclose(np.diff(drawn), np.diff(drawn)[1], atol=1e-6).mean() > 1 - 2 / BLOCK
    slowed = temper.slowed(np.random.default_rng(3), 10, "build")
    assert slowed.min() > 1.3
