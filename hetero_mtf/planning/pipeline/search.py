"""Strategy pipeline: the network cut into stages on groups of devices, placed by an allocator, at the best number of microbatches."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from hetero_mtf.errors import NothingToSplitError, PlanError, ProfileError
from hetero_mtf.planning.allocation.allocate import YARDSTICKS, Allocated, allocate
from hetero_mtf.planning.allocation.genetic import Progress
from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.link_cost import link_lines
from hetero_mtf.planning.layout.blocks import blocks, crossing_bytes
from hetero_mtf.planning.layout.records import Prediction, Stage
from hetero_mtf.planning.pipeline.device_groups import (
    MOST_REPLICAS,
    DeviceGroups,
    can_replicate,
    distinct,
    replicated_groups,
    resized,
    undivided_groups,
)
from hetero_mtf.planning.pipeline.group_stages import GroupStages, dealt, with_samples
from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, Pipeline, predict_pipeline
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, least_depths
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.planning.schedule.simulator import Simulation
from hetero_mtf.units import seconds_text

MICROBATCHES = (2, 4, 8, 16)


@dataclasses.dataclass(frozen=True)
class PipelineOptions:
    """What a pipeline is asked to be.

    Parameters
    ----------
    allocator : as for `allocate`.
    microbatches : M; None for the best of 2, 4, 8 and 16 that the batch allows.
    stages : number of stages; None for any from two on.
    schedule : "fill_drain" or "1f1b".
    recompute : whether backward passes compute activations again.
    seed : of the genetic allocator.
    time_limit_s : seconds for each allocation; None for no limit.
    groups : whether a stage may have several devices: any group of them among up to four, among more pairs of neighbours in speed.
    replicas : number of replicas, 1 for none; None for the best number. Several need two devices each and `groups`.
    devices : indices of the devices that may be used; None for all.
    progress : as for `allocate`, at every number of microbatches anew.
    on_allocated : called with each chain problem and the allocator's answer: one for each number of microbatches, and for each way
        of dealing devices and samples to replicas.
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
    progress: Progress | None = dataclasses.field(default=None, compare=False)
    on_allocated: Callable[[ChainProblem, Allocated], None] | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class Pipelined:
    """A pipeline that was found, and what is known of it.

    Parameters
    ----------
    pipeline : its stages and schedule.
    prediction : its predicted step.
    simulation : the time line of the step.
    allocated : the allocator's answer, with the optimum or a bound of J at this number of microbatches.
    """

    pipeline: Pipeline
    prediction: Prediction
    simulation: Simulation
    allocated: Allocated


def best_pipeline(costs: MicrobatchCosts, wish: PipelineOptions | None = None, below_s: float = math.inf) -> Pipelined:
    """Return the pipeline with the least predicted step.

    For each number of microbatches the blocks of the network and groups of devices make a `ChainProblem`, which an allocator solves
    for J; each stage is then laid out as a whole on its group, and the step simulated.

    Parameters
    ----------
    costs : MicrobatchCosts of a profile.
    wish : what it is asked to be; None for anything.
    below_s : only pipelines whose step may take less are of interest, seconds.

    Raises
    ------
    NothingToSplitError
        If the network has one block only, or the cluster one device, or no pipeline can be below `below_s`.
    PlanError
        If no such pipeline is possible.

    Notes
    -----
    J adds blocks up as if each were laid out for itself; stages laid out as a whole take at most as long where they are on one device
    each, as J has it, and mostly less on groups. Exact in J where the allocator is; the choice of M is by the simulated step.

    References
    ----------
    This project's reading of Akintoye et al., IEEE Access 10 (2022) 77950-77961.
    """
    wish = wish or PipelineOptions()
    ways = _ways(costs, wish)
    least = {way: _least_s(costs.whole, way[0], way[1].groups) for way in ways}

    @functools.cache
    def stages_of(count: int) -> GroupStages:
        return GroupStages(costs.at(microbatch_sizes(costs.profile.batch_size, count)[0]), count, wish.recompute)

    best, faults = None, []
    for way in sorted(ways, key=lambda way: least[way]):
        if least[way] >= (below_s if best is None else best.prediction.step_s):
            break
        try:
            found = _pipelined(costs, wish, stages_of(way[0]), way[1])
        except PlanError as fault:
            faults.append(fault)
        else:
            best = found if best is None or found.prediction.step_s < best.prediction.step_s else best
    if best is None and not faults:
        raise NothingToSplitError(f"a pipeline takes {seconds_text(min(least.values()))} a step at least; use another strategy")
    if best is None:
        raise faults[0]
    return best


