"""Strategy pipeline: a partition of the network into stages on groups of devices, at the best number of microbatches.

Minimise T(M, g, a) over the numbers of microbatches M, the sets of device groups g that stages may have, and the allocator's solution
a(M, g) = argmin J of the chain problem of the network's blocks and g. J is the sum of all stages and transfers plus M - 1 times
the largest of them, T the predicted step of the simulated schedule. Candidates (M, g) are tried by increasing lower bound of J, until
it is not below the best T.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from hetero_mtf.errors import NothingToSplitError, PlanError, ProfileError
from hetero_mtf.planning.allocation.allocate import Allocated, allocate
from hetero_mtf.planning.allocation.genetic import Progress
from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.layer_tables import LayerTables
from hetero_mtf.planning.cost.link_cost import link_lines
from hetero_mtf.planning.layout.blocks import blocks, crossing_bytes
from hetero_mtf.planning.layout.records import Prediction, Stage
from hetero_mtf.planning.names import YARDSTICKS
from hetero_mtf.planning.pipeline.device_groups import (
    MOST_REPLICAS,
    DeviceGroups,
    can_replicate,
    distinct,
    replicated_groups,
    resized,
    undivided_groups,
)
from hetero_mtf.planning.pipeline.group_stages import GroupStages, with_device_samples, with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, least_depths
from hetero_mtf.planning.schedule.execution import Execution
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.planning.schedule.simulator import Simulation
from hetero_mtf.planning.schedule.stale import StaleOptions
from hetero_mtf.units import seconds_text

MICROBATCHES = (2, 4, 8, 16)


@dataclasses.dataclass(frozen=True)
class PipelineOptions:
    """Requirements of a pipeline.

    Parameters
    ----------
    allocator : as for `allocate`.
    microbatches : M; None for the best of 2, 4, 8 and 16 that the batch allows.
    stages : number of stages; None for any from two on.
    schedule : "fill_drain" or "1f1b"; or one without a flush, "decoupled" or "1f1b_2bw", whose gradients are late: then stages are
        placed exactly, and `allocator`, `recompute` and `replicas` do not apply.
    stale : options of a schedule without a flush; None to replay or to store, whichever is faster.
    recompute : whether backward passes recompute activations.
    seed : of the genetic allocator.
    time_limit_s : seconds for each allocation; None for no limit.
    groups : whether a stage may have several devices: any group of them among up to four, among more pairs of neighbours in speed.
    replicas : number of replicas, 1 for none; None for the best number. Several need two devices each and `groups`.
    devices : indices of the devices that may be used; None for all.
    progress : as for `allocate`, from the start for every number of microbatches.
    on_allocated : called with each chain problem and the allocator's answer: one for each number of microbatches and each
        assignment of devices and samples to replicas.
    """

    allocator: str = "auto"
    microbatches: int | None = None
    stages: int | None = None
    schedule: str = "1f1b"
    recompute: bool = False
    seed: int = 0
    time_limit_s: float | None = None
    groups: bool = True
    replicas: int | None = None
    devices: tuple[int, ...] | None = None
    stale: StaleOptions | None = None
    progress: Progress | None = dataclasses.field(default=None, compare=False)
    on_allocated: Callable[[ChainProblem, Allocated], None] | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class PredictedPipeline:
    """A pipeline with its prediction and proof.

    Parameters
    ----------
    pipeline : stages and execution.
    prediction : of one step, seconds and bytes.
    simulation : the time line of the step.
    allocated : the allocator's answer, with the optimum or a bound of J at this number of microbatches.
    """

    pipeline: Pipeline
    prediction: Prediction
    simulation: Simulation
    allocated: Allocated


def best_pipeline(costs: MicrobatchCosts, options: PipelineOptions | None = None, below_s: float = math.inf) -> PredictedPipeline:
    """Return the pipeline with the least predicted step.

    For each number of microbatches the blocks of the network and groups of devices make a `ChainProblem`, which an allocator solves
    for J. Each stage then has the layout that is best for it on its group, and the step is simulated.

    Parameters
    ----------
    options : requirements of the pipeline; None for none.
    below_s : only pipelines whose step may take less are of interest, seconds.

    Raises
    ------
    NothingToSplitError
        If the network has one block only, or the cluster one device, or no pipeline can be below `below_s`.
    PlanError
        If no such pipeline is possible.

    Notes
    -----
    J is the sum over blocks as if each had a layout of its own. Stages on one device each take at most as long as in J, stages on
    groups mostly less. Exact in J where the allocator is; M is chosen by the simulated step.

    References
    ----------
    This project's reading of Akintoye et al., IEEE Access 10 (2022) 77950-77961.
    """
    options = options or PipelineOptions()
    candidates = _candidates(costs, options)
    least = {candidate: _least_s(costs.full_batch, candidate[0], candidate[1].groups) for candidate in candidates}

    @functools.cache
    def stages_of(count: int) -> GroupStages:
        return GroupStages(costs.at(microbatch_sizes(costs.profile.batch_size, count)[0]), count, options.recompute)

    best, faults = None, []
    for candidate in sorted(candidates, key=lambda candidate: least[candidate]):
        if least[candidate] >= (below_s if best is None else best.prediction.step_s):
            break
        try:
            predicted = _best_of_groups(costs, options, stages_of(candidate[0]), candidate[1])
        except PlanError as fault:
            faults.append(fault)
        else:
            best = predicted if best is None or predicted.prediction.step_s < best.prediction.step_s else best
    if best is None and not faults:
        raise NothingToSplitError(f"a pipeline takes at least {seconds_text(min(least.values()))}/step", "use another strategy")
    if best is None:
        raise faults[0]
    return best


def _candidates(costs: MicrobatchCosts, options: PipelineOptions) -> list[tuple[int, DeviceGroups]]:
    """Return the possible numbers of microbatches, each with the groups that stages may have."""
    batch, chain = costs.profile.batch_size, blocks(costs.profile.graph)
    devices = [device for device in distinct(costs.full_batch) if options.devices is None or device in options.devices]
    if len(chain) < 2 or len(devices) < 2:
        lack = f"the network has {len(chain)} blocks and the cluster {len(devices)} devices"
        raise NothingToSplitError(f"{lack}, and a pipeline needs two of each", "use strategy filters or batch")
    if options.microbatches is not None and not 1 <= options.microbatches <= batch:
        raise PlanError(f"{options.microbatches} microbatches cannot be made of a batch of {batch} samples", f"use from 1 to {batch}")
    counts = [options.microbatches] if options.microbatches is not None else [count for count in MICROBATCHES if count <= batch] or [batch]
    candidates = [
        (count, device_groups)
        for device_groups in _device_groups(costs, options, devices)
        for count in counts
        if batch // count >= len(device_groups.replicas)
    ]
    if not candidates:
        words = f"{counts[0]} microbatches of a batch of {batch} samples leave some of {options.replicas} replicas none"
        raise PlanError(f"{words}", f"ask for {batch // (options.replicas or 1)} at most")
    return candidates


def _device_groups(costs: MicrobatchCosts, options: PipelineOptions, devices: Sequence[int]) -> list[DeviceGroups]:
    """Return the groups that stages may have in each number of replicas that the options allow."""
    most = len(devices) // max(2, options.stages or 2)
    possible = can_replicate(costs.full_batch, blocks(costs.profile.graph)) and options.groups
    if options.replicas not in (None, 1) and not (possible and 1 <= options.replicas <= most):
        _refuse_replicas(options, len(devices), most if possible else 1)
    single = [undivided_groups(devices, options.groups)] if options.replicas in (None, 1) else []
    yardstick = options.allocator in YARDSTICKS  # one replica, unless several are asked for
    counts = range(2, 1 if yardstick else min(most, MOST_REPLICAS) + 1) if options.replicas is None else [options.replicas]
    return single + [
        device_groups for count in counts if possible and count > 1 for device_groups in replicated_groups(costs.full_batch, devices, count)
    ]


def _refuse_replicas(options: PipelineOptions, devices: int, most: int) -> None:
    stages = f"{options.stages or 2} stages{'' if options.stages else ' or more'}"
    words = f"{options.replicas} replicas of a pipeline of {stages} cannot be made of {devices} devices"
    raise PlanError(f"{words}", f"ask for {f'{most} at most' if most > 1 else 'one replica'}")


def _least_s(costs: Costs, microbatches: int, groups: Sequence[tuple[int, ...]]) -> float:
    """Return a lower bound of J, in seconds; the speed of devices that share a block is at most the sum of their speeds.

    For work W the first microbatch takes at least W / r, where r is the speed of the fastest group. The slowest stage takes at least
    W / R, where R is the speed of all devices together, once for each of the other M - 1 microbatches.

    Parameters
    ----------
    costs : costs at the full batch.
    microbatches : M.
    groups : the groups that stages may have.
    """
    samples = microbatch_sizes(costs.profile.batch_size, microbatches)[0]
    alone = []
    for block in blocks(costs.graph):
        passes = [(layer, step_pass) for layer in block for step_pass in (FORWARD, BACKWARD)]
        taken = [entry for entry in passes if entry[1] == FORWARD or costs.trains_before[entry[0]]]
        alone.append(sum((_least_pass_s(costs.tables, *entry, samples) for entry in taken), np.full(1, 1e-15)))
    seconds = np.array(alone)
    everyone = sorted({device for group in groups for device in group})
    fastest = np.min([1 / (1 / seconds[:, list(group)]).sum(axis=1) for group in groups], axis=0)
    together = 1 / (1 / seconds[:, everyone]).sum(axis=1)
    return float(fastest.sum() + (microbatches - 1) * together.sum())


def _least_pass_s(tables: LayerTables, layer: int, step_pass: str, samples: int) -> np.ndarray:
    """Return the (devices,) seconds of a layer's pass with some samples, in a split batch or unsplit, whichever is less."""
    split = tables.rows(layer, "batch", step_pass)
    growth = split[:, samples] / np.where(split[:, -1] > 0, split[:, -1], 1.0)
    least_s: np.ndarray = np.minimum(split[:, samples], growth * tables.rows(layer, "replicated", step_pass)[:, -1])
    return least_s


