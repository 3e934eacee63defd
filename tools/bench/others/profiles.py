"""Claim: on twelve profiled networks and unequal devices the genetic allocator is within 1 % of the optimum for each of ten seeds.

The profiles are those of PipeDream (SOSP 2019), forward and backward pass of each operation on one GPU. Fetch them:
git clone https://github.com/msr-fiddle/pipedream runs/others/pipedream. Each network becomes a chain of operations
(`profile_graph.read_profile`) and is allocated to devices of 1, 1/2, 1/2 and 1/4 of the speed of the GPU, with links of 12 GB/s and
free memory. Two objectives: the largest load, where communication counts as load of both sides, and J, the step, of 16 microbatches. Each
profile is of one batch, which is taken as a microbatch. The bound is the one for chains that are too large to solve.

    python -m tools.bench.others.profiles --folder DIR [--seeds 10]
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from typing import Any

import click

from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.planning.allocation.dual_bound import dual_bound
from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.names import LARGEST_LOAD, STEP
from tools.bench.others.evolved import above_optimum
from tools.bench.others.profile_graph import ProfileChain, profile_problem, read_profile
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FOLDER = pathlib.Path("runs/others/pipedream")
BELOW = pathlib.Path("profiler/image_classification/profiles")
SPEEDS, BYTES_PER_S, MICROBATCHES = (1.0, 0.5, 0.5, 0.25), 12e9, 16
NEAR = 0.01
_ROUNDS = 300  # of the lower bound of J
OBJECTIVES = {LARGEST_LOAD: "largest load", STEP: f"J, {MICROBATCHES} microbatches"}

FORM = TableForm(
    "others_profiles",
    "Twelve profiled networks on devices of 1, 0.5, 0.5 and 0.25 of the profiled GPU",
    (
        Column("network", "network"),
        Column("objective", "objective"),
        Column("blocks", "operations"),
        Column("exact_ms", "optimum ms", ".3f"),
        Column("stages", "stages"),
        Column("bound_ms", "lower bound ms", ".3f"),
        Column("gap", "optimum over bound", ".1%"),
        Column("genetic_before", "genetic, worst seed: before local search", ".2%"),
        Column("genetic", "after", ".2%", "at_most", NEAR),
        Column("genetic_gap", "after, over bound", ".1%"),
        Column("reached", "seeds at the optimum"),
        Column("equal", "equal partition", "+.0%"),
        Column("proportional", "proportional partition", "+.0%"),
    ),
)


def files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the profiles of a folder, which may be that of the repository.

    Raises
    ------
    DataError
        If there is none.
    """
    paths = sorted((folder / BELOW if (folder / BELOW).is_dir() else folder).glob("*/graph.txt"))
    if not paths:
        address = "https://github.com/msr-fiddle/pipedream"
        raise DataError(
            f"{folder} has no profiles NETWORK/graph.txt", f"fetch them with git clone {address} {FOLDER}, or name another --folder"
        )
    return paths


def with_objective(chain: ProfileChain, objective: str) -> ChainProblem:
    """Return the allocation of a profiled network to the unequal devices, with one of the objectives."""
    problem = profile_problem(chain, SPEEDS, BYTES_PER_S)
    if objective == LARGEST_LOAD:
        return problem
    return dataclasses.replace(problem, objective=objective, communication_load=(), microbatches=MICROBATCHES)


def compared(chain: ProfileChain, objective: str, seeds: int) -> dict[str, Any]:
    """Return the figures of a network and an objective."""
    problem = with_objective(chain, objective)
    best = exact_allocation(problem)
    assert best.answer is not None  # memory is free
    above = above_optimum(problem, best.value, seeds)
    worst = best.value * (1 + above["genetic"])
    bound = dual_bound(problem, None, worst, _ROUNDS)
    return {
        "network": chain.name,
        "objective": OBJECTIVES[objective],
        "blocks": problem.blocks,
        "exact_ms": 1e3 * best.value,
        "stages": len(best.answer.groups),
        "bound_ms": 1e3 * min(bound, best.value),
        "gap": max(0.0, best.value / bound - 1),
        "genetic_gap": max(0.0, worst / bound - 1),
        **above,
    }


def rows(records: list[dict[str, Any]]) -> list[Row]:
    """Return the rows of the table."""
    return [table_row(figures) for figures in records]


def verdicts(records: list[dict[str, Any]], seeds: int) -> list[str]:
    """Return what of the claim holds, counted, and how far the optimum is above the bound."""
    said = []
    for objective in OBJECTIVES.values():
        here = [entry for entry in records if entry["objective"] == objective]
        near, reached = sum(entry["genetic"] <= NEAR for entry in here), sum(entry["reached"] for entry in here)
        text = (
            f"{objective[0].upper()}{objective[1:]}: within 1 % of the optimum for all of {seeds} seeds on {near} of {len(here)} networks"
        )
        text = f"{text}, the optimum in {reached} of {seeds * len(here)} runs"
        said.append(f"{text}; the optimum is at most {max(e['gap'] for e in here):.1%} above the lower bound.")
    return said


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, show_default=True, help="Folder of the profiles.")
@click.option("--seeds", default=10, show_default=True, help="Seeds of the genetic allocator.")
@output_options()
def main(folder: pathlib.Path, seeds: int, output: Output) -> None:
    """Allocate profiled networks to unequal devices."""
    try:
        chains = [read_profile(file) for file in files_in(folder)]
        records = []
        for objective, chain in itertools.product(OBJECTIVES, chains):
            records.append(compared(chain, objective, seeds))
            click.echo(f"{chain.name}: {records[-1]['objective']} {records[-1]['exact_ms']:.3f} ms", err=True)
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    notes = verdicts(records, seeds)
    output.report(FORM, rows(records), notes)
    output.record({"networks": records, "notes": notes})


if __name__ == "__main__":
    main()
