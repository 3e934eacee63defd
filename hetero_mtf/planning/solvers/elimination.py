"""The least sum of tables over shared variables, by eliminating one variable after another.

minimise    sum_f table_f[x_v for v in scope_f]    over x
subject to  x_v in {0, ..., domains_v - 1}
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections.abc import Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class Factor:
    """One term of a sum: a number for every choice of the variables in its scope.

    Parameters
    ----------
    scope : (variables,) the variables it depends on, each once.
    table : (values of the first variable, values of the second, ...) array of float; infinite where a choice is not allowed.
    """

    scope: tuple[int, ...]
    table: np.ndarray


@dataclasses.dataclass(frozen=True)
class SumMinimum:
    """The least sum.

    Parameters
    ----------
    value : the sum; infinite if no choice is allowed.
    choice : (variables,) the value of each variable that reaches it.
    """

    value: float
    choice: tuple[int, ...]


def minimise_sum(domains: Sequence[int], factors: Sequence[Factor]) -> SumMinimum:
    """Return the values that minimise the sum of all factors.

    Parameters
    ----------
    domains : (variables,) number of values of each variable, at least 1.
    factors : the terms.

    Notes
    -----
    Bucket elimination: the factors of one variable are added into one table over its neighbours, the variable is minimised out
    of it, and its best value for each choice of the neighbours is kept to read the answer off backwards. Exact; O(factors +
    variables * largest table), where the largest table is d^(w+1) for d values and the width w of the order: a chain has width 1.
    `elimination_order` says how large that will be.

    References
    ----------
    Dechter, "Bucket elimination: a unifying framework for reasoning", Artificial Intelligence 113 (1999) 41-85.

    Examples
    --------
    >>> apart = np.array([[5.0, 0.0], [0.0, 5.0]])
    >>> minimise_sum([2, 2], [Factor((0, 1), apart), Factor((0,), np.array([1.0, 2.0]))])
    SumMinimum(value=1.0, choice=(0, 1))
    """
    order, _ = elimination_order(domains, [factor.scope for factor in factors])
    buckets: list[dict[int, Factor]] = [{} for _ in domains]
    total, factor_id = 0.0, 0
    for factor_id, factor in enumerate(factors):
        if not factor.scope:
            total += float(factor.table)
        for variable in factor.scope:
            buckets[variable][factor_id] = factor
    best: list[tuple[int, tuple[int, ...], np.ndarray]] = []
    # with N the variables that share a factor with v: min over v of the sum of v's factors is a factor over N, and takes their place;
    # x_v* over N is kept, as the best v is known only once those of N are. Afterwards no factor has v, so at the end none is left
    for variable in order:
        joined = _joined(variable, domains[variable], list(buckets[variable].values()))
        for number, factor in list(buckets[variable].items()):
            for other in factor.scope:
                del buckets[other][number]
        best.append((variable, joined.scope[:-1], joined.table.argmin(axis=-1)))
        rest = Factor(joined.scope[:-1], joined.table.min(axis=-1))
        factor_id += 1
        if not rest.scope:
            total += float(rest.table)
        for other in rest.scope:
            buckets[other][factor_id] = rest
    return SumMinimum(total, _read_off(len(domains), best))


def elimination_order(domains: Sequence[int], scopes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], int]:
    """Return the order in which to eliminate variables, and the entries of the largest table on the way.

    Parameters
    ----------
    domains : (variables,) number of values of each variable.
    scopes : variables of each factor.

    Notes
    -----
    Greedy: next comes the variable whose table, over itself and those it shares a factor with by then, is smallest. Heuristic: a
    better order may exist, but any order is exact. O(variables * width^2 * log(variables)).

    Examples
    --------
    >>> elimination_order([3, 3, 3], [(0, 1), (1, 2)])
    ((0, 1, 2), 9)
    """
    beside: list[set[int]] = [set() for _ in domains]
    for scope in scopes:
        for variable in scope:
            beside[variable].update(scope)
    for variable, others in enumerate(beside):
        others.discard(variable)

    def entries(variable: int) -> int:
        return domains[variable] * math.prod(domains[other] for other in beside[variable])

    waiting = [(entries(variable), variable) for variable in range(len(domains))]
    heapq.heapify(waiting)
    order: list[int] = []
    done, largest = [False] * len(domains), 1
    while waiting:
        size, variable = heapq.heappop(waiting)
        if done[variable] or size != entries(variable):
            continue
        done[variable], largest = True, max(largest, size)
        order.append(variable)
        for other in beside[variable]:
            beside[other] |= beside[variable]
            beside[other] -= {variable, other}
        for other in beside[variable]:
            heapq.heappush(waiting, (entries(other), other))
    return tuple(order), largest


def _joined(variable: int, values: int, factors: Sequence[Factor]) -> Factor:
    """Return the sum of a variable's factors, that variable last."""
    others = sorted({v for factor in factors for v in factor.scope} - {variable})
    scope = (*others, variable)
    place = {v: at for at, v in enumerate(scope)}
    table = np.zeros([1] * len(others) + [values])
    for factor in factors:
        order = np.argsort([place[v] for v in factor.scope]).astype(int).tolist()
        shape = [1] * len(scope)
        for at in order:
            shape[place[factor.scope[at]]] = factor.table.shape[at]
        table = table + factor.table.transpose(order).reshape(shape)
    return Factor(scope, table)


def _read_off(variables: int, best: Sequence[tuple[int, tuple[int, ...], np.ndarray]]) -> tuple[int, ...]:
    # last eliminated first: the neighbours that a table of best values is over were eliminated later, so they are chosen already
    chosen = [0] * variables
    for variable, scope, values in reversed(best):
        chosen[variable] = int(values[tuple(chosen[other] for other in scope)])
    return tuple(chosen)
