"""The policy: what is done next, from what is known."""

from __future__ import annotations

import dataclasses
import math
import types
from typing import Any

import numpy as np
import pytest

from hetero_mtf.planning.exploration.actions import BuildPlan, MoveTo, Solve, TakeStep, TraceStep, Watch
from hetero_mtf.planning.exploration.next_action import (
    DRIFT,
    DRIFTED,
    FIRST_STEPS,
    MARGIN,
    STEPS,
    TRACES,
    expected_gain_s,
    has_drifted,
    next_action,
    trial_cost_s,
)
from hetero_mtf.planning.exploration.records import Build, Candidate, Knowledge, Solution, Trial
from hetero_mtf.planning.exploration.transitions import moved, refused, solved, stepped, traced, was_built
from hetero_mtf.planning.refinement.plan_run import TracedStep

TRACE = TracedStep(1.0, ())
FLOOR = 0.6


def plan(name: str) -> Any:
    stage = types.SimpleNamespace(layers=(0, 1), devices=(0,) if name == "first" else (0, 1))
    return types.SimpleNamespace(built_from=name, microbatches=1, stages=(stage,))


def knowledge(left: int | None = 1000, step_s: float = 1.0, traces: int = TRACES, **more: Any) -> Knowledge:
    """Return what is known after the first plan has had its steps."""
    trial = Trial(plan("first"), step_s, (step_s,) * STEPS, (TRACE,) * traces)
    return Knowledge((trial,), FLOOR, settling=0, taken=STEPS + 1, left=left, builds=(Build(2, 2.0),), **more)


def with_candidates(known: Knowledge, **predicted_s: float) -> Knowledge:
    candidates = tuple(Candidate(plan(name), seconds, 0.1) for name, seconds in predicted_s.items())
    return solved(known, Solution(candidates, 0.1, 0.3, len(known.trials)), 0.5)


def test_the_expected_gain_is_the_mean_of_drawn_gains() -> None:
    rng = np.random.default_rng(1)
    for best_s, predicted_s, error in ((1.0, 0.8, 0.2), (1.0, 1.1, 0.25), (0.3, 0.3, 0.05)):
        drawn_s = predicted_s * np.exp(error * rng.standard_normal(400_000))
        assert expected_gain_s(best_s, predicted_s, error) == pytest.approx(np.maximum(0.0, best_s - drawn_s).mean(), rel=0.02)


def test_the_first_plan_gets_its_steps_then_traces_then_candidates() -> None:
    known, seen = Knowledge((Trial(plan("first"), 1.0),), FLOOR, left=1000, builds=(Build(2, 2.0),)), []
    for _ in range(12):
        action = next_action(known)
        seen.append(type(action))
        if isinstance(action, Solve):
            break
        known = traced(known, TRACE, 1.0) if isinstance(action, TraceStep) else stepped(known, 1.0, overlapped=False)
    assert seen == [TakeStep] * (FIRST_STEPS + 1) + [TraceStep] * TRACES + [Solve]
    assert known.left == 1000 - FIRST_STEPS - 1 - TRACES and known.taken == FIRST_STEPS + 1 + TRACES


def test_the_candidate_that_is_expected_to_save_most_is_built_while_steps_go_on() -> None:
    known = with_candidates(knowledge(), near=0.95, far=0.6, slow=1.5)
    action = next_action(known)
    assert isinstance(action, BuildPlan) and action.plan.built_from == "far"
    building = dataclasses.replace(known, building=action.plan)
    assert next_action(building) == TakeStep()
    built = was_built(building, 4.0)
    assert next_action(built) == MoveTo(action.plan) and built.builds == (Build(2, 2.0), Build(4, 4.0))


def test_a_step_that_something_overlaps_is_no_measurement_but_its_delay_counts() -> None:
    known = dataclasses.replace(knowledge(), building=plan("other"))
    after = stepped(known, 1.7, overlapped=True)
    assert after.trial.step_s == known.trial.step_s and after.delay_s == pytest.approx(0.7) and after.taken == known.taken + 1


def test_a_plan_that_is_slower_is_left_after_two_steps_that_count() -> None:
    known = moved(with_candidates(knowledge(), other=0.6), Candidate(plan("other"), 0.6, 0.1), 0.01)
    taken = 0
    while next_action(known) == TakeStep():
        known, taken = stepped(known, 1.3, overlapped=False), taken + 1
    assert taken == 3 and next_action(known) == TraceStep()
    known = traced(known, TRACE, 1.5)
    assert next_action(known) == MoveTo(known.trials[0].plan)
    back = moved(known, Candidate(plan("first"), 1.0, 0.1), 0.01)
    assert back.present == 0 and len(back.trials) == 2 and back.settling > 0


def test_a_plan_that_is_faster_is_traced_and_candidates_are_solved_for_again() -> None:
    known = moved(with_candidates(knowledge(), other=0.6), Candidate(plan("other"), 0.6, 0.1), 0.01)
    for _ in range(STEPS + 1):
        known = stepped(known, 0.65, overlapped=False)
    assert isinstance(next_action(known), TraceStep)
    for _ in range(TRACES):
        known = traced(known, TRACE, 1.0)
    assert next_action(known) == Solve()
    assert isinstance(next_action(with_candidates(known, other=0.65, another=0.9)), Watch)
    assert isinstance(next_action(with_candidates(known, other=0.65, another=0.6)), BuildPlan)


