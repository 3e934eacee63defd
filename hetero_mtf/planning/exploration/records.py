"""What a training under exploration knows, what it does next, and what came of it, as records."""

from __future__ import annotations

import dataclasses
import math
import statistics
from typing import NamedTuple

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.refinement.plan_run import TracedStep
from hetero_mtf.planning.watching.evidence import DeviceChange

ROUGH_ERROR = 0.25  # of ln(step), of a rough profile before a plan on several devices was tried
MOST_STEPS = 50  # of a trial whose seconds are kept, the latest
SETTLING = 1  # steps after a move that do not count


@dataclasses.dataclass(frozen=True)
class Trial:
    """A plan that training steps were taken under.

    Parameters
    ----------
    plan : the plan.
    predicted_s : seconds of a step that were predicted before the first.
    step_s : seconds of the latest steps that count: none that a build, a trace or the settling after a move overlapped.
    traces : steps that were traced.
    """

    plan: Plan
    predicted_s: float
    step_s: tuple[float, ...] = ()
    traces: tuple[TracedStep, ...] = ()

    @property
    def median_s(self) -> float:
        """Median seconds of a step; infinite before one counts."""
        return statistics.median(self.step_s) if self.step_s else float("inf")


class Build(NamedTuple):
    """What building a plan took.

    Parameters
    ----------
    size : as `size_of` the plan.
    seconds : seconds.
    """

    size: int
    seconds: float


def size_of(plan: Plan) -> int:
    """Return what the graph of a plan grows with: layers, times processors, times microbatches."""
    return plan.microbatches * sum(len(stage.layers) * len(stage.devices) for stage in plan.stages)


class Candidate(NamedTuple):
    """A plan that was not tried yet.

    Parameters
    ----------
    plan : the plan.
    predicted_s : seconds of a step, by what is known now.
    error : standard deviation of ln(measured / predicted).
    """

    plan: Plan
    predicted_s: float
    error: float


@dataclasses.dataclass(frozen=True)
class Watch:
    """Try nothing more; watch the steps for changes of devices.

    Parameters
    ----------
    reason : why, as text.
    is_final : whether no other plan promises to be faster, whatever the length of the training; else a longer one would try more.
    """

    reason: str
    is_final: bool


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """What a training knows about its plans, and where it stands.

    Parameters
    ----------
    trials : plans that were tried since devices last changed, at least the first one.
    floor : part of the first plan's step that no plan is expected to be below: all devices together, without communication.
    present : index of the trial whose plan is in force.
    candidates : plans that could be tried, solved for with what `solved_trials` trials told; None before the first solution.
    error : standard deviation of ln(measured / predicted) of a plan that is unlike all that were tried.
    solved_trials : number of trials when the candidates were solved for.
    settling : steps under the present plan that do not count yet.
    building : the plan that is being built; None where none is.
    solving : whether candidates are being solved for.
    built : a plan that was built and is not tried yet.
    refused : `Plan.built_from` of plans that could not be built.
    taken : steps so far.
    left : steps to come; None where that is not known.
    builds : what was built, in order; the first is the first plan.
    elapsed_s : seconds of all steps so far.
    spent_s : seconds that trying plans has cost so far, beside steps of the best plan: longer steps, traces and moves.
    delay_s : what builds and solutions in the background have made steps longer by, in all.
    solve_s : seconds that the last solution took.
    rest : why nothing more is tried until a device changes; None while plans may be.
    changes : the devices that have changed, as which plans are tried again.
    changed_at : steps taken when devices last changed; None where they never did.
    lasted : steps that the devices were as before their last change, since the one before; None where there was none.
    """

    trials: tuple[Trial, ...]
    floor: float = 0.0
    present: int = 0
    candidates: tuple[Candidate, ...] | None = None
    error: float = ROUGH_ERROR
    solved_trials: int = 0
    settling: int = SETTLING
    building: Plan | None = None
    solving: bool = False
    built: Plan | None = None
    refused: frozenset[object] = frozenset()
    taken: int = 0
    left: int | None = None
    builds: tuple[Build, ...] = ()
    elapsed_s: float = 0.0
    spent_s: float = 0.0
    delay_s: float = 0.0
    solve_s: float = 0.0
    rest: Watch | None = None
    changes: tuple[DeviceChange, ...] = ()
    changed_at: int | None = None
    lasted: int | None = None

    @property
    def trial(self) -> Trial:
        """The trial of the plan in force."""
        return self.trials[self.present]

    @property
    def best(self) -> int:
        """Index of the trial with the shortest median step."""
        return min(range(len(self.trials)), key=lambda at: self.trials[at].median_s)

    @property
    def horizon(self) -> int:
        """Steps that a gain is expected for: those to come; where that is not known as many as were taken.

        Devices that have changed before are expected to change again after as many steps as their present or last state has lasted.
        """
        ahead = self.taken if self.left is None else self.left
        if self.lasted is None or self.changed_at is None:
            return ahead
        return min(ahead, max(self.lasted, self.taken - self.changed_at))

    @property
    def busy(self) -> bool:
        """Whether something runs in the background, so that a step is no measurement."""
        return self.solving or self.building is not None


