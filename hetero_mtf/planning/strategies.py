"""Strategies: ways to make a plan from a profile, and `plan`, which picks among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from hetero_mtf.errors import PlanError, ProfileError
from hetero_mtf.planning.cost import Costs, predict
from hetero_mtf.planning.filters import Candidate, best_filters
from hetero_mtf.planning.memory import lack_of_memory, optimizer_name
from hetero_mtf.planning.plan import Plan
from hetero_mtf.planning.profile import Profile
from hetero_mtf.planning.records import Alternative
from hetero_mtf.planning.typed import device_names, filter_stage, single_stage
from hetero_mtf.units import seconds_text

Strategy = Callable[[Costs], Candidate]


def plan(profile: Profile, batch_size: int | None = None, strategy: str = "auto", optimizer: object = None) -> Plan:
    """Return the plan a strategy makes for the network and cluster of a profile.

    Parameters
    ----------
    profile : Profile; neither the model nor its devices need be present.
    batch_size : samples a step; None for that of the profile, the only one its curves hold for.
    strategy : "single" (the fastest device alone), "even" (filters split equally), "filters" (split by measured speed), or
        "auto", the cheapest of those that fit in memory.
    optimizer : optimizer to train with, a name or a Keras optimizer; None for that of the profile.

    Returns
    -------
    Plan with its prediction; that of "auto" lists the strategies not taken, with their predicted seconds.

    Raises
    ------
    PlanError
        If the strategy is unknown, or no plan fits in memory.
    ProfileError
        If it is no profile, was measured at another batch size or for another optimizer, or lacks a curve or link.
    """
    if not isinstance(profile, Profile):
        raise ProfileError(f"the profile is {profile!r:.60}, not a Profile; make one with hm.calibrate or read one with hm.Profile.load")
    _check_asked(profile, batch_size, optimizer)
    if strategy != "auto" and strategy not in STRATEGIES:
        raise PlanError(f"strategy {strategy!r} is unknown; use one of auto, {', '.join(STRATEGIES)}")
    costs = Costs(profile)
    if strategy == "auto":
        return _cheapest(costs)
    candidate = STRATEGIES[strategy](costs)
    lack = lack_of_memory(profile, candidate.stage)
    if lack:
        raise PlanError(f"the plan by strategy {strategy} {lack}; use a smaller batch or another strategy")
    return _made(profile, strategy, candidate)


def single(costs: Costs) -> Candidate:
    """Return the device alone on which a step is cheapest among those it fits on, or the cheapest of all if it fits on none.

    Parameters
    ----------
    costs : Costs of a profile.
    """
    stages = [single_stage(costs.graph, device) for device in range(len(costs.profile.cluster.devices))]
    candidates = [Candidate(stage, predict(costs, stage)) for stage in stages]
    return min(candidates, key=lambda c: (bool(lack_of_memory(costs.profile, c.stage)), c.prediction.step_s))


def even(costs: Costs) -> Candidate:
    """Return the equal split of filters over all devices, columns and rows in pairs.

    Parameters
    ----------
    costs : Costs of a profile.
    """
    stage = filter_stage(costs.graph, [1.0] * len(costs.profile.cluster.devices), "pairs")
    return Candidate(stage, predict(costs, stage))


STRATEGIES: Mapping[str, Strategy] = {"single": single, "even": even, "filters": best_filters}
"""The one place to add a strategy; `auto` considers all of them, an earlier one first where two cost the same."""


def _check_asked(profile: Profile, batch_size: int | None, optimizer: object) -> None:
    if batch_size is not None and batch_size < 1:
        raise PlanError(f"the batch size is {batch_size}; use at least 1")
    if batch_size not in (None, profile.batch_size):
        asked_for = f"the profile was measured at batch size {profile.batch_size} and {batch_size} is asked for"
        raise ProfileError(f"{asked_for}; calibrate again with --batch-size {batch_size}")
    if optimizer is None:
        return
    asked, measured = optimizer_name(optimizer), optimizer_name(profile.optimizer)
    if asked != measured:
        raise ProfileError(f"the profile was measured for the optimizer {measured} and {asked} is asked for; calibrate again with {asked}")


def _cheapest(costs: Costs) -> Plan:
    candidates = {name: make(costs) for name, make in STRATEGIES.items()}
    lacks = {name: lack_of_memory(costs.profile, candidate.stage) for name, candidate in candidates.items()}
    fitting = [name for name in candidates if not lacks[name]]
    if not fitting:
        reasons = ", ".join(f"{name} {lack}" for name, lack in lacks.items())
        raise PlanError(f"no strategy fits in memory ({reasons}); use a smaller batch or network")
    chosen = min(fitting, key=lambda name: candidates[name].prediction.step_s)
    best_s = candidates[chosen].prediction.step_s
    others = tuple(_alternative(name, c, lacks[name], chosen, best_s) for name, c in candidates.items() if name != chosen)
    return dataclasses.replace(_made(costs.profile, chosen, candidates[chosen]), alternatives=others)


def _alternative(name: str, candidate: Candidate, lack: str, chosen: str, best_s: float) -> Alternative:
    step_s = candidate.prediction.step_s
    times = step_s / best_s if best_s > 0 else 1.0
    same = times < 1.0005
    reason = lack or f"{seconds_text(step_s)} a step, {'no less than' if same else f'{times:.2f} times'} strategy {chosen}"
    return Alternative(name, step_s, reason)


def _made(profile: Profile, strategy: str, candidate: Candidate) -> Plan:
    graph, names = profile.graph, device_names(profile.cluster)
    stages = (candidate.stage,)
    return Plan(graph.digest, graph.dtype, profile.batch_size, strategy, names, stages, predicted=candidate.prediction)
