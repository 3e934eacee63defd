"""The optimal allocation of a chain, by dynamic programming over blocks and sets of used devices.

The problem is that of `problem`. Its objective is a sum plus (M - 1) times the bottleneck, so

    min J = min_T F(T) + (M - 1) * T,    F(T) = min { sum_s t_s + sum_s c_s : t_s <= T, c_s <= T, the constraints of `problem` }.

`dynamic_program` computes F(T); `solvers.bottleneck` chooses the T at which it is computed. `largest_load` minimises L.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hetero_mtf.planning.allocation.dynamic_program import ChainStates
from hetero_mtf.planning.allocation.fluid_bound import Fluid
from hetero_mtf.planning.allocation.largest_load import least_load
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.names import LARGEST_LOAD
from hetero_mtf.planning.solvers.bottleneck import LeastSum, LeastValue, minimise


def exact_allocation(
    problem: ChainProblem,
    stages: int | None = None,
    known: float = math.inf,
    out_of_time: Callable[[], bool] = lambda: False,
) -> LeastValue[Allocation]:
    """Return the allocation of least J, or L, and a bound that equals it unless time ran out.

    Parameters
    ----------
    stages : number of stages; None for any.
    known : objective of a known allocation, seconds; only a smaller one is searched for.
    out_of_time : polled; the best allocation so far is returned once it is true.

    Notes
    -----
    Exact; O(2^devices * devices * (devices + log(blocks)) * blocks) for each T and groups of one device, seconds for 12 devices
    and 60 blocks.

    Examples
    --------
    >>> links = np.zeros((2, 2))
    >>> problem = ChainProblem(np.array([[1.0, 1, 1], [9, 2, 2]]), ((0,), (1,)), np.ones(2), links, links, np.ones(3), np.ones(3),
    ...     np.full(2, np.inf), microbatches=5)
    >>> optimum = exact_allocation(problem)
    >>> optimum.value, optimum.bound, optimum.answer
    (12.0, 12.0, Allocation(boundaries=(0, 2), groups=(0, 1)))
    """
    if problem.objective == LARGEST_LOAD:
        return least_load(problem, stages, known, out_of_time)
    fluid = Fluid(problem)
    weight = problem.microbatches - 1

    def solve(limit_s: float, below: float) -> LeastSum[Allocation] | None:
        return ChainStates(problem, fluid, limit_s).solve(stages, below)

    return minimise(solve, weight, _terms(problem, fluid.least_largest_s), known, out_of_time)


def any_allocation(problem: ChainProblem, stages: int | None = None) -> Allocation | None:
    """Return the allocation of least sum of seconds, whatever its bottleneck; None if no allocation fits into memory.

    Parameters
    ----------
    stages : number of stages; None for any.

    Notes
    -----
    Exact: F of an infinite T, one dynamic program of `exact_allocation`.
    """
    solution = ChainStates(problem, Fluid(problem), math.inf).solve(stages, math.inf)
    return None if solution is None else solution.answer


def exact_work(problem: ChainProblem) -> float:
    """Return the approximate number of states of the dynamic program for one bottleneck: sets of devices * groups * blocks * stages."""
    sets = 2.0 ** min(len(problem.groups), problem.devices)
    return sets * len(problem.groups) * problem.blocks * (1.0 if problem.disjoint else max(1.0, problem.most_stages / 2))


def _terms(problem: ChainProblem, least_s: float) -> np.ndarray:
    """Return the values that the bottleneck can have, rising: the seconds of all possible stages and transfers, at least `least_s`."""
    first, end = np.triu_indices(problem.blocks + 1, 1)
    groups = np.arange(len(problem.groups))
    stages = problem.prefix_s[:, end] - problem.prefix_s[:, first]
    sent = problem.transfer_s(groups[:, None, None], groups[None, :, None], np.arange(1, problem.blocks))
    terms = np.concatenate([stages.ravel(), sent.ravel()])
    return np.asarray(np.unique(np.maximum(terms, least_s)))
