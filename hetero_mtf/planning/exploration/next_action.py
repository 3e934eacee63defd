"""The policy: from what a training knows, what it does next.

A candidate with predicted step p is taken to take t seconds, ln t ~ N(ln p, error^2). Beside the best step T so far it is expected
to gain, a step,

    E[max(0, T - t)] = T Phi(a) - p exp(error^2 / 2) Phi(a - error),    a = ln(T / p) / error,

as it is left where it is slower (the expected improvement of Jones, Schonlau and Welch, "Efficient global optimization of expensive
black-box functions", J. Global Optim. 13, 1998). It is tried if that, over the steps to come, exceeds what the trial costs.
"""

from __future__ import annotations

import math
import statistics

from hetero_mtf.planning.exploration.actions import (
    Action,
    BuildPlan,
    MeasureCurves,
    MoveTo,
    Solve,
    TakeStep,
    TraceStep,
    Watch,
)
from hetero_mtf.planning.exploration.records import Candidate, Knowledge, size_of
from hetero_mtf.planning.plan.plan import Plan

FIRST_STEPS = 2  # that count, before a plan is compared, and before the first trial
STEPS = 4  # that count, before a further one is tried
TRACES = 1  # of each plan that is not left
SLOWER = 1.02  # times the best step: a plan is left from there on
DRIFT = 1.05  # times the best step, which is from before, that a plan of more steps than these has to exceed
DRIFTED = 1.25  # times as long, or as short, as before: each of the first steps after going back to a plan
TRIAL_STEPS = 4  # under a plan that turns out slower: the first, those that settle and two that count
MARGIN = 1.5  # times the cost of a trial, that its expected gain has to exceed
IN_BACKGROUND = 0.5  # part of a build's seconds by which steps take longer meanwhile, before any was measured
SPENT_PART, SPENT_S = 0.05, 3.0  # of the training, and seconds, that trying plans may cost where nothing comes of it
LEAST_GAIN = 0.02  # part of a step, below which a gain is not looked for; what a calibration is expected to gain
CALIBRATED_S = 1.0  # that curves are measured for at a time

_NORMAL = statistics.NormalDist()


def next_action(known: Knowledge) -> Action:
    """Return what to do next.

    Parameters
    ----------
    known : what the training knows.

    Notes
    -----
    A plan gets two steps that count; if both are longer than the best plan's, one more is traced, to learn from, and
    training goes back. Else it gets four, and where what is left could pay for another trial a trace, by which the profile is corrected
    and candidates are solved for again. The first plan gets two: what it loses beside a better one it loses with every step.
    """
    if known.rest is not None:
        return known.rest
    trial, best = known.trial, known.trials[known.best]
    steps = FIRST_STEPS if len(known.trials) == 1 else STEPS
    if known.settling or len(trial.step_s) < FIRST_STEPS:
        return TakeStep()
    if known.again is not None and known.again < FIRST_STEPS:
        return TakeStep()
    if known.busy:  # also where the best plan has to be built again before training can go back
        return TakeStep()
    if known.built is not None:
        return MoveTo(known.built)
    if _is_left(known):
        return MoveTo(best.plan) if trial.traces or known.horizon <= STEPS else TraceStep()
    if len(trial.step_s) < steps:
        return TakeStep()
    most_s = best.median_s - known.floor * math.exp(-known.error) * known.trials[0].median_s
    if most_s <= LEAST_GAIN * best.median_s:
        return _at_rest(known, False)
    least_cost_s = _background_s(known, known.trials[0].plan) + known.solve_s
    if most_s * known.horizon <= MARGIN * least_cost_s or not _affords(known, least_cost_s):
        return _at_rest(known, True)
    if len(trial.traces) < TRACES:
        return TraceStep()
    if known.candidates is None or known.solved_trials < len(known.trials):
        return Solve()
    return _next_trial(known)


def has_drifted(known: Knowledge) -> bool:
    """Return whether a plan that was gone back to does not take what it took, as devices have changed while others were tried.

    Parameters
    ----------
    known : what the training knows; seconds of plans from before do not count any more, where it is so.
    """
    before_s, again_s = known.trial.step_s[:-FIRST_STEPS], known.trial.step_s[-FIRST_STEPS:]
    if known.again != FIRST_STEPS or not before_s:
        return False
    median_s = statistics.median(before_s)
    return min(again_s) > DRIFTED * median_s or max(again_s) < median_s / DRIFTED


