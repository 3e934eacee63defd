"""Plans by strategy pipeline: the best pipeline, its proof, and whether it fits in memory."""

from __future__ import annotations

import math

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.layout.blocks import blocks
from hetero_mtf.planning.layout.manual import device_names
from hetero_mtf.planning.layout.records import Alternative, Proof
from hetero_mtf.planning.memory.shortfall import pool_lack
from hetero_mtf.planning.names import BACKWARDS, PIPELINE, STALE_SCHEDULES
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.search import MICROBATCHES, PipelineOptions, PredictedPipeline, best_pipeline
from hetero_mtf.planning.pipeline.stale.search import StalePipeline, best_stale_pipeline
from hetero_mtf.planning.plan.plan import Plan, fields_of
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.simulator import ideal_bubble
from hetero_mtf.planning.schedule.stale import StaleOptions
from hetero_mtf.planning.strategies.reasons import bottleneck_part
from hetero_mtf.units import seconds_text


def pipeline_plan(costs: MicrobatchCosts, options: PipelineOptions | None = None, below_s: float = math.inf) -> Plan:
    """Return the plan of the best pipeline that fits in memory.

    Parameters
    ----------
    options : requirements of the pipeline; None for none.
    below_s : as for `best_pipeline`.

    Raises
    ------
    NothingToSplitError, PlanError, ProfileError
        As `best_pipeline`, and if the pipeline does not fit in memory.
    """
    if options is not None and options.schedule in STALE_SCHEDULES:
        return stale_plan(costs, options, below_s)
    best = best_pipeline(costs, options, below_s)
    lack = pool_lack(costs.profile, best.prediction.parts)
    if lack:
        raise PlanError(f"the plan by strategy {PIPELINE} {lack}", "use more microbatches, recomputation or another strategy")
    return _plan_of(costs.profile, best)


def stale_plan(costs: MicrobatchCosts, options: PipelineOptions, below_s: float = math.inf) -> Plan:
    """Return the plan of the best pipeline without a flush, whose gradients are late.

    Parameters
    ----------
    options : requirements of the pipeline, its schedule among them.
    below_s : only pipelines with a shorter step are of interest, seconds.

    Raises
    ------
    NothingToSplitError, PlanError, ProfileError
        As `best_stale_pipeline`.
    """
    asked = [name for name, is_asked in (("recompute", options.recompute), ("replicas", options.replicas not in (None, 1))) if is_asked]
    if asked:
        raise PlanError(f"schedule {options.schedule} goes with no option {' or '.join(asked)} when it is searched", "leave it out")
    candidates: list[StalePipeline] = []
    faults: list[PlanError] = []
    for execution in _stale_executions(costs.profile, options):
        shortest_s = min((each.prediction.step_s for each in candidates), default=below_s)
        try:
            candidates.append(best_stale_pipeline(costs, execution, options.stages, options.devices, options.groups, shortest_s))
        except PlanError as fault:
            faults.append(fault)
    if not candidates:
        raise faults[0]
    # each had to be faster than those before it (shortest_s), so the last is the fastest
    best = candidates[-1]
    head = _head(costs.profile)
    return Plan(*head, best.stages, **fields_of(best.execution), predicted=best.prediction)


def _stale_executions(profile: Profile, options: PipelineOptions) -> list[Execution]:
    """Return the microbatches and options to try."""
    choices = [options.stale] if options.stale is not None else [StaleOptions(backward) for backward in BACKWARDS]
    if options.schedule == "decoupled":
        counts = [options.microbatches or 1]
    else:
        divisors = [count for count in MICROBATCHES if profile.batch_size % count == 0]
        counts = [options.microbatches] if options.microbatches is not None else divisors or [profile.batch_size]
    return [Execution(options.schedule, count, stale=choice) for count in counts for choice in choices]


def _head(profile: Profile) -> tuple[str, str, int, str, tuple[str, ...]]:
    graph = profile.graph
    return graph.digest, graph.dtype, profile.batch_size, PIPELINE, device_names(profile.cluster)


def _plan_of(profile: Profile, predicted: PredictedPipeline) -> Plan:
    pipeline = predicted.pipeline
    fields = fields_of(pipeline.execution)
    return Plan(*_head(profile), pipeline.stages, **fields, predicted=predicted.prediction, proof=_proof(profile, predicted))


def pipeline_alternative(plan: Plan, best_s: float, strategy: str) -> Alternative:
    """Return a pipeline as an alternative considered: it is slower, or changes the results of a network with batch norm.

    Parameters
    ----------
    plan : its plan.
    best_s : predicted seconds of a step of the chosen plan.
    strategy : the strategy of that plan.
    """
    assert plan.predicted is not None
    step_s = plan.predicted.step_s
    stages, parts = len(plan.stages), plan.microbatches
    bottleneck = bottleneck_part(plan.predicted)
    ratio = f", {step_s / best_s:.2f} times strategy {strategy}" if best_s > 0 else ""
    duration = f"{seconds_text(step_s)}/step{ratio}"
    if step_s < best_s:
        statistics = f"its layers take statistics of one of {parts} microbatches, not of the batch, so it has to be asked for"
        return Alternative(PIPELINE, step_s, f"{duration}, but {statistics}", bottleneck)
    idle = f"{stages} stages and {parts} microbatches leave equal stages idle for {ideal_bubble(stages, parts):.0%} of a step"
    longest = max(plan.predicted.parts, key=lambda part: part.idle_s)
    return Alternative(PIPELINE, step_s, f"{duration}: {idle}, {longest.device} is idle for {seconds_text(longest.idle_s)}", bottleneck)


def _proof(profile: Profile, predicted: PredictedPipeline) -> Proof:
    allocated, execution = predicted.allocated, predicted.pipeline.execution
    parts, replicas = execution.microbatches, f" in {len(execution.replicas)} replicas" if execution.replicas else ""
    space = (
        f"partitions of {len(blocks(profile.graph))} blocks into stages on groups of devices{replicas} at {parts} microbatches, by "
        f"J = sum of stages and transfers + {parts - 1} x the largest ({allocated.reason})"
    )
    return Proof(allocated.status, allocated.value, allocated.bound, allocated.gap, space)
