"""The layout program within memory by Lagrangean relaxation: bytes of a pool have prices in seconds that are added to J.

    min_x J(x)  subject to  k_p(x) <= f_p for all pools p

with k_p(x) bytes that the states x take of pool p and f_p bytes free. Its dual is

    max_{w >= 0} L(w),    L(w) = min_x J(x) + sum_p w_p (k_p(x) - f_p),

a lower bound of J over all x that fit. L is concave and piecewise linear; it is maximised by cutting planes, and states that fit are
looked for at prices near the maximum.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linprog

from hetero_mtf.planning.layout_search.memory import LayoutMemory
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.solvers.elimination import Factor, SumMinimum, minimise_sum

ROUNDS = 40  # of finding prices
SHORTAGES = 20  # of finding prices at which nothing fits
FITTINGS = 40  # of raising and lowering prices until the states fit
STEP = 3.0  # factor on the lacking part of a pool by which its price is raised
TIGHT = 1e-3  # relative difference of the bound and its upper limit at which the search stops

Choice = tuple[int, ...]
Short = Callable[[Choice], np.ndarray]
Parts = list[np.ndarray]  # for each pool, the part of its free bytes that a term takes, for every choice of its variables


@dataclasses.dataclass(frozen=True)
class Priced:
    """The result of the search over prices.

    Parameters
    ----------
    choice : (layers,) index of each layer's state, of the least J among those that fit; empty if none does.
    value : J of the choice, seconds; infinite if there is none.
    bound : a lower bound of J of all choices that fit, seconds; infinite where none does.
    """

    choice: Choice
    value: float
    bound: float


def solve_priced(cost: LayoutCost, memory: LayoutMemory, short: Short, time_limit_s: float, known: Sequence[Choice] = ()) -> Priced:
    """Return states that fit in memory, with a J near the least, and a lower bound of that.

    For prices w_p >= 0 of the bytes of pools p with f_p bytes free, and k_p(x) bytes that the states x keep there at least,

        L(w) = min_x J(x) + sum_p w_p (k_p(x) - f_p) <= J(x) for every x that fits,

    as each term added is then at most zero. L is concave, and each x found for some prices bounds it from above by a plane: the next
    prices are those at which the planes known so far leave the most (Kelley's method), within a box about the best. Prices near the
    best ones are then raised where bytes are lacking until the states fit, and lowered again as far as they do. Before that the same is
    done without J: where min_x sum_p w_p (k_p(x) - f_p) > 0 for some prices, no x fits.

    Parameters
    ----------
    cost : J over a space whose tables are small enough for elimination.
    memory : bytes of every state, at most what a plan with it needs, and what is free.
    short : the part of each pool that a choice lacks, for the full stage; zero or less where it fits.
    time_limit_s : seconds after which the best choice so far is returned; half of them for the bound.
    known : choices to start from.

    Notes
    -----
    The bound is proven, the choice a heuristic: the least J that fits may lie above the largest L (a duality gap), and the largest
    temporary is counted for one layer only, the one that needs most for the states that J alone would take. O(rounds *
    elimination).

    References
    ----------
    Kelley, "The cutting-plane method for solving convex programs", J. SIAM 8 (1960) 703-712; Geoffrion, "Lagrangean relaxation for
    integer programming", Mathematical Programming Study 2 (1974) 82-114.
    """
    search = _PriceSearch(cost, memory, short, time_limit_s)
    for choice in known:
        search.consider(choice)
    if (search.try_prices(np.zeros(len(memory.pools))) > 0).any():
        if search.never_fits():
            return Priced((), np.inf, np.inf)
        search.raise_bound()
        search.fit()
    return Priced(search.choice, search.value, search.bound)


class _PriceSearch:
    """The planes of L at the prices tried so far; a price is seconds for all free bytes of a pool."""

    def __init__(self, cost: LayoutCost, memory: LayoutMemory, short: Short, time_limit_s: float) -> None:
        self.cost, self.short, begun_s = cost, short, time.monotonic()
        self.half_s, self.end_s = begun_s + time_limit_s / 2, begun_s + time_limit_s
        self.domains = [len(states) for states in cost.space.states]
        factors = cost.factors()
        first = minimise_sum(self.domains, factors).choice
        parts = [*_kept(memory, first), *(_read(memory, factor.scope) for factor in factors[len(first) :])]
        self.terms = [(factor.scope, factor.table, part) for factor, part in zip(factors, parts)]
        self.choice: Choice = ()
        self.value, self.bound, self.best = np.inf, 0.0, np.zeros(len(memory.pools))
        self.planes: list[tuple[float, np.ndarray]] = []

    def late(self, end_s: float) -> bool:
        """Return whether a time is over."""
        return time.monotonic() > end_s

    def try_prices(self, prices: np.ndarray) -> np.ndarray:
        """Minimise over the states at some prices; return the part of each pool that the minimum lacks."""
        least = self._least(prices)
        # L(w) = min_x {J + sum_p w_p k_p / f_p} - sum_p w_p: a price is for all free bytes of a pool, so f_p counts as 1
        reached = least.value - float(prices.sum())
        if reached > self.bound:
            self.bound, self.best = reached, prices
        self.planes.append((self.cost.total(least.choice), self._over(least.choice)))
        return self.consider(least.choice)

    def _least(self, prices: np.ndarray, with_seconds: bool = True) -> SumMinimum:
        """Return the states that cost least at some prices; infinite terms, of states that are not compatible, stay infinite."""
        priced = []
        for scope, table, parts in self.terms:
            seconds = table if with_seconds else np.where(np.isinf(table), table, 0.0)
            priced.append(Factor(scope, sum((w * part for w, part in zip(prices, parts) if w), seconds)))
        return minimise_sum(self.domains, priced)

    def _over(self, choice: Choice) -> np.ndarray:
        """Return the part of each pool that a choice takes beyond what is free, as far as it adds up over layers."""
        held = np.array([[part[tuple(choice[at] for at in scope)] for part in parts] for scope, _, parts in self.terms])
        excess: np.ndarray = held.sum(axis=0) - 1.0
        return excess

    def consider(self, choice: Choice) -> np.ndarray:
        """Keep a choice if it fits and none was better; return the part of each pool that it lacks."""
        short, value = self.short(choice), self.cost.total(choice)
        if (short <= 0).all() and value < self.value:
            self.choice, self.value = choice, value
        return short

    def never_fits(self) -> bool:
        """Return whether there are prices at which even the states of least bytes cost more than all free bytes."""
        count = len(self.best)
        prices, planes = np.full(count, 1 / count), list[np.ndarray]()
        for _ in range(SHORTAGES):
            least = self._least(prices, with_seconds=False)
            planes.append(self._over(least.choice))
            self.consider(least.choice)
            if least.value > 1 + 1e-9:
                return True
            # max v over w >= 0, sum_p w_p = 1: v <= sum_p w_p over_p(x) for the x so far; over_p = k_p / f_p - 1. Prices are scaled to
            # the sum 1, as without J only their ratios matter; no v above 0 is left: then no prices prove that nothing fits
            rows = np.column_stack([-np.array(planes), np.ones(len(planes))])
            total_row, goal = np.append(np.ones(count), 0.0)[None], np.append(np.zeros(count), -1.0)
            bounds = [(0, None)] * count + [(None, None)]
            solved = linprog(goal, A_ub=rows, b_ub=np.zeros(len(planes)), A_eq=total_row, b_eq=[1.0], bounds=bounds)
            if solved.status != 0 or solved.x[-1] <= 1e-9 or self.choice or self.late(self.half_s):
                break
            prices = solved.x[:-1]
        return False

    def raise_bound(self) -> None:
        """Look for the prices at which the bound is highest."""
        wide = 0.25 * self.planes[0][0]
        for _ in range(ROUNDS):
            prices, most = self._highest(np.maximum(0.0, self.best - wide), self.best + wide)
            if self.late(self.half_s) or most <= self.bound * (1 + TIGHT) or self.value <= self.bound * (1 + TIGHT):
                break
            before = self.bound
            self.try_prices(prices)
            # far from the best prices the planes are high where nothing was tried: a box that did not help is too wide
            wide *= 2.0 if self.bound > before else 0.5

    def fit(self) -> None:
        """Raise the prices of the pools that lack bytes until the states fit, and lower all prices as long as they do."""
        prices = np.maximum(self.best, 1e-3 * self.planes[0][0])
        for _ in range(FITTINGS):
            if self.late(self.end_s) or self.value <= self.bound * (1 + TIGHT):
                break
            short = self.try_prices(prices)
            prices = prices * (0.95 if (short <= 0).all() else 1 + np.clip(STEP * short, 0.0, 1.0))

    def _highest(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the prices within a box at which the least of the known planes is largest, and this value."""
        # max v over low <= w <= high: v <= J(x) + sum_p w_p over_p(x) for the x so far, the upper bound of L that Kelley's method takes
        values, slopes = np.array([value for value, _ in self.planes]), np.array([slope for _, slope in self.planes])
        rows = np.column_stack([-slopes, np.ones(len(values))])
        goal = np.append(np.zeros(len(low)), -1.0)
        solved = linprog(goal, A_ub=rows, b_ub=values, bounds=[*zip(low, high), (None, None)])
        return (self.best, self.bound) if solved.status != 0 else (solved.x[:-1], float(solved.x[-1]))


def _kept(memory: LayoutMemory, first: Choice) -> list[Parts]:
    """Return the part of each pool that each layer takes however its output is read.

    Of the temporaries those of one layer count on each device, the largest in `first`: the largest of all is no less.
    """
    kept = [[memory.own(index, pool) / pool.free for pool in memory.pools] for index in range(len(first))]
    for at, pool in enumerate(memory.pools):
        for place in pool.places:
            largest = max(range(len(first)), key=lambda index: float(memory.temporary(index, place)[first[index]]))
            kept[largest][at] = kept[largest][at] + memory.temporary(largest, place) / pool.free
    return kept


def _read(memory: LayoutMemory, scope: tuple[int, ...]) -> Parts:
    """Return the part of each pool that a layer's output takes, in its own layout and in those of its readers."""
    return [memory.read(scope[0], pool) / pool.free for pool in memory.pools]
