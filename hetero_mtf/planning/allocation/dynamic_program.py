"""The dynamic program of a chain: the least sum of stages and transfers up to a limit, over blocks and sets of used devices."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hetero_mtf.planning.allocation.fluid_bound import Fluid
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.solvers.bottleneck import LeastSum
from hetero_mtf.planning.solvers.window import WindowMinimum, time_reach


class _Round(NamedTuple):
    """The ends of the chain that so many stages hold.

    masks : (states,) sets of used devices, in order; of a relaxation, of the tracked ones.
    groups : (states,) group of the first of the stages.
    sums : (states, blocks + 1) least sum of seconds from each block on; infinite where there is none.
    """

    masks: np.ndarray
    groups: np.ndarray
    sums: np.ndarray


class ChainStates:
    """The stages of least sum with none, and no transfer, above a limit: of an allocation, or of a relaxation of one.

    From the last stage to the first, over (set of used devices, group of the first stage so far, its first block); the number of
    stages, which says how many microbatches are in flight, is that of the round. Of a relaxation the set holds tracked devices only:
    the others may have several stages, though not two in a row, and each use of a device may have a price.

    Parameters
    ----------
    problem : ChainProblem.
    fluid : of the problem.
    limit_s : the most seconds of a stage or a transfer.
    tracked : devices, as bits, that have one stage at most; None for an allocation: all.

    Attributes
    ----------
    work : states that were looked at, each for all blocks and all groups before it.

    Notes
    -----
    States from which no allocation below the number asked for can come fall away: what is left of the chain would take at least what
    `Fluid` says of the devices that are not known to be used. Where any number of stages will do, so does a state that a smaller
    number reaches as cheaply: it holds no more microbatches in flight.
    """

    def __init__(self, problem: ChainProblem, fluid: Fluid, limit_s: float, tracked: int | None = None) -> None:
        self.problem, self.fluid, self.limit_s = problem, fluid, limit_s
        whole, groups = np.array(problem.masks), np.arange(len(problem.groups))
        self.masks = whole if tracked is None else whole & tracked
        self.subsets = None if tracked is None else _subsets(tracked)
        sent = problem.transfer_s(groups[:, None, None], groups[None, :, None], np.arange(problem.blocks + 1))
        self.sent = np.where(sent <= limit_s, sent, np.inf)
        self.sent[(whole[:, None] & whole) != 0] = np.inf
        self.ends = time_reach(problem.until, limit_s)
        self.price, self.below, self.work = np.zeros(len(groups)), math.inf, 0
        self._by_flight: dict[int, list[WindowMinimum]] = {}

    def solve(self, stages: int | None, below: float, price: np.ndarray | None = None) -> LeastSum[Allocation] | None:
        """Return the least sum, prices included, and its stages; None if it is not below a number.

        Parameters
        ----------
        stages : number of stages; None for any.
        below : the number, seconds.
        price : (groups,) array of float, seconds that a stage of each group costs besides; None for 0.
        """
        self.price = np.zeros(len(self.masks)) if price is None else price
        self.below = below
        passed = self._nothing_passed(stages)
        rounds, best = [self._last(passed)], (0, 0)
        for count in range(1, self.problem.most_stages + 1):
            here = rounds[-1]
            if not len(here.masks):
                break
            self.work += here.sums.size * len(self.masks)
            first = int(here.sums[:, 0].argmin())
            if stages in (None, count) and here.sums[first, 0] < self.below:
                self.below, best = float(here.sums[first, 0]), (count, first)
            if count == stages:
                break
            rounds.append(self._next(here, count + 1, passed))
        if not best[0]:
            return None
        allocation = self._read_off(rounds[: best[0]], best[1])
        terms = np.concatenate(self.problem.spent_s(allocation))
        return LeastSum(float(terms.sum()) if self.subsets is None else self.below, float(terms.max()), allocation)

    def _windows(self, count: int) -> np.ndarray:
        """Return the (groups, blocks + 1) last end of a stage that begins at each block, by time and by memory."""
        return np.asarray(np.minimum(self.ends, self.problem.reach(count)))

    def _minima(self, count: int) -> list[WindowMinimum]:
        flying = self.problem.in_flight(count)
        if flying not in self._by_flight:
            self._by_flight[flying] = [WindowMinimum(ends) for ends in self._windows(count)]
        return self._by_flight[flying]

    def _nothing_passed(self, stages: int | None) -> np.ndarray | None:
        """Return the (subsets of tracked devices, groups, blocks + 1) least sums of fewer stages, none yet; None where they say nothing."""
        if self.subsets is None or stages is not None:
            return None
        return np.full((len(self.subsets), *self.problem.until.shape), np.inf)

    def _last(self, passed: np.ndarray | None) -> _Round:
        until = self.problem.until
        sums = np.where(self._windows(1) == self.problem.blocks, until[:, -1:] - until + self.price[:, None], np.inf)
        sums[:, -1] = np.inf
        order = np.argsort(self.masks, kind="stable")
        return self._worthy(_Round(self.masks[order], order, sums[order]), passed)

    def _next(self, here: _Round, count: int, passed: np.ndarray | None) -> _Round:
        masks, groups, sums = [], [], []
        windows = self._minima(count)
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
            sums.append(windows[group](behind + until) - (until - self.price[group]))
        if not masks:
            return _Round(np.zeros(0, int), np.zeros(0, int), np.zeros((0, self.problem.blocks + 1)))
        joined = np.concatenate(masks)
        order = np.argsort(joined, kind="stable")
        return self._worthy(_Round(joined[order], np.concatenate(groups)[order], np.concatenate(sums)[order]), passed)

    def _worthy(self, found: _Round, passed: np.ndarray | None) -> _Round:
        """Return the states that may still lead to a sum below the one asked for."""
        unlike, place = np.unique(found.masks, return_inverse=True)
        least = self.fluid.least_before_s(unlike, self.limit_s)
        sums = np.where(found.sums + least[place] < self.below, found.sums, np.inf)
        if passed is not None and self.subsets is not None:
            at = np.searchsorted(self.subsets, found.masks), found.groups
            sums[sums >= passed[at]] = np.inf
            passed[at] = np.minimum(passed[at], sums)
        alive = np.isfinite(sums).any(axis=1)
        return _Round(found.masks[alive], found.groups[alive], sums[alive])

    def _read_off(self, rounds: list[_Round], state: int) -> Allocation:
        cuts, groups, block = [0], [], 0
        for count in range(len(rounds), 1, -1):
            here, behind = rounds[count - 1], rounds[count - 2]
            group = here.groups[state]
            # the group may have added its devices to the set, or, where they are not tracked, nothing
            rest = here.masks[state] ^ self.masks[group]
            first, end = np.searchsorted(behind.masks, [rest, rest + 1])
            sums = behind.sums[first:end] + self.sent[group, behind.groups[first:end]] + self.problem.until[group]
            sums = sums[:, block + 1 : self._windows(count)[group, block] + 1]
            at, ahead = np.unravel_index(int(sums.argmin()), sums.shape)
            state, block = int(first + at), int(block + 1 + ahead)
            groups.append(int(group))
            cuts.append(block)
        return Allocation(tuple(cuts), (*groups, int(rounds[0].groups[state])))


def _subsets(devices: int) -> np.ndarray:
    """Return all subsets of a set of devices, as bits, in order."""
    found = np.zeros(1, int)
    for device in range(devices.bit_length()):
        if devices >> device & 1:
            found = np.concatenate([found, found | 1 << device])
    return found
