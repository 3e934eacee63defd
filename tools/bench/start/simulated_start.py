"""A training that tries plans, simulated: the policy decides, and a world says how long each thing takes.

Nothing here loads TensorFlow. `simulated` goes through what `Controller.advance` does, with a clock of its own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from hetero_mtf.planning.exploration.actions import Action, BuildPlan, MoveTo, Solve, TakeStep, TraceStep, Watch
from hetero_mtf.planning.exploration.next_action import next_action
from hetero_mtf.planning.exploration.records import Build, Candidate, Knowledge, Solution, Trial, size_of
from hetero_mtf.planning.exploration.transitions import moved, refused, solved, stepped, traced, was_built
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.plan_run import TracedStep
from tools.bench.start.start_trace import COUNTED, OVERLAPPED, SETTLING, TRACED, WATCHED

Policy = Callable[[Knowledge], Action]


class World(Protocol):
    """What a training takes place in: how long its plans' steps, builds and solutions take.

    Attributes
    ----------
    first : the plan that training begins with.
    steps : number of steps.
    length_is_known : whether the training knows that.
    floor : of the `Knowledge` at the beginning.
    other_s : seconds a step that are not of the step itself.
    """

    first: Plan
    steps: int
    length_is_known: bool
    floor: float
    other_s: float

    def predicted_s(self, plan: Plan) -> float:
        """Return the seconds of a step that are predicted now."""

    def step_s(self, plan: Plan, step: int, state: str, beside: str) -> float:
        """Return the seconds of a step; arguments as of `StepRun`, and its number."""

    def trace(self, plan: Plan, step_s: float) -> TracedStep:
        """Return what a traced step tells."""

    def first_build_s(self) -> float:
        """Return the seconds of the first build, with the first step."""

    def build_s(self, plan: Plan) -> float | None:
        """Return the seconds of a build; None where the plan cannot be built."""

    def solve(self, trials: Sequence[Trial]) -> tuple[Solution, float]:
        """Return the candidates, and the seconds that solving for them takes."""

    def move_s(self) -> float:
        """Return the seconds of a move."""


class SimulatedMove(NamedTuple):
    """A move.

    Parameters
    ----------
    step : steps taken before.
    plan : the plan from there on.
    """

    step: int
    plan: Plan


@dataclasses.dataclass(frozen=True)
class SimulatedStart:
    """What came of a simulated training.

    Parameters
    ----------
    trained_s : seconds from the end of the first step to the end of the last one.
    waited_s : seconds after that until work in the background ends.
    moves : the moves.
    known : what the training knew at its end.
    end : why nothing more was tried; "" where the training ended before.
    ended_at : steps taken until then.
    """

    trained_s: float
    waited_s: float
    moves: tuple[SimulatedMove, ...]
    known: Knowledge
    end: str
    ended_at: int


class _Work(NamedTuple):
    ends_s: float
    seconds: float
    result: Any


class _Training:
    """The state of a simulated training."""

    def __init__(self, world: World, policy: Policy) -> None:
        self.world, self.policy = world, policy
        self.known = Knowledge((Trial(world.first, world.predicted_s(world.first)),), world.floor)
        self.now_s = 0.0
        self.work: _Work | None = None
        self.engines = {world.first.built_from}
        self.moves: list[SimulatedMove] = []

    def take_step(self, is_traced: bool) -> None:
        """Take a step under the plan in force."""
        known, plan = self.known, self.known.trial.plan
        if not known.builds:
            seconds = self.world.first_build_s()
            first_s = self.world.step_s(plan, 0, SETTLING, "")
            self.known = stepped(dataclasses.replace(known, builds=(Build(size_of(plan), seconds),)), first_s, overlapped=False)
            return  # the clock starts when it ends
        beside = "solve" if known.solving else "build" if known.building is not None else ""
        state = TRACED if is_traced else SETTLING if known.settling else OVERLAPPED if beside else COUNTED
        seconds = self.world.step_s(plan, known.taken, state, beside)
        self.now_s += seconds + self.world.other_s
        if is_traced:
            self.known = traced(known, self.world.trace(plan, seconds), seconds)
        else:
            self.known = stepped(known, seconds, overlapped=known.busy)

    def collect(self) -> None:
        """Take what work in the background has come to."""
        if self.work is None or self.now_s < self.work.ends_s:
            return
        work, self.work = self.work, None
        if self.known.building is None:
            self.known = solved(self.known, work.result, work.seconds)
        elif work.result is None:
            self.known = refused(self.known)
        else:
            self.engines.add(work.result)
            self.known = was_built(self.known, work.seconds)

    def begin_build(self, plan: Plan) -> None:
        """Begin to build a plan."""
        seconds = self.world.build_s(plan)
        self.known = dataclasses.replace(self.known, building=plan)
        taken_s = 0.0 if seconds is None else seconds
        self.work = _Work(self.now_s + taken_s, taken_s, None if seconds is None else plan.built_from)

    def move(self, plan: Plan) -> None:
        """Move to a plan that is built; all but that in force and the best one are freed."""
        seconds = self.world.move_s()
        self.now_s += seconds
        own = [each.predicted_s for each in self.known.candidates or () if each.plan.built_from == plan.built_from]
        predicted_s = own[0] if own else self.world.predicted_s(plan)
        self.known = moved(self.known, Candidate(plan, predicted_s, 0.0), seconds)
        self.engines &= {plan.built_from, self.known.trials[self.known.best].plan.built_from}
        self.moves.append(SimulatedMove(self.known.taken, plan))

    def decide(self) -> Action:
        """Do what the policy says until it says to take a step, and return that."""
        while True:
            left = self.world.steps - self.known.taken if self.world.length_is_known else None
            self.known = dataclasses.replace(self.known, left=left)
            action = self.policy(self.known)
            if isinstance(action, Solve):
                solution, seconds = self.world.solve(self.known.trials)
                self.known = dataclasses.replace(self.known, solving=True)
                self.work = _Work(self.now_s + seconds, seconds, solution)
            elif isinstance(action, BuildPlan):
                self.begin_build(action.plan)
            elif isinstance(action, MoveTo) and action.plan.built_from not in self.engines:
                self.begin_build(action.plan)
            elif isinstance(action, MoveTo):
                self.move(action.plan)
            else:
                return action


def simulated(world: World, policy: Policy = next_action) -> SimulatedStart:
    """Return what comes of a training in a world.

    Parameters
    ----------
    world : the world.
    policy : what is known -> what is done next.
    """
    training, end, ended_at = _Training(world, policy), "", world.steps
    training.take_step(is_traced=False)
    while training.known.taken < world.steps:
        training.collect()
        action = training.decide()
        if isinstance(action, Watch) and not end:
            end, ended_at = action.reason, training.known.taken
        if isinstance(action, Watch) and action.is_final:
            plan, taken = training.known.trial.plan, training.known.taken
            training.now_s += math.fsum(world.step_s(plan, step, WATCHED, "") + world.other_s for step in range(taken, world.steps))
            break
        assert isinstance(action, (TakeStep, TraceStep, Watch))
        training.take_step(isinstance(action, TraceStep))
    waited_s = max(0.0, training.work.ends_s - training.now_s) if training.work is not None else 0.0
    return SimulatedStart(training.now_s, waited_s, tuple(training.moves), training.known, end, ended_at)