def test_a_best_plan_that_was_freed_is_built_once_while_steps_go_on() -> None:
    known = moved(with_candidates(knowledge(), other=0.6), Candidate(plan("other"), 0.6, 0.1), 0.01)
    for _ in range(STEPS + 1):
        known = stepped(known, 0.65, overlapped=False)
    for _ in range(20 * STEPS):  # the machine has other work: the plan looks slower than the first one did
        known = stepped(known, 1.3, overlapped=False)
    known = traced(known, TRACE, 1.3)
    assert next_action(known) == MoveTo(known.trials[0].plan)
    building = dataclasses.replace(known, building=known.trials[0].plan)
    assert next_action(building) == TakeStep()
    assert next_action(dataclasses.replace(known, solving=True)) == TakeStep()
    assert next_action(was_built(building, 4.0)) == MoveTo(known.trials[0].plan)


def test_a_plan_that_was_faster_is_not_left_where_steps_of_all_plans_may_have_become_longer() -> None:
    known = moved(with_candidates(knowledge(), other=0.6), Candidate(plan("other"), 0.6, 0.1), 0.01)
    for _ in range(STEPS + 1):
        known = stepped(known, 0.99, overlapped=False)
    known = with_candidates(traced(known, TRACE, 1.0), other=2.0)
    for _ in range(60):
        known = stepped(known, 0.999 * DRIFT, overlapped=False)
    assert known.best == 0 and isinstance(next_action(known), Watch)
    for _ in range(60):
        known = stepped(known, 1.1 * DRIFT, overlapped=False)
    assert next_action(known) == MoveTo(known.trials[0].plan)
    assert not isinstance(next_action(dataclasses.replace(known, left=STEPS + 1)), MoveTo)  # too few to pay for a build


def test_what_is_left_decides_whether_a_trial_pays() -> None:
    known = with_candidates(knowledge(), other=0.8)
    gain_s = expected_gain_s(1.0, 0.8, 0.1)
    enough = math.ceil(MARGIN * trial_cost_s(known, known.candidates[0]) / gain_s)
    assert isinstance(next_action(dataclasses.replace(known, left=enough + 1)), BuildPlan)
    assert isinstance(next_action(dataclasses.replace(known, left=enough - 1)), Watch)


def test_a_short_training_is_neither_traced_nor_solved_for() -> None:
    action = next_action(knowledge(left=2, traces=0))
    assert isinstance(action, Watch) and "too short" in action.reason


def test_a_training_of_unknown_length_tries_as_soon_as_it_pays_for_as_many_steps_as_were_taken() -> None:
    known = with_candidates(knowledge(left=None), other=0.8)
    action = next_action(known)
    assert isinstance(action, Watch) and not action.is_final
    gain_s = expected_gain_s(1.0, 0.8, 0.1)
    later = dataclasses.replace(known, taken=math.ceil(MARGIN * trial_cost_s(known, known.candidates[0]) / gain_s) + 1)
    assert isinstance(next_action(later), BuildPlan)


def test_devices_that_could_not_help_are_not_tried() -> None:
    assert isinstance(next_action(dataclasses.replace(knowledge(traces=0), floor=0.995, error=0.01)), Watch)


def test_a_plan_that_could_not_be_built_is_not_tried_again() -> None:
    known = with_candidates(knowledge(), only=0.6)
    after = refused(dataclasses.replace(known, building=plan("only")))
    assert isinstance(next_action(after), Watch) and not after.busy


def test_the_cost_of_a_trial_follows_from_what_builds_have_cost() -> None:
    known, other = knowledge(), Candidate(plan("other"), 1.2, 0.1)
    supposed_s = trial_cost_s(known, other)
    cheap = dataclasses.replace(known, builds=(Build(2, 2.0), Build(4, 6.0)), delay_s=0.6)
    dear = dataclasses.replace(known, builds=(Build(2, 2.0), Build(4, 6.0)), delay_s=6.0)
    assert trial_cost_s(cheap, other) < supposed_s < trial_cost_s(dear, other) == pytest.approx(6.0 + 4 * 0.2)


def test_a_plan_that_could_not_be_built_again_is_not_gone_back_to() -> None:
    known = moved(with_candidates(knowledge(), other=0.6), Candidate(plan("other"), 0.6, 0.1), 0.01)
    while next_action(known) == TakeStep():
        known = stepped(known, 1.3, overlapped=False)
    known = traced(known, TRACE, 1.5)
    back = next_action(known)
    assert back == MoveTo(known.trials[0].plan)
    after = refused(dataclasses.replace(known, building=known.trials[0].plan))
    assert next_action(after) != back


@pytest.mark.parametrize(
    "seconds, drifts", [((1.3, 1.4), True), ((0.7, 0.75), True), ((1.4, 1.1), False), ((1.0, 0.7), False), ((1.01 * DRIFTED,), False)]
)
def test_a_plan_gone_back_to_gets_two_steps_that_tell_whether_devices_have_changed(seconds: tuple[float, ...], drifts: bool) -> None:
    known = moved(with_candidates(knowledge(), other=0.6), Candidate(plan("other"), 0.6, 0.1), 0.01)
    assert known.again is None and not has_drifted(known)
    back = stepped(moved(known, Candidate(plan("first"), 1.0, 0.1), 0.01), 9.0, overlapped=False)  # the step that settles
    for step_s in seconds:
        assert next_action(back) == TakeStep() and not has_drifted(back)
        back = stepped(back, step_s, overlapped=False)
    assert has_drifted(back) == drifts and (next_action(back) == TakeStep()) == (len(seconds) < FIRST_STEPS)
    assert len(seconds) < FIRST_STEPS or not has_drifted(stepped(back, seconds[0], overlapped=False))  # it is said once
