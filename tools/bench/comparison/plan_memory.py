"""Bytes that each device of any plan is predicted to take, from the network's structure alone, and pipelines of two halves to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def half_pipeline(graph: Any, cluster: Any, batch: int, execution: Any) -> Any:
    """Return the plan of two stages, each with half of the network's blocks, the first on device 0 and the second on device 1.

    Parameters
    ----------
    graph : LayerGraph.
    cluster : live cluster or its record.
    batch : samples a step.
    execution : schedule, microbatches and whether activations are recomputed.
    """
    import hetero_mtf as hm
    from hetero_mtf.planning.layout.blocks import blocks

    chain = blocks(graph)
    head = graph, [1, chain[len(chain) // 2][0]], [[0], [1]], [[1], [1]], cluster, batch, execution.microbatches
    return hm.Plan.pipeline(*head, schedule=execution.schedule, recompute=execution.recompute, stale=execution.stale)


def predicted_bytes(graph: Any, plan: Any, cluster: Any, optimizer: Any = None) -> dict[int, int]:
    """Return device -> bytes that it is predicted to take at most, by the planner's own model and without any measured profile.

    Parameters
    ----------
    graph : LayerGraph.
    plan : of one stage or of several.
    cluster : ClusterRecord.
    optimizer : OptimizerSpec, whose slots count; None for SGD with momentum.

    Notes
    -----
    Devices of several stages hold all of them. O(layers * devices).
    """
    from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes
    from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
    from hetero_mtf.planning.profile.profile import Profile
    from hetero_mtf.planning.schedule.microbatches import microbatch_sizes

    spec = OptimizerSpec("sgd", momentum=0.9) if optimizer is None else optimizer

    def profile(samples: int) -> Any:
        return Profile(cluster, graph, samples, (), (), cluster.pools, spec, "2026-01-01", {})

    if not (plan.pipelined or plan.recompute):
        return dict(zip(plan.stages[0].devices, stage_memory_bytes(profile(plan.batch_size), plan.stages[0])))
    size = max(microbatch_sizes(plan.batch_size, plan.microbatches))
    held: dict[int, int] = {}
    for stage, peaks in zip(plan.stages, _stage_peaks(profile(size), plan, size)):
        for device, peak in zip(stage.devices, peaks):
            held[device] = held.get(device, 0) + peak
    return held


def _stage_peaks(profile: Any, plan: Any, size: int) -> Sequence[tuple[int, ...]]:
    """Return the (stages, processors) bytes of the stages of a pipeline."""
    from hetero_mtf.planning.memory.stage_memory import stage_bytes
    from hetero_mtf.planning.names import STALE_SCHEDULES
    from hetero_mtf.planning.pipeline.group_stages import with_samples
    from hetero_mtf.planning.pipeline.stale.prediction import held_bytes
    from hetero_mtf.planning.schedule.clock_table import clock_table, in_flight

    parts = [with_samples(stage, size) for stage in plan.stages]
    if plan.schedule in STALE_SCHEDULES and len(parts) > 1:
        return [held_bytes(profile, stage, number, len(parts), plan.execution) for number, stage in enumerate(parts)]
    schedule = "1f1b" if plan.schedule in ("synchronous", *STALE_SCHEDULES) else plan.schedule
    most = in_flight(clock_table(schedule, [stage.devices for stage in parts], plan.microbatches, plan.depths or None))
    return [stage_bytes(profile, stage, plan.recompute).peak(count) for stage, count in zip(parts, most)]
