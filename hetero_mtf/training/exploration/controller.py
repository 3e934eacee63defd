"""Controller: tries plans as training steps, stays with the fastest, and then watches for devices that change."""

from __future__ import annotations

import dataclasses
import functools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hetero_mtf.errors import WorkerError
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call
from hetero_mtf.planning.exploration.candidates import Candidates
from hetero_mtf.planning.exploration.next_action import next_action
from hetero_mtf.planning.exploration.records import (
    SETTLING,
    Build,
    BuildPlan,
    Candidate,
    Knowledge,
    MoveTo,
    Solution,
    Solve,
    TraceStep,
    Trial,
    Watch,
    moved,
    refused,
    size_of,
    solved,
    stepped,
    traced,
    was_built,
)
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.program.engine import Engine, Finished
from hetero_mtf.training.exploration.background import Background
from hetero_mtf.training.plan_runner import traced_step
from hetero_mtf.training.rebalancing.choice import draws_alike
from hetero_mtf.training.rebalancing.rebalancer import Rebalancer, can_rebalance
from hetero_mtf.training.rebalancing.records import Decision, Move
from hetero_mtf.training.rebalancing.step_call import StepCall
from hetero_mtf.training.rebalancing.text import split_text
from hetero_mtf.units import seconds_text


class Controller:
    """Takes the steps of a trainer, and says under which plan.

    Parameters
    ----------
    profile : the rough profile of the network, cluster and batch size.
    plan : the plan that training begins with.
    ended : called with the best plan, the profile as corrected and whether no other plan promised to be faster, when nothing more is tried.
    clock : gives seconds.
    background : does the work that goes on beside steps; None for a thread.
    watches : whether steps are watched for changes of devices once no other plan promises to be faster.

    Attributes
    ----------
    known : what the training knows.
    steps_ahead : returns the steps of the run that are known to come; None where that is not known.
    speaks : whether a line is written for each trial and move.
    """

    def __init__(
        self,
        profile: Profile,
        plan: Plan,
        ended: Callable[[Plan, Profile, bool], None] = lambda plan, profile, is_final: None,
        clock: Callable[[], float] = time.perf_counter,
        background: Background | None = None,
        watches: bool = True,
    ) -> None:
        self._ended, self._watches = ended, watches
        self._told = 0  # number of trials when nothing more was tried last
        self._candidates = Candidates(profile, functools.partial(draws_alike, profile.graph, plan))
        self._clock, self._background = clock, background or Background(clock)
        trial = Trial(plan, self._candidates.prediction(plan).step_s)
        self.known = Knowledge((trial,), self._candidates.floor(plan))
        self._moves: list[Move] = []
        self._engines: dict[object, Engine] = {}  # by `Plan.built_from`: that in force, and the one that was built or is gone back to
        self._watching: Rebalancer | None = None
        self._engine: Engine | None = None  # that took the last step
        self._has_ended = False  # nothing more is tried
        self._built_before_s = 0.0
        self.steps_ahead: Callable[[], int | None] = lambda: None
        self.speaks = True

    @property
    def moves(self) -> list[Move]:
        """The moves so far."""
        return [*self._moves, *(() if self._watching is None else self._watching.moves)]

    @property
    def decisions(self) -> list[Decision]:
        """What was decided when devices had changed."""
        return [] if self._watching is None else self._watching.decisions

    @property
    def profile(self) -> Profile:
        """The profile as training has corrected it."""
        return self._candidates.costs.profile

    def fits(self, plan: Plan) -> bool:
        """Return whether training goes on to be watched under a plan that was given meanwhile.

        Parameters
        ----------
        plan : one for the network and cluster.
        """
        return self._watching is not None and self._watching.fits(plan)

    def note_build(self, seconds: float) -> None:
        """Take note of what building took before the first step.

        Parameters
        ----------
        seconds : its seconds.
        """
        self._built_before_s += seconds

    def advance(self, trainer: Any, call: StepCall) -> Sequence[Finished]:
        """Take a step of a trainer, under another plan where the policy says so, and return what it gives.

        Parameters
        ----------
        trainer : the trainer; its engine is replaced at a move.
        call : the step.

        Raises
        ------
        HeteroError
            As `Engine.advance`.
        """
        if self._watching is not None:
            return self._watching.advance(trainer, call)
        other_form = call.batch.size != trainer._engine.plan.batch_size or call.batch.graph is not None
        if self._has_ended or other_form:
            return call.advance(trainer._engine)
        self._collect()
        self._note_engine(trainer._engine)
        while True:
            self.known = dataclasses.replace(self.known, left=self.steps_ahead())
            action = next_action(self.known)
            if isinstance(action, Watch) and action.is_final:
                return self._watch(trainer, call, action)
            if isinstance(action, Watch):  # until a longer training
                self._tell_end(action)
                return self._step(trainer, call, is_traced=False)
            if isinstance(action, Solve):
                self.known = dataclasses.replace(self.known, solving=True)
                self._background.begin(functools.partial(self._candidates.solve, self.known.trials))
            elif isinstance(action, BuildPlan):
                self._begin_build(trainer, action.plan, call)
            elif isinstance(action, MoveTo) and action.plan.built_from not in self._engines:  # freed meanwhile
                self._begin_build(trainer, action.plan, call)
            elif isinstance(action, MoveTo):
                self._move(trainer, action.plan, call.step)
            else:
                return self._step(trainer, call, isinstance(action, TraceStep))

    def close(self) -> None:
        """End what runs in the background, and free what plans hold that are not in force."""
        finished = self._background.poll(wait=True)
        self._background.close()
        self.known = dataclasses.replace(self.known, building=None, built=None, solving=False)
        if finished is not None and isinstance(finished.result, Engine):
            finished.result.close()
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()

    def _note_engine(self, engine: Engine) -> None:
        """Let steps settle where the engine is another one, as after `restore`: its first step builds its graph."""
        if self._engine is not None and engine is not self._engine:
            self.known = dataclasses.replace(self.known, settling=SETTLING + 1)
        self._engine = engine

    def _step(self, trainer: Any, call: StepCall, is_traced: bool) -> Sequence[Finished]:
        start_s = self._clock()
        if is_traced:
            finished, trace = call.advance_traced(trainer._engine)
            self.known = traced(self.known, traced_step(trace, trainer._cluster.devices), self._clock() - start_s)
            return finished
        finished = call.advance(trainer._engine)
        seconds = self._clock() - start_s
        if not self.known.builds:
            first = Build(size_of(self.known.trial.plan), self._built_before_s + seconds)
            self.known = dataclasses.replace(self.known, builds=(first,))
        self.known = stepped(self.known, seconds, overlapped=self.known.busy)
        return finished

    def _collect(self, wait: bool = False) -> None:
        """Take what work in the background has come to; what fails there, but for a worker's death, ends no training."""
        finished = self._background.poll(wait)
        if finished is None:
            return
        plan = self.known.building
        if isinstance(finished.fault, WorkerError) or (finished.fault is not None and not isinstance(finished.fault, Exception)):
            self.known = dataclasses.replace(self.known, building=None, solving=False)
            raise finished.fault
        if plan is None:
            nothing = Solution((), 1.0, self.known.floor, len(self.known.trials))
            self.known = solved(self.known, nothing if finished.fault is not None else finished.result, finished.seconds)
        elif finished.fault is not None:
            self.known = refused(self.known)
            warnings.warn(f"{split_text(plan)} is not tried, as it could not be built ({finished.fault})", stacklevel=6)
        else:
            self._engines[plan.built_from] = finished.result
            self.known = was_built(self.known, finished.seconds)

    def _begin_build(self, trainer: Any, plan: Plan, call: StepCall) -> None:
        """Build a plan in the background, and take a step under it whose results count for nothing: the move writes all values."""
        best_s = self.known.trials[self.known.best].median_s
        predicted_s = self._predicted_s(plan)
        self._say(f"{split_text(self.known.trial.plan)}, {seconds_text(best_s)} a step; trying {split_text(plan)}", predicted_s)
        self.known = dataclasses.replace(self.known, building=plan)

        def build() -> Engine:
            engine: Engine = trainer._make_engine(plan, trainer._first_values(), trainer._seed)
            try:
                call.advance(engine)
            except BaseException:
                engine.close()
                raise
            return engine

        self._background.begin(build)
        if any(map(is_keras_call, self.profile.graph.layers)):  # which seeds the user's generators while it is traced
            self._collect(wait=True)

    def _move(self, trainer: Any, plan: Plan, step: int) -> None:
        """Go on under a plan that is built, with all values as they are."""
        start_s, before = self._clock(), trainer._engine
        engine = self._engines[plan.built_from]
        engine.write(before.read())
        trainer._engine = self._engine = self._engines.pop(plan.built_from)
        trial, predicted_s = self.known.trial, self._predicted_s(plan)
        returns = any(each.plan.built_from == plan.built_from for each in self.known.trials)
        reason = "it is faster" if returns else "it promises to be faster"
        self.known = moved(self.known, Candidate(plan, predicted_s, 0.0), self._clock() - start_s)
        self._engines[before.plan.built_from] = before
        self._free()
        taken_s = self._clock() - start_s
        self._moves.append(Move(step, reason, before.plan, plan, trial.median_s, predicted_s, taken_s))
        if returns:
            self._say(f"back to {split_text(plan)} after {step} steps", self.known.trial.median_s, "")

    def _free(self) -> None:
        """Free what plans hold on the cluster that will not be gone back to: all but that in force and the best one."""
        kept = {self.known.trial.plan.built_from, self.known.trials[self.known.best].plan.built_from}
        for key in [key for key in self._engines if key not in kept]:
            self._engines.pop(key).close()

    def _tell_end(self, action: Watch) -> None:
        """Say that nothing more is tried, and hand over what was learnt, once for each number of trials."""
        plan = self.known.trial.plan
        if self._told == len(self.known.trials) and not action.is_final:
            return
        self._told = len(self.known.trials)
        self._say(f"stays with {split_text(plan)}, as {action.reason}", self.known.trial.median_s, "")
        if self.known.candidates:
            self._ended(dataclasses.replace(plan, predicted=self._candidates.prediction(plan)), self.profile, action.is_final)

    def _watch(self, trainer: Any, call: StepCall, action: Watch) -> Sequence[Finished]:
        """Try nothing more: watch the steps from now on, where that is wanted."""
        plan = self.known.trial.plan
        self._tell_end(action)
        self.close()
        self._has_ended = True
        if self._watches and can_rebalance(plan, self.profile):
            self._watching = Rebalancer(self.profile, self._clock)
            self._watching.steps_ahead, self._watching.speaks = (lambda: self.steps_ahead()), self.speaks
            return self._watching.advance(trainer, call)
        return call.advance(trainer._engine)

    def _predicted_s(self, plan: Plan) -> float:
        found = [each for each in self.known.candidates or () if each.plan.built_from == plan.built_from]
        return found[0].predicted_s if found else self._candidates.prediction(plan).step_s

    def _say(self, text: str, step_s: float, verb: str = " predicted") -> None:
        if self.speaks:
            print(f"hetero_mtf: {text} ({seconds_text(step_s)}{verb} a step)", file=sys.stderr)
