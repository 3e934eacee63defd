"""The allocation problem: a chain of blocks is partitioned into stages, and each stage is assigned to a group of devices.

Over the number of stages S, the boundaries 0 = b_0 < b_1 < ... < b_S = B of B blocks, and the groups g_0 .. g_{S-1}, M being the
number of microbatches:

    minimise    J = sum_s t_s + sum_s c_s + (M - 1) * max(max_s t_s, max_s c_s)
    with        t_s = sum_{b_s <= i < b_{s+1}} seconds[g_s, i]                                                    0 <= s < S
                c_s = 2 * (latency(g_s, g_{s+1}) + sent_bytes[b_{s+1} - 1] * seconds_per_byte(g_s, g_{s+1}))       0 <= s < S - 1
    subject to  g_r and g_s have no device in common                                                             r != s
                part_d * sum_i fixed_bytes[i] + share_d * n_s * sum_i kept_bytes[i] <= memory_bytes[d]
                    over the blocks i of stage s, for each device d of g_s

n_s is the number of microbatches in flight in stage s: M under fill_drain, else min(M, S - s). share_d is the part of the group's work
that device d does. part_d is the part of the weights that it holds: share_d, or 1 in a group that replicates the weights.

The objective "largest_load" is the limit of J / (M - 1) for many microbatches: the seconds between two of them in steady state,

    minimise    L = max(max_s t_s, max_s c_s)        or, where communication counts as load,        L = max_s t_s + w_s * (c_{s-1} + c_s)

with c_{-1} = c_{S-1} = 0, and w_s 1 if transfers count as load of group g_s, else 0.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.names import CLOCKED_SCHEDULES, LARGEST_LOAD, OBJECTIVES

FIT = 1.0 + 1e-9  # bytes are sums of floats


@dataclasses.dataclass(frozen=True, eq=False)
class ChainProblem:
    """A chain of blocks, the groups of devices that can have a stage, and the costs; the module states the problem.

    t_s is the seconds of stage s for one microbatch, forward and backward; c_s those of the transfers from stage s to the next one and
    back. Any number of devices may be unused. Memory is a hard limit.

    Parameters
    ----------
    seconds : (groups, blocks) array of float, seconds of a block's forward and backward pass for one microbatch on a group.
    groups : (groups,) the devices of each group, as indices from 0; groups may share devices, the stages of an allocation may not.
    sent_bytes : (blocks - 1,) array of float, bytes of a microbatch that are sent from each block to the next, one way.
    latency_s : (devices, devices) array of float, seconds before a message's first byte.
    seconds_per_byte : (devices, devices) array of float, seconds a byte takes.
    fixed_bytes : (blocks,) array of float, bytes a block holds all the time: weights, slots, gradients.
    kept_bytes : (blocks,) array of float, bytes it holds for each microbatch in flight.
    memory_bytes : (devices,) array of float, bytes each device can hold; infinite where that is not known.
    microbatches : M, at least 1.
    schedule : "1f1b" or "interleaved": min(M, S - s) microbatches are in flight in stage s of S; "fill_drain": all M.
    shares : (groups,) for each group the part of the work that each of its devices has; empty for equal parts.
    replicated_weights : (groups,) whether each device of a group holds all fixed bytes, as under a batch split; empty where the fixed
        bytes are split in proportion too, as under a filter split.
    replicas : replicas of the pipeline; each has the devices at its place in every group, and sends to its own only.
    objective : what is minimised: "step", J; or "largest_load", L.
    communication_load : (groups,) w: whether transfers count as load of each group, under "largest_load"; empty where a transfer is a
        load of its own.

    Raises
    ------
    PlanError
        If shapes do not match, a number is negative or not finite, there is no block or group, or a group has no device.

    Notes
    -----
    Device d of a group holds part_d * fixed + share_d * in flight * kept bytes of its stage, part_d being 1 or share_d. Between two
    groups, latency and seconds a byte are those of the worst link between a device of one and a device of the other, in the same
    replica: an upper bound of what a transfer takes that sends only the pieces that intersect.

    References
    ----------
    This project's interpretation of the layer allocator of Akintoye et al., IEEE Access 10 (2022) 77950-77961, whose cost function is
    not known.

    Examples
    --------
    >>> links = np.zeros((2, 2))
    >>> problem = ChainProblem(np.array([[1.0, 1, 1], [9, 2, 2]]), ((0,), (1,)), np.ones(2), links, links, np.ones(3), np.ones(3),
    ...     np.full(2, np.inf), microbatches=5)
    >>> problem.value(Allocation((0, 2), (0, 1)))  # stages of 2 s
    12.0
    """

    seconds: np.ndarray
    groups: tuple[tuple[int, ...], ...]
    sent_bytes: np.ndarray
    latency_s: np.ndarray
    seconds_per_byte: np.ndarray
    fixed_bytes: np.ndarray
    kept_bytes: np.ndarray
    memory_bytes: np.ndarray
    microbatches: int
    schedule: str = "1f1b"
    shares: tuple[tuple[float, ...], ...] = ()
    replicated_weights: tuple[bool, ...] = ()
    replicas: int = 1
    objective: str = "step"
    communication_load: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        object.__setattr__(self, "groups", tuple(tuple(int(d) for d in group) for group in self.groups))
        if faults := _faults(self):
            raise PlanError(f"the chain cannot be allocated: {'; '.join(faults)}", "correct them")

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int(self.seconds.shape[1])

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.memory_bytes)

    @functools.cached_property
    def disjoint(self) -> bool:
        """Whether no device is in two groups."""
        return sum(map(len, self.groups)) == len(set(itertools.chain(*self.groups)))

    @functools.cached_property
    def masks(self) -> tuple[int, ...]:
        """(groups,) each group's devices as bits."""
        return tuple(sum(1 << d for d in group) for group in self.groups)

    @property
    def most_stages(self) -> int:
        """No allocation has more stages: one a block, a group and a device at most."""
        return min(self.blocks, len(self.groups), len(set(itertools.chain(*self.groups))))

    @functools.cached_property
    def prefix_s(self) -> np.ndarray:
        """(groups, blocks + 1) prefix sums: seconds of all blocks before each."""
        return _sums(self.seconds)

    @functools.cached_property
    def links(self) -> tuple[np.ndarray, np.ndarray]:
        """(groups, groups) latency and seconds a byte of the worst link between two groups."""
        return self._worst(self.latency_s), self._worst(self.seconds_per_byte)

    def _worst(self, links: np.ndarray) -> np.ndarray:
        if self.replicas == 1:
            return _worst(links, self.groups)
        rows = np.array(self.groups).T
        return np.asarray(links[rows[:, :, None], rows[:, None, :]].max(axis=0))

    @functools.cached_property
    def boundary_bytes(self) -> np.ndarray:
        """(blocks + 1,) bytes sent over a stage boundary before each block; 0 before the first and after the last."""
        return np.concatenate([[0.0], self.sent_bytes, [0.0]])

    def transfer_s(self, source: np.ndarray | int, destination: np.ndarray | int, boundary: np.ndarray | int) -> np.ndarray:
        """Return the seconds of transfers forth and back; arguments broadcast.

        Parameters
        ----------
        source, destination : groups.
        boundary : first block of the stage that receives.
        """
        latency, per_byte = self.links
        return np.asarray(2.0 * (latency[source, destination] + self.boundary_bytes[boundary] * per_byte[source, destination]))

    def in_flight(self, stages: int) -> int:
        """Return how many microbatches a stage holds at a time.

        Parameters
        ----------
        stages : stages from it to the last, itself included.
        """
        return self.microbatches if self.schedule == "fill_drain" else min(self.microbatches, stages)

    def reach(self, stages: int) -> np.ndarray:
        """Return (groups, blocks + 1) array of int: the largest end of a stage from a given block on that fits into memory.

        Parameters
        ----------
        stages : stages from this one to the last, itself included.
        """
        return self._reaches[self.in_flight(stages)]

    @functools.cached_property
    def _reaches(self) -> dict[int, np.ndarray]:
        return _Reaches(self)

    def needed_bytes(self, group: int, first: int, end: int, stages: int) -> np.ndarray:
        """Return the (devices of the group,) bytes of a stage.

        Parameters
        ----------
        group : its group.
        first, end : its first block, and the first block after it.
        stages : stages from this one to the last, itself included.
        """
        parts, shares = self.parts(group)
        flying = self.in_flight(stages)
        return np.asarray(parts * self.fixed_bytes[first:end].sum() + shares * flying * self.kept_bytes[first:end].sum())

    def parts(self, group: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the (devices of the group,) parts of the fixed bytes and of the kept bytes that each device holds.

        Parameters
        ----------
        group : its index.
        """
        members = len(self.groups[group])
        shares = np.array(self.shares[group] if self.shares else [1.0] * members)
        shares = shares / shares.sum()
        replicated = bool(self.replicated_weights) and self.replicated_weights[group]
        return (shares > 0).astype(float) if replicated else shares, shares

    def shortfall_bytes(self, allocation: Allocation) -> float:
        """Return the largest shortfall of a device's memory, bytes; 0 if all stages fit."""
        short = 0.0
        for at, (group, first, end) in enumerate(allocation.runs(self.blocks)):
            needed = self.needed_bytes(group, first, end, len(allocation.groups) - at)
            held = self.memory_bytes[list(self.groups[group])]
            over = np.where(needed > held * FIT, needed - held, 0.0)
            short = max(short, float(over.max()))
        return short

    def spent_s(self, allocation: Allocation) -> tuple[np.ndarray, np.ndarray]:
        """Return the (stages,) seconds of each stage and the (stages - 1,) seconds of each transfer."""
        groups, boundaries = np.array(allocation.groups), np.array(allocation.boundaries)
        end = np.append(boundaries[1:], self.blocks)
        return self.prefix_s[groups, end] - self.prefix_s[groups, boundaries], self.transfer_s(groups[:-1], groups[1:], boundaries[1:])

    def loads_s(self, allocation: Allocation) -> np.ndarray:
        """Return the loads whose largest is L, seconds: of all stages, and of all transfers where these are loads of their own."""
        stages, transfers = self.spent_s(allocation)
        if not self.communication_load:
            return np.concatenate([stages, transfers])
        counted = np.array(self.communication_load, dtype=float)[list(allocation.groups)]
        return np.asarray(stages + counted * (np.append(0.0, transfers) + np.append(transfers, 0.0)))

    def value(self, allocation: Allocation) -> float:
        """Return the objective of an allocation, seconds: J, or L; memory is not checked.

        Raises
        ------
        PlanError
            If it is not an allocation of this chain.
        """
        check_allocation(self, allocation)
        if self.objective == LARGEST_LOAD:
            return float(self.loads_s(allocation).max())
        stages, transfers = self.spent_s(allocation)
        return float(stages.sum() + transfers.sum() + (self.microbatches - 1) * max(stages.max(), transfers.max(initial=0.0)))


@dataclasses.dataclass(frozen=True)
class Allocation:
    """A partition of the chain into stages, and the group of each stage.

    Parameters
    ----------
    boundaries : (stages,) first block of each stage; the first is 0.
    groups : (stages,) index of each stage's group.
    """

    boundaries: tuple[int, ...]
    groups: tuple[int, ...]

    def runs(self, blocks: int) -> list[tuple[int, int, int]]:
        """Return (group, first block, end) of each stage.

        Parameters
        ----------
        blocks : blocks of the chain.
        """
        return list(zip(self.groups, self.boundaries, (*self.boundaries[1:], blocks)))


def check_allocation(problem: ChainProblem, allocation: Allocation) -> None:
    """Raise `PlanError` unless an allocation has a run of blocks and a group for each stage, and no device twice."""
    boundaries, groups = allocation.boundaries, allocation.groups
    if (
        len(boundaries) != len(groups)
        or not boundaries
        or boundaries[0] != 0
        or any(b <= a for a, b in zip(boundaries, (*boundaries[1:], problem.blocks)))
    ):
        text = f"stages begin at blocks {list(boundaries)} for {len(groups)} groups"
        raise PlanError(f"{text}", f"begin the first at 0, and one a group at rising blocks below {problem.blocks}")
    if not all(0 <= g < len(problem.groups) for g in groups):
        raise PlanError(f"stages are on groups {list(groups)}", f"name groups from 0 to {len(problem.groups) - 1}")
    devices = [d for g in groups for d in problem.groups[g]]
    if len(set(devices)) < len(devices):
        raise PlanError(f"stages are on groups {list(groups)}, which share devices", "take groups that share none")


def check_stages(problem: ChainProblem, stages: int | None, most: int | None = None) -> None:
    """Raise `PlanError` if there cannot be so many stages.

    Parameters
    ----------
    stages : how many are asked for; None for any number.
    most : how many there can be; None for what blocks, groups and devices allow.
    """
    most = problem.most_stages if most is None else most
    if stages is not None and not 1 <= stages <= most:
        held = f"{problem.blocks} blocks and {len(problem.groups)} groups of {problem.devices} devices"
        raise PlanError(f"{stages} stages cannot be made of {held}", f"ask for 1 to {most}")


class _Reaches(dict[int, np.ndarray]):
    """`ChainProblem.reach` by microbatches in flight, computed on first use."""

    def __init__(self, problem: ChainProblem) -> None:
        super().__init__()
        self._problem = problem

    def __missing__(self, in_flight: int) -> np.ndarray:
        problem = self._problem
        fixed, kept = _sums(problem.fixed_bytes), _sums(problem.kept_bytes)
        reach = np.full((len(problem.groups), problem.blocks + 1), problem.blocks)
        for g, group in enumerate(problem.groups):
            for device, part, share in zip(group, *problem.parts(g)):
                held = problem.memory_bytes[device]
                needed = part * fixed + share * in_flight * kept
                if needed[-1] > held * FIT:
                    reach[g] = np.minimum(reach[g], np.searchsorted(needed, needed + held * FIT, side="right") - 1)
        self[in_flight] = reach
        return reach


_ARRAYS = ("seconds", "sent_bytes", "latency_s", "seconds_per_byte", "fixed_bytes", "kept_bytes", "memory_bytes")


def _sums(values: np.ndarray) -> np.ndarray:
    """Return the sums of all values before each place along the last axis, and of all."""
    return np.concatenate([np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)], axis=-1)


