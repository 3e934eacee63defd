"""A lower bound of J for chains too large to solve: a Lagrangian relaxation of the constraint that no device has two stages.

With x_d the number of stages on device d, in place of x_d <= 1 there are prices lambda_d >= 0:

    L(T, lambda) = min { sum_s t_s + sum_s c_s + sum_d lambda_d * (x_d - 1) : t_s <= T, c_s <= T, memory }

over boundaries and groups, a shortest path along the chain; t_s, c_s, T, J and lambda_d are seconds. For every lambda it is at most the sum
of any allocation with a bottleneck of at most T: its x_d - 1 are at most 0. Hence, for intervals [a_k, T_k) that cover all bottlenecks
with which J can be below a known value,

    J >= min(value, min_k (M - 1) * a_k + max_{lambda >= 0} L(T_k, lambda)).

The path counts its stages, so memory is that of the microbatches in flight, and every transfer is over its own link; no device has two
stages in a row (`ChainStates`). Where prices no longer raise the bound, a device that is used more than once is tracked: the path
remembers whether it is used, as the exact dynamic program does for all. For very many groups the path is that of `CoarsePaths`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from hetero_mtf.planning.allocation.coarse_paths import CoarsePaths
from hetero_mtf.planning.allocation.dynamic_program import ChainStates
from hetero_mtf.planning.allocation.fluid_bound import Fluid, fluid_bound
from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.names import LARGEST_LOAD

_RATIO = 1.006  # least ratio of the middle of an interval of bottlenecks to its lower end for which it is halved
_HASTE = 8  # rounds without a better bound after which steps are halved
_SLOW = 0.3  # of what is missing: a batch that raises the bound by less is followed by one that tracks one device more
_MARGINS = (1.5, 2.0, 3.0, 4.5, 7.0, 11.0)  # seconds a unit of work costs at the margin: first guesses
_COARSE_BATCH, _BATCH = 15, 6  # rounds of prices until another bottleneck may have its turn
_COARSE_WORK, _LEAST_ROUNDS, _MOST_ROUNDS = 8e7, 100, 3000  # blocks times groups, for all rounds together
_WORK, _CALL = 2e8, 3e3  # states times groups for all rounds together; what a call of NumPy counts for
_LARGE = 2e7  # states times groups of one round, from which on the coarse relaxation is taken
_BITS = 62  # of a set of devices


def dual_bound(
    problem: ChainProblem,
    stages: int | None,
    value: float,
    rounds: int | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
) -> float:
    """Return seconds that no J is below, at least those of `fluid_bound`; for L, those of `fluid_bound`.

    Parameters
    ----------
    stages : number of stages; None for any.
    value : a J that is reached, seconds: no bound above it is looked for.
    rounds : shortest paths to compute; None for as many as take some seconds.
    out_of_time : asked now and then; once it says so the bound so far is returned.

    Notes
    -----
    Lagrangian relaxation; the module states L and the bound. Allocations of a bottleneck in [a, T) have J >= L(T) + (M - 1) * a; the
    interval from `Fluid`'s least T to what `value` allows is halved where this is least, and the least of all is the bound. Prices
    begin where all devices cost the same for a unit of work, then rise on devices used more than once and fall on idle ones
    (subgradient steps of Polyak's length, scaled by speed). O(tracked sets * groups^2 * blocks * stages) a round.

    References
    ----------
    Polyak, "Minimization of unsmooth functionals", USSR Computational Mathematics and Mathematical Physics 9 (1969) 14-29;
    Fisher, "The Lagrangian relaxation method for solving integer programming problems", Management Science 27 (1981) 1-18;
    Righini, Salani, "New dynamic programming algorithms for the resource constrained elementary shortest path problem", Networks 51
    (2008) 155-170, track nodes one by one in the same way.
    """
    if problem.objective == LARGEST_LOAD:
        return min(value, fluid_bound(problem, stages))
    weight, fluid, loose = problem.microbatches - 1, Fluid(problem), fluid_bound(problem, stages)
    relaxed = _relaxed(problem, fluid, stages)
    rounds = relaxed.rounds if rounds is None else min(rounds, relaxed.rounds)
    # J >= W + (M - 1) T, W the seconds of all blocks on the groups that are fastest at them: with a larger T no J is below `value`
    most_s = (value - float(fluid.work[-1])) / weight if weight else math.inf
    if most_s <= fluid.least_largest_s:
        return min(value, loose)
    low = fluid.least_largest_s if weight else 0.0
    budget = _Budget(rounds, relaxed.work)
    # numbers are unique, as of a binary tree's nodes: ties never compare _Prices, which have no order
    waiting = [(loose, 0, low, _Prices(relaxed, budget, most_s, value - weight * low))]
    while waiting and budget.left and not out_of_time():
        bound, number, low, prices = heapq.heappop(waiting)
        if bound >= value:
            return value
        # of an interval [a, T): the ratio T / a says how much (M - 1) * a understates the bottleneck, so it is halved by ratio
        middle = math.sqrt(low * prices.limit_s) if weight else 0.0  # with one microbatch the bottleneck does not count
        if prices.begun and middle > low * _RATIO:
            lower = _Prices(relaxed, budget, middle, prices.enough_s, prices)
            heapq.heappush(waiting, (bound, 2 * number + 1, low, lower))
            # L(T) + (M - 1) * a >= value needs L(T) >= value - (M - 1) * a: the upper half needs less now that its a is larger
            prices.enough_s, low, number = value - weight * middle, middle, 2 * number + 2
        bound = max(bound, prices.raised() + weight * low)
        heapq.heappush(waiting, (bound, number, low, prices))
    return min(value, min((bound for bound, *_ in waiting), default=value))


class _Budget:
    """Rounds and work that are left."""

    def __init__(self, rounds: int, work: float) -> None:
        self.rounds, self.work = rounds, work

    @property
    def left(self) -> bool:
        return self.rounds > 0 and self.work > 0

    def spend(self, work: float) -> None:
        self.rounds, self.work = self.rounds - 1, self.work - work


Path: TypeAlias = Callable[[np.ndarray, float], tuple[float, list[int], float]]


class _Coarse:
    """The relaxed problem whose paths are those of `CoarsePaths`.

    Attributes
    ----------
    rate : (devices,) array of float, work a second.
    members : (groups, devices) array of float, 1 where a device is in a group.
    rounds, work : how many paths may be computed, and how much work for all of them together.
    batch : rounds of prices until another bottleneck may have its turn.
    """

    def __init__(self, problem: ChainProblem, fluid: Fluid, stages: int | None) -> None:
        self.problem, self.stages, self.fluid = problem, stages, fluid
        self.rate = np.zeros(problem.devices)
        self.rate[fluid.order] = fluid.rate
        self.members = np.zeros((len(problem.groups), problem.devices))
        for at, group in enumerate(problem.groups):
            self.members[at, list(group)] = 1.0
        self.rounds = int(min(max(_COARSE_WORK / problem.seconds.size, _LEAST_ROUNDS), _MOST_ROUNDS))
        self.work, self.batch = math.inf, _COARSE_BATCH

    def paths(self, limit_s: float, tracked: int) -> Path:
        """Return (price of each group, number) -> the least sum with stages up to a limit, its groups and the work that it took.

        The sum may be infinite where it is not below the number.
        """
        coarse = CoarsePaths(self.problem)
        reach = coarse.reach(limit_s)
        return lambda price, below: (*coarse.path(reach, limit_s, price), 1.0)

    def may_track(self, tracked: int) -> bool:
        """Return whether so many devices may be tracked."""
        return False


class _Fine(_Coarse):
    """The relaxed problem whose paths are those of `ChainStates`."""

    def __init__(self, problem: ChainProblem, fluid: Fluid, stages: int | None) -> None:
        super().__init__(problem, fluid, stages)
        self.rounds, self.work, self.batch = _MOST_ROUNDS, _WORK, _BATCH

    def paths(self, limit_s: float, tracked: int) -> Path:
        states = ChainStates(self.problem, self.fluid, limit_s, tracked)

        def path(price: np.ndarray, below: float) -> tuple[float, list[int], float]:
            before = states.work
            least = states.solve(self.stages, below, price)
            work = states.work - before + _CALL * len(self.problem.groups) * self.problem.most_stages
            return (math.inf, [], work) if least is None else (least.total, list(least.answer.groups), work)

        return path

    def may_track(self, tracked: int) -> bool:
        return 2.0 ** tracked.bit_count() * _states(self.problem) <= _LARGE


def _relaxed(problem: ChainProblem, fluid: Fluid, stages: int | None) -> _Coarse:
    fine = problem.devices <= _BITS and _states(problem) <= _LARGE
    return (_Fine if fine else _Coarse)(problem, fluid, stages)


def _states(problem: ChainProblem) -> float:
    return float(problem.seconds.size * len(problem.groups) * problem.most_stages)


class _Prices:
    """The prices for one bottleneck."""

    def __init__(self, relaxed: _Coarse, budget: _Budget, limit_s: float, enough_s: float, like: _Prices | None = None) -> None:
        self.relaxed, self.budget, self.limit_s, self.enough_s = relaxed, budget, limit_s, enough_s
        self.kept: np.ndarray = np.zeros(relaxed.problem.devices) if like is None else like.kept
        self.first = self.prices = self.kept
        self.tracked: int = 0 if like is None else like.tracked
        self.path = relaxed.paths(limit_s, self.tracked)
        self.best, self.length, self.waited, self.begun = -math.inf, 0.5, 0, False
        self.excess = np.zeros(relaxed.problem.devices)

    def raised(self) -> float:
        """Return the least sum for better prices than before; infinite if there is none, or none that could matter."""
        if not self.begun:
            self._begin()
        before = self.best
        for _ in range(self.relaxed.batch):
            if self.best >= self.enough_s:
                return math.inf
            if not self.budget.left:
                return self.best
            self._step()
        if self.best - before < _SLOW * (self.enough_s - before):
            self._track()
        return self.best

    def _begin(self) -> None:
        self.begun = True
        busy_s = min(self.limit_s, self.enough_s)
        self._evaluate(self.first)
        for margin in _MARGINS if not self.tracked else ():
            if self.best < self.enough_s:
                # a stage of busy_s does rate * busy_s units; with this price a unit costs margin seconds
                self._evaluate(np.maximum(busy_s * (margin * self.relaxed.rate - 1.0), 0.0))
        self.prices = self.kept

    def _track(self) -> None:
        """Track the device that has more than one stage most often."""
        device = int(self.excess.argmax())
        if self.excess[device] > 0 and self.relaxed.may_track(self.tracked | 1 << device):
            self.tracked |= 1 << device
            self.path = self.relaxed.paths(self.limit_s, self.tracked)
            # a copy: an interval and the half made from it share the array
            self.kept = self.kept.copy()
            # x_d <= 1 is certain now, so lambda_d (x_d - 1) <= 0: a price could only lower the sum
            self.kept[device], self.excess[:] = 0.0, 0.0
            self.prices, self.length, self.waited = self.kept, 0.5, 0

    def _evaluate(self, prices: np.ndarray) -> tuple[float, np.ndarray]:
        # L = least of {sum + sum_d lambda_d x_d} - sum_d lambda_d; a group's stage costs the prices of all its devices
        # the path's sum includes the prices, enough_s does not
        sum_s, groups, work = self.path(self.relaxed.members @ prices, self.enough_s + float(prices.sum()))
        total, used = sum_s - float(prices.sum()), self.relaxed.members[groups].sum(axis=0)
        self.budget.spend(work)
        # how much x_d <= 1 was broken lately; only _track reads it
        self.excess = 0.9 * self.excess + np.maximum(used - 1.0, 0.0)
        self.waited += 1
        if total > self.best:
            self.best, self.kept, self.waited = total, prices, 0
        return total, used

    def _step(self) -> None:
        total, used = self._evaluate(self.prices)
        if self.waited > _HASTE:
            self.prices, self.length, self.waited = self.kept, self.length / 2, 0
            return
        # x_d - 1 is a slope of L along lambda_d (L is concave: a supergradient); a price of 0 cannot fall: it must not count in the length
        # in coordinates lambda_d / rate_d: hence a factor rate here and another one in the new prices
        step = np.where((self.prices > 0) | (used > 1), used - 1.0, 0.0) * self.relaxed.rate
        if step.any() and math.isfinite(total):
            # Polyak's length (target - L) / |slope|^2 with the target enough_s, which L need not reach: hence `length`, halved in time
            far = self.length * (self.enough_s - total) / float(step @ step)
            self.prices = np.maximum(self.prices + far * step * self.relaxed.rate, 0.0)
