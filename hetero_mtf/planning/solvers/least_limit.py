"""The least limit for which there is an answer, from a solver that says for one limit whether there is one.

min { v(x) : x feasible },    solve(T) an x with v(x) <= T, or None if there is none.

Two numbers enclose the least value at all times: `bound`, a limit without an answer, and `value`, that of the best answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from hetero_mtf.planning.solvers.bottleneck import CLOSED, Answer, LeastValue

_FIRST, _FASTER, _MOST = 0.01, 4.0, 20.0  # limits tried before an answer is known: relative to the least one, as 1 + 0.01 * 4^k


def least_limit(
    solve: Callable[[float], tuple[float, Answer] | None],
    least: float,
    known: float = math.inf,
    out_of_time: Callable[[], bool] = lambda: False,
) -> LeastValue[Answer]:
    """Return the answer of least value.

    Parameters
    ----------
    solve : limit T -> the value and the answer of some feasible x with a value of at most T; None if there is none.
    least : a number that no value is below.
    known : a value that is known already; only a smaller one is searched for.
    out_of_time : polled before each call of the solver; the best so far is returned with its bound once it is true.

    Notes
    -----
    The least number is the first limit; limits rise from it until there is an answer; its value is that of an x. Then bisection between
    the largest limit without an answer and the least value. Exact to 1e-9 of the value; about 35 calls of the solver.

    Examples
    --------
    >>> values = {"a": 7.0, "b": 5.0, "c": 6.0}
    >>> def solve(limit: float) -> tuple[float, str] | None:
    ...     return next(((value, key) for key, value in values.items() if value <= limit), None)
    >>> least_limit(solve, 1.0).answer
    'b'
    """
    value, answer, bound, solved = known, None, least, 0
    rise = _FIRST
    while bound < value * CLOSED:
        if out_of_time():
            return LeastValue(value, bound, answer, solved)
        limit = (bound + value) / 2
        if solved == 0:
            limit = least
        # no middle yet: the rises grow by a factor, so that a least value far above `least` takes few calls
        elif math.isinf(value):
            limit = least * (1 + rise) if least > 0 and rise < _MOST else math.inf
            rise = _FASTER * rise
        elif limit in (bound, value):  # no number is between them
            break
        solution = solve(limit)
        solved += 1
        if solution is not None and solution[0] < value:
            value, answer = solution
        elif math.isinf(limit):
            return LeastValue(value, math.inf, None, solved)
        else:
            bound = limit
    return LeastValue(value, value, answer, solved)