def _ways(costs: MicrobatchCosts, wish: PipelineOptions) -> list[tuple[int, DeviceGroups]]:
    """Return the numbers of microbatches that are possible, each with groups that stages may have then."""
    batch, chain = costs.profile.batch_size, blocks(costs.profile.graph)
    devices = [device for device in distinct(costs.whole) if wish.devices is None or device in wish.devices]
    if len(chain) < 2 or len(devices) < 2:
        lack = f"the network has {len(chain)} blocks and the cluster {len(devices)} devices"
        raise NothingToSplitError(f"{lack}, and a pipeline needs two of each; use strategy filters or batch")
    if wish.microbatches is not None and not 1 <= wish.microbatches <= batch:
        raise PlanError(f"{wish.microbatches} microbatches cannot be made of a batch of {batch} samples; use from 1 to {batch}")
    counts = [wish.microbatches] if wish.microbatches is not None else [count for count in MICROBATCHES if count <= batch] or [batch]
    ways = [
        (count, device_groups)
        for device_groups in _device_groups(costs, wish, devices)
        for count in counts
        if batch // count >= len(device_groups.replicas)
    ]
    if not ways:
        words = f"{counts[0]} microbatches of a batch of {batch} samples leave some of {wish.replicas} replicas none"
        raise PlanError(f"{words}; ask for {batch // (wish.replicas or 1)} at most")
    return ways


def _device_groups(costs: MicrobatchCosts, wish: PipelineOptions, devices: Sequence[int]) -> list[DeviceGroups]:
    """Return the groups that stages may have in each number of replicas that is asked for."""
    most = len(devices) // max(2, wish.stages or 2)
    possible = can_replicate(costs.whole, blocks(costs.profile.graph)) and wish.groups
    if wish.replicas not in (None, 1) and not (possible and 1 <= wish.replicas <= most):
        _refuse_replicas(wish, len(devices), most if possible else 1)
    single = [undivided_groups(devices, wish.groups)] if wish.replicas in (None, 1) else []
    yardstick = wish.allocator in YARDSTICKS  # one replica, unless several are asked for
    counts = range(2, 1 if yardstick else min(most, MOST_REPLICAS) + 1) if wish.replicas is None else [wish.replicas]
    return single + [
        device_groups for count in counts if possible and count > 1 for device_groups in replicated_groups(costs.whole, devices, count)
    ]


def _refuse_replicas(wish: PipelineOptions, devices: int, most: int) -> None:
    stages = f"{wish.stages or 2} stages{'' if wish.stages else ' or more'}"
    words = f"{wish.replicas} replicas of a pipeline of {stages} cannot be made of {devices} devices"
    raise PlanError(f"{words}; ask for {f'{most} at most' if most > 1 else 'one replica'}")


def _least_s(costs: Costs, microbatches: int, groups: Sequence[tuple[int, ...]]) -> float:
    """Return seconds that J is not below if devices that share a block are together as fast as their speeds add up to.

    The first microbatch takes at least W / r, the work over the speed of the fastest group; the slowest stage at least W over the speed
    of all devices together, once more for each further microbatch.

    Parameters
    ----------
    costs : Costs at the whole batch.
    microbatches : M.
    groups : the groups that stages may have.
    """
    samples = microbatch_sizes(costs.profile.batch_size, microbatches)[0]
    alone = []
    for block in blocks(costs.graph):
        passes = [(layer, step_pass) for layer in block for step_pass in (FORWARD, BACKWARD)]
        done = [entry for entry in passes if entry[1] == FORWARD or costs.trains_before[entry[0]]]
        alone.append(sum((costs.tables.rows(layer, "batch", step_pass)[:, samples] for layer, step_pass in done), np.full(1, 1e-15)))
    seconds = np.array(alone)
    everyone = sorted({device for group in groups for device in group})
    fastest = np.min([1 / (1 / seconds[:, list(group)]).sum(axis=1) for group in groups], axis=0)
    together = 1 / (1 / seconds[:, everyone]).sum(axis=1)
    return float(fastest.sum() + (microbatches - 1) * together.sum())


