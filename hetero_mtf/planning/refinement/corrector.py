"""Corrections of a profile from the plans that were run."""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Mapping, Sequence

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import Prediction
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.corrections import Corrections, MeasuredStep
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.factors import Cell, Level, all_levels, layer_factors, relative_factors, traced_levels
from hetero_mtf.planning.refinement.observations import first_on, observations, split_of
from hetero_mtf.planning.refinement.plan_run import PlanRun
from hetero_mtf.planning.refinement.step_factors import LAUNCH, LINKS, STEP_SPREAD, TRACE_SPREAD, Key, StepResidual, step_factors

PERTURBATION = 0.1  # of ln(factor), for the slopes of predictions: what calibrations are off by
FAR = 0.2  # in ln(factor), from where slopes are recomputed
NEAR = 0.01  # in ln(factor), where the search for factors ends
ITERATIONS = 8


class Corrector:
    """Corrects a profile.

    Parameters
    ----------
    measured : Profile without corrections.
    now : gives the time.
    """

    def __init__(self, measured: Profile, now: Callable[[], datetime.datetime]) -> None:
        self.measured, self.costs, self._now = measured, Costs(measured), now
        devices = range(len(measured.cluster.devices))
        self._levels = all_levels(sorted({first_on(self.costs, device) for device in devices}))
        self._keys = [*self._levels, LINKS, LAUNCH]
        self._reference: dict[Key, float] = {}  # ln of the factors about which predictions are linear
        self._perturbed: dict[tuple[Key, int], Costs] = {}
        self._slopes: dict[object, dict[Key, float]] = {}

    def corrections(self, runs: Sequence[PlanRun]) -> Corrections:
        """Return the corrections that some runs give.

        Parameters
        ----------
        runs : plans that were run.

        Notes
        -----
        Traces tell how layers differ, whole steps what devices, links and launch overhead take. Traced seconds of a device in all are
        one more measurement of it, an uncertain one.
        """
        observed = observations(self.costs, runs)
        relative = relative_factors(observed)
        log_factors = self._solved(runs, relative, traced_levels(observed))
        factors = self._corrections(log_factors, relative)
        date = self._now().isoformat(timespec="seconds")
        steps = tuple(MeasuredStep(run.plan.strategy, run.plan.digest, run.predicted_s, run.median_s, run.spread, date) for run in runs)
        ran = f"{', '.join(dict.fromkeys(run.plan.strategy for run in runs))} of {self.measured.graph.digest}"
        return dataclasses.replace(factors, steps=steps, corrected_at=date, plan=ran)

    def _solved(self, runs: Sequence[PlanRun], relative: Mapping[Cell, float], traced: Mapping[Level, float]) -> dict[Key, float]:
        """Return ln of the factors, by Gauss-Newton steps that are halved until predictions come nearer to what was measured."""
        best: dict[Key, float] = {}
        best_misfit, target = math.inf, dict.fromkeys(self._keys, 0.0)
        for _ in range(ITERATIONS):
            corrected = self._with_factors(target, relative)
            steps = [self._residual(corrected, run) for run in runs]
            misfit = sum((each.log_ratio / each.spread) ** 2 for each in steps)
            if misfit < best_misfit:
                best, best_misfit = target, misfit
                self._move_reference(best)
                slopes = [each._replace(slopes=self.slopes(run.plan)) for each, run in zip(steps, runs)]
                levels = [StepResidual(ratio - best[level], TRACE_SPREAD, {level: 1.0}) for level, ratio in traced.items()]
                target = step_factors(self._keys, [*slopes, *levels], best)
            else:
                target = {key: (best[key] + target[key]) / 2 for key in self._keys}
            if all(abs(target[key] - best[key]) < NEAR for key in self._keys):
                break
        return best

    def _residual(self, corrected: Costs, run: PlanRun) -> StepResidual:
        predicted_s = prediction(corrected, run.plan).step_s
        return StepResidual(math.log(run.median_s / predicted_s), max(STEP_SPREAD, run.spread / 2), {})

    def slopes(self, plan: Plan) -> dict[Key, float]:
        """Return d ln(predicted step) / d ln(factor) about the reference, of each factor that matters to a plan, computed once a plan.

        Parameters
        ----------
        plan : one that has a prediction.
        """
        if plan.built_from not in self._slopes:
            self._slopes[plan.built_from] = {key: self._slope(plan, key) for key in self._keys_of(plan)}
        return self._slopes[plan.built_from]

    def _slope(self, plan: Plan, key: Key) -> float:
        """Return a central difference: where two devices end together, either one alone makes a step longer, but not shorter."""
        above_s, below_s = (prediction(self._perturbed_costs(key, sign), plan).step_s for sign in (1, -1))
        return math.log(above_s / below_s) / (2 * PERTURBATION)

    def _move_reference(self, log_factors: Mapping[Key, float]) -> None:
        if any(abs(log_factors[key] - self._reference.get(key, 0.0)) > FAR for key in self._keys):
            self._reference = dict(log_factors)
            self._perturbed.clear()
            self._slopes.clear()

    def _keys_of(self, plan: Plan) -> list[Key]:
        known = {LINKS, LAUNCH}
        for stage in plan.stages:
            resting = self.costs.undisturbed(stage.devices).tolist() if len(plan.stages) == 1 else [False] * len(stage.devices)
            for entry in stage.layouts:
                for device, undisturbed in zip(stage.devices, resting):
                    known |= {(first_on(self.costs, device), split_of(entry, each, undisturbed)) for each in ("forward", "update")}
        return [key for key in self._keys if key in known]

    def _perturbed_costs(self, key: Key, sign: int) -> Costs:
        if (key, sign) not in self._perturbed:
            moved = {**self._reference, key: self._reference.get(key, 0.0) + sign * PERTURBATION}
            self._perturbed[key, sign] = self._with_factors(moved, {})
        return self._perturbed[key, sign]

    def _with_factors(self, log_factors: Mapping[Key, float], relative: Mapping[Cell, float]) -> Costs:
        return Costs(dataclasses.replace(self.measured, corrections=self._corrections(log_factors, relative)))

    def _corrections(self, log_factors: Mapping[Key, float], relative: Mapping[Cell, float]) -> Corrections:
        levels = {level: log_factors.get(level, 0.0) for level in self._levels}
        factors = layer_factors(self.measured, levels, relative)
        return Corrections(factors, math.exp(log_factors.get(LINKS, 0.0)), math.exp(log_factors.get(LAUNCH, 0.0)))


def prediction(costs: Costs, plan: Plan) -> Prediction:
    """Return the prediction of a plan.

    Parameters
    ----------
    costs : Costs of a profile of the plan's network and cluster.
    plan : the plan.

    Raises
    ------
    PlanError
        If it has none.
    """
    predicted = predict_plan(costs, plan)
    if predicted is None:
        raise PlanError("stages that run one after another have no prediction to refine", "use a plan that hm.plan makes")
    return predicted
