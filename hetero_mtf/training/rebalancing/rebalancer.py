"""Rebalancer: takes the steps of a trainer, watches them, and moves the trainer to another plan where a device has changed."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from hetero_mtf.errors import HeteroError, PlanError, WorkerError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.validity import check_profile
from hetero_mtf.planning.refinement.corrector import prediction
from hetero_mtf.planning.refinement.loop import has_alternatives
from hetero_mtf.program.engine import Engine, Finished
from hetero_mtf.training.plan_runner import traced_step
from hetero_mtf.training.rebalancing.budget import TraceBudget
from hetero_mtf.training.rebalancing.choice import Present, decide
from hetero_mtf.training.rebalancing.levels import CHANGED
from hetero_mtf.training.rebalancing.records import Decision, DeviceChange, Evidence, Move
from hetero_mtf.training.rebalancing.speeds import evidence_at_start, log_factors_after, profile_at
from hetero_mtf.training.rebalancing.step_call import StepCall
from hetero_mtf.training.rebalancing.text import move_text, split_text
from hetero_mtf.training.rebalancing.watch import Watch

WORSE = 1.03  # times the step before a move, from where the move has failed


class Rebalancer:
    """Takes the steps of a trainer.

    Parameters
    ----------
    profile : the refined profile of the network, cluster and batch size.
    clock : gives seconds.
    plans : gives the plans that could take the place of one.

    Attributes
    ----------
    moves : the moves so far.
    decisions : what was decided whenever a device had changed.
    steps_ahead : returns the steps of the run that are known to come; None where that is not known.
    speaks : whether a line is written for each move.
    """

    def __init__(
        self,
        profile: Profile,
        clock: Callable[[], float] = time.perf_counter,
        plans: Callable[[Costs], Iterable[Plan]] = candidate_plans,
    ) -> None:
        self.profile, self._clock, self._plans = profile, clock, plans
        self.moves: list[Move] = []
        self.decisions: list[Decision] = []
        self.steps_ahead: Callable[[], int | None] = lambda: None
        self.speaks = True
        self.budget = TraceBudget()
        self._log_factors: dict[int, float] = {}
        self._refused: set[object] = set()
        self._taken = 0  # steps of full batches
        self._changed_at: int | None = None  # of these, when there last was evidence
        self._retry_at: int | None = None  # of these, when a gain that did not pay is looked at again
        self._build_s, self._built_before_s = 0.0, 0.0  # of building and the first step; of the former, before that step
        self._solve_s = 0.0  # of solving for other plans, the last time
        self._begin(None)

    def _begin(self, engine: Engine | None) -> None:
        """Watch the steps of another engine from now on."""
        self._engine = engine
        self._watch = Watch(self.budget, [device.share for device in self.profile.cluster.devices])
        self._steps = 0  # of full batches, of this engine
        self._unreviewed: Move | None = None  # by which this engine came to be
        self._started = False  # whether it was compared with the profile

    def fits(self, plan: Plan) -> bool:
        """Return whether steps of a plan can be watched.

        Parameters
        ----------
        plan : one for the network and cluster.
        """
        return plan.batch_size == self.profile.batch_size and can_rebalance(plan, self.profile)

    def note_build(self, seconds: float) -> None:
        """Take note of what building took before the first step.

        Parameters
        ----------
        seconds : its seconds.
        """
        self._built_before_s += seconds

    def advance(self, trainer: Any, call: StepCall) -> list[Finished]:
        """Take a step of a trainer, under another plan from now on where that pays, and return what it gives.

        Parameters
        ----------
        trainer : the trainer; its engine is replaced at a move.
        call : the step.

        Raises
        ------
        HeteroError
            As `Engine.advance`.
        """
        engine = trainer._engine
        if engine is not self._engine:
            self._begin(engine)
        if call.batch.size != engine.plan.batch_size:
            return call.advance(engine)
        decision = self._decision(call.step, engine.plan)
        if decision is not None:
            self.decisions.append(decision)
        finished = self._moved(trainer, call, decision) if decision is not None and decision.moves else None
        return self._step(trainer, call) if finished is None else finished

    def _step(self, trainer: Any, call: StepCall) -> list[Finished]:
        """Take a step under the plan in force, traced where that is wanted."""
        start_s = self._clock()
        if self._watch.wants_trace(self._ahead_s()):
            finished, trace = call.advance_traced(trainer._engine)
            traced = traced_step(trace, trainer._cluster.devices)
            self._watch.add_traced(self._clock() - start_s, traced)
        else:
            finished = call.advance(trainer._engine)
            self._watch.add(self._clock() - start_s)
        if self._steps == 0:
            self._build_s, self._built_before_s = self._built_before_s + self._clock() - start_s, 0.0
        self._steps += 1
        self._taken += 1
        return finished

    def _ahead_s(self) -> float:
        """Return the seconds of the run that are known to come."""
        baseline, ahead = self._watch.usual_s, self.steps_ahead()
        return 0.0 if baseline is None or ahead is None else baseline * ahead

    def _decision(self, step: int, plan: Plan) -> Decision | None:
        """Return what to do about a change, where there is evidence of one."""
        failed = self._failed(step, plan)
        if failed is not None:
            return failed
        baseline = self._watch.baseline
        if baseline is not None and not self._started and not self._log_factors and not self.moves and len(plan.stages) == 1:
            evidence = evidence_at_start(self.profile, plan, baseline)
        else:
            evidence = self._watch.evidence()
        self._started = self._started or baseline is not None
        if evidence is not None:
            return self._decided(step, plan, evidence)
        if baseline is not None and self._retry_at is not None and self._taken >= self._retry_at:
            return self._decide(self._present(step, plan, baseline.step_s, self.decisions[-1].changes))
        return None

    def _decided(self, step: int, plan: Plan, evidence: Evidence) -> Decision | None:
        """Return what to do about a change, with the speeds of devices after it; None where steps and traces do not agree on it."""
        before, devices = self._log_factors, self.profile.cluster.devices
        after = log_factors_after(self.profile, plan, before, evidence)
        change = {device: after.get(device, 0.0) - before.get(device, 0.0) for device in evidence.changed}
        if all(times * math.copysign(1.0, evidence.levels[device]) < CHANGED / 2 for device, times in change.items()):
            self._watch.dismiss()
            return None
        self._log_factors = after
        self._watch.accept()
        changes = tuple(DeviceChange(devices[device].name, math.exp(times)) for device, times in change.items())
        present = self._present(step, plan, evidence.step_s, changes, 2 * evidence.spread)
        self._changed_at = self._taken
        return self._decide(present)

    def _decide(self, present: Present) -> Decision:
        start_s = self._clock()
        decision = decide(Costs(profile_at(self.profile, self._log_factors)), present, self._plans)
        self._solve_s = self._clock() - start_s
        unknown = self.steps_ahead() is None and decision.after is not None and not decision.moves
        self._retry_at = 2 * self._taken if unknown else None
        return decision

    @property
    def _left(self) -> int:
        """Steps of the run that are left; where that is not known, as many as were taken."""
        ahead = self.steps_ahead()
        return self._taken if ahead is None else ahead

    def _present(self, step: int, plan: Plan, step_s: float, changes: tuple[DeviceChange, ...], spread: float = 0.0) -> Present:
        """Return where the training is; what has changed before is expected to change again after as many steps as it lasted."""
        left = self._left
        lasted = left if self._changed_at is None or self._retry_at is not None else self._taken - self._changed_at
        cost_s = self.moves[-1].taken_s if self.moves else max(0.0, self._build_s - step_s)
        return Present(step, plan, step_s, changes, min(left, lasted), cost_s + self._solve_s, spread, frozenset(self._refused))

    def _failed(self, step: int, plan: Plan) -> Decision | None:
        """Return whether to move back, once, where steps take longer than before the last move."""
        move, baseline = self._unreviewed, self._watch.baseline
        if move is None or baseline is None:
            return None
        self._unreviewed = None
        if baseline.step_s <= WORSE * move.before_s:
            return None
        self._refused.add(plan.built_from)
        present = dataclasses.replace(self._present(step, plan, baseline.step_s, ()), steps_left=self._left)
        pays = (baseline.step_s - move.before_s) * present.steps_left > move.taken_s
        reason = "steps take longer than before the last move" + (", and moving back does not pay" if not pays else "")
        fields = {**present.head, "moves": pays, "reason": reason, "after": move.before, "expected_s": move.before_s}
        return Decision(**fields)  # type: ignore[arg-type]

    def _moved(self, trainer: Any, call: StepCall, decision: Decision) -> list[Finished] | None:
        """Move a trainer to another plan with a step; None where that plan cannot be built, so that the one before stays in force.

        The engine before is kept until the new one has taken the step, so nothing is lost where it cannot.
        """
        assert decision.after is not None
        start_s, before = self._clock(), trainer._engine
        try:
            engine = trainer._make_engine(decision.after, before.read(), trainer._seed)
            finished = self._first_step(engine, call)
        except WorkerError:
            raise
        except HeteroError as fault:
            self._refused.add(decision.after.built_from)
            self.decisions[-1] = dataclasses.replace(decision, moves=False, reason=f"the plan could not be built: {fault}")
            said = f"training goes on under its plan, as {split_text(decision.after)} could not be built ({fault})"
            warnings.warn(said, stacklevel=5)
            return None
        trainer._engine = engine
        before.close()
        taken_s = max(0.0, self._clock() - start_s - decision.expected_s)
        head = decision.step, decision.reason, before.plan, decision.after
        move = Move(*head, decision.before_s, decision.expected_s, taken_s)
        self.moves.append(move)
        self._begin(engine)
        self._watch.add(decision.expected_s + taken_s)
        self._unreviewed = move
        self._steps, self._taken = 1, self._taken + 1
        if self.speaks:
            print(f"hetero_mtf: {move_text(move)}", file=sys.stderr)
        return finished

    @staticmethod
    def _first_step(engine: Engine, call: StepCall) -> list[Finished]:
        """Return what the first step of an engine gives, which is closed where it fails."""
        try:
            return call.advance(engine)
        except BaseException:
            engine.close()
            raise


def can_rebalance(plan: Plan, profile: Profile) -> bool:
    """Return whether there may be other plans with the numbers of a plan, on several devices, and its steps can be predicted.

    Parameters
    ----------
    profile : of its network and cluster.
    """
    if plan.schedule in STALE_SCHEDULES or not has_alternatives(plan, profile.graph) or len(profile.cluster.devices) < 2:
        return False
    try:
        prediction(Costs(profile), plan)
    except PlanError:
        return False
    return True


def check_request(plan: Plan, profile: Profile | None, graph: LayerGraph, cluster: Any) -> None:
    """Raise unless a training by a given plan can be rebalanced.

    Parameters
    ----------
    plan, profile : as they were given.
    graph : the network.
    cluster : live cluster.

    Raises
    ------
    PlanError
        If there is no profile, it is for another batch size, or no other plan has the numbers of this one.
    ProfileError
        If the profile is of another network or cluster.
    """
    if profile is None:
        raise PlanError("rebalancing a given plan needs the profile that it was made from", "give profile=..., or leave rebalance out")
    check_profile(profile, graph, cluster.record)
    if profile.batch_size != plan.batch_size:
        sizes = f"the plan is for batches of {plan.batch_size} and the profile of {profile.batch_size}"
        raise PlanError(f"{sizes}, so it cannot be rebalanced", "calibrate with the batch size of the plan, or leave rebalance out")
    if not can_rebalance(plan, profile):
        wrong = "no other plan has the numbers of this one (its schedule has no flush or no prediction, or it mixes weights)"
        raise PlanError(wrong, "leave rebalance out")