def chain_problem(stages: GroupStages, device_groups: DeviceGroups, options: PipelineOptions) -> ChainProblem:
    """Return the problem of allocating a network's blocks to groups of devices.

    Parameters
    ----------
    stages : stages at a microbatch.
    options : requirements of the pipeline.

    Raises
    ------
    ProfileError
        If a link between two devices was not measured.
    """
    costs, chain, groups = stages.costs, blocks(stages.costs.graph), device_groups.groups
    profile, first = costs.profile, groups[0][0]
    held = [stages.held(block, first) for block in chain]
    besides = max(float((each.temporary + each.beside).max()) for each in held)
    latency, per_byte = link_lines(profile)
    if np.isinf(per_byte).any():
        names = [profile.cluster.devices[int(at)].name for at in np.argwhere(np.isinf(per_byte))[0]]
        raise ProfileError(f"the profile has no link between {' and '.join(names)}", "calibrate again")
    free = {pool.name: pool.free_bytes for pool in profile.memory}
    room = [max(0.0, free.get(device.pool, np.inf) - besides) for device in profile.cluster.devices]
    alone = np.array([stages.alone(block) for block in chain])
    several = [group for group in groups if len(group) > 1]
    kinds: dict[tuple[tuple[int, ...], ...], int] = {}  # blocks of equal layers that read each other in the same way take the same time
    first_of = [kinds.setdefault(_kind(costs, block), at) for at, block in enumerate(chain)]
    layouts = {(group, at): stages.best(chain[at], group, device_groups.replicas) for group in several for at in sorted(set(first_of))}
    seconds = [alone[:, group[0]] if len(group) == 1 else [stages.seconds(layouts[group, at][1]) for at in first_of] for group in groups]
    return ChainProblem(
        seconds=np.array(seconds),
        groups=groups,
        sent_bytes=np.array(crossing_bytes(costs.graph), float) * profile.batch_size,
        latency_s=latency,
        seconds_per_byte=per_byte,
        fixed_bytes=np.array([each.fixed[0] for each in held]),
        kept_bytes=np.array([each.kept[0] for each in held]),
        memory_bytes=np.array(room),
        microbatches=stages.microbatches,
        schedule=options.schedule,
        shares=(device_groups.replicas,) * len(groups) if device_groups.replicas else (),
        replicated_weights=tuple(len(group) > 1 and any(_splits_batch(layouts[group, at][0]) for at in first_of) for group in groups),
        replicas=max(len(device_groups.replicas), 1),
    )


