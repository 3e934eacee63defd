"""What a training knows after what it did."""

from __future__ import annotations

import dataclasses
import math

from hetero_mtf.planning.exploration.actions import Watch
from hetero_mtf.planning.exploration.records import SETTLING, Build, Candidate, Knowledge, Solution, Trial, size_of
from hetero_mtf.planning.refinement.plan_run import TracedStep
from hetero_mtf.planning.watching.evidence import DeviceChange

MOST_STEPS = 50  # of a trial whose seconds are kept, the latest
LEAST_CALIBRATION_S = 5.0  # that a calibration is expected to take yet, while it has not ended


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
        replaced(known, trial, floor), settling=0, rest=None, changes=changes, changed_at=known.taken, lasted=lasted
    )


def replaced(known: Knowledge, trial: Trial, floor: float) -> Knowledge:
    """Return what is known after another plan was put in force from without.

    Parameters
    ----------
    trial : that plan, without steps.
    floor : as of `Knowledge`.
    """
    fresh = {"candidates": None, "solved_trials": 0, "built": None, "building": None, "solving": False}
    return dataclasses.replace(known, trials=(trial,), floor=floor, present=0, settling=SETTLING + 1, again=None, **fresh)  # type: ignore[arg-type]


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
    if known.again is not None:
        known = dataclasses.replace(known, again=known.again + 1)
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


def solved(known: Knowledge, solution: Solution, seconds: float) -> Knowledge:
    """Return what is known after candidates were solved for.

    Parameters
    ----------
    solution : what it gave.
    seconds : what it took.
    """
    fields = {"candidates": solution.candidates, "error": solution.error, "floor": solution.floor, "solved_trials": solution.trials}
    return dataclasses.replace(known, **fields, solve_s=seconds, solving=False)  # type: ignore[arg-type]


def measured(known: Knowledge, seconds: float) -> Knowledge:
    """Return what is known after curves were measured, before the end of the calibration; the step after it does not count.

    Parameters
    ----------
    seconds : what measuring took.
    """
    assert known.calibration_s is not None
    left_s = max(LEAST_CALIBRATION_S, known.calibration_s - seconds)
    spent_s, elapsed_s = known.spent_s + seconds, known.elapsed_s + seconds
    return dataclasses.replace(known, calibration_s=left_s, spent_s=spent_s, elapsed_s=elapsed_s, settling=SETTLING)


def calibrated(known: Knowledge, floor: float) -> Knowledge:
    """Return what is known after the end of a calibration: candidates are solved for again.

    Parameters
    ----------
    floor : as of `Knowledge`.
    """
    return dataclasses.replace(known, calibration_s=None, candidates=None, solved_trials=0, floor=floor)


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
        return dataclasses.replace(known, present=tried[plan.built_from], again=0)
    trials = (*known.trials, Trial(plan, candidate.predicted_s))
    return dataclasses.replace(known, trials=trials, present=len(known.trials), again=None)


def _longer_s(known: Knowledge, seconds: float) -> float:
    """Return how much longer a step was than those of the best plan; 0 before any counts."""
    best_s = known.trials[known.best].median_s
    return max(0.0, seconds - best_s) if math.isfinite(best_s) else 0.0


def _counted(known: Knowledge, seconds: float, spent_s: float) -> Knowledge:
    left = None if known.left is None else max(0, known.left - 1)
    elapsed_s, spent_s = known.elapsed_s + seconds, known.spent_s + spent_s
    return dataclasses.replace(known, taken=known.taken + 1, left=left, elapsed_s=elapsed_s, spent_s=spent_s)


def _with_trial(known: Knowledge, trial: Trial) -> Knowledge:
    trials = (*known.trials[: known.present], trial, *known.trials[known.present + 1 :])
    return dataclasses.replace(known, trials=trials)
