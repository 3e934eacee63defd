"""The genetic allocator over many seeds, and the partitions it is compared with, relative to the optimum."""

from __future__ import annotations

from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation.genetic import genetic_allocation
from hetero_mtf.planning.allocation.partition import equal_partition, proportional_partition
from hetero_mtf.planning.allocation.problem import ChainProblem


def above_optimum(problem: ChainProblem, best: float, seeds: int) -> dict[str, Any]:
    """Return by what part allocations are above the optimum: the worst genetic one of all seeds, before and after local search, and others.

    Keys are "genetic_before", "genetic", "reached" (seeds that reach the optimum to 1e-9), "equal" and "proportional"; an entry is
    None where an allocation does not fit into memory.

    Parameters
    ----------
    best : the optimum.
    seeds : how many, from 0.

    Raises
    ------
    PlanError
        If there is no seed.
    """
    if seeds < 1:
        raise PlanError(f"{seeds} seeds are no run of the genetic allocator", "ask for at least 1")
    runs = [genetic_allocation(problem, seed=seed) for seed in range(seeds)]
    fits = not any(run.broken for run in runs)
    before, after = ([run.value_before_local_search / best - 1 for run in runs], [run.value / best - 1 for run in runs])
    others = {"equal": equal_partition(problem), "proportional": proportional_partition(problem)}
    return {
        "genetic_before": max(0.0, *before) if fits else None,
        "genetic": max(0.0, *after) if fits else None,
        "reached": sum(part <= 1e-9 for part in after) if fits else 0,
        **{name: None if problem.shortfall_bytes(one) else problem.value(one) / best - 1 for name, one in others.items()},
    }
