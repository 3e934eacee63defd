"""The layout program as an integer program for HiGHS: for networks whose tables are too large for elimination, and within memory.

Variables: x_ls in {0, 1}, layer l takes state s; f_lr(h, w) >= 0, the output of l has layout h and its reader r needs it in w;
y_l(h, w) >= 0, this resharding is paid; z_l(w) >= 0, the all-reduce of the gradients of columns is paid; t_d >= 0, largest temporary of
device d.

    min  sum_ls own_l(s) x_ls + sum_l,h,w c_l(h, w) y_l(h, w) + sum_l,w a_l(w) z_l(w)
    s.t. sum_s x_ls = 1                                                   for all l
         sum_w f_lr(h, w) = sum over s of layout h of x_ls                for all l, r, h
         sum_h f_lr(h, w) = sum over s that need w of x_rs                for all l, r, w
         y_l(h, w) >= f_lr(h, w)                                          for all l, r, h != w
         z_l(w) >= sum over columns s that need w of x_rs                 for all l, r, w
         t_d >= sum_s temporary_lsd x_ls                                  for all l, d
         sum_ls kept_lsp x_ls + sum over d of p of t_d <= free_p          for all pools p

f_lr(h, w) exists only where the two are compatible; the last two rows only within memory. An output of the network has one more
variable, e_l(h) + y_l(h, w_out) >= sum over s of layout h of x_ls, for its gathering without a reader.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from hetero_mtf.planning.layout_search.memory import LayoutMemory
from hetero_mtf.planning.layout_search.step_objective import LayoutCost

TIME_LIMIT_S = 20.0
RELATIVE_GAP = 1e-6

_Term = tuple[int, float]  # variable, coefficient


@dataclasses.dataclass(frozen=True)
class MilpSolution:
    """The result of the integer program.

    Parameters
    ----------
    choice : (layers,) index of each layer's state; empty if there is none.
    bound : a lower bound of J, seconds; infinite if no choice is within the memory.
    status : "optimal", "time limit" or "infeasible".
    """

    choice: tuple[int, ...]
    bound: float
    status: str


def solve_milp(
    cost: LayoutCost, memory: LayoutMemory | None = None, time_limit_s: float = TIME_LIMIT_S, gap: float = RELATIVE_GAP
) -> MilpSolution:
    """Return the states that minimise J, within the memory of every pool.

    As y_l(h, w) is at least each f_lr(h, w), a resharding is paid once for all readers, and likewise a sum of gradients once for all
    columns.

    Parameters
    ----------
    cost : J over a space.
    memory : bytes of every state, and the free bytes; None for no memory rows.
    time_limit_s : seconds after which the best solution so far is returned.
    gap : relative gap at which the solver may stop.

    Notes
    -----
    Exact up to the gap. Without memory rows the relaxation is tight on chains. O(layers * states +
    reads * layouts^2) variables.
    """
    if memory is not None and memory.never_fits:
        return MilpSolution((), np.inf, "infeasible")
    program = _Program(cost)
    if memory is not None:
        program.add_memory(memory)
    optimum = program.solve(time_limit_s, gap)
    bound = float(optimum.mip_dual_bound) if optimum.mip_dual_bound is not None else -np.inf
    if optimum.status == 2:
        return MilpSolution((), np.inf, "infeasible")
    if optimum.x is None:
        return MilpSolution((), max(0.0, bound), "time limit")
    choice = tuple(int(np.argmax(optimum.x[first : first + count])) for first, count in program.states)
    return MilpSolution(choice, max(0.0, bound), "optimal" if optimum.status == 0 else "time limit")


class _Program:
    """Variables and rows of the integer program."""

    def __init__(self, cost: LayoutCost) -> None:
        self.cost = cost
        self.prices: list[float] = []
        self.upper: list[float] = []
        self.rows: list[tuple[list[_Term], float, float]] = []
        self.states: list[tuple[int, int]] = []
        for index, states in enumerate(cost.space.states):
            prices = cost.own(index)
            self.states.append((self._variables(prices), len(states)))
            self._row([(v, 1.0) for v in self._of(index)], 1.0, 1.0)
        for index in range(len(self.states)):
            self._add_sent(index)

    def add_memory(self, memory: LayoutMemory) -> None:
        """Add a row for every pool, and the rows that bound the temporaries in it."""
        for pool in memory.pools:
            terms: list[_Term] = []
            for index in range(len(self.states)):
                terms += [(v, kept / pool.free) for v, kept in zip(self._of(index), memory.kept(index, pool).tolist()) if kept]
            for place in pool.places:
                largest = self._variables(np.zeros(1), np.inf)
                terms.append((largest, 1.0))
                for index in range(len(self.states)):
                    needed = memory.temporary(index, place)
                    if needed.any():
                        self._row([(largest, 1.0), *((v, -n / pool.free) for v, n in zip(self._of(index), needed.tolist()))], 0.0, np.inf)
            self._row(terms, -np.inf, 1.0)  # in parts of the free bytes: HiGHS needs coefficients near one

    def solve(self, time_limit_s: float, gap: float) -> Any:
        """Return the solver's result."""
        coefficients, at_row, at_column = [], [], []
        for number, (terms, _, _) in enumerate(self.rows):
            for variable, coefficient in terms:
                coefficients.append(coefficient)
                at_row.append(number)
                at_column.append(variable)
        places = np.asarray(at_row, np.int32), np.asarray(at_column, np.int32)  # SciPy up to 1.14 hands no wider ones on to HiGHS
        matrix = csr_array((coefficients, places), shape=(len(self.rows), len(self.prices)))
        low, high = (np.array([row[side] for row in self.rows]) for side in (1, 2))
        integral = np.zeros(len(self.prices))
        for first, count in self.states:
            integral[first : first + count] = 1
        return milp(
            np.array(self.prices),
            constraints=LinearConstraint(matrix, low, high),
            integrality=integral,
            bounds=Bounds(0, np.array(self.upper)),
            options={"time_limit": time_limit_s, "mip_rel_gap": gap},
        )

    def _of(self, index: int) -> range:
        first, count = self.states[index]
        return range(first, first + count)

    def _variables(self, prices: Iterable[float], upper: float = 1.0) -> int:
        first = len(self.prices)
        self.prices += [float(price) for price in prices]
        self.upper += [upper] * (len(self.prices) - first)
        return first

    def _row(self, terms: list[_Term], low: float, high: float) -> None:
        self.rows.append((terms, low, high))

    def _add_sent(self, index: int) -> None:
        """Add the communication of a layer's output and gradient."""
        cost, resharded = self.cost, dict[tuple[int, int], int]()
        states = cost.space.states[index]
        held: dict[int, list[int]] = {}
        for v, state in zip(self._of(index), states):
            held.setdefault(cost.held(state), []).append(v)
        for reader in cost.graph.readers[index]:
            self._add_flow(index, reader, resharded)
        if cost.graph.readers[index] and cost.costs.trains_before[index]:
            self._add_columns(index)
        for h, chosen in held.items() if index in cost.graph.outputs else ():
            wanted = cost.left_as(h)
            if wanted == h:
                continue
            price = cost.reshard_s(index, h, wanted)[0]
            leaves = self._variables([price])
            read = [(resharded[h, wanted], 1.0)] if (h, wanted) in resharded else []
            self._row([(leaves, 1.0), *read, *((v, -1.0) for v in chosen)], 0.0, np.inf)

    def _add_flow(self, index: int, reader: int, resharded: dict[tuple[int, int], int]) -> None:
        """Add the flow between the states of a layer and those of a reader."""
        cost, first = self.cost, len(self.prices)
        ours, theirs = cost.space.states[index], cost.space.states[reader]
        sources, wants = cost.kinds(index, reader)
        every = itertools.product(range(len(sources)), range(len(wants)))
        pairs = [(a, b) for a, b in every if cost.goes_with(index, ours[sources[a][0]], theirs[wants[b][0]])]
        self._variables([0.0] * len(pairs))
        for side, groups, owner in ((0, sources, index), (1, wants, reader)):
            for at, members in enumerate(groups):
                flows = [(first + k, 1.0) for k, pair in enumerate(pairs) if pair[side] == at]
                self._row([*flows, *((self.states[owner][0] + s, -1.0) for s in members)], 0.0, 0.0)
        by_resharding: dict[tuple[int, int], list[int]] = {}
        for k, (a, b) in enumerate(pairs):
            held, wanted = cost.held(ours[sources[a][0]]), cost.wanted(theirs[wants[b][0]], index, reader)
            if held != wanted:
                by_resharding.setdefault((held, wanted), []).append(first + k)
        for change, over in by_resharding.items():
            if change not in resharded:
                resharded[change] = self._variables([sum(cost.reshard_s(index, *change))])
            self._row([(resharded[change], 1.0), *((v, -1.0) for v in over)], 0.0, np.inf)

    def _add_columns(self, index: int) -> None:
        """Add the all-reduces of the gradients that columns return to a layer, one for all columns that need it in the same layout."""
        cost, summed = self.cost, dict[int, int]()
        for reader in cost.graph.readers[index]:
            columns: dict[int, list[int]] = {}
            for v, state in zip(self._of(reader), cost.space.states[reader]):
                if state.layout == "column":
                    columns.setdefault(cost.wanted(state, index, reader), []).append(v)
            for wanted, chosen in columns.items():
                if wanted not in summed:
                    summed[wanted] = self._variables([cost.sum_s(index, wanted)])
                self._row([(summed[wanted], 1.0), *((v, -1.0) for v in chosen)], 0.0, np.inf)
