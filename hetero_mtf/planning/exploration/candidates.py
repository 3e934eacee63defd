"""Candidates: the plans that could be tried, predicted by a profile that training steps have corrected."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.choose import plan as make_plan
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.likeness import likeness
from hetero_mtf.planning.exploration.records import ROUGH_ERROR, Candidate, Solution, Trial
from hetero_mtf.planning.layout.records import Prediction
from hetero_mtf.planning.memory.shortfall import pool_lack
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.prediction_error import prediction_error
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.speed_up import largest_speed_up
from hetero_mtf.planning.refinement.corrector import Corrector, prediction
from hetero_mtf.planning.refinement.observations import first_on, observations
from hetero_mtf.planning.refinement.plan_run import PlanRun

CLEAR_ERRORS = 2  # of a rough profile, that a plan has to be faster by than one device for training to begin with it
LEAST_ERROR = 0.05
LIKE_ERROR = 0.03  # of a plan that is split like one that was tried


class Candidates:
    """Corrects a profile by trials, and solves for candidates.

    Parameters
    ----------
    profile : the profile; one with corrections that is not rough stays as it is.
    alike : whether a plan has the random draws of the first one, so that it may take its place.
    is_rough : whether its curves are operation counts over rates, which traced layers take the place of.
    now : gives the time.
    """

    def __init__(
        self,
        profile: Profile,
        alike: Callable[[Plan], bool] = lambda plan: True,
        is_rough: bool = True,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.timezone.utc),
    ) -> None:
        self._start, self._alike, self._is_rough, self._now = dataclasses.replace(profile, corrections=Corrections()), alike, is_rough, now
        self._is_corrected = not is_rough and bool(profile.corrections.steps)
        self.costs = Costs(profile)

    def solve(self, trials: Sequence[Trial]) -> Solution:
        """Return the candidates by what trials have told.

        Parameters
        ----------
        trials : those so far, at least one with steps and a trace.
        """
        if not self._is_corrected:
            measured = with_traced_layers(self._start, trials) if self._is_rough else self._start
            corrector = Corrector(measured, self._now)
            runs = [self._run(trial, corrector.costs) for trial in trials if trial.step_s]
            self.costs = Costs(dataclasses.replace(measured, corrections=corrector.corrections(runs)))
        best = min((trial for trial in trials if trial.step_s), key=lambda trial: trial.median_s).plan
        plans = [plan for plan in candidate_plans(self.costs) if self._alike(plan) and self._fits_beside(plan, best)]
        error = self._error(trials)
        found = tuple(self._candidate(plan, trials, error) for plan in plans)
        return Solution(found, error, self.floor(trials[0].plan), len(trials))

    def _candidate(self, plan: Plan, trials: Sequence[Trial], error: float) -> Candidate:
        """Return a candidate: as far as it is split like a trial, in whatever parts, it is as far from its prediction as that is.

        Where the profile is not corrected any more, steps that take longer than predicted are expected to under all plans.
        """
        predicted_s = self.prediction(plan).step_s
        run = [trial for trial in trials if trial.step_s]
        alike, at = max((likeness(self.costs.graph, plan, trial.plan), at) for at, trial in enumerate(run))
        least = max(1.0, self._measured_part(run[0])) if self._is_corrected else 1.0
        expected_s = predicted_s * self._measured_part(run[at]) ** alike * least ** (1 - alike)
        return Candidate(plan, expected_s, error + alike * (min(error, LIKE_ERROR) - error))

    def _fits_beside(self, plan: Plan, best: Plan) -> bool:
        """Return whether there is room for a plan and the best one, which is gone back to where the other is slower."""
        parts = [*self.prediction(plan).parts, *self.prediction(best).parts]
        return plan.built_from == best.built_from or not pool_lack(self.costs.profile, parts)

    def _measured_part(self, trial: Trial) -> float:
        return trial.median_s / self.prediction(trial.plan).step_s

    @property
    def is_rough(self) -> bool:
        """Whether the profile is made of operation counts and traces."""
        return self._is_rough

    def floor(self, plan: Plan) -> float:
        """Return the part of a plan's step that no other plan is expected to be below: all devices work all the time and none waits.

        Parameters
        ----------
        plan : the plan.
        """
        together_s = 1 / sum(1 / float(seconds) for seconds in self.costs.alone_s)
        return together_s / self.prediction(plan).step_s

    def prediction(self, plan: Plan) -> Prediction:
        """Return the prediction of a step by what is known now.

        Parameters
        ----------
        plan : a plan for the network and cluster.
        """
        return prediction(self.costs, plan)

    def _run(self, trial: Trial, costs: Costs) -> PlanRun:
        first_s = prediction(costs, trial.plan).step_s
        return PlanRun(trial.plan, trial.step_s, trial.traces, trial.predicted_s, first_s)

    def _error(self, trials: Sequence[Trial]) -> float:
        """Return the typical error of the predictions of trials after the first; before there are any, that which the profile has."""
        errors = [abs(math.log(trial.median_s / trial.predicted_s)) for trial in trials[1:] if trial.step_s]
        if errors:
            return max(LEAST_ERROR, statistics.median(errors))
        return ROUGH_ERROR if self._is_rough else max(LEAST_ERROR, prediction_error(self.costs.profile, trials[0].median_s))


def first_plan(profile: Profile) -> Plan:
    """Return the plan to begin with: the best one, where it is shorter than one device by more than a rough prediction may be wrong.

    Parameters
    ----------
    profile : the rough profile.

    Raises
    ------
    PlanError
        If no plan fits in memory.
    """
    needed = math.exp(CLEAR_ERRORS * ROUGH_ERROR)
    try:
        alone = make_plan(profile, strategy="single")
    except PlanError:  # it does not fit on one device
        return make_plan(profile)
    if profile.corrections == Corrections() and largest_speed_up(profile) <= needed:
        return alone  # whatever a solver finds, which takes it a second where the network is deep
    best = make_plan(profile)
    assert best.predicted is not None and alone.predicted is not None
    return best if best.predicted.step_s * needed < alone.predicted.step_s else alone


def with_traced_layers(profile: Profile, trials: Sequence[Trial]) -> Profile:
    """Return a profile whose layers take as long as traced steps show.

    Operation counts tell how a layer grows with its units, a trace what it takes: an elementwise layer, or a convolution of few
    channels, is far from the rate of the heaviest one. A device that no step was traced on keeps its rate beside that of a traced one of
    its kind, and has the layers of that one in proportion.

    Parameters
    ----------
    profile : of operation counts.
    trials : those so far.

    Notes
    -----
    Steps on several devices count before those on one: there the others work too, and compete for memory.
    """
    costs = Costs(profile)
    factors: dict[tuple[int, int, str], float] = {}
    for several in (False, True):
        of_these = [each for each in trials if (len(each.plan.used) > 1) == several and each.traces]
        runs = [PlanRun(each.plan, each.step_s, each.traces, each.predicted_s, each.predicted_s) for each in of_these]
        ratios: dict[tuple[int, int, str], list[float]] = collections.defaultdict(list)
        for entry in observations(costs, runs):
            ratios[entry.device, entry.layer, entry.step_pass].append(entry.traced_s / entry.predicted_s)
        factors |= {key: statistics.median(values) for key, values in ratios.items()}
    curves = tuple(_scaled(curve, _factor(costs, factors, curve)) for curve in profile.curves)
    return dataclasses.replace(profile, curves=curves)


def _factor(costs: Costs, factors: Mapping[tuple[int, int, str], float], curve: Curve) -> float:
    """Return how many times as long a curve's layer takes on its device, or by another one of its kind where that was not traced."""
    devices = costs.profile.cluster.devices
    own = first_on(costs, curve.device)
    traced = list(dict.fromkeys(device for device, _, _ in factors))
    like = [own] if own in traced else [device for device in traced if devices[device].kind == devices[own].kind]
    return next((factors[key] for device in like if (key := (device, curve.layer, curve.step_pass)) in factors), 1.0)


def _scaled(curve: Curve, factor: float) -> Curve:
    return curve if factor == 1.0 else dataclasses.replace(curve, seconds=tuple(factor * seconds for seconds in curve.seconds))
