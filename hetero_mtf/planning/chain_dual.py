"""A lower bound of J for chains too large to solve: blocks are whole, but a device may be used more than once, at a price."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np

from hetero_mtf.planning.chain import ChainProblem
from hetero_mtf.planning.chain_bound import Fluid, fluid_bound
from hetero_mtf.planning.window import time_reach

_RATIO = 1.006  # of the middle of an interval of bottlenecks to its lower end, if it is worth halving
_BATCH = 15  # rounds of prices until another bottleneck may have its turn
_HASTE = 8  # rounds without a better bound after which steps are halved
_MARGINS = (1.5, 2.0, 3.0, 4.5, 7.0, 11.0)  # seconds a unit of work costs at the margin: first guesses
_WORK, _LEAST_ROUNDS, _MOST_ROUNDS = 8e7, 100, 3000  # blocks times groups, for all rounds together


def dual_bound(
    problem: ChainProblem,
    stages: int | None,
    value: float,
    rounds: int | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> float:
    """Return seconds that no J is below, at least those of `fluid_bound`.

    Parameters
    ----------
    problem : ChainProblem.
    stages : number of stages; None for any.
    value : a J that is reached, seconds: no bound above it is looked for.
    rounds : shortest paths to compute; None for as many as take some seconds.
    out_of_time : asked now and then; once it says so the bound so far is returned.

    Notes
    -----
    Lagrangian relaxation: that no device has two stages is not demanded; instead each use of device d costs lambda_d seconds, and
    sum_d lambda_d is taken off. The least sum for a bottleneck T is then a shortest path along the chain, and for any lambda >= 0
    no allocation of a bottleneck up to T has a smaller sum. With that sum L(T), allocations of a bottleneck in [a, T) have
    J >= L(T) + (M - 1) * a; the interval from `Fluid`'s least T to what `value` allows is halved where this is least, and the least
    of all is the bound. Prices begin where all devices cost the same for a unit of work, then rise on devices used more than once
    and fall on idle ones (subgradient steps of Polyak's length, scaled by speed). A transfer is taken as the fastest out of its
    group, and memory as for the last stage (or all microbatches, for fill_drain).
    O(blocks * groups * blocks of a stage) a round.

    References
    ----------
    Fisher, "The Lagrangian relaxation method for solving integer programming problems", Management Science 27 (1981) 1-18.
    """
    if rounds is None:
        rounds = int(min(max(_WORK / problem.seconds.size, _LEAST_ROUNDS), _MOST_ROUNDS))
    weight, fluid, loose = problem.microbatches - 1, Fluid(problem), fluid_bound(problem, stages)
    relaxed = _Relaxed(problem, fluid)
    most_s = (value - float(fluid.work[-1])) / weight if weight else math.inf
    if most_s <= fluid.least_largest_s:
        return min(value, loose)
    low = fluid.least_largest_s if weight else 0.0
    waiting = [(loose, 0, low, _Prices(relaxed, most_s, value - weight * low))]
    while waiting and rounds > relaxed.rounds and not out_of_time():
        bound, number, low, prices = heapq.heappop(waiting)
        if bound >= value:
            return value
        middle = math.sqrt(low * prices.limit_s) if weight else math.inf
        if prices.begun and middle > low * _RATIO:
            lower = _Prices(relaxed, middle, prices.enough_s, prices.kept)
            heapq.heappush(waiting, (bound, 2 * number + 1, low, lower))
            prices.enough_s, low, number = value - weight * middle, middle, 2 * number + 2
        bound = max(bound, prices.raised() + weight * low)
        heapq.heappush(waiting, (bound, number, low, prices))
    return min(value, min((bound for bound, *_ in waiting), default=value))


class _Prices:
    """The prices for one bottleneck."""

    def __init__(self, relaxed: _Relaxed, limit_s: float, enough_s: float, first: np.ndarray | None = None) -> None:
        self.relaxed, self.limit_s, self.enough_s = relaxed, limit_s, enough_s
        self.ends = np.ascontiguousarray(np.minimum(time_reach(relaxed.problem.until, limit_s), relaxed.problem.reach(1)).T)
        self.first = self.prices = self.kept = np.zeros(relaxed.problem.devices) if first is None else first
        self.best, self.length, self.waited, self.begun = -math.inf, 0.5, 0, False

    def raised(self) -> float:
        """Return the least sum for better prices than before; infinite if there is none, or none that could matter."""
        if not self.begun:
            self._begin()
        for _ in range(_BATCH):
            if self.best >= self.enough_s:
                return math.inf
            self._step()
        return self.best

    def _begin(self) -> None:
        self.begun = True
        busy_s = min(self.limit_s, self.enough_s)
        self._evaluate(self.first)
        for margin in _MARGINS:
            if self.best < self.enough_s:
                self._evaluate(np.maximum(busy_s * (margin * self.relaxed.rate - 1.0), 0.0))
        self.prices = self.kept

    def _evaluate(self, prices: np.ndarray) -> tuple[float, np.ndarray]:
        total, used = self.relaxed.path(self.ends, self.limit_s, prices)
        self.waited += 1
        if total > self.best:
            self.best, self.kept, self.waited = total, prices, 0
        return total, used

    def _step(self) -> None:
        total, used = self._evaluate(self.prices)
        if self.waited > _HASTE:
            self.prices, self.length, self.waited = self.kept, self.length / 2, 0
            return
        step = np.where((self.prices > 0) | (used > 1), used - 1.0, 0.0) * self.relaxed.rate
        if step.any() and math.isfinite(total):
            far = self.length * (self.enough_s - total) / float(step @ step)
            self.prices = np.maximum(self.prices + far * step * self.relaxed.rate, 0.0)


class _Relaxed:
    """The relaxed problem."""

    def __init__(self, problem: ChainProblem, fluid: Fluid) -> None:
        self.problem, self.rounds = problem, 0
        self.until = np.ascontiguousarray(problem.until.T)
        self.out_s = np.ascontiguousarray(_fastest_out_s(problem).T)
        self.rate = np.zeros(problem.devices)
        self.rate[fluid.order] = fluid.rate
        self.members = np.zeros((len(problem.groups), problem.devices))
        for at, group in enumerate(problem.groups):
            self.members[at, list(group)] = 1.0

    def path(self, ends: np.ndarray, limit_s: float, prices: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the least sum at some prices less the prices, and how often each device is used for it.

        Parameters
        ----------
        ends : (blocks + 1, groups) array of int, the last end of a stage that begins at each block.
        limit_s : the most seconds of a transfer.
        prices : (devices,) array of float, seconds.
        """
        self.rounds += 1
        blocks, groups = self.problem.blocks, len(self.problem.groups)
        price = self.members @ prices
        out_s = np.where(self.out_s <= limit_s, self.out_s, np.inf)
        behind = np.full((blocks + 1, groups), np.inf)
        behind[blocks] = self.until[blocks]
        first, chosen = np.zeros(blocks + 1, int), np.zeros(blocks + 1, int)
        furthest, places, every = ends.max(axis=1), np.arange(blocks + 1)[:, None], np.arange(groups)
        sums = np.zeros(blocks + 1)
        for block in range(blocks - 1, -1, -1):
            last = furthest[block]
            if last <= block:
                sums[block] = np.inf
                behind[block] = np.inf
                continue
            window = np.where(places[block + 1 : last + 1] <= ends[block], behind[block + 1 : last + 1], np.inf)
            at = window.argmin(axis=0)
            total = window[at, every] - self.until[block] + price
            group = int(total.argmin())
            sums[block], first[block], chosen[block] = total[group], group, block + 1 + at[group]
            behind[block] = self.until[block] + out_s[block] + total[group]
        used, block = np.zeros(self.problem.devices), 0
        while block < blocks and math.isfinite(sums[0]):
            used += self.members[first[block]]
            block = chosen[block]
        return float(sums[0] - prices.sum()), used


def _fastest_out_s(problem: ChainProblem) -> np.ndarray:
    """Return (groups, blocks + 1) array: the least seconds of a transfer from each group at each cut."""
    groups = range(len(problem.groups))
    found = np.zeros((len(groups), problem.blocks + 1))
    for group in groups:
        others = np.array([g for g in groups if not problem.masks[g] & problem.masks[group]], dtype=int)
        if len(others):
            found[group] = problem.transfer_s(group, others[:, None], np.arange(problem.blocks + 1)).min(axis=0)
    return found
