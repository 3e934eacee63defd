"""The allocation of least largest load, by dynamic programming for a limit on the loads.

The objective is L of `problem`. For a limit T, with t(g, i, j) the seconds of blocks i .. j - 1 on group g, c(g, h, j) those of the
transfers between g and h at boundary j, and w_g 1 where transfers count as load of g, let A be the least load of a stage on g from block
i on, without what it receives, over all that can stand behind it with no load above T, on the devices D:

    A_1(g, g, i)         = t(g, i, B)
    A_{n+1}(D + g, g, i) = min_{h, j > i} { t(g, i, j) + w_g * c(g, h, j) : w_h * c(g, h, j) + A_n(D, h, j) <= T }     g and D disjoint

A stage receives over one transfer only, and less load before that is never worse. So an allocation with no load above T exists if
some A_n(D, g, 0) <= T. Where transfers are loads of their own w is 0, and c <= T is asked for too. `least_limit` chooses T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from hetero_mtf.planning.allocation.fluid_bound import Fluid
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.allocation.stage_windows import StageWindows
from hetero_mtf.planning.solvers.bottleneck import LeastValue
from hetero_mtf.planning.solvers.least_limit import least_limit
from hetero_mtf.planning.solvers.sliding_window import time_reach, window_minimum

_ABOVE = 1.0 + 1e-12  # loads are sums of floats
_UNLIMITED_S = 1e300  # a limit that all loads but infinite ones are below


class _Round(NamedTuple):
    """The states of one number of stages n.

    masks : (states,) sets D of used devices as bits, in order.
    groups : (states,) group g of the first of the stages.
    loads : (states, blocks + 1) A_n from each block on; infinite where a load behind is above the limit.
    """

    masks: np.ndarray
    groups: np.ndarray
    loads: np.ndarray


def least_load(
    problem: ChainProblem,
    stages: int | None = None,
    known: float = math.inf,
    out_of_time: Callable[[], bool] = lambda: False,
) -> LeastValue[Allocation]:
    """Return the allocation of least largest load, and a bound that equals it unless time ran out.

    Parameters
    ----------
    stages : number of stages; None for any.
    known : largest load of a known allocation, seconds; only a smaller one is searched for.
    out_of_time : polled; the best allocation so far is returned once it is true.

    Notes
    -----
    Exact; O(2^devices * devices * (devices + log(blocks)) * blocks) for each T and groups of one device. Of devices that are exactly
    alike only one order is tried.

    References
    ----------
    Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS 2020, minimise the same load over
    the ideals of a graph, which are the prefixes of a chain.

    Examples
    --------
    >>> links = np.array([[0.0, 0.25], [0.25, 0.0]])
    >>> problem = ChainProblem(np.array([[1.0, 1, 2], [2, 2, 4]]), ((0,), (1,)), np.zeros(2), links, 0 * links, np.ones(3), np.ones(3),
    ...     np.full(2, np.inf), microbatches=5, objective="largest_load", communication_load=(True, True))
    >>> least_load(problem).answer, least_load(problem).value
    (Allocation(boundaries=(0, 1), groups=(1, 0)), 3.5)
    """
    twins = _twins(problem)

    def solve(limit_s: float) -> tuple[float, Allocation] | None:
        return _valued(problem, _LoadStates(problem, limit_s, twins).solve(stages))

    return least_limit(solve, Fluid(problem).least_largest_s, known, out_of_time)


def least_load_partition(
    problem: ChainProblem, groups: Sequence[int], known: float = math.inf, out_of_time: Callable[[], bool] = lambda: False
) -> LeastValue[Allocation]:
    """Return the partition of least largest load for groups in a fixed order, all of them used.

    Parameters
    ----------
    groups : (stages,) indices of the groups, in order.
    known : largest load of a known allocation, seconds; only a smaller one is searched for.
    out_of_time : polled; the best partition so far is returned once it is true.

    Notes
    -----
    Exact; O(stages * blocks * log(blocks)) for each T.
    """
    prefix_s = problem.prefix_s[list(groups)]
    memory = [problem.reach(len(groups) - at)[group] for at, group in enumerate(groups)]
    pairs = [(np.array([a]), np.array([b])) for a, b in zip(groups, groups[1:])]

    def solve(limit_s: float) -> tuple[float, Allocation] | None:
        limit_s = min(limit_s, _UNLIMITED_S)
        reach = np.minimum(time_reach(prefix_s, limit_s), memory)
        loads = np.where(reach[-1] == problem.blocks, prefix_s[-1, -1] - prefix_s[-1], np.inf)
        loads[-1] = np.inf
        behind: list[np.ndarray] = []
        for at in range(len(groups) - 2, -1, -1):
            sent, received = (seconds[0, 0] for seconds in _counted_s(problem, *pairs[at], limit_s))
            behind.append(np.where(loads + received <= limit_s * _ABOVE, sent, np.inf) + prefix_s[at])
            loads = window_minimum(behind[-1][None, :], reach[at])[0] - prefix_s[at]
        if loads[0] > limit_s * _ABOVE:
            return None
        boundaries = [0]
        for at in range(len(groups) - 1):
            first, end = boundaries[-1] + 1, reach[at][boundaries[-1]] + 1
            boundaries.append(first + int(behind[len(groups) - 2 - at][first:end].argmin()))
        return _valued(problem, Allocation(tuple(boundaries), tuple(groups)))

    least_s = float(problem.seconds[list(groups)].min(axis=0).max())
    return least_limit(solve, least_s, known, out_of_time)


class _LoadStates:
    """Solver of the dynamic program for one limit.

    Parameters
    ----------
    limit_s : T, the most seconds of a load.
    twins : (groups,) for each group a group that is exactly alike and is used first, or -1.
    """

    def __init__(self, problem: ChainProblem, limit_s: float, twins: np.ndarray) -> None:
        self.problem, self.limit_s, self.twins = problem, min(limit_s, _UNLIMITED_S), twins
        self.masks = np.array(problem.masks)
        groups = np.arange(len(problem.groups))
        self.sent, self.received = _counted_s(problem, groups, groups, self.limit_s)
        self.received[(self.masks[:, None] & self.masks) != 0] = np.inf
        self.windows = StageWindows(problem, self.limit_s)

    def solve(self, stages: int | None) -> Allocation | None:
        """Return an allocation with no load above the limit; None if there is none.

        Parameters
        ----------
        stages : number of stages; None for any.
        """
        rounds = [self._last()]
        for count in range(1, self.problem.most_stages + 1):
            here = rounds[-1]
            if not len(here.masks):
                return None
            state = int(here.loads[:, 0].argmin())
            if stages in (None, count) and math.isfinite(here.loads[state, 0]):
                return self._read_off(rounds, state)
            if count in (stages, self.problem.most_stages):
                return None
            rounds.append(self._next(here, count + 1))
        return None

    def _last(self) -> _Round:
        prefix_s = self.problem.prefix_s
        loads = np.where(self.windows.reach(1) == self.problem.blocks, prefix_s[:, -1:] - prefix_s, np.inf)
        loads[:, -1] = np.inf
        order = np.argsort(self.masks, kind="stable")
        # of two groups that are exactly alike the later one is in use only with the earlier one behind it: so it is never the last
        order = order[self.twins[order] < 0]
        return self._alive(_Round(self.masks[order], order, loads[order]))

    def _next(self, here: _Round, count: int) -> _Round:
        masks, groups, loads = [], [], []
        windows = self.windows.minima(count)
        for group, mask in enumerate(self.masks):
            free, twin = (here.masks & mask) == 0, self.twins[group]
            free = np.flatnonzero(free if twin < 0 else free & ((here.masks & self.masks[twin]) != 0))
            if not len(free):
                continue
            used = here.masks[free]
            starts = np.flatnonzero(np.concatenate([[True], used[1:] != used[:-1]]))
            behind = np.minimum.reduceat(self._left(here.loads[free], group, here.groups[free]), starts, axis=0)
            prefix_s = self.problem.prefix_s[group]
            masks.append(used[starts] | mask)
            groups.append(np.full(len(starts), group))
            loads.append(windows[group](behind + prefix_s) - prefix_s)
        if not masks:
            return _Round(np.zeros(0, int), np.zeros(0, int), np.zeros((0, self.problem.blocks + 1)))
        joined = np.concatenate(masks)
        order = np.argsort(joined, kind="stable")
        return self._alive(_Round(joined[order], np.concatenate(groups)[order], np.concatenate(loads)[order]))

    def _left(self, loads: np.ndarray, group: int, later: np.ndarray) -> np.ndarray:
        """Return the seconds of sending that count for a group before each state; infinite where the state's load would be too much."""
        return np.where(loads + self.received[group, later] <= self.limit_s * _ABOVE, self.sent[group, later], np.inf)

    def _alive(self, states: _Round) -> _Round:
        loads = np.where(states.loads <= self.limit_s * _ABOVE, states.loads, np.inf)
        alive = np.isfinite(loads).any(axis=1)
        return _Round(states.masks[alive], states.groups[alive], loads[alive])

    def _read_off(self, rounds: list[_Round], state: int) -> Allocation:
        boundaries, groups, block = [0], [], 0
        for count in range(len(rounds), 1, -1):
            here, behind = rounds[count - 1], rounds[count - 2]
            group = int(here.groups[state])
            rest = here.masks[state] ^ self.masks[group]
            first, end = np.searchsorted(behind.masks, [rest, rest + 1])
            sums = self._left(behind.loads[first:end], group, behind.groups[first:end]) + self.problem.prefix_s[group]
            sums = sums[:, block + 1 : self.windows.reach(count)[group, block] + 1]
            at, ahead = np.unravel_index(int(sums.argmin()), sums.shape)
            state, block = int(first + at), int(block + 1 + ahead)
            groups.append(group)
            boundaries.append(block)
        return Allocation(tuple(boundaries), (*groups, int(rounds[0].groups[state])))


