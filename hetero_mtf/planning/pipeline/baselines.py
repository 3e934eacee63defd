"""Baselines of a pipeline: an equal partition on the same devices, and its own stages without microbatches."""

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
    """Return the simpler plans that a pipeline is compared with, by their names; none for a plan of one stage."""
    if len(plan.stages) < 2:
        return {}
    equal_plan = equal_pipeline(graph, plan)
    baselines = {f"equal partition into {len(plan.stages)} stages": equal_plan} if equal_plan is not None else {}
    if plan.microbatches > 1:
        baselines["same stages, no microbatches"] = _changed(plan, microbatches=1)
    return baselines


def equal_pipeline(graph: LayerGraph, plan: Plan) -> Plan | None:
    """Return the pipeline with equally many blocks in each stage of a plan; None where there are fewer blocks than stages.

    It has the plan's microbatches, schedule, replicas and devices, at the same places. Replicas have equal samples. The devices of a
    stage have equal samples where the stage splits nothing else, else equal filters. Where some replicas have more devices in a stage
    than others, all have as many as the one with the fewest.

    Parameters
    ----------
    plan : a plan of several stages for the network.
    """
    chain, count = blocks(graph), len(plan.stages)
    if count > len(chain):
        return None
    stops = list(itertools.accumulate(equal_sizes(len(chain), count).sizes))
    firsts = [chain[end][0] if end < len(chain) else len(graph.layers) for end in (0, *stops)]
    replicas = equal_sizes(plan.batch_size, max(len(plan.replicas), 1)).sizes
    groups = [_group(stage, len(replicas)) for stage in plan.stages]
    stages = tuple(group_stage(graph, first, end, group, replicas) for first, end, group in zip(firsts, firsts[1:], groups))
    return _changed(plan, stages=stages, replicas=replicas if plan.replicas else ())


def _group(stage: Stage, replicas: int) -> Group:
    members = len(stage.devices) // replicas
    rows = tuple(tuple(stage.devices[row * members : (row + 1) * members]) for row in range(replicas))
    splits_batch = any(entry.samples for entry in stage.layouts) and not any(entry.sizes for entry in stage.layouts)
    return Group(rows, (1.0,) * members, "batch" if splits_batch else "filters")


def _changed(plan: Plan, **changes: object) -> Plan:
    """Return a plan with changes, without the predictions and the proof of the plan before."""
    nothing = {"predicted": None, "proof": None, "alternatives": (), "contributions": (), "depths": ()}
    return dataclasses.replace(plan, **{**nothing, **changes})  # type: ignore[arg-type]
