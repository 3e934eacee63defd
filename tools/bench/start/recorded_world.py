"""RecordedWorld: the world of a simulated training that was recorded, to see whether the simulation meets the recording."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.planning.exploration.actions import Action, BuildPlan, MoveTo, Solve, TakeStep, TraceStep, Watch
from hetero_mtf.planning.exploration.records import ROUGH_ERROR, Candidate, Knowledge, Solution, Trial
from hetero_mtf.planning.refinement.plan_run import TracedStep
from tools.bench.start.start_trace import COUNTED, OVERLAPPED, SETTLING, TRACED, WATCHED, Event, StartTrace
from tools.bench.start.temper import Temper


@dataclasses.dataclass(frozen=True)
class RecordedStage:
    """Stands for the stages of a recorded plan, of the same size."""

    layers: tuple[int, ...]
    devices: tuple[int, ...] = (0,)


@dataclasses.dataclass(frozen=True)
class RecordedPlan:
    """Stands for a recorded plan.

    Parameters
    ----------
    built_from : its index in the trace.
    strategy, used : as recorded.
    stages : one, of its size.
    """

    built_from: int
    strategy: str
    used: tuple[int, ...]
    stages: tuple[RecordedStage, ...]
    microbatches: int = 1


class RecordedWorld:
    """The world of a recorded training.

    Parameters
    ----------
    trace : the recording.
    temper : where steps take the recorded median of their plan times noise of other recordings, these; None for the recorded steps
        themselves, as far as the simulation takes them in the same state.
    seed : of that noise.

    Notes
    -----
    A plan that the recording did not try takes what it predicts for it.
    """

    length_is_known = True

    def __init__(self, trace: StartTrace, temper: Temper | None = None, seed: int = 0) -> None:
        self.trace_of, self.steps, self.floor, self.other_s = trace, trace.steps, trace.floor, trace.other_s
        self._temper, self._generator = temper, np.random.default_rng(seed)
        self.plans = [self._plan(at) for at in range(len(trace.plans))]
        self.first: Any = self.plans[0]
        self._recorded = [(run, seconds) for run in trace.runs for seconds in run.seconds]
        self._ended: dict[str, list[Event]] = {
            name: [each for each in trace.events if each.name == name] for name in ("built", "solved", "move", "refused")
        }
        self._solutions = self._builds = self._moves = 0
        source = Temper.of([trace]) if temper is None else temper
        self._usual = {
            (SETTLING, ""): _median(source.settling),
            (TRACED, ""): _median(source.traced),
            **{(OVERLAPPED, each): _median([ratio for run in runs for ratio in run]) for each, runs in source.beside.items()},
        }
        self._noise = None if temper is None else temper.noise(self._generator, trace.steps)
        self._slowed = {} if temper is None else {each: temper.slowed(self._generator, trace.steps, each) for each in temper.beside}

    def _plan(self, at: int) -> RecordedPlan:
        plan = self.trace_of.plans[at]
        return RecordedPlan(at, plan.strategy, plan.devices, (RecordedStage(tuple(range(plan.size))),))

    def predicted_s(self, plan: Any) -> float:
        recorded = self.trace_of.plans[plan.built_from]
        return recorded.rough_s if recorded.predicted_s is None else recorded.predicted_s

    def _median_s(self, plan: int) -> float:
        """Return the usual seconds of a plan's step; where it was only taken in other states, by these."""
        measured_s = self.trace_of.median_s(plan)
        if math.isfinite(measured_s):
            return measured_s
        taken = [s / self._usual.get((run.state, run.beside), 1.0) for run in self.trace_of.runs if run.plan == plan for s in run.seconds]
        return statistics.median(taken) if taken else self.predicted_s(self.plans[plan])

    def step_s(self, plan: Any, step: int, state: str, beside: str) -> float:
        run, recorded_s = self._recorded[step]
        if step == 0 or self._temper is None and (run.plan, run.state, run.beside) == (plan.built_from, state, beside):
            return recorded_s
        usual_s = self._median_s(plan.built_from) * self._usual.get((state, beside), 1.0)
        if self._noise is not None:
            if state == OVERLAPPED:
                return self._median_s(plan.built_from) * float(self._slowed[beside][step])
            return usual_s * float(self._noise[step]) if state in (COUNTED, WATCHED) else usual_s
        return usual_s * recorded_s / (self._median_s(run.plan) * self._usual.get((run.state, run.beside), 1.0))

    def trace(self, plan: Any, step_s: float) -> TracedStep:
        return TracedStep(step_s, ())

    def first_build_s(self) -> float:
        return self.trace_of.first_build[1]

    def build_s(self, plan: Any) -> float | None:
        """Return what the recorded build of the plan took, else that of another one by its size; None where it was refused."""
        if any(each.plan == plan.built_from for each in self._ended["refused"]):
            return None
        own = [each.seconds for each in self._ended["built"] if each.plan == plan.built_from]
        if own:
            return own[0]
        rates = [each.seconds / self.trace_of.plans[each.plan].size for each in self._ended["built"] if each.plan is not None]
        size = self.trace_of.plans[plan.built_from].size
        return size * (_median(rates) if rates else self.trace_of.first_build[1] / self.trace_of.first_build[0])

    def solve(self, trials: Sequence[Trial]) -> tuple[Solution, float]:
        """Return the recorded solutions one after another; the last one again where there is no further one."""
        if not self._ended["solved"]:
            return Solution((), ROUGH_ERROR, self.floor, len(trials)), 0.0
        event = self._ended["solved"][min(self._solutions, len(self._ended["solved"]) - 1)]
        self._solutions += 1
        recorded = event.solution or {}
        candidates = tuple(Candidate(self.plans[at], predicted_s, error) for at, predicted_s, error in recorded["candidates"])
        return Solution(candidates, recorded["error"], recorded["floor"], len(trials)), event.seconds or 0.0

    def move_s(self) -> float:
        moves = self._ended["move"]
        self._moves += 1
        return float(moves[min(self._moves, len(moves)) - 1].seconds or 0.0) if moves else 0.0


class RecordedPolicy:
    """Decides what was decided in a recording, whatever the policy would decide now: each thing as soon as it can, and not earlier.

    Parameters
    ----------
    world : of the recording.
    """

    def __init__(self, world: RecordedWorld) -> None:
        trace = world.trace_of
        self._plans, self._states = world.plans, [run.state for run in trace.runs for _ in run.seconds]
        self._begun = [event for event in trace.events if event.name in ("solve", "build", "move")]
        self._next = 0

    def __call__(self, known: Knowledge) -> Action:
        state = self._states[known.taken]
        if known.busy:
            return TakeStep()
        if self._next < len(self._begun) and self._begun[self._next].step <= known.taken:
            event = self._begun[self._next]
            self._next += 1
            if event.name == "solve":
                return Solve()
            plan: Any = self._plans[event.plan or 0]
            return BuildPlan(plan) if event.name == "build" else MoveTo(plan)
        if state == WATCHED and self._next == len(self._begun):
            return Watch("as recorded", True)
        return TraceStep() if state == TRACED else TakeStep()


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 1.0
