"""The best allocation of a chain, by dynamic programming over blocks and sets of used devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hetero_mtf.planning.bottleneck import LeastSum, LeastValue, minimise
from hetero_mtf.planning.chain import Allocation, ChainProblem
from hetero_mtf.planning.chain_bound import Fluid
from hetero_mtf.planning.window import time_reach, window_minimum


def exact_allocation(
    problem: ChainProblem,
    stages: int | None = None,
    known: float = math.inf,
    out_of_time: Callable[[], bool] = lambda: False,
) -> LeastValue[Allocation]:
    """Return the allocation of least J, and a bound that equals it unless time ran out.

    Parameters
    ----------
    problem : ChainProblem.
    stages : number of stages; None for any.
    known : a J that is reached already, seconds; only less is looked for.
    out_of_time : asked now and then; once it says so the best so far is returned.

    Notes
    -----
    For a bottleneck T a dynamic program from the last stage to the first minimises the sum of all stages and transfers of at most T
    each over (set of used devices, group of the first stage so far, its first block); the number of stages, which says how many
    microbatches are in flight, is that of the round. `bottleneck.minimise` says for which T. States from which no allocation below
    the best J can come fall away: what is left of the chain would take at least what `Fluid` says of the devices left.
    Exact; O(2^devices * devices * (devices + log(blocks)) * blocks) for each T and groups of one device, seconds for 12 devices
    and 60 blocks.

    Examples
    --------
    >>> links = np.zeros((2, 2))
    >>> problem = ChainProblem(np.array([[1.0, 1, 1], [9, 2, 2]]), ((0,), (1,)), np.ones(2), links, links, np.ones(3), np.ones(3),
    ...     np.full(2, np.inf), microbatches=5)
    >>> found = exact_allocation(problem)
    >>> found.value, found.bound, found.answer
    (12.0, 12.0, Allocation(cuts=(0, 2), groups=(0, 1)))
    """
    fluid = Fluid(problem)
    weight = problem.microbatches - 1

    def solve(limit_s: float, below: float) -> LeastSum[Allocation] | None:
        return _LeastSum(problem, fluid, limit_s, below).solve(stages)

    return minimise(solve, weight, _terms(problem, fluid.least_largest_s), known, out_of_time)


def any_allocation(problem: ChainProblem, stages: int | None = None) -> Allocation | None:
    """Return the allocation of least sum of seconds, whatever its largest stage; None if no allocation fits into memory.

    Parameters
    ----------
    problem : ChainProblem.
    stages : number of stages; None for any.
    """
    found = _LeastSum(problem, Fluid(problem), math.inf, math.inf).solve(stages)
    return None if found is None else found.answer


def exact_work(problem: ChainProblem) -> float:
    """Return about how many states the dynamic program has for one bottleneck: sets of devices, groups, blocks and numbers of stages.

    Parameters
    ----------
    problem : ChainProblem.
    """
    sets = 2.0 ** min(len(problem.groups), problem.devices)
    return sets * len(problem.groups) * problem.blocks * (1.0 if problem.disjoint else max(1.0, problem.most_stages / 2))


def _terms(problem: ChainProblem, least_s: float) -> np.ndarray:
    """Return the seconds of all stages and transfers there can be, rising, from those that are least up to one above all."""
    first, end = np.triu_indices(problem.blocks + 1, 1)
    groups = np.arange(len(problem.groups))
    stages = problem.until[:, end] - problem.until[:, first]
    sent = problem.transfer_s(groups[:, None, None], groups[None, :, None], np.arange(1, problem.blocks))
    terms = np.concatenate([stages.ravel(), sent.ravel()])
    return np.asarray(np.unique(np.maximum(terms, least_s)))


class _Round(NamedTuple):
    """The ends of the chain that so many stages hold.

    masks : (states,) sets of used devices, in order.
    groups : (states,) group of the first of the stages.
    sums : (states, blocks + 1) least sum of seconds from each block on; infinite where there is none.
    """

    masks: np.ndarray
    groups: np.ndarray
    sums: np.ndarray


class _LeastSum:
    """The allocation of least sum with no stage or transfer above a limit."""

    def __init__(self, problem: ChainProblem, fluid: Fluid, limit_s: float, below: float) -> None:
        self.problem, self.fluid, self.limit_s, self.below = problem, fluid, limit_s, below
        self.masks = np.array(problem.masks)
        groups = np.arange(len(problem.groups))
        sent = problem.transfer_s(groups[:, None, None], groups[None, :, None], np.arange(problem.blocks + 1))
        self.sent = np.where(sent <= limit_s, sent, np.inf)
        self.ends = time_reach(problem.until, limit_s)

    def solve(self, stages: int | None) -> LeastSum[Allocation] | None:
        """Return it, or None if no sum is below the one asked for."""
        rounds, best, found = [self._last()], self.below, None
        for count in range(1, self.problem.most_stages + 1):
            here = rounds[-1]
            if not len(here.masks):
                break
            first = int(here.sums[:, 0].argmin())
            if stages in (None, count) and here.sums[first, 0] < best:
                best, found = float(here.sums[first, 0]), (count, first)
                self.below = best
            if count == stages:
                break
            rounds.append(self._next(here, count + 1))
        if found is None:
            return None
        allocation = self._read_off(rounds[: found[0]], found[1])
        terms = np.concatenate(self.problem.spent_s(allocation))
        return LeastSum(float(terms.sum()), float(terms.max()), allocation)

    def _windows(self, count: int) -> np.ndarray:
        """Return the (groups, blocks + 1) last end of a stage that begins at each block, by time and by memory."""
        return np.asarray(np.minimum(self.ends, self.problem.reach(count)))

    def _last(self) -> _Round:
        until = self.problem.until
        sums = np.where(self._windows(1) == self.problem.blocks, until[:, -1:] - until, np.inf)
        sums[:, -1] = np.inf
        order = np.argsort(self.masks, kind="stable")
        return self._worthy(self.masks[order], order, sums[order])

    def _next(self, here: _Round, count: int) -> _Round:
        masks, groups, sums = [], [], []
        windows = self._windows(count)
        for group, mask in enumerate(self.masks):
            free = np.flatnonzero((here.masks & mask) == 0)
            if not len(free):
                continue
            used = here.masks[free]
            starts = np.flatnonzero(np.concatenate([[True], used[1:] != used[:-1]]))
            behind = np.minimum.reduceat(here.sums[free] + self.sent[group, here.groups[free]], starts, axis=0)
            until = self.problem.until[group]
            masks.append(used[starts] | mask)
            groups.append(np.full(len(starts), group))
            sums.append(window_minimum(behind + until, windows[group]) - until)
        if not masks:
            return _Round(np.zeros(0, int), np.zeros(0, int), np.zeros((0, self.problem.blocks + 1)))
        joined = np.concatenate(masks)
        order = np.argsort(joined, kind="stable")
        return self._worthy(joined[order], np.concatenate(groups)[order], np.concatenate(sums)[order])

    def _worthy(self, masks: np.ndarray, groups: np.ndarray, sums: np.ndarray) -> _Round:
        """Return the states that may still lead to a sum below the one asked for."""
        unlike, place = np.unique(masks, return_inverse=True)
        least = self.fluid.least_before_s(unlike, self.limit_s)
        sums = np.where(sums + least[place] < self.below, sums, np.inf)
        alive = np.isfinite(sums).any(axis=1)
        return _Round(masks[alive], groups[alive], sums[alive])

    def _read_off(self, rounds: list[_Round], state: int) -> Allocation:
        cuts, groups, block = [0], [], 0
        for count in range(len(rounds), 1, -1):
            here, behind = rounds[count - 1], rounds[count - 2]
            group, rest = here.groups[state], here.masks[state] ^ self.masks[here.groups[state]]
            first, end = np.searchsorted(behind.masks, [rest, rest + 1])
            sums = behind.sums[first:end] + self.sent[group, behind.groups[first:end]] + self.problem.until[group]
            sums = sums[:, block + 1 : self._windows(count)[group, block] + 1]
            at, ahead = np.unravel_index(int(sums.argmin()), sums.shape)
            state, block = int(first + at), int(block + 1 + ahead)
            groups.append(int(group))
            cuts.append(block)
        return Allocation(tuple(cuts), (*groups, int(rounds[0].groups[state])))
