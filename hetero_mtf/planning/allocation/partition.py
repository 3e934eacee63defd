"""Partitions of a chain for groups in a given order: equal, in proportion to speed, and optimal.

The optimal one minimises J of `problem` over the boundaries alone, with the S groups fixed:

    min_T F(T) + (M - 1) * T,    F(T) = min { sum_s t_s + sum_s c_s : 0 = b_0 < ... < b_S = B, t_s <= T, c_s <= T, memory }.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hetero_mtf.planning.allocation.largest_load import least_load_partition
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem, check_stages
from hetero_mtf.planning.names import LARGEST_LOAD
from hetero_mtf.planning.solvers.apportionment import equal_sizes
from hetero_mtf.planning.solvers.bottleneck import LeastSum, LeastValue, minimise
from hetero_mtf.planning.solvers.sliding_window import time_reach, window_minimum

_TERMS = 2_000_000  # stages there can be; for more the largest one is rounded up to a grid
_GRID = 1e-4  # of the largest stage


def equal_partition(problem: ChainProblem, stages: int | None = None) -> Allocation:
    """Return stages of equal numbers of blocks, to one block, on the groups in their order.

    Groups that share a device with one before them are skipped. Memory is not checked.

    Parameters
    ----------
    stages : how many; None for as many as blocks and groups allow.

    Raises
    ------
    PlanError
        If there cannot be so many stages.

    Notes
    -----
    Heuristic: a yardstick that knows no seconds. O(groups).

    Examples
    --------
    >>> links = np.zeros((2, 2))
    >>> problem = ChainProblem(np.array([[1.0, 1, 1], [9, 2, 2]]), ((0,), (1,)), np.ones(2), links, links, np.ones(3), np.ones(3),
    ...     np.full(2, np.inf), microbatches=5)
    >>> equal_partition(problem)
    Allocation(boundaries=(0, 2), groups=(0, 1))
    """
    groups = groups_in_order(problem, stages)
    return _allocation(equal_sizes(problem.blocks, len(groups)).sizes, groups)


def proportional_partition(problem: ChainProblem, stages: int | None = None) -> Allocation:
    """Return stages whose work is in proportion to the speed of their groups, on the groups in their order.

    Parameters
    ----------
    stages : how many; None for as many as blocks and groups allow.

    Raises
    ------
    PlanError
        If there cannot be so many stages.

    Notes
    -----
    Heuristic, O(groups * blocks). A group's speed is one over its seconds for the whole chain; a block's work is the part of a group's
    seconds that it takes, the mean over all groups. Each boundary is where the work before it is nearest to its part. Memory is not
    checked.
    """
    groups = groups_in_order(problem, stages)
    speeds = 1.0 / np.maximum(problem.prefix_s[:, -1], 1e-300)
    return Allocation(tuple(proportional_starts(problem, speeds[list(groups)][None, :])[0].tolist()), groups)


def proportional_starts(problem: ChainProblem, shares: np.ndarray) -> np.ndarray:
    """Return (rows, stages) array of int: first block of each stage where its work is nearest to its share; at least one block each.

    Parameters
    ----------
    shares : (rows, stages) array of float, no more stages than blocks.
    """
    work = (problem.prefix_s / np.maximum(problem.prefix_s[:, -1:], 1e-300)).mean(axis=0)
    parts = np.cumsum(shares, axis=1) / shares.sum(axis=1, keepdims=True)
    before = np.concatenate([np.zeros((len(shares), 1)), parts[:, :-1]], axis=1)
    # nearest to a part is the first boundary i for which the midpoint of work[i] and work[i + 1] is not below it
    starts = np.searchsorted((work[1:] + work[:-1]) / 2, before)
    starts[:, 0] = 0
    return spaced(starts, problem.blocks)


def spaced(starts: np.ndarray, blocks: int) -> np.ndarray:
    """Return first blocks that rise by at least one from stage to stage and leave one for each, near those given.

    Parameters
    ----------
    starts : (rows, stages) array of int.
    blocks : blocks of the chain, at least as many as stages.
    """
    places = np.arange(starts.shape[1])
    # numbers rise by one at least if number - place never falls: a running maximum of that is the least raise; then room is left behind
    risen = np.maximum.accumulate(starts - places, axis=1) + places
    return np.asarray(np.minimum(risen, blocks - starts.shape[1] + places))


def best_partition(
    problem: ChainProblem, groups: Sequence[int], known: float = math.inf, out_of_time: Callable[[], bool] = lambda: False
) -> LeastValue[Allocation]:
    """Return the partition of least J, or L, for groups in a fixed order, all of them used.

    Parameters
    ----------
    groups : (stages,) indices of the groups, in order.
    known : objective of a known allocation, seconds; only a smaller one is searched for.
    out_of_time : polled; the best partition so far is returned once it is true.

    Notes
    -----
    F(T) is a dynamic program over (number of later stages, first block); `bottleneck.minimise` chooses T. Memory is a hard limit. Exact,
    but for chains with more than two million possible stages, where the largest is rounded up by at most 1e-4 of it.
    O(stages * blocks * log(blocks)) for each T.
    """
    if problem.objective == LARGEST_LOAD:
        return least_load_partition(problem, groups, known, out_of_time)
    prefix_s = problem.prefix_s[list(groups)]
    sent = [problem.transfer_s(a, b, np.arange(problem.blocks + 1)) for a, b in zip(groups, groups[1:])]
    memory = [problem.reach(len(groups) - at)[group] for at, group in enumerate(groups)]

    def solve(limit_s: float, below: float) -> LeastSum[Allocation] | None:
        reach = np.minimum(time_reach(prefix_s, limit_s), memory)
        sums = np.where(reach[-1] == problem.blocks, prefix_s[-1, -1] - prefix_s[-1], np.inf)
        sums[-1] = np.inf
        behind = [sums]
        for at in range(len(groups) - 2, -1, -1):
            entered = np.where(sent[at] <= limit_s, sums + sent[at], np.inf)
            behind.append(entered + prefix_s[at])
            sums = window_minimum(behind[-1][None, :], reach[at])[0] - prefix_s[at]
        if not sums[0] < below:
            return None
        boundaries = [0]
        for at in range(len(groups) - 1):
            first, end = boundaries[-1] + 1, reach[at][boundaries[-1]] + 1
            boundaries.append(first + int(behind[len(groups) - 1 - at][first:end].argmin()))
        allocation = Allocation(tuple(boundaries), tuple(groups))
        terms = np.concatenate(problem.spent_s(allocation))
        return LeastSum(float(terms.sum()), float(terms.max()), allocation)

    return minimise(solve, problem.microbatches - 1, _terms(prefix_s, sent, known), known, out_of_time)


def groups_in_order(problem: ChainProblem, stages: int | None = None) -> tuple[int, ...]:
    """Return the first groups that share no device, as many as stages; where that makes too few, the smallest groups first.

    Parameters
    ----------
    stages : how many; None for as many as blocks and groups allow.

    Raises
    ------
    PlanError
        If there cannot be so many stages.
    """
    check_stages(problem, stages)
    groups = range(len(problem.groups))
    disjoint = _apart(problem, groups)
    if stages is not None and len(disjoint) < stages:
        disjoint = _apart(problem, sorted(groups, key=lambda g: len(problem.groups[g])))
    check_stages(problem, stages, len(disjoint))
    return tuple(disjoint[: problem.blocks if stages is None else stages])


def _apart(problem: ChainProblem, groups: Iterable[int]) -> list[int]:
    used = 0
    disjoint: list[int] = []
    for group in groups:
        if not problem.masks[group] & used:
            used |= problem.masks[group]
            disjoint.append(group)
    return disjoint


def _allocation(sizes: Sequence[int], groups: tuple[int, ...]) -> Allocation:
    return Allocation(tuple(sum(sizes[:at]) for at in range(len(sizes))), groups)


def _terms(prefix_s: np.ndarray, sent: Sequence[np.ndarray], known: float) -> np.ndarray:
    """Return the values that the bottleneck can have, seconds, rising; a grid if they are too many."""
    blocks = prefix_s.shape[1] - 1
    least = float((prefix_s[:, 1:] - prefix_s[:, :-1]).min(axis=0).max())
    if len(prefix_s) * blocks * (blocks + 1) // 2 <= _TERMS:
        first, end = np.triu_indices(blocks + 1, 1)
        terms = np.concatenate([(prefix_s[:, end] - prefix_s[:, first]).ravel(), *(row[1:-1] for row in sent)])
        return np.unique(np.maximum(terms, least))
    most = min(known, float(prefix_s[:, -1].max() + max((row.max() for row in sent), default=0.0)))
    return np.asarray(most * (1 - _GRID) ** np.arange(math.ceil(math.log(max(least, most * 1e-9) / most) / math.log(1 - _GRID)), -1, -1))
