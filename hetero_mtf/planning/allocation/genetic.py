"""The genetic allocator: cuts, order of groups and unused groups evolve together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from hetero_mtf.planning.allocation.genetic_islands import Evolution, Search
from hetero_mtf.planning.allocation.partition import best_partition
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem, check_stages

_FEW = 16  # stages, for which the usual evolution is enough
_MANY = 4000  # generations
_DECODING, _DECODED = 6400.0, 4.0  # blocks times groups for which one order a generation is decoded; the most of them
_LARGE = 64_000  # blocks times groups from which on orders take too long to decode
Progress = Callable[[int, int, float], None]


@dataclasses.dataclass(frozen=True)
class Evolved:
    """What the genetic allocator found.

    Parameters
    ----------
    allocation : the best; where `broken` is not 0, the one that comes nearest to the limits.
    value : its J, seconds.
    value_before_local_search : J before its cuts were made the best for its order of groups, seconds.
    broken : 0 if the allocation fits in memory and has the stages asked for; else how many blocks do not fit.
    generations : how many there were.
    history : (generations,) best J after each, seconds; infinite while none fits.
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
) -> Evolved:
    """Return the best allocation that a population of them evolves to.

    Parameters
    ----------
    problem : ChainProblem.
    stages : number of stages; None for any.
    seed : of all that is random; the same seed gives the same answer if time does not run out.
    evolution : how it evolves, and for how many generations; None for what suits the size.
    out_of_time : asked before each generation but the first; once it says so the best so far is returned.
    progress : called after each generation with the generation, all generations and the best J so far in seconds.
    state : of an earlier call for the same problem: it is taken up where that one stopped, and `seed` does not count.

    Raises
    ------
    PlanError
        If there cannot be so many stages, or the state is not one of this problem.

    Notes
    -----
    This project's reading of a genetic layer allocator. A genome is a permutation of the groups, of which the first have the stages, and
    the first block of each stage. Islands of `kept` allocations have `children` a generation: of one parent or two, changed by shifting a
    cut or a run of cuts, exchanging, moving or replacing groups, merging or splitting stages, the longest one often, or by filling the
    stages anew up to a limit. Some children are decoded: of their order of groups, with some unused ones inserted, the best subsequence and
    its best cut for a drawn limit are taken (`genetic_decode`), as cuts that transfers make few are too far apart for mutations, and a
    device that is worth its transfer only with other cuts too. Stages that memory cannot hold give up blocks to their neighbours; what
    still breaks a limit is worse than anything that does not. The best of old and new, no two of the same J, live on, so the best never
    gets worse. The equal and the proportional cut are in the first population, so J is never above theirs where they fit; the exact optimum
    is not. Last, the cuts are made the best for the order found (`best_partition`); J before that is kept too. Heuristic; O(rows * groups *
    log(groups) + decoded rows * groups * blocks * (groups + log(blocks))) a generation.

    References
    ----------
    Akintoye et al., IEEE Access 10 (2022) 77950-77961, whose operators and rates are not known: these are ours.
    """
    check_stages(problem, stages)
    evolution = evolution or suited(problem)
    search = Search(problem, stages, evolution, seed)
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
        polished = best_partition(problem, allocation.groups, before)
        if polished.answer is not None:
            allocation, value = polished.answer, problem.value(polished.answer)
    return Evolved(allocation, value, before, broken, search.generation, tuple(search.history), search.state())


def suited(problem: ChainProblem) -> Evolution:
    """Return an evolution for the size of a problem.

    Parameters
    ----------
    problem : ChainProblem.
    """
    if problem.most_stages <= _FEW:
        return Evolution()
    decoding = min(_DECODED, _DECODING / problem.seconds.size) if problem.seconds.size <= _LARGE else 0.0
    return Evolution(_MANY, stopping=_MANY // 4, islands=1, kept=16, children=128, refilling=0.5, decoding=decoding)
