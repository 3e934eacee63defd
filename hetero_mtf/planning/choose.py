"""`plan` and `plan_if`: the plan of one strategy, or the cheapest plan of all strategies.

Strategy "auto" minimises T(P) over the plans P of all strategies that fit in memory; T is the predicted seconds of a step.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from hetero_mtf.errors import NothingToSplitError, PlanError, ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.gradient_buckets import bucket_bytes
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.link_cost import collective_rules
from hetero_mtf.planning.cost.step_cost import predict
from hetero_mtf.planning.layout.arrangement import splits_batch, takes_statistics
from hetero_mtf.planning.layout.manual import device_names, filter_stage, single_stage
from hetero_mtf.planning.layout.records import Alternative
from hetero_mtf.planning.memory.shortfall import lack_of_memory, short_bytes
from hetero_mtf.planning.names import GRADIENT_SYNCS, PIPELINE, PIPELINE_STRATEGIES, STRATEGY_NAMES
from hetero_mtf.planning.pipeline.device_groups import ALL_GROUPS_UP_TO
from hetero_mtf.planning.pipeline.plans import pipeline_alternative, pipeline_plan
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.pipeline.stale.choice import with_stale
from hetero_mtf.planning.plan.collective_rule import one_method
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.optimizer_spec import optimizer_name
from hetero_mtf.planning.profile.prediction_error import prediction_error
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.profile.what_if import WhatIf, what_if_clauses, what_if_profile
from hetero_mtf.planning.strategies.batch import best_batch
from hetero_mtf.planning.strategies.contribution import device_contributions, without_slowing_devices
from hetero_mtf.planning.strategies.filters import best_filters
from hetero_mtf.planning.strategies.fitting import fitting
from hetero_mtf.planning.strategies.grid import best_grid
from hetero_mtf.planning.strategies.hybrid import best_hybrid
from hetero_mtf.planning.strategies.layers import best_layers, proven
from hetero_mtf.planning.strategies.reasons import bottleneck_part, relative_step, why_longer
from hetero_mtf.planning.strategies.space import best_space, measured_in_slabs
from hetero_mtf.planning.strategies.split_search import Candidate
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
    allow_stale: bool = False,
    collective: str | None = None,
) -> Plan:
    """Return the plan of a strategy for the network and cluster of a profile.

    Parameters
    ----------
    profile : neither the model nor its devices need be present.
    batch_size : samples a step; None for that of the profile, the only one for which its curves hold (`plan_if` extrapolates others).
    strategy : "single" (the fastest device alone), "equal" (filters split equally), "filters" (split by measured speed), "batch"
        (samples split), "hybrid" (samples up to the dense layers, hidden units in them), "grid" (samples along one axis of a mesh
        and filters along the other, for four devices or more), "space" (one spatial dimension, where batches are so small that it was
        measured), "layers" (the optimal layout of each layer), "pipeline" (stages of layers, each on a device or a group), or "auto",
        the cheapest of those that fit in memory; a pipeline of a network with batch norm, whose statistics are then those of
        microbatches, only where `pipeline` asks for it or nothing else fits.
    optimizer : optimizer to train with, a name, the record in a profile, or a Keras optimizer; None for that of the profile.
    gradient_sync : "all_reduce" of gradients, or "butterfly_mixing" of weights, which is not synchronous and goes with the strategies
        "batch" (also that of "auto") and "hybrid", whose dense layers stay synchronous.
    pipeline : options of a pipeline: its allocator, microbatches, stages and schedule; None for any.
    allow_stale : whether "auto" may take a pipeline whose gradients are late, which does not give the numbers of one device.
    collective : method of every all-reduce, such as "ring" (`CollectiveRule.method`); None for the cheapest for each size.

    Returns
    -------
    Plan with its prediction and the contribution of each device; that of "auto" lists the alternatives considered, with reasons.

    Raises
    ------
    PlanError
        If the strategy, `gradient_sync` or `collective` is unknown, the strategy has no plan for this network and cluster or does not
        go with `gradient_sync`, or no plan fits in memory.
    ProfileError
        If the profile is none, was measured at another batch size or for another optimizer, or lacks a curve or link.
    """
    if not isinstance(profile, Profile):
        raise ProfileError(f"the profile is {profile!r:.60}, not a Profile", "make one with hm.calibrate or read one with hm.Profile.load")
    _check_measured(profile, batch_size, optimizer)
    if strategy not in ("auto", *STRATEGY_NAMES):
        raise PlanError(f"strategy {strategy!r} is unknown", f"use one of auto, {', '.join(STRATEGY_NAMES)}")
    if pipeline is not None and strategy not in PIPELINE_STRATEGIES:
        raise PlanError(f"strategy {strategy} takes no options of a pipeline", f"use strategy {PIPELINE} or auto")
    rules = None if collective is None else one_method("all_reduce", collective)
    planned = _planned(Costs(profile, rules), strategy, gradient_sync, pipeline, allow_stale)
    return planned if rules is None else dataclasses.replace(planned, collectives=rules)


def _planned(costs: Costs, strategy: str, gradient_sync: str, pipeline: PipelineOptions | None, allow_stale: bool) -> Plan:
    if gradient_sync != "all_reduce":
        return _mixing(costs, strategy, gradient_sync)
    if strategy == PIPELINE:
        return pipeline_plan(MicrobatchCosts(costs.profile, costs), pipeline)
    if strategy == "auto":
        cheapest = _cheapest(costs, pipeline)
        return with_stale(costs, cheapest, pipeline, _gains_for_sure) if allow_stale else cheapest
    candidate = fitting(costs, strategy, STRATEGIES[strategy](costs))
    return dataclasses.replace(_fitting_plan(costs.profile, strategy, candidate), contributions=device_contributions(costs, candidate))


def candidate_plans(costs: Costs) -> list[Plan]:
    """Return the plan of every strategy that has one with the numbers of one device and fits in memory, in order of predicted step.

    A pipeline is among them if it is predicted to be as fast as the first of the others, within the error of
    predictions.

    Parameters
    ----------
    costs : Costs of a profile.
    """
    candidates, _ = _candidates(costs)
    fits = {name: candidate for name, candidate in candidates.items() if not lack_of_memory(costs.profile, candidate.stage)}
    plans = [_plan(costs.profile, name, without_slowing_devices(costs, candidate)) for name, candidate in fits.items()]
    if not mixes_samples(costs.graph):
        shortest_s = min((_step_s(plan) for plan in plans), default=math.inf)
        below_s = shortest_s * (1 + prediction_error(costs.profile, shortest_s))
        piped = _pipeline(costs, None, below_s)
        plans += [piped] if isinstance(piped, Plan) else []
    return sorted(plans, key=_step_s)


def plan_if(
    profile: Profile,
    what_if: WhatIf,
    batch_size: int | None = None,
    strategy: str = "auto",
    gradient_sync: str = "all_reduce",
    pipeline: PipelineOptions | None = None,
    allow_stale: bool = False,
    collective: str | None = None,
) -> Plan:
    """Return the plan for a hypothetical cluster; it lists the changes.

    Parameters
    ----------
    what_if : hypothetical changes; a batch size that is not that of the profile has its times extrapolated.
    batch_size, strategy, gradient_sync, pipeline, allow_stale, collective : as for `plan`.

    Raises
    ------
    PlanError, ProfileError
        As `plan`, and if a device of `what_if` is not in the profile.
    """
    hypothetical = plan(
        what_if_profile(profile, what_if),
        batch_size,
        strategy,
        gradient_sync=gradient_sync,
        pipeline=pipeline,
        allow_stale=allow_stale,
        collective=collective,
    )
    return dataclasses.replace(hypothetical, what_if=what_if_clauses(profile, what_if))


def single(costs: Costs) -> Candidate:
    """Return the plan on the one device with the shortest predicted step among those with enough memory, else with the least lack."""
    free = {pool.name: pool.free_bytes for pool in costs.profile.memory}
    fastest: dict[int | None, int] = {}  # by free memory: the network needs as much on every device
    for device in np.argsort(costs.alone_s, kind="stable").tolist():
        fastest.setdefault(free.get(costs.profile.cluster.devices[device].pool), device)
    stages = [single_stage(costs.graph, device) for device in fastest.values()]
    candidates = [Candidate(stage, predict(costs, stage)) for stage in stages]
    return min(candidates, key=lambda c: (short_bytes(costs.profile, c.stage, costs.memory), c.prediction.step_s))


def equal(costs: Costs) -> Candidate:
    """Return the equal split of filters over all devices, columns and rows in pairs."""
    stage = filter_stage(costs.graph, [1.0] * len(costs.profile.cluster.devices), "pairs")
    return Candidate(stage, predict(costs, stage))


STRATEGIES: Mapping[str, Strategy] = {
    "single": single,
    "equal": equal,
    "filters": best_filters,
    "batch": best_batch,
    "hybrid": best_hybrid,
    "grid": best_grid,
    "space": best_space,
    "layers": best_layers,
}
"""The one place to add a strategy of one stage. `auto` considers all of them, and then the pipeline; of two that cost the same it takes
the earlier one."""


def _check_measured(profile: Profile, batch_size: int | None, optimizer: object) -> None:
    if batch_size is not None and batch_size < 1:
        raise PlanError(f"the batch size is {batch_size}", "use at least 1")
    if batch_size not in (None, profile.batch_size):
        asked_for = f"the profile was measured at batch size {profile.batch_size} and {batch_size} is asked for"
        remedy = f"calibrate again with --batch-size {batch_size}, or have times extrapolated by hetero-mtf plan --extrapolate"
        raise ProfileError(f"{asked_for}", remedy)
    if optimizer is None:
        return
    asked, measured = optimizer_name(optimizer), profile.optimizer.name
    if asked != measured:
        raise ProfileError(
            f"the profile was measured for the optimizer {measured} and {asked} is asked for", f"calibrate again with {asked}"
        )


def _mixing(costs: Costs, strategy: str, gradient_sync: str) -> Plan:
    """Return the plan whose devices mix their weights: all of them, or those of the layers that split the batch of a hybrid."""
    if gradient_sync not in GRADIENT_SYNCS:
        raise PlanError(f"gradient_sync {gradient_sync!r} is unknown", f"use one of {', '.join(GRADIENT_SYNCS)}")
    if strategy not in ("auto", "batch", "hybrid"):
        raise PlanError(
            f"strategy {strategy} adds gradients up, so gradient_sync cannot be {gradient_sync}", "use strategy batch or hybrid"
        )
    strategy, best = ("hybrid", best_hybrid) if strategy == "hybrid" else ("batch", best_batch)
    candidate = fitting(costs, strategy, best(costs, gradient_sync), gradient_sync)
    if len(candidate.stage.devices) < 2:
        raise PlanError(f"one device alone takes all samples, so there is no weight to mix by {gradient_sync}", "leave gradient_sync out")
    return dataclasses.replace(_fitting_plan(costs.profile, strategy, candidate), gradient_sync=gradient_sync)


def _fitting_plan(profile: Profile, strategy: str, candidate: Candidate) -> Plan:
    """Return the plan of a candidate if it fits in memory."""
    lack = lack_of_memory(profile, candidate.stage)
    if lack:
        raise PlanError(f"the plan by strategy {strategy} {lack}", "use a smaller batch or another strategy")
    return _plan(profile, strategy, candidate)


def _cheapest(costs: Costs, options: PipelineOptions | None) -> Plan:
    """Return the cheapest plan of all that fit; a pipeline where it is predicted to be faster, or nothing else fits.

    In a pipeline, batch norm has the statistics of microbatches instead of those of the batch: then a pipeline needs `options`.
    """
    try:
        best = _cheapest_of_one_stage(costs)
    except PlanError:
        piped = _pipeline(costs, options, math.inf)
        if isinstance(piped, Plan):
            return piped
        raise
    best_s = _step_s(best)
    # where it is asked for, a pipeline is an alternative with its seconds even if it is slower
    piped = _pipeline(costs, options, best_s if options is None else math.inf)
    if isinstance(piped, Alternative):
        return dataclasses.replace(best, alternatives=(*best.alternatives, piped))
    piped_s = _step_s(piped)
    assert best.predicted is not None and piped.predicted is not None
    if piped_s >= best_s or (options is None and mixes_samples(costs.graph)):
        slower = pipeline_alternative(piped, best_s, best.strategy)
        return dataclasses.replace(best, alternatives=(*best.alternatives, slower))
    if best.strategy == "single" and not _gains_for_sure(costs, piped_s, best_s):
        doubtful = Alternative(PIPELINE, piped_s, _doubt(costs, piped_s, best_s), bottleneck_part(piped.predicted))
        return dataclasses.replace(best, alternatives=(*best.alternatives, doubtful))
    slower = Alternative(best.strategy, best_s, relative_step(best_s, piped_s, PIPELINE), bottleneck_part(best.predicted))
    return dataclasses.replace(piped, alternatives=(slower, *best.alternatives))


def _pipeline(costs: Costs, options: PipelineOptions | None, below_s: float) -> Plan | Alternative:
    """Return the best pipeline, or why there is none below some seconds a step; among many devices it is searched with options alone."""
    devices = len(costs.profile.cluster.devices)
    if options is None and devices > PIPELINES_UP_TO:
        return Alternative(PIPELINE, None, f"not searched among {devices} devices without options of a pipeline")
    options = options or PipelineOptions(groups=devices <= ALL_GROUPS_UP_TO)
    try:
        return pipeline_plan(MicrobatchCosts(costs.profile, costs), options, below_s)
    except (NothingToSplitError, PlanError) as fault:
        return Alternative(PIPELINE, None, fault.reason)


def mixes_samples(graph: LayerGraph) -> bool:
    """Return whether the gradient of a sample depends on the other samples of its batch, so that microbatches have other results.

    Parameters
    ----------
    graph : the network.
    """
    return any(takes_statistics(layer) or not splits_batch(layer) for layer in graph.layers)


def _cheapest_of_one_stage(costs: Costs) -> Plan:
    """Return the cheapest plan of one stage, with the other strategies as alternatives."""
    candidates, impossible = _candidates(costs)
    lacks = {name: lack_of_memory(costs.profile, candidate.stage) for name, candidate in candidates.items()}
    fitting_names = [name for name in candidates if not lacks[name]]
    if not fitting_names:
        raise PlanError(_too_large(costs, candidates, lacks))
    chosen = _promising(costs, {name: candidates[name] for name in fitting_names})
    best = candidates[chosen] = without_slowing_devices(costs, candidates[chosen])
    rest = tuple(_alternative(costs, name, candidates, lacks[name], chosen) for name in candidates if name != chosen)
    contributions = device_contributions(costs, best, [candidates[name] for name in fitting_names if name != chosen])
    plan = _plan(costs.profile, chosen, proven(costs, best))
    return dataclasses.replace(plan, alternatives=rest + impossible, contributions=contributions)


def _promising(costs: Costs, fitting_candidates: Mapping[str, Candidate]) -> str:
    """Return the strategy with the shortest predicted step; one device where no other promises to gain more than predictions err."""
    steps = {name: candidate.prediction.step_s for name, candidate in fitting_candidates.items()}
    shortest = min(steps, key=lambda name: steps[name])
    if "single" in steps and not _gains_for_sure(costs, steps[shortest], steps["single"]):
        return "single"
    return shortest


def _gains_for_sure(costs: Costs, step_s: float, single_s: float) -> bool:
    """Return whether a predicted step is shorter than that of one device by more than predictions err."""
    return step_s * (1 + prediction_error(costs.profile, step_s)) < single_s


def _doubt(costs: Costs, step_s: float, single_s: float) -> str:
    """Return why one device is taken although a step is predicted to be shorter."""
    error = prediction_error(costs.profile, step_s)
    return f"{relative_step(step_s, single_s, 'single')}, which is within the error of {error:.0%} that predictions have"


def _step_s(plan: Plan) -> float:
    assert plan.predicted is not None
    return plan.predicted.step_s


def _too_large(costs: Costs, candidates: Mapping[str, Candidate], lacks: Mapping[str, str]) -> str:
    """Return the message that no plan fits in memory."""
    short = {name: short_bytes(costs.profile, candidate.stage, costs.memory) for name, candidate in candidates.items()}
    nearest = min(short, key=lambda name: short[name])
    others = ", ".join(f"{name} {lacking}" for name, lacking in short.items() if name != nearest)
    least = f"the one by strategy {nearest} is nearest to it, it {lacks[nearest]}"
    return f"no plan fits in memory, {least} (bytes that others lack: {others}); use a smaller batch or network"


def _candidates(costs: Costs) -> tuple[dict[str, Candidate], tuple[Alternative, ...]]:
    """Return the candidate of every strategy that has one, and why the others have none."""
    candidates: dict[str, Candidate] = {}
    impossible: list[Alternative] = []
    for name, make in STRATEGIES.items():
        if name == "space" and not measured_in_slabs(costs.profile):
            continue
        try:
            candidates[name] = fitting(costs, name, make(costs))
        except NothingToSplitError as fault:
            impossible.append(Alternative(name, None, fault.reason))
    return candidates, tuple(impossible)


def _alternative(costs: Costs, name: str, candidates: Mapping[str, Candidate], lack: str, chosen: str) -> Alternative:
    """Return a strategy as an alternative that was considered: the memory that it lacks, or which of its parts take longer."""
    candidate, best = candidates[name], candidates[chosen]
    step_s, best_s = candidate.prediction.step_s, best.prediction.step_s
    bottleneck = bottleneck_part(candidate.prediction)
    if lack:
        return Alternative(name, step_s, lack, bottleneck)
    if step_s < best_s and chosen == "single":
        return Alternative(name, step_s, _doubt(costs, step_s, best_s), bottleneck)
    if best_s <= 0 or step_s / best_s < 1.0005:
        return Alternative(name, step_s, f"{seconds_text(step_s)}/step, no less than strategy {chosen}", bottleneck)
    why = why_longer(costs, candidate, best)
    text = relative_step(step_s, best_s, chosen)
    return Alternative(name, step_s, f"{text}: {why}" if why else text, bottleneck)


def _plan(profile: Profile, strategy: str, candidate: Candidate) -> Plan:
    graph, stage, names = profile.graph, candidate.stage, device_names(profile.cluster)
    rules = collective_rules(profile, stage.devices, stage.axes)
    head = graph.digest, graph.dtype, profile.batch_size, strategy, names, (stage,)
    limit = bucket_bytes(profile, stage.devices)
    return Plan(*head, collectives=rules, predicted=candidate.prediction, proof=candidate.proof, bucket_bytes=limit)
