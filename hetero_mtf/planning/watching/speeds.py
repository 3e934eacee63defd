"""How much faster or slower devices are than in the profile, estimated from a change of the steps and traces of one plan."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Mapping, Sequence

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import DevicePart
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import scaled
from hetero_mtf.planning.refinement.corrector import PERTURBATION, prediction
from hetero_mtf.planning.refinement.factors import device_levels
from hetero_mtf.planning.refinement.observations import first_on, observations
from hetero_mtf.planning.refinement.plan_run import PlanRun
from hetero_mtf.planning.refinement.step_factors import STEP_SPREAD, Key, StepResidual, step_factors
from hetero_mtf.planning.watching.evidence import Evidence
from hetero_mtf.planning.watching.step_watch import Baseline

START_STEP, START_LEVEL = math.log(1.25), math.log(1.4)  # beyond the profile, from where a device has changed before the run
LEVEL_SPREAD = 0.15  # of the traced level of a device, of ln(seconds)
ITERATIONS = 3
AS_MEASURED = 0.1  # in ln(seconds): a device this near to its speed in the profile has that speed

LogFactors = Mapping[int, float]
"""Device -> ln of how many times as long its layers take as by the profile; a device that is not in it has 0."""


def profile_at(profile: Profile, log_factors: LogFactors) -> Profile:
    """Return the profile whose curves are those of devices that take so many times as long.

    Parameters
    ----------
    profile : the refined profile.
    log_factors : of its devices.
    """
    for device, log_factor in sorted(log_factors.items()):
        profile = scaled(profile, profile.cluster.devices[device].name, math.exp(-log_factor))
    return profile


def evidence_at_start(profile: Profile, plan: Plan, baseline: Baseline, before: LogFactors) -> Evidence | None:
    """Return evidence of devices that are slower than was thought when a plan's steps began; None where there is none.

    Parameters
    ----------
    profile : the refined profile.
    plan : the plan in force.
    baseline : how it runs.
    before : what is thought of its devices: after changes that were found before.

    Notes
    -----
    Layers in a step may differ from a profile by more than from other steps, so it takes more for evidence than later on. A device that
    was slower than in the profile may have recovered: it is no longer what the step waits for, so its layers alone tell.
    """
    costs = Costs(profile_at(profile, before))
    predicted = prediction(costs, plan)
    predicted_s = predicted.step_s
    run = PlanRun(plan, (baseline.step_s,), baseline.traces, predicted_s, predicted_s)
    observed = device_levels(observations(costs, [run]))
    level_of = sorted((observed or _levels_in_all(costs, predicted.parts, baseline)).items())
    is_longer = math.log(baseline.step_s / predicted_s) >= START_STEP
    slower = [device for device, level in level_of if level >= START_LEVEL and is_longer]
    recovered = [device for device, level in level_of if level <= -START_LEVEL and before.get(device, 0.0) >= START_LEVEL]
    changed = tuple(sorted([*slower, *recovered]))
    return Evidence(dict(level_of), changed, baseline.step_s, predicted_s, baseline.spread / 2) if changed else None


def _levels_in_all(costs: Costs, parts: Sequence[DevicePart], baseline: Baseline) -> dict[int, float]:
    """Return ln of the ratio of all traced to all predicted compute of each device, of a plan whose layers run more than once a step."""
    index_of = {device.name: at for at, device in enumerate(costs.profile.cluster.devices)}
    predicted_s: dict[int, float] = collections.defaultdict(float)
    for part in parts:
        predicted_s[first_on(costs, index_of[part.device])] += part.compute_s
    traced_s: dict[int, float] = collections.defaultdict(float)
    for (device, _, _), seconds in baseline.passes.items():
        traced_s[first_on(costs, device)] += seconds
    return {device: math.log(traced_s[device] / seconds) for device, seconds in predicted_s.items() if seconds * traced_s[device] > 0}


def log_factors_after(profile: Profile, plan: Plan, before: LogFactors, evidence: Evidence) -> dict[int, float]:
    """Return the factors of all devices after a change.

    Parameters
    ----------
    profile : the refined profile.
    plan : the plan whose steps and traces showed the change.
    before : the factors that the reference of the evidence was taken with.
    evidence : the change.

    Notes
    -----
    Only devices that have changed get another factor. Their levels in traces and the change of the whole step are measurements of it,
    joined as in refinement (`step_factors`), with slopes of predictions about the estimate so far. A device limited to a share of a core
    works ahead of its limit after waits; one that comes as near to the profile as that explains is taken to be as in the profile.
    """
    keys: dict[int, Key] = {device: (device, "all") for device in evidence.changed}
    log_step = math.log(evidence.step_s / evidence.reference_s)
    reference_s = _predicted_s(profile, plan, before)

    def log_ratio(change: Mapping[int, float]) -> float:
        return math.log(_predicted_s(profile, plan, _sum(before, change)) / reference_s)

    change = {device: evidence.levels[device] for device in keys}
    for _ in range(ITERATIONS):
        slopes = {key: _slope(log_ratio, change, device) for device, key in keys.items()}
        step = StepResidual(log_step - log_ratio(change), max(STEP_SPREAD, evidence.spread), slopes)
        traced = [StepResidual(evidence.levels[d] - change[d], LEVEL_SPREAD, {key: 1.0}) for d, key in keys.items()]
        estimate = step_factors(list(keys.values()), [step, *traced], {key: change[d] for d, key in keys.items()})
        change = {device: estimate[key] for device, key in keys.items()}
    after = _sum(before, change)
    return {device: factor for device, factor in after.items() if device not in keys or not _is_as_measured(profile, device, factor)}


def _is_as_measured(profile: Profile, device: int, factor: float) -> bool:
    share = min(1.0, profile.cluster.devices[device].share)
    return math.log(share) - AS_MEASURED <= factor <= AS_MEASURED


def _sum(one: LogFactors, other: LogFactors) -> dict[int, float]:
    return {device: one.get(device, 0.0) + other.get(device, 0.0) for device in sorted({*one, *other})}


def _slope(log_ratio: Callable[[Mapping[int, float]], float], change: Mapping[int, float], device: int) -> float:
    """Return a central difference, as in refinement."""
    above, below = (log_ratio({**change, device: change[device] + sign * PERTURBATION}) for sign in (1, -1))
    return (above - below) / (2 * PERTURBATION)


def _predicted_s(profile: Profile, plan: Plan, log_factors: LogFactors) -> float:
    return prediction(Costs(profile_at(profile, log_factors)), plan).step_s
