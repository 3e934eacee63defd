"""Plans by strategy pipeline: the pipeline that was found, its proof, and whether it fits in memory."""

from __future__ import annotations

import math

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.layout.blocks import blocks
from hetero_mtf.planning.layout.manual import device_names
from hetero_mtf.planning.layout.records import Alternative, Proof
from hetero_mtf.planning.memory.shortfall import pool_lack
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts
from hetero_mtf.planning.pipeline.search import Pipelined, PipelineOptions, best_pipeline
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.schedule.simulator import ideal_bubble
from hetero_mtf.planning.strategies.reasons import bottleneck_part
from hetero_mtf.units import seconds_text

STRATEGY = "pipeline"


def pipeline_plan(costs: MicrobatchCosts, wish: PipelineOptions | None = None, below_s: float = math.inf) -> Plan:
    """Return the plan of the best pipeline that fits in memory.

    Parameters
    ----------
    costs : MicrobatchCosts of a profile.
    wish : what the pipeline is asked to be.
    below_s : as for `best_pipeline`.

    Raises
    ------
    NothingToSplitError, PlanError, ProfileError
        As `best_pipeline`, and if the pipeline does not fit in memory.
    """
    found = best_pipeline(costs, wish, below_s)
    lack = pool_lack(costs.profile, found.prediction.parts)
    if lack:
        raise PlanError(f"the plan by strategy {STRATEGY} {lack}; use more microbatches, recomputation or another strategy")
    return made_plan(costs.profile, found)


def made_plan(profile: Profile, found: Pipelined) -> Plan:
    """Return the plan of a pipeline.

    Parameters
    ----------
    profile : Profile that it was found from.
    found : the pipeline.
    """
    graph, way = profile.graph, found.pipeline
    return Plan(
        graph.digest,
        graph.dtype,
        profile.batch_size,
        STRATEGY,
        device_names(profile.cluster),
        way.stages,
        schedule=way.schedule,
        microbatches=way.microbatches,
        recompute=way.recompute,
        predicted=found.prediction,
        proof=_proof(profile, found),
        replicas=way.replicas,
        depths=way.depths,
    )


def pipeline_alternative(found: Plan, best_s: float, strategy: str) -> Alternative:
    """Return why a pipeline was not taken: it is slower, or changes the numbers of a network with batch norm.

    Parameters
    ----------
    found : its plan.
    best_s : predicted seconds of a step of the plan that was taken.
    strategy : the strategy of that plan.
    """
    assert found.predicted is not None
    step_s = found.predicted.step_s
    stages, parts = len(found.stages), found.microbatches
    bottleneck = bottleneck_part(found.predicted)
    times = f", {step_s / best_s:.2f} times strategy {strategy}" if best_s > 0 else ""
    told = f"{seconds_text(step_s)} a step{times}"
    if step_s < best_s:
        mixed = f"its layers take statistics of one of {parts} microbatches, not of the batch, so it has to be asked for"
        return Alternative(STRATEGY, step_s, f"{told}, but {mixed}", bottleneck)
    idle = f"{stages} stages and {parts} microbatches leave even stages idle for {ideal_bubble(stages, parts):.0%} of a step"
    waits = max(found.predicted.parts, key=lambda part: part.idle_s)
    return Alternative(STRATEGY, step_s, f"{told}: {idle}, {waits.device} waits {seconds_text(waits.idle_s)}", bottleneck)


def _proof(profile: Profile, found: Pipelined) -> Proof:
    allocated, parts = found.allocated, found.pipeline.microbatches
    replicas = f" in {len(found.pipeline.replicas)} replicas" if found.pipeline.replicas else ""
    space = (
        f"cuts of {len(blocks(profile.graph))} blocks into stages on groups of devices{replicas} at {parts} microbatches, by "
        f"J = sum of stages and transfers + {parts - 1} x the largest ({allocated.reason})"
    )
    return Proof(allocated.status, allocated.value, allocated.bound, allocated.gap, space)
