"""The genetic allocator: boundaries, order of groups and unused groups evolve together, then a local search improves the boundaries."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hetero_mtf.planning.allocation.genetic_islands import Evolution, IslandModel
from hetero_mtf.planning.allocation.partition import best_partition
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem, check_stages

_FEW = 16  # stages, for which the usual evolution is enough
_MANY = 4000  # generations
_DECODING, _DECODED = 6400.0, 4.0  # blocks times groups for which one order a generation is decoded; the most of them
_LARGE = 64_000  # blocks times groups from which on orders take too long to decode
Progress = Callable[[int, int, float], None]


@dataclasses.dataclass(frozen=True)
class GeneticResult:
    """The result of the genetic allocator.

    Parameters
    ----------
    allocation : the best; where `broken` is not 0, the one that breaks the limits least.
    value : its objective, J or L, seconds.
    value_before_local_search : the objective before its boundaries were optimised for its order of groups, seconds.
    broken : 0 if the allocation fits in memory and has the stages asked for; else how many blocks do not fit.
    generations : number of generations.
    history : (generations,) best objective after each, seconds, L to 1e-9 of the sum; infinite while none fits.
    state : the population, for JSON: give it to `genetic_allocation` to go on.
    """

    allocation: Allocation
    value: float
    value_before_local_search: float
    broken: int
    generations: int
    history: tuple[float, ...]
    state: dict[str, Any]


def genetic_allocation(
    problem: ChainProblem,
    *,
    stages: int | None = None,
    seed: int = 0,
    evolution: Evolution | None = None,
    out_of_time: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    state: dict[str, Any] | None = None,
) -> GeneticResult:
    """Return the best allocation of an evolving population.

    Parameters
    ----------
    stages : number of stages; None for any.
    seed : of all random numbers; the same seed gives the same result if time does not run out.
    evolution : options; None for those that suit the size.
    out_of_time : polled before each generation but the first; the best allocation so far is returned once it is true.
    progress : called after each generation with the generation, all generations and the best objective so far in seconds.
    state : of an earlier call for the same problem: the evolution continues where that one stopped, and `seed` is ignored.

    Raises
    ------
    PlanError
        If there cannot be so many stages, or the state is not one of this problem.

    Notes
    -----
    This project's interpretation of a genetic layer allocator. A genome is a permutation of the groups, of which the first have the stages,
    and the first block of each stage. Each island has a population of `kept` allocations and `children` a generation, of one parent or of
    two (crossover). Mutations shift a boundary or a run of boundaries, exchange, move or replace groups, merge or split stages, often the
    longest one, or refill the stages up to a limit. Some children are decoded (`genetic_decode`): for their order of groups, with some
    unused ones inserted, the best subsequence and its best partition under a drawn limit are computed. This reaches boundaries that are too
    far apart for mutations, as few boundaries have cheap transfers. Repair moves blocks from stages that exceed memory to their neighbours;
    a genome that still breaks a limit ranks below all that do not. Parents and children compete, without two of the same J, so the best J
    never increases. The equal and the proportional partition are in the first population, so J is never above theirs where they fit; the
    exact optimum is not. The final local search is `best_partition` for the order of the best genome. Heuristic; O(rows * groups *
    log(groups) + decoded rows * groups * blocks * (groups + log(blocks))) a generation.

    References
    ----------
    Akintoye et al., IEEE Access 10 (2022) 77950-77961, whose operators and rates are not known: these are ours.
    """
    check_stages(problem, stages)
    evolution = evolution or suited(problem)
    search = IslandModel(problem, stages, evolution, seed)
    if state is not None:
        search.restore(state)
    while not search.done and not (search.generation and out_of_time()):
        search.step()
        if progress is not None:
            progress(search.generation, evolution.generations, search.history[-1])
    allocation = search.evaluation.allocation(search.best, 0)
    broken = int(search.evaluation.broken(search.best)[0])
    before = value = problem.value(allocation)
    if not broken:
        improved = best_partition(problem, allocation.groups, before)
        if improved.answer is not None:
            allocation, value = improved.answer, problem.value(improved.answer)
    return GeneticResult(allocation, value, before, broken, search.generation, tuple(search.history), search.state())


def suited(problem: ChainProblem) -> Evolution:
    """Return the options of the genetic algorithm for the size of a problem."""
    if problem.most_stages <= _FEW:
        return Evolution()
    decoding = min(_DECODED, _DECODING / problem.seconds.size) if problem.seconds.size <= _LARGE else 0.0
    return Evolution(_MANY, stopping=_MANY // 4, islands=1, kept=16, children=128, refilling=0.5, decoding=decoding)
