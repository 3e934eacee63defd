"""Claim: a training that begins on one device and tries plans as its own steps loses nothing beside one device, and soon gains.

Everything counts, from the start of the process to the end of the training, without a saved profile: our training whose steps try plans,
ours that measures first, ours on one device, and Keras's `fit` in a process that is pinned to one core. The length of a training is
given in seconds of one device, without its start. Arrangements take turns; a figure is the median over rounds.

    python -m tools.bench.start.time_to_train [--network vgg8] [--seconds 60] [--shares 1.0,0.5]
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import click

from tools.bench.baselines.tasks import COMPARED, TITLES
from tools.bench.comparison.measured import cluster_text
from tools.bench.comparison.options import rounds_option, shares_option
from tools.bench.start.started_training import KERAS, MEASURES, ONE
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

PROBE_STEPS = 30
LARGEST_FIRST_STEP_S = 15.0
ALLOWED_PART, ALLOWED_S = 1.05, 5.0
TABLE = TableForm(
    "time_to_train",
    "Trainings from the start of the process to the end, without a saved profile",
    (
        Column("network", "network"),
        Column("cluster", "devices"),
        Column("length_s", "steps take one device, s", ".0f"),
        Column("arrangement", "arrangement"),
        Column("first_step_s", "first step after, s", ".1f", "at_most"),
        Column("end_s", "end after, s", ".0f", "at_most"),
        Column("times_one", "end / one device", ".2f"),
        Column("step_ms", "last ms/step", ".0f"),
    ),
    case=("network", "cluster", "length_s"),
)


def run(network: str, arrangement: str, shares: Sequence[float], steps: int, trace: pathlib.Path | None = None) -> dict[str, Any]:
    """Return the seconds of a training in a process of its own, whose folder of profiles is empty.

    Parameters
    ----------
    network, arrangement, shares, steps, trace : as for `started_training`.
    """
    with tempfile.TemporaryDirectory(prefix="hetero_mtf-start-") as folder:
        order = {"network": network, "arrangement": arrangement, "shares": list(shares), "steps": steps, "begin_s": time.time()}
        order |= {} if trace is None else {"trace": str(trace)}
        command = [sys.executable, "-m", "tools.bench.start.started_training", json.dumps(order)]
        variables = {**os.environ, "HETERO_MTF_CACHE": folder, "TF_CPP_MIN_LOG_LEVEL": "3"}
        ended = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def trace_file(folder: pathlib.Path, network: str, shares: Sequence[float], seconds: float, number: int) -> pathlib.Path:
    """Return the file of a trace in a folder, which is made where it is missing.

    Parameters
    ----------
    folder, network, shares, seconds : as for `measured`; they are in the name.
    number : of the trace, from 1.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{network}-{'-'.join(map(str, shares))}-{seconds:g}-{number}.json"


def measured(
    network: str, shares: Sequence[float], seconds: float, rounds: int, folder: pathlib.Path | None = None
) -> dict[str, Any]:
    """Return the figures of each arrangement, one entry a round.

    Parameters
    ----------
    network, shares : what is trained, and on which devices.
    seconds : of one device, without its start.
    rounds : of turns.
    folder : of the traces of trainings that try plans; None for none.
    """
    steps = max(PROBE_STEPS, round(seconds / run(network, ONE, shares, PROBE_STEPS)["step_s"]))
    names = [*MEASURES, ONE, *([KERAS] if max(shares) == 1.0 else [])]
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for number in range(1, rounds + 1):
        for name in names:
            is_traced = folder is not None and MEASURES.get(name) == "steps"
            trace = trace_file(folder, network, shares, seconds, number) if is_traced and folder is not None else None
            runs[name].append(run(network, name, shares, steps, trace))
            click.echo(f"{network}, {steps} steps, {name}: {runs[name][-1]}", err=True)
    return {"network": network, "shares": list(shares), "seconds": seconds, "steps": steps, "runs": runs}


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement; what is wanted is a first step within 15 s, and an end no later than 5 % and 5 s after one device's."""

    def median(name: str, figure: str) -> float:
        return statistics.median(each[figure] for each in case["runs"][name])

    one_s = median(ONE, "end_s")
    tried = next(iter(MEASURES))
    table = []
    for name in case["runs"]:
        cells = {
            "network": TITLES[case["network"]],
            "cluster": cluster_text(case["shares"], "process"),
            "length_s": case["seconds"],
            "arrangement": name,
            "first_step_s": median(name, "first_step_s"),
            "end_s": median(name, "end_s"),
            "times_one": median(name, "end_s") / one_s,
            "step_ms": 1e3 * median(name, "step_s"),
        }
        wanted = {"first_step_s": LARGEST_FIRST_STEP_S, "end_s": round(ALLOWED_PART * one_s + ALLOWED_S)} if name == tried else {}
        table.append(table_row(cells, wanted))
    return table


def rounds_text(rounds: int) -> str:
    """Return what figures are medians of, such as "Medians of 3 rounds."."""
    return f"Medians of {rounds} rounds." if rounds > 1 else "One round: figures of the same arrangement differ by a quarter between runs."


@click.command(help=__doc__)
@click.option("--network", "names", multiple=True, type=click.Choice(COMPARED), help="Several times for more.  [default: VGG-8, 3-D U-Net]")
@click.option("--seconds", "lengths", multiple=True, type=float, help="What the steps take one device.  [default: 30, 60, 120, 300]")
@shares_option
@rounds_option(3)
@click.option("--traces", "folder", type=click.Path(path_type=pathlib.Path), help="Folder for a trace of each training that tries plans.")
@output_options(after="case", resumes=True)
def main(
    names: Sequence[str], lengths: Sequence[float], shares: Sequence[float], rounds: int, folder: pathlib.Path | None, output: Output
) -> None:
    """Train, and print the table."""
    cases, table = Cases(output), []
    for name in names or ("vgg8", COMPARED[-1]):
        for seconds in lengths or (30.0, 60.0, 120.0, 300.0):
            case = cases.find(network=name, shares=list(shares), seconds=seconds)
            case = case or cases.measure(f"{name}, {seconds:g} s", lambda: measured(name, shares, seconds, rounds, folder))  # noqa: B023
            table += rows(case)
            output.publish(TABLE, table, [rounds_text(rounds)])
    output.report(TABLE, table, [rounds_text(rounds)])


if __name__ == "__main__":
    main()