@dataclasses.dataclass(frozen=True)
class TakeStep:
    """Take a training step under the plan in force."""


@dataclasses.dataclass(frozen=True)
class TraceStep:
    """Take a training step under the plan in force, and trace it."""


@dataclasses.dataclass(frozen=True)
class Solve:
    """Correct the profile by the trials so far, and solve for candidates, in the background."""


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """Build a plan in the background.

    Parameters
    ----------
    plan : the plan.
    """

    plan: Plan


@dataclasses.dataclass(frozen=True)
class MoveTo:
    """Go on under another plan that is built.

    Parameters
    ----------
    plan : the plan.
    """

    plan: Plan


Action = TakeStep | TraceStep | Solve | BuildPlan | MoveTo | Watch


def rested(known: Knowledge, rest: Watch) -> Knowledge:
    """Return what is known once nothing more is tried.

    Parameters
    ----------
    rest : why.
    """
    return dataclasses.replace(known, rest=rest, building=None, built=None, solving=False)


def changed(known: Knowledge, trial: Trial, floor: float, changes: tuple[DeviceChange, ...]) -> Knowledge:
    """Return what is known after devices have changed: seconds of earlier trials hold no longer.

    Parameters
    ----------
    trial : the plan in force, with its steps and traces since.
    floor : as of `Knowledge`.
    changes : the devices.
    """
    lasted = None if known.changed_at is None else known.taken - known.changed_at
    return dataclasses.replace(
        _with_only(known, trial, floor), settling=0, rest=None, changes=changes, changed_at=known.taken, lasted=lasted
    )


def replaced(known: Knowledge, trial: Trial, floor: float) -> Knowledge:
    """Return what is known after another plan was put in force from without.

    Parameters
    ----------
    trial : that plan, without steps.
    floor : as of `Knowledge`.
    """
    return _with_only(known, trial, floor)


def settled_again(known: Knowledge) -> Knowledge:
    """Return what is known after the engine was replaced by another one of the same plan, whose first step builds its graph."""
    return dataclasses.replace(known, settling=SETTLING + 1)


def watched(known: Knowledge, seconds: float) -> Knowledge:
    """Return what is known after a traced step that was for watching devices.

    Parameters
    ----------
    seconds : what it took, the reading of its trace included.
    """
    return _counted(known, seconds, 0.0)


def stepped(known: Knowledge, seconds: float, overlapped: bool) -> Knowledge:
    """Return what is known after a step.

    Parameters
    ----------
    seconds : what it took.
    overlapped : whether something ran in the background meanwhile.
    """
    longer_s = _longer_s(known, seconds)
    is_best, trial = known.present == known.best, known.trial
    known = _counted(known, seconds, longer_s if overlapped or known.settling or not is_best else 0.0)
    if known.settling:
        return dataclasses.replace(known, settling=known.settling - 1)
    if overlapped:
        return dataclasses.replace(known, delay_s=known.delay_s + longer_s)
    return _with_trial(known, dataclasses.replace(trial, step_s=(*trial.step_s, seconds)[-MOST_STEPS:]))


