"""Controller: says under which plan each step is taken; it tries plans as steps, and watches for devices that change.

What to do next is decided by `next_action` from what is known; whether devices have changed, by `DeviceWatch`. Both are pure: here are the
clock, the engines and the thread beside the training.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
import warnings
from collections.abc import Callable, Sequence

from hetero_mtf.calibration.calibration_budget import DEFAULT_S
from hetero_mtf.errors import WorkerError
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call
from hetero_mtf.planning.exploration.actions import BuildPlan, MeasureCurves, MoveTo, Solve, TraceStep, Watch
from hetero_mtf.planning.exploration.alike_draws import draws_alike
from hetero_mtf.planning.exploration.candidates import Candidates
from hetero_mtf.planning.exploration.next_action import CALIBRATED_S, FIRST_STEPS, STEPS, has_drifted, next_action
from hetero_mtf.planning.exploration.records import Build, Candidate, Knowledge, Learnt, Solution, Trial, size_of
from hetero_mtf.planning.exploration.transitions import (
    calibrated,
    changed,
    measured,
    moved,
    refused,
    replaced,
    rested,
    settled_again,
    solved,
    stepped,
    traced,
    was_built,
    watched,
)
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.watching.device_watch import DeviceWatch
from hetero_mtf.planning.watching.evidence import ChangeAt, change_text
from hetero_mtf.program.engine import Engine, Finished
from hetero_mtf.training.control.background import Background
from hetero_mtf.training.control.beside_engines import BesideEngines
from hetero_mtf.training.control.calibration_between import CalibrationBetween
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.plan_in_force import PlanInForce
from hetero_mtf.training.control.rebalance_request import can_rebalance
from hetero_mtf.training.control.step_call import StepCall
from hetero_mtf.training.control.text import split_text
from hetero_mtf.training.plan_runner import traced_step
from hetero_mtf.units import seconds_text

MEASURED = Watch("it was measured beside others", is_final=True)
DRIFTED = Watch("its steps no longer take what they took", is_final=True)  # until it is known which device has changed, or none


class Controller:
    """Takes the steps of a run, and says under which plan.

    Parameters
    ----------
    profile : the profile of the network, cluster and batch size.
    plan : the plan that training begins with.
    explores : whether other plans are tried; else only where a device has changed.
    is_rough : whether the profile is made of operation counts.
    watches : whether devices that change are looked for.
    calibration : measures a profile in turns with steps, where that pays; None where nothing does.
    learnt : called with what was learnt, after each solution and when nothing more is tried.
    clock : gives seconds.
    background : does the work that goes on beside steps; None for a thread.

    Attributes
    ----------
    known : what the training knows.
    devices : what looks for devices that change; None where none does.
    moves : the moves so far.
    changes : when devices were found to have changed, and which.
    steps_ahead : returns the steps of the run that are known to come; None where that is not known.
    speaks : whether a line is written for each trial and move.
    """

    def __init__(
        self,
        profile: Profile,
        plan: Plan,
        *,
        explores: bool = True,
        is_rough: bool = True,
        watches: bool = True,
        calibration: CalibrationBetween | None = None,
        learnt: Callable[[Learnt], None] = lambda learnt: None,
        clock: Callable[[], float] = time.perf_counter,
        background: Background | None = None,
    ) -> None:
        self._learnt, self._watches, self._clock, self.explores = learnt, watches, clock, explores
        self._alike = functools.partial(draws_alike, profile.graph, plan)
        self._candidates = Candidates(profile, self._alike, is_rough)
        first = Trial(plan, self._candidates.prediction(plan).step_s)
        calibration_s = None if calibration is None else DEFAULT_S
        self.known = Knowledge(
            (first,), self._candidates.floor(plan), rest=None if explores else MEASURED, calibration_s=calibration_s
        )
        self._calibration = calibration
        self.devices = DeviceWatch(profile) if watches else None
        self.moves: list[Move] = []
        self.changes: list[ChangeAt] = []
        self._beside = BesideEngines(background or Background(clock))
        self._engine: Engine | None = None  # that took the last step
        self._told = 0 if explores else 1  # number of trials when nothing more was tried last
        self._built_before_s = 0.0
        self.steps_ahead: Callable[[], int | None] = lambda: None
        self.speaks = True

    @property
    def profile(self) -> Profile:
        """The profile as training has corrected it."""
        return self._candidates.costs.profile

    @property
    def is_rough(self) -> bool:
        """Whether the profile is made of operation counts and traces."""
        return self._candidates.is_rough

    @property
    def best_plan(self) -> Plan:
        """The plan with the shortest measured step; the one in force where none was measured."""
        return self.known.trials[self.known.best].plan

    def fits(self, plan: Plan) -> bool:
        """Return whether training goes on to be watched under a plan that was given meanwhile.

        Parameters
        ----------
        plan : one for the network and cluster.
        """
        return self._watches and plan.batch_size == self.profile.batch_size and can_rebalance(plan, self.profile)

    def note_build(self, seconds: float) -> None:
        """Take note of what building took before the first step.

        Parameters
        ----------
        seconds : its seconds.
        """
        self._built_before_s += seconds

    def advance(self, in_force: PlanInForce, call: StepCall) -> Sequence[Finished]:
        """Take a step, under another plan where the policy says so, and return what it gives.

        Parameters
        ----------
        in_force : the plan in force; another is put there at a move.
        call : the step.

        Raises
        ------
        HeteroError
            As `Engine.advance`.
        """
        if call.batch.size != in_force.plan.batch_size or call.batch.graph is not None:  # of another form
            return call.advance(in_force.engine)
        self._collect()
        self._note_engine(in_force.engine)
        self._note_change(call.step)
        while True:
            self.known = dataclasses.replace(self.known, left=self.steps_ahead())
            action = next_action(self.known)
            if isinstance(action, Watch):
                self._rest(action)
                return self._step(in_force, call, self.devices is not None and self.devices.wants_trace(self.known.left))
            if self.devices is not None:
                self.devices.stop()
            if isinstance(action, Solve):
                self.known = dataclasses.replace(self.known, solving=True)
                self._beside.background.begin(functools.partial(self._candidates.solve, self.known.trials))
            elif isinstance(action, BuildPlan) or (isinstance(action, MoveTo) and action.plan not in self._beside):  # freed meanwhile
                self._begin_build(in_force, action.plan, call)
            elif isinstance(action, MeasureCurves):
                self._measure()
            elif isinstance(action, MoveTo):
                self._move(in_force, action.plan, call.step)
            else:
                return self._step(in_force, call, isinstance(action, TraceStep))

    def close(self) -> None:
        """End what runs in the background, and free what plans hold that are not in force."""
        self._beside.close()
        if self._calibration is not None:
            self._calibration.close()
            self._calibration = None
        self.known = dataclasses.replace(self.known, calibration_s=None, building=None, built=None, solving=False)

    def _step(self, in_force: PlanInForce, call: StepCall, is_traced: bool) -> Sequence[Finished]:
        """Take a step under the plan in force, and note what it took."""
        start_s = self._clock()
        if is_traced:
            finished, trace = call.advance_traced(in_force.engine)
            entry, seconds = traced_step(trace, in_force.devices), self._clock() - start_s
            if self.devices is not None and self.devices.is_watching:
                self.devices.add_traced(seconds, entry)
                self.known = watched(self.known, seconds)
            else:
                self.known = traced(self.known, entry, seconds)
            return finished
        finished = call.advance(in_force.engine)
        seconds = self._clock() - start_s
        if not self.known.builds:
            first = Build(size_of(self.known.trial.plan), self._built_before_s + seconds)
            self.known = dataclasses.replace(self.known, builds=(first,))
        if self.devices is not None:
            self.devices.add(seconds)
        before = len(self.known.trial.step_s)
        self.known = stepped(self.known, seconds, overlapped=self.known.busy)
        if before < STEPS == len(self.known.trial.step_s):
            self._tell_trial()
        return finished

    def _note_engine(self, engine: Engine) -> None:
        """Take note of an engine that was replaced from without, as by `restore` or `replan`: its first step builds its graph."""
        if self._engine is not None and engine is not self._engine:
            if self.devices is not None:
                self.devices.stop()
            plan = engine.plan
            if plan.built_from == self.known.trial.plan.built_from:
                self.known = settled_again(self.known)
            else:
                trial = Trial(plan, self._candidates.prediction(plan).step_s)
                self.known = replaced(self.known, trial, self._candidates.floor(plan))
        self._engine = engine

    def _note_change(self, step: int) -> None:
        """Where devices have changed, forget what plans took before, and try others again."""
        plan = self.known.trial.plan
        if has_drifted(self.known):
            self._note_drift(plan)
        elif self.known.rest is DRIFTED and (self.devices is None or self.devices.is_calm):
            self.known = dataclasses.replace(self.known, rest=None)
        change = None if self.devices is None or self.known.busy else self.devices.change(plan)
        if change is None:
            return
        self.changes.append(ChangeAt(step, change.devices))
        self._candidates = Candidates(change.profile, self._alike, is_rough=False)
        trial = Trial(plan, self._candidates.prediction(plan).step_s, change.step_s, change.traces)
        self.known = changed(self.known, trial, self._candidates.floor(plan), change.devices)
        self._told = 0

    def _note_drift(self, plan: Plan) -> None:
        """Forget what plans took, and see which device has changed while they were tried, where a baseline from before tells."""
        trial = Trial(plan, self._candidates.prediction(plan).step_s, self.known.trial.step_s[-FIRST_STEPS:])
        known = dataclasses.replace(replaced(self.known, trial, self._candidates.floor(plan)), settling=0)
        if self.devices is not None and self.devices.knows(plan):
            known, self._told = dataclasses.replace(known, rest=DRIFTED), len(known.trials)
        self.known = known

    def _measure(self) -> None:
        """Measure curves for a while; with the last one they take the place of operation counts."""
        assert self._calibration is not None
        if self.known.calibration_s == DEFAULT_S:
            self._say(f"training on {split_text(self.known.trial.plan)}; devices are measured between steps")
        self.known = measured(self.known, self._calibration.measure(CALIBRATED_S))
        if not self._calibration.has_ended:
            return
        profile, fault, self._calibration = self._calibration.profile, self._calibration.fault, None
        if isinstance(fault, WorkerError):
            raise fault
        if profile is not None:
            self._candidates = Candidates(profile, self._alike, is_rough=False)
        else:
            warnings.warn(f"devices could not be measured ({fault})", stacklevel=5)
        self.known = calibrated(self.known, self._candidates.floor(self.known.trials[0].plan))

    def _rest(self, action: Watch) -> None:
        """Try nothing more, for now or until devices change: watch the steps from now on, where that is wanted."""
        self._tell_rest(action)
        if action.is_final and self.known.rest is None:
            self.close()
            self.known = rested(self.known, action)
        if self.devices is not None and not self.devices.is_watching:
            if can_rebalance(self.known.trial.plan, self.profile):
                self.devices.begin(self.profile, self.known.trial.plan)
            else:
                self.devices = None

    def _collect(self, wait: bool = False) -> None:
        """Take what work in the background has come to; what fails there, but for a worker's death, ends no training."""
        finished = self._beside.collect(wait)
        if finished is None:
            return
        plan = self.known.building
        if isinstance(finished.fault, WorkerError) or (finished.fault is not None and not isinstance(finished.fault, Exception)):
            self.known = dataclasses.replace(self.known, building=None, solving=False)
            raise finished.fault
        if plan is None:
            nothing = Solution((), 1.0, self.known.floor, len(self.known.trials))
            self.known = solved(self.known, nothing if finished.fault is not None else finished.result, finished.seconds)
            self._hand_over(self.best_plan, is_final=False)  # a training that is killed now begins with it again
        elif finished.fault is not None:
            self.known = refused(self.known)
            warnings.warn(f"{split_text(plan)} is not tried, as it could not be built ({finished.fault})", stacklevel=6)
        else:
            self.known = was_built(self.known, finished.seconds)

    def _begin_build(self, in_force: PlanInForce, plan: Plan, call: StepCall) -> None:
        present, tried = split_text(self.known.trial.plan), split_text(plan)
        step_s, predicted_s = self.known.trials[self.known.best].median_s, self._predicted_s(plan)
        self._say(f"training on {present}, {seconds_text(step_s)} a step; trying {tried} ({seconds_text(predicted_s)} predicted)")
        self.known = dataclasses.replace(self.known, building=plan)
        self._free()
        self._beside.begin_build(lambda: in_force.beside(plan), call)
        if any(map(is_keras_call, self.profile.graph.layers)):  # which seeds the user's generators while it is traced
            self._collect(wait=True)

    def _move(self, in_force: PlanInForce, plan: Plan, step: int) -> None:
        """Go on under another plan that is built, with all values as they are."""
        start_s, before, predicted_s = self._clock(), self.known.trial, self._predicted_s(plan)
        earlier = next((trial for trial in self.known.trials if trial.plan.built_from == plan.built_from), None)
        self._beside.swap(in_force, plan)
        self._engine = in_force.engine
        self.known = moved(self.known, Candidate(plan, predicted_s, 0.0), self._clock() - start_s)
        self._free()
        expected_s = predicted_s if earlier is None else earlier.median_s
        reason = "it is faster" if earlier is not None else change_text(self.known.changes) or "it promises to be faster"
        self.moves.append(Move(step, reason, before.plan, plan, before.median_s, expected_s, self._clock() - start_s))
        if earlier is not None:
            self._say(f"back to {split_text(plan)} after {step} steps: {seconds_text(expected_s)} a step")

    def _free(self) -> None:
        """Free what plans hold that will not be gone back to, so that there is room for one beside that in force and the best."""
        self._beside.free(but={self.known.trial.plan.built_from, self.best_plan.built_from})

    def _predicted_s(self, plan: Plan) -> float:
        found = [each for each in self.known.candidates or () if each.plan.built_from == plan.built_from]
        return found[0].predicted_s if found else self._candidates.prediction(plan).step_s

    def _tell_trial(self) -> None:
        """Say what steps take under a plan that was tried and is kept."""
        trial = self.known.trial
        if self.known.present == 0 or self.known.present != self.known.best:
            return
        alone_s = [each.median_s for each in self.known.trials if len(each.plan.used) == 1 and each.step_s]
        gain = f", {min(alone_s) / trial.median_s:.2f} times as fast as one device" if alone_s and len(trial.plan.used) > 1 else ""
        because = f", as {change_text(self.known.changes)}" if self.known.changes else ""
        seconds = f"{seconds_text(trial.median_s)} a step{gain}"
        self._say(f"moved to {split_text(trial.plan)} after {self.moves[-1].step} steps{because}: {seconds}")

    def _tell_rest(self, action: Watch) -> None:
        """Say that nothing more is tried, and hand over what was learnt, once for each number of trials."""
        if self._told == len(self.known.trials) and (not action.is_final or self.known.rest is not None):
            return
        self._told = len(self.known.trials)
        plan, because = self.known.trial.plan, f", though {change_text(self.known.changes)}" if self.known.changes else ""
        self._say(f"stays with {split_text(plan)}{because}, as {action.reason}: {seconds_text(self.known.trial.median_s)} a step")
        self._hand_over(plan, action.is_final)

    def _hand_over(self, plan: Plan, is_final: bool) -> None:
        """Hand over what was learnt, unless devices have changed meanwhile, which may be for this training only."""
        if self.known.candidates and not self.known.changes:
            predicted = dataclasses.replace(plan, predicted=self._candidates.prediction(plan))
            self._learnt(Learnt(predicted, self.profile, is_final, self._candidates.is_rough))

    def _say(self, text: str) -> None:
        if self.speaks:
            print(f"hetero_mtf: {text}", file=sys.stderr)
