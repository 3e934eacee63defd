"""The dynamic program of a chain: the least sum of stages and transfers of at most T seconds each.

With t(g, i, j) the seconds of blocks i .. j - 1 on group g, c(g, h, j) those of the transfers between g and h at boundary j, and V the
least sum of the last n stages, the first of them on group g from block i on, which use the devices D:

    V_1(g, g, i)           = t(g, i, B) + price_g
    V_{n+1}(D + g, g, i)   = price_g + min_{h, j > i} t(g, i, j) + c(g, h, j) + V_n(D, h, j)          g and D disjoint
    F(T)                   = min_{n, D, g} V_n(D, g, 0)

over t, c <= T, and j such that g holds blocks i .. j - 1 with the microbatches in flight of the n-th stage from the end. In an allocation
all prices are 0. In a relaxation (`dual_bound`) D has the tracked devices only, and g need only be disjoint from D and from h.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hetero_mtf.planning.allocation.fluid_bound import Fluid
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.allocation.stage_windows import StageWindows
from hetero_mtf.planning.solvers.bottleneck import LeastSum


class _Round(NamedTuple):
    """The states of one number of stages n.

    masks : (states,) sets D of used devices as bits, in order; in a relaxation, of the tracked ones.
    groups : (states,) group g of the first of the stages.
    sums : (states, blocks + 1) V_n: least sum of seconds from each block on; infinite where there is none.
    """

    masks: np.ndarray
    groups: np.ndarray
    sums: np.ndarray


class ChainStates:
    """Solver of the dynamic program for one limit T, for allocations or for their relaxation.

    In the relaxation devices that are not tracked may have several stages, though not two in a row.

    Parameters
    ----------
    fluid : of the problem.
    limit_s : T, the most seconds of a stage or a transfer.
    tracked : devices, as bits, that have one stage at most; None for an allocation: all.

    Attributes
    ----------
    work : states that were expanded, each for all blocks and all groups before it.

    Notes
    -----
    A state is pruned where its sum and the bound of `Fluid` for the blocks before it, on the devices not in D, are not below the value
    asked for. Where any number of stages is allowed, a state is dominated by one of fewer stages that is as cheap: that one has no more
    microbatches in flight.
    """

    def __init__(self, problem: ChainProblem, fluid: Fluid, limit_s: float, tracked: int | None = None) -> None:
        self.problem, self.fluid, self.limit_s = problem, fluid, limit_s
        device_sets, groups = np.array(problem.masks), np.arange(len(problem.groups))
        self.masks = device_sets if tracked is None else device_sets & tracked
        self.subsets = None if tracked is None else _subsets(tracked)
        sent = problem.transfer_s(groups[:, None, None], groups[None, :, None], np.arange(problem.blocks + 1))
        self.sent = np.where(sent <= limit_s, sent, np.inf)
        self.sent[(device_sets[:, None] & device_sets) != 0] = np.inf
        self.windows = StageWindows(problem, limit_s)
        self.price, self.below, self.work = np.zeros(len(groups)), math.inf, 0

    def solve(self, stages: int | None, below: float, price: np.ndarray | None = None) -> LeastSum[Allocation] | None:
        """Return the least sum, prices included, and its stages; None if it is not less than `below`.

        Parameters
        ----------
        stages : number of stages; None for any.
        below : seconds.
        price : (groups,) array of float, seconds that a stage of each group costs in addition; None for 0.
        """
        self.price = np.zeros(len(self.masks)) if price is None else price
        self.below = below
        dominance = self._dominance_table(stages)
        rounds, best = [self._last(dominance)], (0, 0)
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
            rounds.append(self._next(here, count + 1, dominance))
        if not best[0]:
            return None
        allocation = self._read_off(rounds[: best[0]], best[1])
        terms = np.concatenate(self.problem.spent_s(allocation))
        return LeastSum(float(terms.sum()) if self.subsets is None else self.below, float(terms.max()), allocation)

    def _dominance_table(self, stages: int | None) -> np.ndarray | None:
        """Return the (subsets of tracked devices, groups, blocks + 1) least sums of fewer stages, none yet; None without dominance."""
        if self.subsets is None or stages is not None:
            return None
        return np.full((len(self.subsets), *self.problem.prefix_s.shape), np.inf)

    def _last(self, dominance: np.ndarray | None) -> _Round:
        prefix_s = self.problem.prefix_s
        sums = np.where(self.windows.reach(1) == self.problem.blocks, prefix_s[:, -1:] - prefix_s + self.price[:, None], np.inf)
        sums[:, -1] = np.inf
        order = np.argsort(self.masks, kind="stable")
        return self._pruned(_Round(self.masks[order], order, sums[order]), dominance)

    def _next(self, here: _Round, count: int, dominance: np.ndarray | None) -> _Round:
        masks, groups, sums = [], [], []
        windows = self.windows.minima(count)
        for group, mask in enumerate(self.masks):
            free = np.flatnonzero((here.masks & mask) == 0)
            if not len(free):
                continue
            # min over h of c(g, h, j) + V_n(D, h, j): the states of one set D are neighbours, as the masks are in order
            used = here.masks[free]
            starts = np.flatnonzero(np.concatenate([[True], used[1:] != used[:-1]]))
            behind = np.minimum.reduceat(here.sums[free] + self.sent[group, here.groups[free]], starts, axis=0)
            prefix_s = self.problem.prefix_s[group]
            masks.append(used[starts] | mask)
            groups.append(np.full(len(starts), group))
            # t(g, i, j) is a difference of prefix sums: P(g, j) enters the minimum over j, P(g, i) does not depend on it
            sums.append(windows[group](behind + prefix_s) - (prefix_s - self.price[group]))
        if not masks:
            return _Round(np.zeros(0, int), np.zeros(0, int), np.zeros((0, self.problem.blocks + 1)))
        joined = np.concatenate(masks)
        order = np.argsort(joined, kind="stable")
        return self._pruned(_Round(joined[order], np.concatenate(groups)[order], np.concatenate(sums)[order]), dominance)

    def _pruned(self, states: _Round, dominance: np.ndarray | None) -> _Round:
        """Return the states that can still lead to a sum below the value asked for."""
        # the blocks before i take at least what `Fluid` says for the devices that D leaves; a state whose sum with that is too much ends
        unlike, place = np.unique(states.masks, return_inverse=True)
        least = self.fluid.least_before_s(unlike, self.limit_s)
        sums = np.where(states.sums + least[place] < self.below, states.sums, np.inf)
        if dominance is not None and self.subsets is not None:
            at = np.searchsorted(self.subsets, states.masks), states.groups
            sums[sums >= dominance[at]] = np.inf
            dominance[at] = np.minimum(dominance[at], sums)
        alive = np.isfinite(sums).any(axis=1)
        return _Round(states.masks[alive], states.groups[alive], sums[alive])

    def _read_off(self, rounds: list[_Round], state: int) -> Allocation:
        boundaries, groups, block = [0], [], 0
        for count in range(len(rounds), 1, -1):
            here, behind = rounds[count - 1], rounds[count - 2]
            group = here.groups[state]
            # the group may have added its devices to the set, or, where they are not tracked, nothing
            rest = here.masks[state] ^ self.masks[group]
            first, end = np.searchsorted(behind.masks, [rest, rest + 1])
            sums = behind.sums[first:end] + self.sent[group, behind.groups[first:end]] + self.problem.prefix_s[group]
            sums = sums[:, block + 1 : self.windows.reach(count)[group, block] + 1]
            at, ahead = np.unravel_index(int(sums.argmin()), sums.shape)
            state, block = int(first + at), int(block + 1 + ahead)
            groups.append(int(group))
            boundaries.append(block)
        return Allocation(tuple(boundaries), (*groups, int(rounds[0].groups[state])))


def _subsets(devices: int) -> np.ndarray:
    """Return all subsets of a set of devices, as bits, in order."""
    subsets = np.zeros(1, int)
    for device in range(devices.bit_length()):
        if devices >> device & 1:
            subsets = np.concatenate([subsets, subsets | 1 << device])
    return subsets
