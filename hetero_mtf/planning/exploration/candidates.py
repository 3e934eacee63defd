"""Candidates: the plans that could be tried, predicted by a profile that training steps have corrected."""

from __future__ import annotations

import dataclasses
import datetime
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from hetero_mtf.planning.choose import candidate_plans
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.exploration.records import Candidate, Solution, Trial
from hetero_mtf.planning.layout.records import Prediction
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.corrector import Corrector, prediction
from hetero_mtf.planning.refinement.observations import observations
from hetero_mtf.planning.refinement.plan_run import PlanRun

ROUGH_ERROR = 0.25  # of ln(step), of a rough profile before a plan on several devices was tried
LEAST_ERROR = 0.05


class Candidates:
    """Corrects a rough profile by trials, and solves for candidates.

    Parameters
    ----------
    profile : the rough profile.
    alike : whether a plan has the random draws of the first one, so that it may take its place.
    now : gives the time.
    """

    def __init__(
        self,
        profile: Profile,
        alike: Callable[[Plan], bool] = lambda plan: True,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.timezone.utc),
    ) -> None:
        self._rough, self._alike, self._now = profile, alike, now
        self._is_shaped = bool(profile.corrections.steps)  # by the trials of an earlier training
        self._corrector: Corrector | None = None
        self.costs = Costs(profile)

    def solve(self, trials: Sequence[Trial]) -> Solution:
        """Return the candidates by what trials have told.

        Parameters
        ----------
        trials : those so far, at least one with steps and a trace.
        """
        if self._corrector is None:
            shaped = self._rough if self._is_shaped else with_traced_shape(self._rough, trials[0])
            self._corrector = Corrector(dataclasses.replace(shaped, corrections=Corrections()), self._now)
        runs = [self._run(trial) for trial in trials if trial.step_s]
        measured = self._corrector.measured
        self.costs = Costs(dataclasses.replace(measured, corrections=self._corrector.corrections(runs)))
        plans = [plan for plan in candidate_plans(self.costs) if self._alike(plan)]
        found = tuple(Candidate(plan, plan.predicted.step_s) for plan in plans if plan.predicted is not None)
        return Solution(found, self._error(trials), self.floor_s, len(trials))

    @property
    def floor_s(self) -> float:
        """Seconds of a step that no plan is expected to be below: all devices work all the time and none waits."""
        return 1 / sum(1 / seconds for seconds in self.costs.alone_s.tolist())

    def prediction(self, plan: Plan) -> Prediction:
        """Return the prediction of a step by what is known now.

        Parameters
        ----------
        plan : a plan for the network and cluster.
        """
        return prediction(self.costs, plan)

    def _run(self, trial: Trial) -> PlanRun:
        assert self._corrector is not None
        first_s = prediction(self._corrector.costs, trial.plan).step_s
        return PlanRun(trial.plan, trial.step_s, trial.traces, trial.predicted_s, first_s)

    def _error(self, trials: Sequence[Trial]) -> float:
        """Return the typical error of the predictions of trials after the first: that of a rough profile before there are any."""
        errors = [abs(math.log(trial.median_s / trial.predicted_s)) for trial in trials[1:] if trial.step_s]
        return max(LEAST_ERROR, statistics.median(errors)) if errors else ROUGH_ERROR


def with_traced_shape(profile: Profile, trial: Trial) -> Profile:
    """Return a profile whose layers take as long as traced steps of one device show, on it and, in proportion, on those of its kind.

    Operation counts tell how a layer grows with its units, a trace what it takes: an elementwise layer, or a convolution of few
    channels, is far from the rate of the heaviest one, on all devices of a kind.

    Parameters
    ----------
    profile : of operation counts.
    trial : of a plan on one device; another one changes nothing.
    """
    if len(trial.plan.used) != 1 or not trial.traces:
        return profile
    costs = Costs(profile)
    run = PlanRun(trial.plan, trial.step_s, trial.traces, trial.predicted_s, trial.predicted_s)
    ratios: dict[tuple[int, str], list[float]] = {}
    for entry in observations(costs, [run]):
        ratios.setdefault((entry.layer, entry.step_pass), []).append(entry.traced_s / entry.predicted_s)
    factors = {key: statistics.median(values) for key, values in ratios.items()}
    return dataclasses.replace(profile, curves=tuple(_scaled(profile, factors, trial.plan)), corrections=Corrections())


def _scaled(profile: Profile, factors: Mapping[tuple[int, str], float], plan: Plan) -> list[object]:
    devices = profile.cluster.devices
    kind = devices[plan.used[0]].kind
    curves = []
    for curve in profile.curves:
        factor = factors.get((curve.layer, curve.step_pass), 1.0) if devices[curve.device].kind == kind else 1.0
        curves.append(dataclasses.replace(curve, seconds=tuple(factor * seconds for seconds in curve.seconds)))
    return curves
