"""The least of a sum plus a multiple of its largest term (its bottleneck), from a solver for the least sum of terms up to a limit.

With terms a_k(x) of a feasible x and a weight w >= 0:

    min_x sum_k a_k(x) + w * max_k a_k(x)  =  min_T F(T) + w * T,    F(T) = min_x { sum_k a_k(x) : a_k(x) <= T for all k }

over the values T that a term can have. F is a staircase that never rises; the caller solves it for one T at a time.

Why the two are equal: an x with the largest term t is allowed at T = t, so the right side is at most its value; and the x of F(T) has no
term above T, so its value is at most F(T) + w * T. Terms must not be negative.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

Answer = TypeVar("Answer")
BELOW = 1.0 - 1e-12  # of a number: just below it, beyond what rounding leaves
CLOSED = 1.0 - 1e-9  # a bound that is this near is the value


@dataclasses.dataclass(frozen=True, order=True)
class LeastSum(Generic[Answer]):
    """A solution of F(T).

    Parameters
    ----------
    total : F(T), the least sum.
    largest : the largest term of the solution.
    answer : x.
    """

    total: float
    largest: float
    answer: Answer


@dataclasses.dataclass(frozen=True)
class LeastValue(Generic[Answer]):
    """The least of sum + weight * largest.

    Parameters
    ----------
    value : the least value so far; infinite if there is none.
    bound : lower bound of the value.
    answer : x; None if none is better than the known value.
    solved : number of calls of the solver.
    """

    value: float
    bound: float
    answer: Answer | None
    solved: int


def minimise(
    solve: Callable[[float, float], LeastSum[Answer] | None],
    weight: float,
    terms: np.ndarray,
    known: float = math.inf,
    out_of_time: Callable[[], bool] = lambda: False,
) -> LeastValue[Answer]:
    """Return the answer that minimises sum + weight * largest term.

    Parameters
    ----------
    solve : (limit T, number) -> the answer of least sum among those with every term at most T; None if its sum is not below the number.
    weight : of the largest term, 0 or more.
    terms : (values,) array of float, rising: all values that the largest term can have. Or a grid: then it is the answer that is
        least if the largest term is rounded up to the grid.
    known : a value that is known already; only a smaller one is searched for.
    out_of_time : polled before each call of the solver; the best so far is returned with its bound once it is true.

    Notes
    -----
    All answers with a largest term in [a, b) have a value of at least F(b) + weight * a; the interval for which that is least comes
    first. Exact to 1e-9 of the value. About log2(terms) calls of the solver for each step of the staircase F that could matter.

    Examples
    --------
    >>> table = {"a": [5.0, 1.0], "b": [3.0, 3.5], "c": [4.0, 4.0]}
    >>> def solve(limit: float, below: float) -> LeastSum[str] | None:
    ...     solutions = [LeastSum(sum(v), max(v), k) for k, v in table.items() if max(v) <= limit and sum(v) < below]
    ...     return min(solutions, default=None)
    >>> terms = np.array([3.5, 4.0, 5.0])
    >>> minimise(solve, 2.0, terms).answer, minimise(solve, 0.0, terms).answer
    ('b', 'a')
    """
    value, answer, solved = known, None, 0
    waiting = [(weight * float(terms[0]), 0, len(terms), 0.0)]  # (bound, first term, the one behind the last, lower bound of F there)
    while waiting:
        bound, first, end, total = heapq.heappop(waiting)
        if bound >= value * CLOSED:
            return LeastValue(value, min(bound, value), answer, solved)
        if out_of_time():
            return LeastValue(value, bound, answer, solved)
        # a term T with F + weight * T >= value cannot improve: from there on the interval is left out
        if weight and value < math.inf:
            end = min(end, int(np.searchsorted(terms, (value - total) / weight)))
        if end <= first:
            continue
        at = end - 1 if total == 0.0 else (first + end - 1) // 2  # F at the last term bounds F in the whole interval: that comes first
        solution = solve(float(terms[at]), value - weight * float(terms[first]))
        solved += 1
        if at + 1 < end:
            heapq.heappush(waiting, (total + weight * float(terms[at + 1]), at + 1, end, total))
        if solution is None:
            continue
        if solution.total + weight * solution.largest < value:
            value, answer = solution.total + weight * solution.largest, solution.answer
        # a term in [t, terms[at]] has F of terms[at] and weighs t or more: no better than this answer, so terms below t are left
        until = min(at, int(np.searchsorted(terms, solution.largest * BELOW)))
        if until > first:
            heapq.heappush(waiting, (solution.total + weight * float(terms[first]), first, until, solution.total))
    return LeastValue(value, value, answer, solved)
