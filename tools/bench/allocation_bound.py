"""Claim: where memory and links both bind, the lower bound of J is at least 0.9 of the optimum in the median of drawn chains.

Chains of operations (`tools.generated.chains.drawn_operations`: transfers take as long as stages) with memory so scarce
that the optimum without a limit does not fit, and, beside them, chains of blocks whose memory binds and whose links are fast. The
exact optimum is computed apart; the bound is told a J that is reached, as an allocator would have found it: 1 % above the optimum.
Fluid is the bound before: work flows, memory is free. The bound is meant for chains that are too large to solve; these are small
enough for the optimum to be known.

    python -m tools.bench.allocation_bound [--instances 12] [--json bound.json]
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import click

from hetero_mtf.planning.allocation.dual_bound import dual_bound
from hetero_mtf.planning.allocation.exact import exact_allocation
from hetero_mtf.planning.allocation.fluid_bound import fluid_bound
from tools.bench.genetic import BOUND_TO_BIND, chain
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

REACHED, WANTED = 1.01, 0.9
KINDS = ("operations", "blocks")
TABLE = TableForm(
    "allocation_bound",
    "The lower bound of J where memory is scarce",
    (
        Column("chains_of", "chains of"),
        Column("chains", "chains"),
        Column("fluid", "fluid / optimum: median", ".3f"),
        Column("fluid_worst", "worst", ".3f"),
        Column("bound", "bound / optimum: median", ".3f", "at_least"),
        Column("bound_worst", "worst", ".3f"),
        Column("bound_s", "bound s: median", ".1f"),
        Column("bound_most_s", "most", ".1f"),
    ),
    case=("chains_of",),
)


def bounded(index: int, kind: str) -> dict[str, Any]:
    """Return the bounds of a chain whose memory binds, as parts of its optimum, and the seconds that the bound took."""
    problem = chain(BOUND_TO_BIND * index, kind == "operations")
    best = exact_allocation(problem).value
    cpu_s = time.process_time()
    bound = dual_bound(problem, None, REACHED * best)
    cpu_s = time.process_time() - cpu_s
    size = {"blocks": problem.blocks, "devices": problem.devices, "microbatches": problem.microbatches}
    figures = {"optimum_s": best, "fluid": fluid_bound(problem) / best, "bound": bound / best, "cpu_s": cpu_s}
    return {"index": BOUND_TO_BIND * index, "kind": kind, **size, **figures}


def row(kind: str, records: list[dict[str, Any]]) -> Row:
    """Return the row of some chains."""
    figures: dict[str, Any] = {"chains_of": kind, "chains": len(records)}
    for name in ("fluid", "bound"):
        figures[name] = statistics.median(e[name] for e in records)
        figures[f"{name}_worst"] = min(e[name] for e in records)
    times = [e["cpu_s"] for e in records]
    figures |= {"bound_s": statistics.median(times), "bound_most_s": max(times)}
    return table_row(figures, {"bound": WANTED if kind == "operations" else None})


def verdict(records: list[dict[str, Any]]) -> str:
    """Return what of the claim holds."""
    median, above = statistics.median(e["bound"] for e in records), [e["index"] for e in records if e["bound"] > 1 + 1e-9]
    holds = "holds" if median >= WANTED and not above else "does NOT hold"
    return f"median bound / optimum {median:.3f} (at least {WANTED:g}), above the optimum: {above or 'never'}: the claim {holds}"


@click.command(help=__doc__)
@click.option("--instances", default=12, show_default=True, help="Chains of each kind to draw.")
@output_options()
def main(instances: int, output: Output) -> None:
    """Compare the lower bound with the optimum on drawn chains whose memory binds."""
    records = {kind: [bounded(index, kind) for index in range(instances)] for kind in KINDS}
    rows = [row(kind, each) for kind, each in records.items()]
    notes = [verdict(records["operations"])]
    output.report(TABLE, rows, notes)
    output.record({"chains": [entry for each in records.values() for entry in each]})


if __name__ == "__main__":
    main()