def chain_problem(stages: GroupStages, device_groups: DeviceGroups, wish: PipelineOptions) -> ChainProblem:
    """Return the problem of allocating a network's blocks to groups of devices.

    Parameters
    ----------
    stages : GroupStages at a microbatch.
    device_groups : the groups that stages may have.
    wish : what the pipeline is asked to be.

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
        raise ProfileError(f"the profile has no link between {' and '.join(names)}; calibrate again")
    free = {pool.name: pool.free_bytes for pool in profile.memory}
    room = [max(0.0, free.get(device.pool, np.inf) - besides) for device in profile.cluster.devices]
    alone = np.array([stages.alone(block) for block in chain])
    several = [group for group in groups if len(group) > 1]
    kinds: dict[tuple[tuple[int, ...], ...], int] = {}  # blocks of alike layers that read each other alike take alike
    first_of = [kinds.setdefault(_kind(costs, block), at) for at, block in enumerate(chain)]
    found = {(group, at): stages.best(chain[at], group, device_groups.replicas) for group in several for at in sorted(set(first_of))}
    seconds = [alone[:, group[0]] if len(group) == 1 else [stages.seconds(found[group, at][1]) for at in first_of] for group in groups]
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
        schedule=wish.schedule,
        shares=(device_groups.replicas,) * len(groups) if device_groups.replicas else (),
        replicated_weights=tuple(len(group) > 1 and any(_splits_batch(found[group, at][0]) for at in first_of) for group in groups),
        replicas=max(len(device_groups.replicas), 1),
    )


def _kind(costs: Costs, block: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return what is equal for blocks whose layers take the same time and read each other in the same way."""
    layers = costs.graph.layers
    return tuple((costs.alike[index], *(source - index for source in layers[index].inputs if source >= block[0])) for index in block)


def _splits_batch(stage: Stage) -> bool:
    return any(entry.samples for entry in stage.layouts)


def _pipelined(costs: MicrobatchCosts, wish: PipelineOptions, stages: GroupStages, device_groups: DeviceGroups) -> Pipelined:
    """Return the best pipeline of some teams; replicas are dealt samples once more when their stages are known."""
    found = _laid_out(costs, wish, stages, device_groups)
    if not device_groups.replicas:
        return found
    better = resized(stages.costs, device_groups, [(stage.layers, stage.devices) for stage in found.pipeline.stages])
    if better == device_groups:
        return found
    try:
        again = _laid_out(costs, wish, stages, better)
    except PlanError:  # what was dealt anew does not fit in memory
        return found
    return min(found, again, key=lambda each: each.prediction.step_s)


def _laid_out(costs: MicrobatchCosts, wish: PipelineOptions, stages: GroupStages, device_groups: DeviceGroups) -> Pipelined:
    batch, chain = costs.profile.batch_size, blocks(costs.profile.graph)
    problem = chain_problem(stages, device_groups, wish)
    chosen = _allocated(problem, wish)
    runs = chosen.allocation.runs(len(chain))
    laid = [
        stages.best(tuple(itertools.chain(*chain[first:end])), problem.groups[group], device_groups.replicas) for group, first, end in runs
    ]
    depths = _depths(problem, chosen, [stages.seconds(cost) for _, cost in laid]) if wish.schedule == "1f1b" else ()
    whole = tuple(dealt(stage, device_groups.replicas) if device_groups.replicas else with_samples(stage, batch) for stage, _ in laid)
    pipeline = Pipeline(whole, stages.microbatches, wish.schedule, wish.recompute, depths, device_groups.replicas)
    return Pipelined(pipeline, *predict_pipeline(costs, pipeline), chosen)


def _allocated(problem: ChainProblem, wish: PipelineOptions) -> Allocated:
    """Return the allocator's answer with two stages or more: one device alone is the business of strategy single."""

    def with_stages(stages: int | None) -> Allocated:
        limit_s, progress = wish.time_limit_s, wish.progress
        return allocate(problem, wish.allocator, stages=stages, seed=wish.seed, time_limit_s=limit_s, progress=progress)

    found = with_stages(wish.stages)
    if wish.stages is None and len(found.allocation.boundaries) < 2:
        found = with_stages(2)
    if wish.on_allocated is not None:
        wish.on_allocated(problem, found)
    return found


def _depths(problem: ChainProblem, chosen: Allocated, stage_s: Sequence[float]) -> tuple[int, ...]:
    """Return how many microbatches each stage has in flight: as many as keep the slowest busy while tensors travel, if they fit."""
    _, transfer_s = problem.spent_s(chosen.allocation)
    count = len(stage_s)
    wanted = tuple(min(problem.microbatches, depth) for depth in least_depths(stage_s, transfer_s.tolist()))
    usual = tuple(min(problem.microbatches, count - at) for at in range(count))
    deeper = tuple(map(max, wanted, usual))
    for depth, (group, first, end) in zip(deeper, chosen.allocation.runs(problem.blocks)):
        if (problem.needed_bytes(group, first, end, depth) > problem.memory_bytes[list(problem.groups[group])]).any():
            return usual
    return deeper
