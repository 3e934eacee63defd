"""Strategies: ways to make a plan from a profile, and `plan`, which picks among them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from hetero_mtf.errors import NothingToSplitError, PlanError, ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.link_cost import collective_rules
from hetero_mtf.planning.cost.step_cost import Costs, predict
from hetero_mtf.planning.layout.arrangement import splits_batch, takes_statistics
from hetero_mtf.planning.layout.manual import device_names, filter_stage, single_stage
from hetero_mtf.planning.layout.records import Alternative, Prediction
from hetero_mtf.planning.memory.shortfall import lack_of_memory, short_bytes
from hetero_mtf.planning.memory.step_memory import optimizer_name
from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO
from hetero_mtf.planning.pipeline.plans import pipeline_alternative, pipeline_plan
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.plan.names import GRADIENT_SYNCS, PIPELINE, PIPELINE_STRATEGIES, STRATEGY_NAMES
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import WhatIf, what_if_clauses, what_if_profile
from hetero_mtf.planning.strategies.batch import best_batch
from hetero_mtf.planning.strategies.contribution import device_contributions, without_hindrances
from hetero_mtf.planning.strategies.filters import best_filters
from hetero_mtf.planning.strategies.fitting import fitting
from hetero_mtf.planning.strategies.grid import best_grid
from hetero_mtf.planning.strategies.hybrid import best_hybrid
from hetero_mtf.planning.strategies.layers import best_layers, proven
from hetero_mtf.planning.strategies.reasons import bottleneck_part, why_longer
from hetero_mtf.planning.strategies.search import Candidate
from hetero_mtf.units import seconds_text

Strategy = Callable[[Costs], Candidate]
PIPELINES_UP_TO = 16  # devices among which auto looks for a pipeline unasked


def plan(
    profile: Profile,
    batch_size: int | None = None,
    strategy: str = "auto",
    optimizer: object = None,
    gradient_sync: str = "all_reduce",
    pipeline: PipelineOptions | None = None,
) -> Plan:
    """Return the plan a strategy makes for the network and cluster of a profile.

    Parameters
    ----------
    profile : Profile; neither the model nor its devices need be present.
    batch_size : samples a step; None for that of the profile, the only one its curves hold for (`plan_if` extrapolates others).
    strategy : "single" (the fastest device alone), "equal" (filters split equally), "filters" (split by measured speed), "batch"
        (samples split), "hybrid" (samples up to the dense layers, hidden units in them), "grid" (samples along one axis of a mesh
        and filters along the other, for four devices or more), "layers" (each layer as the layout program finds best), "pipeline"
        (stages of layers, each on a device or a group), or "auto", the cheapest of those that fit in memory; a pipeline of a network
        with batch norm, whose statistics are then those of microbatches, only where `pipeline` asks for it or nothing else fits.
    optimizer : optimizer to train with, a name or a Keras optimizer; None for that of the profile.
    gradient_sync : "all_reduce" of gradients, or "butterfly_mixing" of weights, which is not synchronous and goes with strategy
        "batch" alone.
    pipeline : what a pipeline is asked to be: its allocator, microbatches, stages and schedule; None for anything.

    Returns
    -------
    Plan with its prediction and what each device is worth; that of "auto" lists the strategies not taken, and why.

    Raises
    ------
    PlanError
        If the strategy or `gradient_sync` is unknown, the strategy has no plan for this network and cluster or does not go with
        `gradient_sync`, or no plan fits in memory.
    ProfileError
        If it is no profile, was measured at another batch size or for another optimizer, or lacks a curve or link.
    """
    if not isinstance(profile, Profile):
        raise ProfileError(f"the profile is {profile!r:.60}, not a Profile; make one with hm.calibrate or read one with hm.Profile.load")
    _check_asked(profile, batch_size, optimizer)
    if strategy not in ("auto", *STRATEGY_NAMES):
        raise PlanError(f"strategy {strategy!r} is unknown; use one of auto, {', '.join(STRATEGY_NAMES)}")
    if pipeline is not None and strategy not in PIPELINE_STRATEGIES:
        raise PlanError(f"strategy {strategy} has no stages, so no pipeline can be asked for; use strategy {PIPELINE} or auto")
    costs = Costs(profile)
    if gradient_sync != "all_reduce":
        return _mixing(costs, strategy, gradient_sync)
    if strategy == PIPELINE:
        return pipeline_plan(MicrobatchCosts(profile, costs), pipeline)
    if strategy == "auto":
        return _cheapest(costs, pipeline)
    candidate = fitting(costs, strategy, STRATEGIES[strategy](costs))
    return dataclasses.replace(_fitting(profile, strategy, candidate), contributions=device_contributions(costs, candidate))


def plan_if(
    profile: Profile,
    what_if: WhatIf,
    batch_size: int | None = None,
    strategy: str = "auto",
    gradient_sync: str = "all_reduce",
    pipeline: PipelineOptions | None = None,
) -> Plan:
    """Return the plan for a cluster that is otherwise than measured; it says what it supposes.

    Parameters
    ----------
    profile : Profile.
    what_if : what is supposed; its batch size may be another than the profile's, whose times are then extrapolated.
    batch_size, strategy, gradient_sync, pipeline : as for `plan`.

    Raises
    ------
    PlanError, ProfileError
        As `plan`, and if a device that is supposed to change is not in the profile.
    """
    made = plan(what_if_profile(profile, what_if), batch_size, strategy, gradient_sync=gradient_sync, pipeline=pipeline)
    return dataclasses.replace(made, what_if=what_if_clauses(profile, what_if))


def single(costs: Costs) -> Candidate:
    """Return the device alone whose predicted step is shortest among those it fits on, or the one that lacks the least memory.

    Parameters
    ----------
    costs : Costs of a profile.
    """
    free = {pool.name: pool.free_bytes for pool in costs.profile.memory}
    fastest: dict[int | None, int] = {}  # by the memory that is free for it: all devices hold as much
    for device in np.argsort(costs.alone_s, kind="stable").tolist():
        fastest.setdefault(free.get(costs.profile.cluster.devices[device].pool), device)
    stages = [single_stage(costs.graph, device) for device in fastest.values()]
    candidates = [Candidate(stage, predict(costs, stage)) for stage in stages]
    return min(candidates, key=lambda c: (short_bytes(costs.profile, c.stage, costs.memory), c.prediction.step_s))


def equal(costs: Costs) -> Candidate:
    """Return the equal split of filters over all devices, columns and rows in pairs.

    Parameters
    ----------
    costs : Costs of a profile.
    """
    stage = filter_stage(costs.graph, [1.0] * len(costs.profile.cluster.devices), "pairs")
    return Candidate(stage, predict(costs, stage))


STRATEGIES: Mapping[str, Strategy] = {
    "single": single,
    "equal": equal,
    "filters": best_filters,
    "batch": best_batch,
    "hybrid": best_hybrid,
    "grid": best_grid,
    "layers": best_layers,
}
"""The one place to add a strategy of one stage; `auto` considers all of them, an earlier one first where two cost the same, and then
the pipeline."""


def _check_asked(profile: Profile, batch_size: int | None, optimizer: object) -> None:
    if batch_size is not None and batch_size < 1:
        raise PlanError(f"the batch size is {batch_size}; use at least 1")
    if batch_size not in (None, profile.batch_size):
        asked_for = f"the profile was measured at batch size {profile.batch_size} and {batch_size} is asked for"
        remedy = f"calibrate again with --batch-size {batch_size}, or have times extrapolated by hetero-mtf plan --extrapolate"
        raise ProfileError(f"{asked_for}; {remedy}")
    if optimizer is None:
        return
    asked, measured = optimizer_name(optimizer), optimizer_name(profile.optimizer)
    if asked != measured:
        raise ProfileError(f"the profile was measured for the optimizer {measured} and {asked} is asked for; calibrate again with {asked}")


def _mixing(costs: Costs, strategy: str, gradient_sync: str) -> Plan:
    """Return the batch split whose devices mix their weights."""
    if gradient_sync not in GRADIENT_SYNCS:
        raise PlanError(f"gradient_sync {gradient_sync!r} is unknown; use one of {', '.join(GRADIENT_SYNCS)}")
    if strategy not in ("auto", "batch"):
        raise PlanError(f"strategy {strategy} adds gradients up, so gradient_sync cannot be {gradient_sync}; use strategy batch")
    candidate = fitting(costs, "batch", best_batch(costs, gradient_sync), gradient_sync)
    if len(candidate.stage.devices) < 2:
        raise PlanError(f"one device alone takes all samples, so there is no weight to mix by {gradient_sync}; leave gradient_sync out")
    return dataclasses.replace(_fitting(costs.profile, "batch", candidate), gradient_sync=gradient_sync)


def _fitting(profile: Profile, strategy: str, candidate: Candidate) -> Plan:
    lack = lack_of_memory(profile, candidate.stage)
    if lack:
        raise PlanError(f"the plan by strategy {strategy} {lack}; use a smaller batch or another strategy")
    return _made(profile, strategy, candidate)


def _cheapest(costs: Costs, wish: PipelineOptions | None) -> Plan:
    """Return the cheapest plan of all that fit; a pipeline where it is predicted to be faster, or nothing else fits.

    Batch norm takes the statistics of microbatches, not those of the batch that one device would take: then a pipeline has to be asked for.
    """
    try:
        best = _cheapest_of_one_stage(costs)
    except PlanError:
        piped = _pipeline(costs, wish, math.inf)
        if isinstance(piped, Plan):
            return piped
        raise
    piped = _pipeline(costs, wish, best.predicted.step_s if best.predicted is not None and wish is None else math.inf)
    if isinstance(piped, Alternative):
        return dataclasses.replace(best, alternatives=(*best.alternatives, piped))
    assert best.predicted is not None and piped.predicted is not None
    if piped.predicted.step_s >= best.predicted.step_s or (wish is None and _mixes_samples(costs.graph)):
        lost = pipeline_alternative(piped, best.predicted.step_s, best.strategy)
        return dataclasses.replace(best, alternatives=(*best.alternatives, lost))
    beaten = Alternative(best.strategy, best.predicted.step_s, _times(best.predicted, piped.predicted), bottleneck_part(best.predicted))
    return dataclasses.replace(piped, alternatives=(beaten, *best.alternatives))


def _pipeline(costs: Costs, wish: PipelineOptions | None, below_s: float) -> Plan | Alternative:
    """Return the best pipeline, or why there is none below some seconds a step.

    Among many devices only one that is asked for is looked for.
    """
    devices = len(costs.profile.cluster.devices)
    if wish is None and devices > PIPELINES_UP_TO:
        return Alternative(PIPELINE, None, f"not looked for among {devices} devices unless asked for")
    wish = wish or PipelineOptions(groups=devices <= ALL_GROUPS_UP_TO)
    try:
        return pipeline_plan(MicrobatchCosts(costs.profile, costs), wish, below_s)
    except (NothingToSplitError, PlanError) as fault:
        return Alternative(PIPELINE, None, str(fault).split(";")[0])


def _mixes_samples(graph: LayerGraph) -> bool:
    """Return whether what becomes of a sample in training depends on those beside it."""
    return any(takes_statistics(layer) or not splits_batch(layer) for layer in graph.layers)


def _times(other: Prediction, best: Prediction) -> str:
    times = f", {other.step_s / best.step_s:.2f} times strategy {PIPELINE}" if best.step_s > 0 else ""
    return f"{seconds_text(other.step_s)} a step{times}"


def _cheapest_of_one_stage(costs: Costs) -> Plan:
    candidates, none = _candidates(costs)
    lacks = {name: lack_of_memory(costs.profile, candidate.stage) for name, candidate in candidates.items()}
    able = [name for name in candidates if not lacks[name]]
    if not able:
        short = {name: short_bytes(costs.profile, candidate.stage, costs.memory) for name, candidate in candidates.items()}
        nearest = min(short, key=lambda name: short[name])
        others = ", ".join(f"{name} {lacking}" for name, lacking in short.items() if name != nearest)
        least = f"the one by strategy {nearest} is nearest to it, it {lacks[nearest]}"
        raise PlanError(f"no plan fits in memory, {least} (bytes that others lack: {others}); use a smaller batch or network")
    chosen = min(able, key=lambda name: candidates[name].prediction.step_s)
    best = candidates[chosen] = without_hindrances(costs, candidates[chosen])
    rest = tuple(_alternative(costs, name, candidates, lacks[name], chosen) for name in candidates if name != chosen)
    contributions = device_contributions(costs, best, [candidates[name] for name in able if name != chosen])
    return dataclasses.replace(_made(costs.profile, chosen, proven(costs, best)), alternatives=rest + none, contributions=contributions)


def _candidates(costs: Costs) -> tuple[dict[str, Candidate], tuple[Alternative, ...]]:
    """Return the plan of every strategy that has one, and why the others have none."""
    found: dict[str, Candidate] = {}
    none: list[Alternative] = []
    for name, make in STRATEGIES.items():
        try:
            found[name] = fitting(costs, name, make(costs))
        except NothingToSplitError as fault:
            none.append(Alternative(name, None, str(fault).split(";")[0]))
    return found, tuple(none)


def _alternative(costs: Costs, name: str, candidates: Mapping[str, Candidate], lack: str, chosen: str) -> Alternative:
    """Return why a strategy was not taken: what it lacks, or which of its parts take longer."""
    candidate, best = candidates[name], candidates[chosen]
    step_s, best_s = candidate.prediction.step_s, best.prediction.step_s
    bottleneck = bottleneck_part(candidate.prediction)
    if lack:
        return Alternative(name, step_s, lack, bottleneck)
    times = step_s / best_s if best_s > 0 else 1.0
    if times < 1.0005:
        return Alternative(name, step_s, f"{seconds_text(step_s)} a step, no less than strategy {chosen}", bottleneck)
    why = why_longer(costs, candidate, best)
    told = f"{seconds_text(step_s)} a step, {times:.2f} times strategy {chosen}"
    return Alternative(name, step_s, f"{told}: {why}" if why else told, bottleneck)


def _made(profile: Profile, strategy: str, candidate: Candidate) -> Plan:
    graph, stage, names = profile.graph, candidate.stage, device_names(profile.cluster)
    rules = collective_rules(profile, stage.devices, stage.axes)
    made = Plan(graph.digest, graph.dtype, profile.batch_size, strategy, names, (stage,), collectives=rules, predicted=candidate.prediction)
    return dataclasses.replace(made, proof=candidate.proof)