def _kind(costs: Costs, block: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return a key that is equal for blocks whose layers take the same time and read each other in the same way."""
    layers = costs.graph.layers
    return tuple((costs.alike[index], *(source - index for source in layers[index].inputs if source >= block[0])) for index in block)


def _splits_batch(stage: Stage) -> bool:
    return any(entry.samples for entry in stage.layouts)


def _best_of_groups(
    costs: MicrobatchCosts, options: PipelineOptions, stages: GroupStages, device_groups: DeviceGroups
) -> PredictedPipeline:
    """Return the best pipeline of device groups; the samples of replicas are computed once more for its stages."""
    predicted = _laid_out(costs, options, stages, device_groups)
    if not device_groups.replicas:
        return predicted
    new_groups = resized(stages.costs, device_groups, [(stage.layers, stage.devices) for stage in predicted.pipeline.stages])
    if new_groups == device_groups:
        return predicted
    try:
        resampled = _laid_out(costs, options, stages, new_groups)
    except PlanError:  # the new samples do not fit in memory
        return predicted
    return min(predicted, resampled, key=lambda each: each.prediction.step_s)


def _laid_out(costs: MicrobatchCosts, options: PipelineOptions, stages: GroupStages, device_groups: DeviceGroups) -> PredictedPipeline:
    """Return the allocator's pipeline, each stage with the layout that is best for it on its group."""
    batch, chain = costs.profile.batch_size, blocks(costs.profile.graph)
    problem = chain_problem(stages, device_groups, options)
    chosen = _allocated(problem, options)
    runs = chosen.allocation.runs(len(chain))
    laid = [
        stages.best(tuple(itertools.chain(*chain[first:end])), problem.groups[group], device_groups.replicas) for group, first, end in runs
    ]
    depths = _depths(problem, chosen, [stages.seconds(cost) for _, cost in laid]) if options.schedule == "1f1b" else ()
    placed = tuple(
        with_device_samples(stage, device_groups.replicas) if device_groups.replicas else with_samples(stage, batch) for stage, _ in laid
    )
    execution = Execution(options.schedule, stages.microbatches, options.recompute, depths, device_groups.replicas)
    pipeline = Pipeline(placed, execution)
    return PredictedPipeline(pipeline, *predict_pipeline(costs, pipeline), chosen)


def _allocated(problem: ChainProblem, options: PipelineOptions) -> Allocated:
    """Return the allocator's answer with two stages or more; one stage on one device is strategy single."""

    def with_stages(stages: int | None) -> Allocated:
        limit_s, progress = options.time_limit_s, options.progress
        return allocate(problem, options.allocator, stages=stages, seed=options.seed, time_limit_s=limit_s, progress=progress)

    allocated = with_stages(options.stages)
    if options.stages is None and len(allocated.allocation.boundaries) < 2:
        allocated = with_stages(2)
    if options.on_allocated is not None:
        options.on_allocated(problem, allocated)
    return allocated


def _depths(problem: ChainProblem, chosen: Allocated, stage_s: Sequence[float]) -> tuple[int, ...]:
    """Return how many microbatches each stage has in flight: as many as keep the slowest one working during transfers, if they fit."""
    _, transfer_s = problem.spent_s(chosen.allocation)
    count = len(stage_s)
    wanted = tuple(min(problem.microbatches, depth) for depth in least_depths(stage_s, transfer_s.tolist()))
    usual = tuple(min(problem.microbatches, count - at) for at in range(count))
    deeper = tuple(map(max, wanted, usual))
    for depth, (group, first, end) in zip(deeper, chosen.allocation.runs(problem.blocks)):
        if (problem.needed_bytes(group, first, end, depth) > problem.memory_bytes[list(problem.groups[group])]).any():
            return usual
    return deeper
