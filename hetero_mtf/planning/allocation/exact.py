"""The best allocation of a chain, by dynamic programming over blocks and sets of used devices."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hetero_mtf.planning.allocation.dynamic_program import ChainStates
from hetero_mtf.planning.allocation.fluid_bound import Fluid
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.planning.solvers.bottleneck import LeastSum, LeastValue, minimise


def exact_allocation(
    problem: ChainProblem,
    stages: int | None = None,
    known: float = math.inf,
    out_of_time: Callable[[], bool] = lambda: False,
) -> LeastValue[Allocation]:
    """Return the allocation of least J, and a bound that equals it unless time ran out.

    Parameters
    ----------
    problem : ChainProblem.
    stages : number of stages; None for any.
    known : a J that is reached already, seconds; only less is looked for.
    out_of_time : asked now and then; once it says so the best so far is returned.

    Notes
    -----
    For a bottleneck T the dynamic program of `ChainStates` minimises the sum of all stages and transfers of at most T each;
    `bottleneck.minimise` says for which T.
    Exact; O(2^devices * devices * (devices + log(blocks)) * blocks) for each T and groups of one device, seconds for 12 devices
    and 60 blocks.

    Examples
    --------
    >>> links = np.zeros((2, 2))
    >>> problem = ChainProblem(np.array([[1.0, 1, 1], [9, 2, 2]]), ((0,), (1,)), np.ones(2), links, links, np.ones(3), np.ones(3),
    ...     np.full(2, np.inf), microbatches=5)
    >>> found = exact_allocation(problem)
    >>> found.value, found.bound, found.answer
    (12.0, 12.0, Allocation(cuts=(0, 2), groups=(0, 1)))
    """
    fluid = Fluid(problem)
    weight = problem.microbatches - 1

    def solve(limit_s: float, below: float) -> LeastSum[Allocation] | None:
        return ChainStates(problem, fluid, limit_s).solve(stages, below)

    return minimise(solve, weight, _terms(problem, fluid.least_largest_s), known, out_of_time)


def any_allocation(problem: ChainProblem, stages: int | None = None) -> Allocation | None:
    """Return the allocation of least sum of seconds, whatever its largest stage; None if no allocation fits into memory.

    Parameters
    ----------
    problem : ChainProblem.
    stages : number of stages; None for any.
    """
    found = ChainStates(problem, Fluid(problem), math.inf).solve(stages, math.inf)
    return None if found is None else found.answer


def exact_work(problem: ChainProblem) -> float:
    """Return about how many states the dynamic program has for one bottleneck: sets of devices, groups, blocks and numbers of stages.

    Parameters
    ----------
    problem : ChainProblem.
    """
    sets = 2.0 ** min(len(problem.groups), problem.devices)
    return sets * len(problem.groups) * problem.blocks * (1.0 if problem.disjoint else max(1.0, problem.most_stages / 2))


def _terms(problem: ChainProblem, least_s: float) -> np.ndarray:
    """Return the seconds of all stages and transfers there can be, rising, from those that are least up to one above all."""
    first, end = np.triu_indices(problem.blocks + 1, 1)
    groups = np.arange(len(problem.groups))
    stages = problem.until[:, end] - problem.until[:, first]
    sent = problem.transfer_s(groups[:, None, None], groups[None, :, None], np.arange(1, problem.blocks))
    terms = np.concatenate([stages.ravel(), sent.ravel()])
    return np.asarray(np.unique(np.maximum(terms, least_s)))