def traced(known: Knowledge, trace: TracedStep, seconds: float) -> Knowledge:
    """Return what is known after a traced step.

    Parameters
    ----------
    trace : its trace.
    seconds : what it took, the reading of its trace included.
    """
    known = _counted(known, seconds, _longer_s(known, seconds))
    return _with_trial(known, dataclasses.replace(known.trial, traces=(*known.trial.traces, trace)))


@dataclasses.dataclass(frozen=True)
class Solution:
    """What solving for candidates gave.

    Parameters
    ----------
    candidates, error, floor : as of `Knowledge`.
    trials : number of trials that it took into account.
    """

    candidates: tuple[Candidate, ...]
    error: float
    floor: float
    trials: int


def solved(known: Knowledge, solution: Solution, seconds: float) -> Knowledge:
    """Return what is known after candidates were solved for.

    Parameters
    ----------
    solution : what it gave.
    seconds : what it took.
    """
    fields = {"candidates": solution.candidates, "error": solution.error, "floor": solution.floor, "solved_trials": solution.trials}
    return dataclasses.replace(known, **fields, solve_s=seconds, solving=False)  # type: ignore[arg-type]


def was_built(known: Knowledge, seconds: float) -> Knowledge:
    """Return what is known after the plan that was being built is.

    Parameters
    ----------
    seconds : what building took.
    """
    assert known.building is not None
    return dataclasses.replace(known, built=known.building, building=None, builds=(*known.builds, Build(size_of(known.building), seconds)))


def refused(known: Knowledge) -> Knowledge:
    """Return what is known after the plan that was being built could not be."""
    assert known.building is not None
    return dataclasses.replace(known, building=None, refused=known.refused | {known.building.built_from})


def moved(known: Knowledge, candidate: Candidate, seconds: float) -> Knowledge:
    """Return what is known after a move.

    Parameters
    ----------
    candidate : the plan in force from now on, with its prediction.
    seconds : what the move took.
    """
    plan = candidate.plan
    tried = {trial.plan.built_from: at for at, trial in enumerate(known.trials)}
    known = dataclasses.replace(known, settling=SETTLING, built=None, spent_s=known.spent_s + seconds)
    if plan.built_from in tried:
        return dataclasses.replace(known, present=tried[plan.built_from])
    return dataclasses.replace(known, trials=(*known.trials, Trial(plan, candidate.predicted_s)), present=len(known.trials))


def _longer_s(known: Knowledge, seconds: float) -> float:
    """Return how much longer a step was than those of the best plan; 0 before any counts."""
    best_s = known.trials[known.best].median_s
    return max(0.0, seconds - best_s) if math.isfinite(best_s) else 0.0


def _counted(known: Knowledge, seconds: float, spent_s: float) -> Knowledge:
    left = None if known.left is None else max(0, known.left - 1)
    elapsed_s, spent_s = known.elapsed_s + seconds, known.spent_s + spent_s
    return dataclasses.replace(known, taken=known.taken + 1, left=left, elapsed_s=elapsed_s, spent_s=spent_s)


def _with_only(known: Knowledge, trial: Trial, floor: float) -> Knowledge:
    """Return what is known where nothing is but how one plan runs, and what building and steps cost."""
    fresh = {"candidates": None, "solved_trials": 0, "built": None, "building": None, "solving": False}
    return dataclasses.replace(known, trials=(trial,), floor=floor, present=0, settling=SETTLING + 1, **fresh)  # type: ignore[arg-type]


def _with_trial(known: Knowledge, trial: Trial) -> Knowledge:
    trials = (*known.trials[: known.present], trial, *known.trials[known.present + 1 :])
    return dataclasses.replace(known, trials=trials)
