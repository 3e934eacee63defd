"""TraceRecorder: follows a training that tries plans from outside, by what is known after each step, into a `StartTrace`."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.records import Knowledge, Trial, size_of
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.planning.refinement.observations import observations
from hetero_mtf.planning.refinement.plan_run import PlanRun
from tools.bench.start.start_trace import COUNTED, OVERLAPPED, SETTLING, TRACED, WATCHED, Event, StartTrace, StepRun, TracedPlan


class TraceRecorder:
    """Notes what has changed from step to step.

    Notes
    -----
    All that a policy decides by is in the `Knowledge` record, and a record is replaced, never changed: what happened between two steps
    is the difference of two records. So nothing in the training calls this, and no step takes longer.
    """

    def __init__(self) -> None:
        self._before: Knowledge | None = None
        self._rough: Profile | None = None
        self._plans: dict[object, Plan] = {}
        self._steps: list[tuple[int, str, str, float]] = []
        self._events: list[Event] = []
        self._floor = 0.0

    def note(self, known: Knowledge, profile: Profile, seconds: float) -> None:
        """Note a step.

        Parameters
        ----------
        known : what the training knows after it.
        profile : as the training has corrected it.
        seconds : what the call of the step took, which counts where the training measured none.
        """
        before, self._before = self._before, known
        if before is None:
            self._rough, self._floor = profile, known.floor
            before = Knowledge(known.trials[:1], known.floor)
        self._note_events(before, known)
        present = self._index(known.trial.plan)
        if known.rest is not None:
            if self._events[-1:] == [] or self._events[-1].name != "watch":
                self._events.append(Event(len(self._steps), "watch"))
            self._steps.append((present, WATCHED, "", seconds))
            return
        self._steps.append((present, *_state(before, known), known.elapsed_s - before.elapsed_s))

    def _index(self, plan: Plan) -> int:
        self._plans.setdefault(plan.built_from, plan)
        return list(self._plans).index(plan.built_from)

    def _note_events(self, before: Knowledge, known: Knowledge) -> None:
        """Note what happened between two steps, in the order in which it can: an end, a move, a begin."""
        at = len(self._steps)
        if before.solving and not known.solving:
            candidates = [[self._index(each.plan), each.predicted_s, each.error] for each in known.candidates or ()]
            solution = {"candidates": candidates, "error": known.error, "floor": known.floor}
            self._events.append(Event(at, "solved", seconds=known.solve_s, solution=solution))
        if len(known.builds) > max(1, len(before.builds)):
            plan = before.building or known.built or known.trial.plan
            self._events.append(Event(at, "built", self._index(plan), known.builds[-1].seconds))
        if len(known.refused) > len(before.refused) and before.building is not None:
            self._events.append(Event(at, "refused", self._index(before.building)))
        if known.present != before.present:
            self._events.append(Event(at, "move", self._index(known.trial.plan)))
        if known.solving and not before.solving:
            self._events.append(Event(at, "solve"))
        if known.building is not None and known.building != before.building:
            self._events.append(Event(at, "build", self._index(known.building)))

    def trace(self, network: str, shares: Sequence[float], moves: Sequence[Any], first_step_s: float, end_s: float) -> StartTrace:
        """Return what was noted.

        Parameters
        ----------
        network, shares, first_step_s, end_s : as of `StartTrace`.
        moves : the moves of the training.
        """
        known, rough = self._before, self._rough
        assert known is not None and rough is not None
        costs = Costs(rough)
        of_trials = {trial.plan.built_from: trial for trial in known.trials}
        plans = tuple(_traced_plan(costs, plan, of_trials.get(key)) for key, plan in self._plans.items())
        taken_s = {move.step: move.taken_s for move in moves}
        events = [dataclasses.replace(e, seconds=taken_s.get(e.step, 0.0)) if e.name == "move" else e for e in self._events]
        layers = tuple(entry for trial in known.trials for entry in _layers(costs, self._index(trial.plan), trial))
        head = network, tuple(shares), len(self._steps), self._floor, tuple(known.builds[0])
        return StartTrace(*head, plans, _runs(self._steps), tuple(events), layers, first_step_s, end_s)


def _state(before: Knowledge, known: Knowledge) -> tuple[str, str]:
    """Return the state of a step that was counted, and what ran beside it."""
    traces = sum(len(trial.traces) for trial in known.trials) - sum(len(trial.traces) for trial in before.trials)
    beside = "solve" if known.solving else "build" if known.building is not None else ""
    if traces:
        return TRACED, beside
    moved = known.present != before.present
    if before.settling or moved:
        return SETTLING, beside
    return (OVERLAPPED, beside) if beside else (COUNTED, "")


def _traced_plan(costs: Costs, plan: Plan, trial: Trial | None) -> TracedPlan:
    rough_s = prediction(costs, plan).step_s
    return TracedPlan(plan.strategy, tuple(plan.used), size_of(plan), rough_s, None if trial is None else trial.predicted_s)


def _layers(costs: Costs, plan: int, trial: Trial) -> list[tuple[int, int, int, str, str, float]]:
    """Return how long traced layers took beside the rough profile, the median of the traces."""
    ratios: dict[tuple[int, int, str, str], list[float]] = {}
    runs = [PlanRun(trial.plan, trial.step_s, trial.traces, trial.predicted_s, trial.predicted_s)] if trial.step_s else []
    for entry in observations(costs, runs):
        ratios.setdefault((entry.device, entry.layer, entry.step_pass, entry.split), []).append(entry.traced_s / entry.predicted_s)
    return [(plan, *key, statistics.median(values)) for key, values in ratios.items()]


def _runs(steps: Sequence[tuple[int, str, str, float]]) -> tuple[StepRun, ...]:
    """Return steps with those together that are alike and follow each other."""
    runs: list[tuple[tuple[int, str, str], list[float]]] = []
    for *kind, seconds in steps:
        if not runs or runs[-1][0] != tuple(kind):
            runs.append((tuple(kind), []))  # type: ignore[arg-type]
        runs[-1][1].append(seconds)
    return tuple(StepRun(*kind, tuple(seconds)) for kind, seconds in runs)
