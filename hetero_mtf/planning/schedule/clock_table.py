"""Schedules: in which order the stages of a pipeline work on the microbatches of a step.

A schedule is a clock table. In each tick a device does at most one task, and every task needs the outputs of earlier ticks only.
Ticks define the order only; `simulator` adds the seconds of tasks. Three stages, four microbatches, f2 the
forward and b2 the backward pass of microbatch 2; `clock_text` draws this, and its example keeps the drawing true:

    fill_drain                                        1f1b
    stage 0  f0 f1 f2 f3 .. .. .. .. b3 b2 b1 b0      stage 0  f0 f1 f2 .. .. b0 f3 b1 .. b2 .. b3
    stage 1  .. f0 f1 f2 f3 .. .. b3 b2 b1 b0 ..      stage 1  .. f0 f1 .. b0 f2 b1 f3 b2 .. b3 ..
    stage 2  .. .. f0 f1 f2 f3 b3 b2 b1 b0 .. ..      stage 2  .. .. f0 b0 f1 b1 f2 b2 f3 b3 .. ..

Both take 2 (M + S - 1) ticks for S stages and M microbatches, the fewest there are: the last stage works for 2 M, the first
microbatch needs S - 1 to reach it, the last as many to come back. They differ in what is kept: stage s of fill_drain has all M
microbatches in flight (forward begun, backward not done), stage s of 1f1b at most its depth, S - s unless another is given.

    interleaved, stages 0 and 2 on one device, 1 and 3 on another
    stage 0  f0 f1 .. .. .. .. .. .. b0 b1
    stage 1  .. f0 f1 .. .. .. .. b0 b1 ..      each device has twice the tasks, each half as long,
    stage 2  .. .. f0 f1 .. b0 .. b1 .. ..      and fills and drains for one of them: half the bubble
    stage 3  .. .. .. f0 b0 f1 b1 .. .. ..

References: fill_drain is GPipe's (Huang et al. 2019, its figure 2, backward from the last microbatch on); 1f1b is PipeDream-Flush
and interleaved its refinement (Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using
Megatron-LM"), there for stages dealt out in equal rounds and M a multiple of the devices; any other assignment is this project's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.names import CLOCKED_SCHEDULES

FORWARD, BACKWARD = "forward", "backward"


class Task(NamedTuple):
    """One pass of one stage over one microbatch.

    Parameters
    ----------
    stage, microbatch : their indices.
    step_pass : "forward" or "backward".
    """

    stage: int
    microbatch: int
    step_pass: str


Table = tuple[tuple[Task, ...], ...]
_Orders = Sequence[Sequence[Task]]


def clock_table(schedule: str, devices: Sequence[Sequence[int]], microbatches: int, depths: Sequence[int] | None = None) -> Table:
    """Return the tasks of every tick.

    Every task is there once, no device has two tasks in a tick, and every task comes after those it needs: forward of stage s
    after forward of s - 1 of the same microbatch, backward of s after backward of s + 1 and forward of s.

    Parameters
    ----------
    schedule : one of `CLOCKED_SCHEDULES`.
    devices : (stages,) devices of each stage, in the order of the network; a device may be in several stages of "interleaved".
    microbatches : microbatches of a step.
    depths : (stages,) most microbatches in flight of each stage of "1f1b", never more than in the stage before; None for S - s.
        Where transfers take long, deeper stages keep the devices busy meanwhile (`least_depths`) and keep more in memory.

    Raises
    ------
    PlanError
        If the schedule is unknown, there is no stage, device or microbatch, a device is twice in a stage, or in two stages of a
        schedule that is not "interleaved", or the depths cannot be kept.

    Notes
    -----
    O(ticks * stages). For even stages the ticks are the fewest there are, 2 (M + S - 1), and 2 (M v + D - 1) for v stages on each
    of D devices dealt out in rounds if D divides M; irregular interleaving is heuristic: of two orders the one with fewer ticks.

    Examples
    --------
    >>> print(clock_text(clock_table("fill_drain", [[0], [1], [2]], 4)))
    stage 0  f0 f1 f2 f3 .. .. .. .. b3 b2 b1 b0
    stage 1  .. f0 f1 f2 f3 .. .. b3 b2 b1 b0 ..
    stage 2  .. .. f0 f1 f2 f3 b3 b2 b1 b0 .. ..
    >>> print(clock_text(clock_table("1f1b", [[0], [1], [2]], 4)))
    stage 0  f0 f1 f2 .. .. b0 f3 b1 .. b2 .. b3
    stage 1  .. f0 f1 .. b0 f2 b1 f3 b2 .. b3 ..
    stage 2  .. .. f0 b0 f1 b1 f2 b2 f3 b3 .. ..
    >>> print(clock_text(clock_table("interleaved", [[0], [1], [0], [1]], 2)))
    stage 0  f0 f1 .. .. .. .. .. .. b0 b1
    stage 1  .. f0 f1 .. .. .. .. b0 b1 ..
    stage 2  .. .. f0 f1 .. b0 .. b1 .. ..
    stage 3  .. .. .. f0 b0 f1 b1 .. .. ..
    """
    _check(schedule, devices, microbatches)
    if depths is not None:
        _check_depths(schedule, depths, len(devices))
    if schedule == "interleaved":
        return _interleaved(devices, microbatches)
    if schedule == "fill_drain":
        orders = [_filled_and_drained(stage, microbatches) for stage in range(len(devices))]
    else:
        deep = range(len(devices), 0, -1) if depths is None else depths
        orders = [_alternating(stage, min(depth, microbatches), microbatches) for stage, depth in enumerate(deep)]
    table = _in_ticks(orders, len(devices))
    assert table is not None
    return table


def least_depths(stage_s: Sequence[float], transfer_s: Sequence[float] = ()) -> tuple[int, ...]:
    """Return the fewest microbatches in flight of each stage that never keep the slowest stage or transfer waiting.

    With T the largest of all seconds, the depths n are the least for which every run of neighbouring stages s..q has
    n_s - n_q + 1 >= (their seconds and those of the transfers between them) / T, and the last stage has one microbatch in flight.

    Parameters
    ----------
    stage_s : (stages,) seconds of forward and backward of one microbatch.
    transfer_s : (stages - 1,) seconds of the transfers between neighbours, there and back; empty for none.

    Notes
    -----
    A microbatch goes round from stage s to stage q and back while n_s - n_q + 1 others enter; were they fewer than fit into that
    time at one every T seconds, the round would be the bottleneck. Even stages without transfers have S - s, even stages and
    transfers 2 (S - s) - 1: the transfers are counted as stages. O(stages^2).

    Examples
    --------
    >>> least_depths([1, 1, 1]), least_depths([1, 1, 1], [0.1, 0.1]), least_depths([4, 1, 1], [0.1, 0.1])
    ((3, 2, 1), (5, 3, 1), (2, 1, 1))
    """
    between = [0.0, *(transfer_s if len(transfer_s) else [0.0] * (len(stage_s) - 1))]
    end_s = list(itertools.accumulate(seconds for pair in zip(between, stage_s) for seconds in pair))[1::2]
    largest = max([*stage_s, *between])
    depths = [1] * len(stage_s)
    for stage in reversed(range(len(stage_s) - 1)):
        begun = end_s[stage] - stage_s[stage]
        rounds = [(end_s[last] - begun) / largest if largest else 1.0 for last in range(stage + 1, len(stage_s))]
        depths[stage] = max(math.ceil(time - 1e-9) - 1 + depth for time, depth in zip(rounds, depths[stage + 1 :]))
        # almost no seconds round to no microbatch, but depths must not rise from stage to stage
        depths[stage] = max(depths[stage], depths[stage + 1])
    return tuple(depths)


def in_flight(table: Table) -> tuple[int, ...]:
    """Return the most microbatches each stage has in flight: forward begun, backward not done.

    Parameters
    ----------
    table : clock table.

    Examples
    --------
    >>> in_flight(clock_table("1f1b", [[0], [1]], 8)), in_flight(clock_table("fill_drain", [[0], [1]], 8))
    ((2, 1), (8, 8))
    """
    tasks = list(itertools.chain(*table))
    stages = 1 + max(task.stage for task in tasks)
    held, most = [0] * stages, [0] * stages
    for stage, _, step_pass in tasks:
        held[stage] += 1 if step_pass == FORWARD else -1
        most[stage] = max(most[stage], held[stage])
    return tuple(most)


def kept(tasks: Iterable[Task], devices: Sequence[Sequence[int]]) -> frozenset[tuple[int, int]]:
    """Return the (stage, microbatch) whose activations are kept where others are computed again, as that would save no memory.

    They are those whose backward pass is the next task of all their devices after the forward pass: nothing is kept beside them.

    Parameters
    ----------
    tasks : the tasks of a step, in an order that every device keeps.
    devices : (stages,) devices of each stage.

    Examples
    --------
    >>> table = clock_table("1f1b", [[0], [1]], 3)
    >>> sorted(kept(itertools.chain(*table), [[0], [1]]))
    [(1, 0), (1, 1), (1, 2)]
    """
    adjacent: set[tuple[int, int]] = set()
    latest: dict[int, Task] = {}
    for task in tasks:
        stage, microbatch, step_pass = task
        if step_pass == BACKWARD and all(latest.get(device) == Task(stage, microbatch, FORWARD) for device in devices[stage]):
            adjacent.add((stage, microbatch))
        latest.update(dict.fromkeys(devices[stage], task))
    return frozenset(adjacent)


def clock_text(table: Table) -> str:
    """Return a clock table as text, a line a stage.

    Parameters
    ----------
    table : clock table.
    """
    tasks = list(itertools.chain(*table))
    stages, width = 1 + max(task.stage for task in tasks), 1 + len(str(max(task.microbatch for task in tasks)))
    lines = [["." * width] * len(table) for _ in range(stages)]
    for tick, now in enumerate(table):
        for stage, microbatch, step_pass in now:
            lines[stage][tick] = f"{step_pass[0]}{microbatch}".ljust(width)
    return "\n".join(f"stage {stage}  {' '.join(line)}".rstrip() for stage, line in enumerate(lines))


def _check(schedule: str, devices: Sequence[Sequence[int]], microbatches: int) -> None:
    if schedule not in CLOCKED_SCHEDULES:
        raise PlanError(f"there is no schedule {schedule!r}", f"use one of {', '.join(CLOCKED_SCHEDULES)}")
    if microbatches < 1:
        raise PlanError(f"a step of {microbatches} microbatches does nothing", "use at least 1")
    if not devices:
        raise PlanError("a pipeline of no stages computes nothing", "give the devices of at least one stage")
    for stage, members in enumerate(devices):
        if not members:
            raise PlanError(f"stage {stage} has no device", "give it one, or join its layers to a neighbour")
        if len(set(members)) < len(members):
            raise PlanError(f"stage {stage} has a device twice among {list(members)}", "name each once")
    every = list(itertools.chain(*devices))
    twice = sorted({device for device in every if every.count(device) > 1})
    if twice and schedule != "interleaved":
        stages = [stage for stage, members in enumerate(devices) if twice[0] in members]
        raise PlanError(f"device {twice[0]} is in stages {stages}, which schedule {schedule!r} has no turns for", "use 'interleaved'")


def _check_depths(schedule: str, depths: Sequence[int], stages: int) -> None:
    if schedule != "1f1b":
        raise PlanError(f"schedule {schedule!r} has no depths to choose", "leave them out, or use '1f1b'")
    if len(depths) != stages:
        raise PlanError(f"there are {len(depths)} depths for {stages} stages", "give one a stage")
    if min(depths) < 1 or any(later > earlier for earlier, later in itertools.pairwise(depths)):
        raise PlanError(f"depths {list(depths)} let a stage wait for ever", "use at least 1 in the last and no fewer in the one before")


def _filled_and_drained(stage: int, microbatches: int) -> list[Task]:
    forward = [Task(stage, microbatch, FORWARD) for microbatch in range(microbatches)]
    return [*forward, *(Task(stage, microbatch, BACKWARD) for microbatch in reversed(range(microbatches)))]


def _alternating(stage: int, depth: int, microbatches: int) -> list[Task]:
    forward = [Task(stage, microbatch, FORWARD) for microbatch in range(microbatches)]
    return _alternated(forward, [Task(stage, microbatch, BACKWARD) for microbatch in range(microbatches)], depth)


def _alternated(forward: Sequence[Task], backward: Sequence[Task], depth: int) -> list[Task]:
    """Return so many forward tasks, then one backward and one forward in turn."""
    pairs = itertools.zip_longest(backward, forward[depth:])
    return [*forward[:depth], *(task for pair in pairs for task in pair if task is not None)]


def _in_ticks(orders: _Orders, stages: int) -> Table | None:
    """Return the clock table in which each device keeps its order and waits no longer than it must; None if they wait for ever."""
    done: set[Task] = set()
    table, places, left = [], [0] * len(orders), sum(map(len, orders))
    while left:
        heads = [(at, order[place]) for at, (order, place) in enumerate(zip(orders, places)) if place < len(order)]
        now = [(at, task) for at, task in heads if done.issuperset(_needs(task, stages))]
        if not now:
            return None
        for at, task in now:
            places[at] += 1
            done.add(task)
        table.append(tuple(task for _, task in now))
        left -= len(now)
    return tuple(table)


def _needs(task: Task, stages: int) -> list[Task]:
    stage, microbatch, step_pass = task
    if step_pass == FORWARD:
        return [Task(stage - 1, microbatch, FORWARD)] if stage else []
    return [Task(stage, microbatch, FORWARD), *([Task(stage + 1, microbatch, BACKWARD)] if stage + 1 < stages else [])]


def _interleaved(devices: Sequence[Sequence[int]], microbatches: int) -> Table:
    """Return the shorter of two tables, the second if stages are dealt out in equal rounds and its order does not get stuck.

    With one stage a device there is nothing to interleave.
    """
    groups = _dealt_out(devices)
    if groups == len(devices):
        return clock_table("1f1b", devices, microbatches)
    free = _as_they_come(devices, microbatches)
    dealt = _in_ticks(_in_bundles(groups, len(devices), microbatches), len(devices)) if groups else None
    return free if dealt is None or len(free) < len(dealt) else dealt


def _dealt_out(devices: Sequence[Sequence[int]]) -> int:
    """Return the number of groups of devices if stages are dealt out to disjoint groups in equal rounds, else 0."""
    groups = next((at for at in range(1, len(devices)) if set(devices[at]) & set(devices[0])), len(devices))
    members = list(itertools.chain(*devices[:groups]))
    regular = all(set(group) == set(devices[stage % groups]) for stage, group in enumerate(devices))
    return groups if regular and len(devices) % groups == 0 and len(set(members)) == len(members) else 0


def _in_bundles(groups: int, stages: int, microbatches: int) -> list[list[Task]]:
    """Return the order of each group: forward tasks until the first backward one can have come back, then one of each in turn.

    Microbatches go in bundles of as many as there are groups: one bundle passes a group's first stage, then its second, and so on.
    """
    orders = []
    for group in range(groups):
        held = list(itertools.product(range(group, stages, groups), range(microbatches)))
        forward = sorted(held, key=lambda task: (task[1] // groups, task[0], task[1]))
        backward = sorted(held, key=lambda task: (task[1] // groups, -task[0], task[1]))
        depth = 2 * (groups - group - 1) + stages - groups + 1
        orders.append(_alternated([Task(*at, FORWARD) for at in forward], [Task(*at, BACKWARD) for at in backward], depth))
    return orders


def _as_they_come(devices: Sequence[Sequence[int]], microbatches: int) -> Table:
    """Return a table for any devices: in each tick what is ready, backward before forward, later stages before earlier ones.

    Stage s of S starts a microbatch only while fewer than S - s are in flight there. The oldest microbatch that is not done can
    always go on, as nothing older is in flight before it, so every tick has a task.
    """
    stages = len(devices)
    begun, ended, table = [0] * stages, [0] * stages, []
    while min(ended) < microbatches:
        forward, backward = [], []
        for stage in reversed(range(stages)):
            earlier = begun[stage - 1] if stage else microbatches
            if begun[stage] < min(earlier, ended[stage] + stages - stage):
                forward.append(Task(stage, begun[stage], FORWARD))
            if ended[stage] < (begun[stage] if stage + 1 == stages else ended[stage + 1]):
                backward.append(Task(stage, ended[stage], BACKWARD))
        taken: set[int] = set()
        now = []
        for task in backward + forward:
            if taken.isdisjoint(devices[task.stage]):
                taken.update(devices[task.stage])
                now.append(task)
        for stage, _, step_pass in now:
            (begun if step_pass == FORWARD else ended)[stage] += 1
        table.append(tuple(sorted(now)))
    return tuple(table)
