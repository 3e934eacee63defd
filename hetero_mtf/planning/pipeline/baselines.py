"""What a pipeline is to be better than: an equal cut on the same devices, and its own stages without microbatches."""

from __future__ import annotations

import dataclasses
import itertools

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.blocks import blocks
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.layout.stages import Group, group_stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.solvers.apportionment import equal_sizes


def simpler_pipelines(graph: LayerGraph, plan: Plan) -> dict[str, Plan]:
    """Return the simpler plans that a pipeline is set beside, by their names; none for a plan of one stage.

    Parameters
    ----------
    graph : LayerGraph.
    plan : a plan for it.
    """
    if len(plan.stages) < 2:
        return {}
    equal = equal_pipeline(graph, plan)
    found = {f"equal cut into {len(plan.stages)} stages": equal} if equal is not None else {}
    if plan.microbatches > 1:
        found["same stages, no microbatches"] = _typed(plan, microbatches=1)
    return found


def equal_pipeline(graph: LayerGraph, plan: Plan) -> Plan | None:
    """Return the pipeline with equally many blocks in each stage of a plan; None where there are fewer blocks than stages.

    It has the plan's microbatches, schedule, replicas and devices, at the same places. Replicas share samples equally, and so do
    the devices of a stage what they share: samples where the stage splits nothing else, else filters. Where some replicas have
    more devices in a stage than others, all have as many as the one with the fewest.

    Parameters
    ----------
    graph : LayerGraph.
    plan : a plan for it of several stages.
    """
    chain, count = blocks(graph), len(plan.stages)
    if count > len(chain):
        return None
    ends = list(itertools.accumulate(equal_sizes(len(chain), count).sizes))
    firsts = [chain[end][0] if end < len(chain) else len(graph.layers) for end in (0, *ends)]
    replicas = equal_sizes(plan.batch_size, max(len(plan.replicas), 1)).sizes
    groups = [_group(stage, len(replicas)) for stage in plan.stages]
    stages = tuple(group_stage(graph, first, end, group, replicas) for first, end, group in zip(firsts, firsts[1:], groups))
    return _typed(plan, stages=stages, replicas=replicas if plan.replicas else ())


def _group(stage: Stage, replicas: int) -> Group:
    members = len(stage.devices) // replicas
    rows = tuple(tuple(stage.devices[row * members : (row + 1) * members]) for row in range(replicas))
    splits_batch = any(entry.samples for entry in stage.layouts) and not any(entry.sizes for entry in stage.layouts)
    return Group(rows, (1.0,) * members, "batch" if splits_batch else "filters")


def _typed(plan: Plan, **changes: object) -> Plan:
    """Return a plan with changes, without what was reckoned of the plan as it was."""
    nothing = {"predicted": None, "proof": None, "alternatives": (), "contributions": (), "depths": ()}
    return dataclasses.replace(plan, **{**nothing, **changes})  # type: ignore[arg-type]