def _worst(links: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    towards = np.stack([links[:, list(group)].max(axis=1) for group in groups], axis=1)
    return np.stack([towards[list(group)].max(axis=0) for group in groups])


def _faults(problem: ChainProblem) -> list[str]:
    if problem.seconds.ndim != 2 or 0 in problem.seconds.shape:
        return [f"seconds have shape {problem.seconds.shape} and need a row a group and a column a block, at least one of each"]
    groups, blocks = problem.seconds.shape
    devices = problem.memory_bytes.size
    wanted = {"seconds": (len(problem.groups), blocks), "sent_bytes": (blocks - 1,), "memory_bytes": (devices,)}
    wanted |= dict.fromkeys(("latency_s", "seconds_per_byte"), (devices, devices)) | dict.fromkeys(("fixed_bytes", "kept_bytes"), (blocks,))
    faults = [
        f"{name} has shape {getattr(problem, name).shape}, not {shape}"
        for name, shape in wanted.items()
        if getattr(problem, name).shape != shape
    ]
    for name in _ARRAYS:
        values = getattr(problem, name)
        if not (values >= 0).all() or (name != "memory_bytes" and not np.isfinite(values).all()):
            faults.append(f"{name} has numbers that are negative or not finite")
    for at, group in enumerate(problem.groups):
        if not group:
            faults.append(f"group {at} has no device, and a stage needs at least one: leave the group out or give it a device")
        elif problem.replicas > 1 and len(group) != problem.replicas:
            faults.append(f"group {at} has {len(group)} devices, and {problem.replicas} replicas need one each")
        elif len(set(group)) < len(group) or not all(0 <= d < devices for d in group):
            faults.append(f"group {at} has devices {list(group)}, which must be different ones from 0 to {devices - 1}")
    if problem.microbatches < 1:
        faults.append(f"there are {problem.microbatches} microbatches, and at least 1 is needed")
    if problem.schedule not in CLOCKED_SCHEDULES:
        faults.append(f"the schedule is {problem.schedule!r}, not one of {', '.join(CLOCKED_SCHEDULES)}")
    return faults + _share_faults(problem) + _objective_faults(problem)


def _share_faults(problem: ChainProblem) -> list[str]:
    faults = []
    if problem.shares and [len(shares) for shares in problem.shares] != [len(group) for group in problem.groups]:
        faults.append("shares must have one number a device of each group")
    elif not all(all(math.isfinite(s) and s >= 0 for s in shares) and sum(shares) > 0 for shares in problem.shares):
        faults.append("shares must be finite, none negative, and one of each group above zero")
    if problem.replicated_weights and len(problem.replicated_weights) != len(problem.groups):
        faults.append("replicated_weights must have one entry a group")
    return faults


def _objective_faults(problem: ChainProblem) -> list[str]:
    faults = []
    if problem.objective not in OBJECTIVES:
        faults.append(f"the objective is {problem.objective!r}, not one of {', '.join(OBJECTIVES)}")
    elif problem.communication_load and problem.objective != LARGEST_LOAD:
        faults.append(f"communication counts as load under the objective {LARGEST_LOAD!r}, not under {problem.objective!r}")
    if problem.communication_load and len(problem.communication_load) != len(problem.groups):
        faults.append("communication_load must have one entry a group")
    return faults
