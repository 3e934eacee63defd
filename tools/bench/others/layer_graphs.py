"""Claim: the exact allocator's largest load equals that of a published dynamic program to 1e-6 on at least five of its eight layer graphs.

The layer graphs are those of Tarnawski et al. (NeurIPS 2020): BERT-24, GNMT, Inception-v3 and ResNet-50, inference and training, on six
accelerators and a processor. Fetch them: git clone https://github.com/msr-fiddle/dnn-partitioning runs/others/dnn-partitioning. Each
graph becomes a chain (`layer_graph.linearised`), the largest load is minimised, and communication counts as load. The genetic allocator is
to be within 1 % of it on all files for each of ten seeds.

The published program has solved the same chains, which --write writes in its format; its answers are in published_loads.json, besides
those for its own linearisation of the files and for the graphs themselves, where more is allowed than on a chain.

    python -m tools.bench.others.layer_graphs --folder DIR [--published FILE] [--write DIR] [--seeds 10]
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import click

from hetero_mtf.errors import DataError, HeteroError
from hetero_mtf.json_file import write_json
from hetero_mtf.planning.allocation.exact import exact_allocation
from tools.bench.others.evolved import above_optimum
from tools.bench.others.layer_graph import chain_document, chain_problem, linearised, read_layer_graph
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

FOLDER = pathlib.Path("runs/others/dnn-partitioning")
BELOW = pathlib.Path("throughput-inputs/LayerGraphs")
PUBLISHED = pathlib.Path(__file__).with_name("published_loads.json")
EQUAL, NEAR, LEAST = 1e-6, 0.01, 5
PROGRAM = {"chain_ms": "the chains", "own_order_ms": "its own linearisation", "graph_ms": "the graphs themselves"}

FORM = TableForm(
    "others_layer_graphs",
    "The largest load of published layer graphs, beside the published dynamic program",
    (
        Column("file", "layer graph"),
        Column("blocks", "blocks"),
        Column("devices", "accelerators + processors"),
        Column("exact_ms", "exact load ms", ".6f"),
        Column("chain_ms", "published load ms: same chain", ".6f"),
        Column("chain_off", "relative difference", ".0e", "within", EQUAL),
        Column("own_order_ms", "published: own linearisation", ".6f"),
        Column("graph_ms", "published: graph", ".6f"),
        Column("genetic_before", "genetic, worst seed: before local search", ".2%"),
        Column("genetic", "after", ".2%", "at_most", NEAR),
        Column("reached", "seeds at the optimum"),
        Column("equal", "equal partition", "+.0%"),
        Column("proportional", "proportional partition", "+.0%"),
    ),
)


def files_in(folder: pathlib.Path) -> list[pathlib.Path]:
    """Return the layer graphs of a folder, which may be that of the repository.

    Raises
    ------
    DataError
        If there is none.
    """
    paths = sorted((folder / BELOW if (folder / BELOW).is_dir() else folder).glob("*.json"))
    if not paths:
        address = "https://github.com/msr-fiddle/dnn-partitioning"
        raise DataError(f"{folder} has no layer graphs", f"fetch them with git clone {address} {FOLDER}, or name another --folder")
    return paths


def published_loads(path: pathlib.Path) -> tuple[dict[str, dict[str, float]], str]:
    """Return the published program's loads, file name -> case -> ms, and how they were obtained.

    Raises
    ------
    DataError
        If the file is not of this form.
    """
    try:
        document = json.loads(path.read_text())
        loads = {
            str(file): {key: float(load) for key, load in cases.items() if key in PROGRAM} for file, cases in document["loads"].items()
        }
        return loads, str(document["note"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        form = '{"note": TEXT, "loads": {FILE: {"chain_ms": NUMBER}}}'
        raise DataError(f"{path.name} has no published loads ({type(fault).__name__}: {fault})", f"write it as {form}") from fault


def compared(path: pathlib.Path, published: dict[str, float], seeds: int, folder: pathlib.Path | None = None) -> dict[str, Any]:
    """Return the figures of a layer graph; its chain is written to a folder if one is given."""
    chain = linearised(read_layer_graph(path))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / path.name, chain_document(chain))
    problem = chain_problem(chain)
    best = exact_allocation(problem)
    if best.answer is None:
        raise DataError(f"no allocation of {path.name} fits into memory", "raise its maxSizePerFPGA")
    off = {"chain_off": best.value / published["chain_ms"] - 1} if "chain_ms" in published else {}
    return {
        "file": path.stem,
        "blocks": chain.blocks,
        "devices": f"{chain.graph.accelerators} + {chain.graph.processors}",
        "exact_ms": best.value,
        "stages": len(best.answer.groups),
        **published,
        **off,
        **above_optimum(problem, best.value, seeds),
    }


def row(figures: dict[str, Any]) -> Row:
    """Return the row of a layer graph."""
    return table_row({key: "does not fit" if entry is None else entry for key, entry in figures.items() if key != "stages"})


def verdicts(records: list[dict[str, Any]], seeds: int) -> list[str]:
    """Return what of the claim holds, counted."""
    said = []
    for key, what in PROGRAM.items():
        known = [entry for entry in records if key in entry]
        equal = [entry["file"] for entry in known if abs(entry["exact_ms"] / entry[key] - 1) <= EQUAL]
        wanted = f" (at least {LEAST} of 8)" if key == "chain_ms" else ""
        unequal = [f"{e['file']} {e['exact_ms'] / e[key] - 1:+.2%}" for e in known if e["file"] not in equal]
        others = f"; the others: {', '.join(unequal)}" if unequal else ""
        text = f"The exact load equals that of the published program for {what} to {EQUAL:g} on {len(equal)} of {len(known)}"
        said += [f"{text}{wanted}{others}."] if known else []
    near = sum(entry["genetic"] is not None and entry["genetic"] <= NEAR for entry in records)
    reached, runs = sum(entry["reached"] for entry in records), seeds * len(records)
    text = f"The genetic load is within 1 % for all of {seeds} seeds on {near} of {len(records)}"
    said.append(f"{text}, and the optimum in {reached} of {runs} runs.")
    return said


@click.command(help=__doc__)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), default=FOLDER, show_default=True, help="Folder of the layer graphs.")
@click.option(
    "--published",
    type=click.Path(path_type=pathlib.Path),
    default=PUBLISHED,
    help="Loads of the published program.  [default: those beside]",
)
@click.option(
    "--write", "written", type=click.Path(path_type=pathlib.Path), help="Folder to write the chains to, for the published program."
)
@click.option("--seeds", default=10, show_default=True, help="Seeds of the genetic allocator.")
@output_options()
def main(folder: pathlib.Path, published: pathlib.Path, written: pathlib.Path | None, seeds: int, output: Output) -> None:
    """Compare the exact and the genetic allocator with a published program."""
    try:
        loads, note = published_loads(published)
        records = [compared(file, loads.get(file.name, {}), seeds, written) for file in files_in(folder)]
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    rows = [row(entry) for entry in records]
    notes = [*verdicts(records, seeds), f"Published loads: {note}"]
    output.report(FORM, rows, notes)
    output.record({"graphs": records, "notes": notes})


if __name__ == "__main__":
    main()
