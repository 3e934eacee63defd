"""All allocators of a chain behind one function: each allocation with the optimum, or a lower bound, of the objective: J, or L."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation.dual_bound import dual_bound
from hetero_mtf.planning.allocation.exact import exact_allocation, exact_work
from hetero_mtf.planning.allocation.genetic import GeneticResult, Progress, genetic_allocation
from hetero_mtf.planning.allocation.genetic_islands import Evolution
from hetero_mtf.planning.allocation.memory_fault import impossible
from hetero_mtf.planning.allocation.partition import equal_partition, proportional_partition
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem, check_stages
from hetero_mtf.planning.names import ALLOCATORS, YARDSTICKS
from hetero_mtf.units import bytes_text

CHEAP = 4e6  # states of the dynamic program that take some tenths of a second for a bottleneck
POSSIBLE = 2e8  # states that fit into the memory of a usual machine


@dataclasses.dataclass(frozen=True)
class Allocated:
    """The result of an allocator.

    Parameters
    ----------
    allocation : boundaries and groups; it fits into memory.
    value : the objective of `ChainProblem`, J or L, seconds.
    bound : lower bound of it over all allocations with so many stages, seconds.
    gap : value / bound - 1; infinite for a bound of 0.
    status : "optimal", "time limit" (exact, but stopped before its proof), or "heuristic".
    allocator : "exact", "genetic", "equal" or "proportional".
    reason : why this allocator was chosen, and what the bound is, as text.
    value_before_local_search : objective before the boundaries were optimised for the final order of groups; `value` if they were not.
    history : (generations,) best objective after each generation, seconds; empty unless genetic.
    """

    allocation: Allocation
    value: float
    bound: float
    gap: float
    status: str
    allocator: str
    reason: str
    value_before_local_search: float
    history: tuple[float, ...] = ()


def allocate(
    problem: ChainProblem,
    allocator: str = "auto",
    *,
    stages: int | None = None,
    seed: int = 0,
    evolution: Evolution | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Allocated:
    """Return an allocation of the chain with the optimum, or a lower bound, of its objective, which the genetic allocator does not use.

    Parameters
    ----------
    allocator : "exact"; "genetic"; "equal" (as many blocks each); "proportional" (work in proportion to speed); or "auto": exact
        where that is cheap, else genetic.
    stages : number of stages; None for any.
    seed : of the genetic allocator.
    evolution : options of the genetic algorithm; None for those that suit the size.
    time_limit_s : seconds after which the allocator stops with its best so far; None for no limit. A result that was stopped is not
        reproducible.
    progress : called by the genetic allocator after each generation with the generation, all generations and the best objective.
    clock : seconds that pass.

    Raises
    ------
    PlanError
        If the allocator is not known, there cannot be so many stages, or no allocation fits into memory: then by how much it
        misses and what would be possible. For "equal" and "proportional" also if theirs does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> links = np.zeros((2, 2))
    >>> problem = ChainProblem(np.array([[1.0, 1, 1], [9, 2, 2]]), ((0,), (1,)), np.ones(2), links, links, np.ones(3), np.ones(3),
    ...     np.full(2, np.inf), microbatches=5)
    >>> allocated = allocate(problem)
    >>> allocated.allocator, allocated.allocation.groups, allocated.value, allocated.gap
    ('exact', (0, 1), 12.0, 0.0)
    """
    if allocator not in ALLOCATORS:
        raise PlanError(f"allocator {allocator!r} is not known", f"use one of {', '.join(ALLOCATORS)}")
    check_stages(problem, stages)
    end_s = math.inf if time_limit_s is None else clock() + time_limit_s

    def late() -> bool:
        return clock() >= end_s

    chosen, why = _chosen(problem, allocator)
    if chosen == "exact":
        allocated = _exact(problem, stages, late)
    elif chosen in YARDSTICKS:
        allocated = _beside_bound(problem, stages, chosen, _yardstick(problem, stages, chosen), late)
    else:
        evolved = genetic_allocation(problem, stages=stages, seed=seed, evolution=evolution, out_of_time=late, progress=progress)
        allocated = _beside_bound(problem, stages, chosen, evolved, late)
    return dataclasses.replace(allocated, reason=f"{why}; {allocated.reason}")


def _chosen(problem: ChainProblem, allocator: str) -> tuple[str, str]:
    """Return the allocator that serves, and why it does."""
    if allocator != "auto":
        return allocator, f"{allocator}, as asked for"
    size = f"{problem.blocks} blocks on {len(problem.groups)} groups"
    if _cheap(problem):
        return "exact", f"exact, as {size} are cheap to solve"
    return "genetic", f"genetic, as {size} are many to solve exactly"


def _cheap(problem: ChainProblem) -> bool:
    return exact_work(problem) <= CHEAP


def _exact(problem: ChainProblem, stages: int | None, out_of_time: Callable[[], bool]) -> Allocated:
    if exact_work(problem) > POSSIBLE:
        size = f"{problem.blocks} blocks on {len(problem.groups)} groups"
        raise PlanError(f"{size} have too many sets of devices to go through", "use allocator genetic")
    solution = exact_allocation(problem, stages, out_of_time=out_of_time)
    if solution.answer is None:
        if math.isinf(solution.bound):
            raise impossible(problem, stages, None, proven=True, cheap=_cheap(problem))
        raise PlanError(
            "the time limit ended the exact allocator before it had an allocation", "allow more seconds or use allocator genetic"
        )
    optimal = solution.bound >= solution.value * (1 - 1e-9)
    bound, status = (solution.value, "optimal") if optimal else (solution.bound, "time limit")
    beside = "proven best" if optimal else "stopped by the time limit before it was proven best"
    return Allocated(solution.answer, solution.value, bound, _gap(solution.value, bound), status, "exact", beside, solution.value)


def _yardstick(problem: ChainProblem, stages: int | None, allocator: str) -> GeneticResult:
    """Return the equal or the proportional partition as a result without evolution."""
    allocation = (equal_partition if allocator == "equal" else proportional_partition)(problem, stages)
    if short := problem.shortfall_bytes(allocation):
        raise PlanError(f"the {allocator} partition is {bytes_text(short)} short on a device", "use allocator exact or genetic")
    value = problem.value(allocation)
    return GeneticResult(allocation, value, value, broken=0, generations=0, history=(), state={})


def _beside_bound(
    problem: ChainProblem, stages: int | None, allocator: str, candidate: GeneticResult, out_of_time: Callable[[], bool]
) -> Allocated:
    """Return the result of a heuristic with the optimum where that is cheap, else with a bound."""
    if candidate.broken:
        raise impossible(problem, stages, candidate.allocation, proven=False, cheap=_cheap(problem))
    value = candidate.value
    bound, beside = _bound(problem, stages, value, out_of_time)
    status = "optimal" if bound >= value * (1 - 1e-9) else "heuristic"
    before, history = candidate.value_before_local_search, candidate.history
    return Allocated(candidate.allocation, value, bound, _gap(value, bound), status, allocator, beside, before, history)


def _bound(problem: ChainProblem, stages: int | None, value: float, out_of_time: Callable[[], bool]) -> tuple[float, str]:
    """Return the optimum where it is cheap, else a bound, and which of them it is; the optimum takes its time even where time is out."""
    if _cheap(problem):
        best = exact_allocation(problem, stages, known=value)
        return min(best.bound, value), "beside the exact optimum"
    return dual_bound(problem, stages, value, out_of_time=out_of_time), "beside a lower bound"


def _gap(value: float, bound: float) -> float:
    if bound <= 0:
        return math.inf if value > 0 else 0.0
    return max(0.0, value / bound - 1)