def _is_left(known: Knowledge) -> bool:
    """Return whether training goes back from the plan in force to the best one.

    Once a plan has had its steps, those of the best one are long past, and its engine may be freed: where all plans have become slower
    meanwhile, as a machine has other work, going back would gain nothing and cost a build.
    """
    trial, best_s = known.trial, known.trials[known.best].median_s
    if known.best == known.present or known.trials[known.best].plan.built_from in known.refused:  # it could not be built again
        return False
    if len(trial.step_s) <= STEPS:
        present_s = min(trial.step_s) if len(trial.step_s) < STEPS else trial.median_s
        return present_s > SLOWER * best_s
    gain_s = known.horizon * (trial.median_s - best_s)
    return trial.median_s > DRIFT * best_s and gain_s > MARGIN * _background_s(known, known.trials[known.best].plan)


def expected_gain_s(best_s: float, predicted_s: float, error: float) -> float:
    """Return the seconds a step that a plan is expected to gain, where it is left if it is slower.

    Parameters
    ----------
    best_s : seconds of a step under the best plan so far.
    predicted_s : those that are predicted under the other one.
    error : standard deviation of ln(measured / predicted), above 0.

    Examples
    --------
    >>> round(expected_gain_s(1.0, 0.5, 0.01), 3), round(expected_gain_s(1.0, 2.0, 0.01), 3), round(expected_gain_s(1.0, 1.0, 0.2), 3)
    (0.5, 0.0, 0.071)
    """
    at = math.log(best_s / predicted_s) / error
    return best_s * _NORMAL.cdf(at) - predicted_s * math.exp(error**2 / 2) * _NORMAL.cdf(at - error)


def trial_cost_s(known: Knowledge, candidate: Candidate) -> float:
    """Return the seconds that a trial is expected to cost: the build, what slows steps down meanwhile, and steps that are slower.

    Parameters
    ----------
    candidate : what is tried.
    """
    slower_s = max(0.0, candidate.predicted_s - known.trials[known.best].median_s)
    return _background_s(known, candidate.plan) + TRIAL_STEPS * slower_s


def _background_s(known: Knowledge, plan: Plan) -> float:
    """Return the seconds by which steps take longer while a plan is built: a part of what building it takes, by what other builds took."""
    build_s = max((each.seconds * max(1.0, size_of(plan) / each.size) for each in known.builds), default=0.0)
    background_s = sum(each.seconds for each in known.builds[1:]) + known.solve_s
    part = min(1.0, known.delay_s / background_s) if known.delay_s and len(known.builds) > 1 else IN_BACKGROUND
    return part * build_s


def _affords(known: Knowledge, cost_s: float) -> bool:
    """Return whether trying plans stays a small part of the training even if nothing comes of it."""
    total_s = known.elapsed_s + known.horizon * known.trials[known.best].median_s
    return known.spent_s + cost_s <= SPENT_PART * total_s + SPENT_S


def _calibration_pays(known: Knowledge) -> bool:
    """Return whether curves are measured, once no plan promises to be faster by operation counts and traces.

    Of a known length all of it has to pay; of an unknown one each turn, as part of what trying plans may cost.
    """
    if known.calibration_s is None:
        return False
    if known.left is None:
        return _affords(known, CALIBRATED_S)
    gain_s = LEAST_GAIN * known.trials[known.best].median_s * known.horizon
    return gain_s > MARGIN * known.calibration_s and _affords(known, known.calibration_s)


def _next_trial(known: Knowledge) -> Action:
    """Return the trial that is expected to gain most, if it pays.

    Where devices have changed, plans answer the change: one that is predicted slower than that in force could gain by an error of the
    profile only, and as much before it. Devices that became slower alike would be no reason to try it now.
    """
    best_s = known.trials[known.best].median_s
    tried = {trial.plan.built_from for trial in known.trials} | known.refused
    gains = [
        (gain_s * known.horizon - MARGIN * cost_s if _affords(known, cost_s) else -math.inf, each.plan)
        for each in known.candidates or ()
        if each.plan.built_from not in tried and (not known.changes or each.predicted_s < best_s)
        for gain_s in (expected_gain_s(best_s, each.predicted_s, each.error),)
        for cost_s in (trial_cost_s(known, each),)
        if gain_s > LEAST_GAIN * best_s
    ]
    pays_s, plan = max(gains, key=lambda entry: entry[0], default=(0.0, None))
    return BuildPlan(plan) if plan is not None and pays_s > 0 else _at_rest(known, bool(gains))


def _at_rest(known: Knowledge, could_pay: bool) -> Action:
    """Return that nothing more is tried: until the training is, or was, longer, where another plan could pay then."""
    if not could_pay and _calibration_pays(known):
        return MeasureCurves()
    if not could_pay:
        return Watch("no other plan promises to be faster", is_final=True)
    reason = "what is left is too short for another plan" if known.left is not None else "too little was trained yet to try another plan"
    return Watch(reason if _affords(known, 0.0) else "trying plans has cost enough for now", is_final=False)