def _valued(problem: ChainProblem, allocation: Allocation | None) -> tuple[float, Allocation] | None:
    return None if allocation is None else (problem.value(allocation), allocation)


def _counted_s(problem: ChainProblem, sources: np.ndarray, destinations: np.ndarray, limit_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (sources, destinations, blocks + 1) arrays: seconds of transfers that count for the sender and for the receiver.

    Where transfers are loads of their own they count for neither, and those above the limit are infinite for the receiver.
    """
    sent = problem.transfer_s(sources[:, None, None], destinations[None, :, None], np.arange(problem.blocks + 1))
    if not problem.communication_load:
        return np.zeros_like(sent), np.where(sent <= limit_s * _ABOVE, 0.0, np.inf)
    counted = np.array(problem.communication_load, dtype=float)
    return sent * counted[sources][:, None, None], sent * counted[destinations][None, :, None]


def _twins(problem: ChainProblem) -> np.ndarray:
    """Return for each group of one device the group before it whose device is exactly alike, or -1."""
    twins = np.full(len(problem.groups), -1)
    if not problem.disjoint or any(len(group) > 1 for group in problem.groups):
        return twins
    for late, (device,) in enumerate(problem.groups):
        for early in range(late - 1, -1, -1):
            if _alike(problem, early, late, problem.groups[early][0], device):
                twins[late] = early
                break
    return twins


def _alike(problem: ChainProblem, early: int, late: int, device: int, other: int) -> bool:
    exchanged = np.arange(problem.devices)
    exchanged[[device, other]] = other, device
    return (
        bool((problem.seconds[early] == problem.seconds[late]).all())
        and problem.memory_bytes[device] == problem.memory_bytes[other]
        and (not problem.communication_load or problem.communication_load[early] == problem.communication_load[late])
        and all((links == links[np.ix_(exchanged, exchanged)]).all() for links in (problem.latency_s, problem.seconds_per_byte))
    )
