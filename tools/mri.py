"""What `make mri` runs: a cohort of MRI scans, from files to predictions, on two unequal devices and on one of them.

A cohort is drawn (tools/make_cohort.py: a stand-in, no patient's scans), the devices are measured once, and 3D-ResAttNet-18 with few
filters is trained by the plan of strategy layers and on the faster device alone, with several seeds; then once more with the diagnoses
shuffled, which must teach it nothing. (Strategy auto may take the faster device alone for so narrow a network.) Each network
is judged on the participants held out, and beside linear models of voxels. Every step is a command that can be run by hand, and is
shown; all that is made is in runs/mri, report.md among it.

    python -m tools.mri [--folder runs/mri] [--subjects 200] [--seeds 3] [--epochs 15]
"""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.devices.environment import child_variables
from tools.bench.comparison.measured import SCORE_COLUMNS, scored
from tools.results.publication import TableForm, publish, table_row
from tools.results.records import Column, Row
from tools.results.tables import table

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHUFFLED = "shuffled"
VIEW_MM = 192.0  # what the network sees along each axis
SPLIT = "layers"
WORDS = {SPLIT: "split over both devices", "single": "fast device alone", SHUFFLED: "split, diagnoses shuffled"}
MODEL = f"{os.path.relpath(ROOT / 'models' / 'resattnet3d.py')}:resattnet18"


@dataclasses.dataclass(frozen=True)
class Demonstration:
    """What is shown.

    Parameters
    ----------
    folder : where everything is written.
    subjects, strength : of the cohort.
    size : voxels a side.
    width : filters of the network's first stage.
    seeds : seeds to train with.
    epochs, batch, learning_rate : of each training.
    cluster : the unequal devices.
    """

    folder: pathlib.Path
    subjects: int
    strength: float
    size: int
    width: int
    seeds: int
    epochs: int
    batch: int
    learning_rate: float
    cluster: str

    @property
    def table(self) -> pathlib.Path:
        """The participants table."""
        return self.folder / "cohort" / "participants.tsv"

    @property
    def model(self) -> list[str]:
        """The model's options."""
        return ["--model", MODEL, "--model-arg", f"size={self.size}", "--model-arg", f"width={self.width}"]

    @property
    def profile(self) -> pathlib.Path:
        """The profile of the devices."""
        return self.folder / "profile.json"

    def plan(self, strategy: str) -> pathlib.Path:
        """Return where the plan of a strategy is."""
        return self.folder / f"plan-{strategy}.json"


def demonstrate(shown: Demonstration, results: pathlib.Path | None = None) -> str:
    """Return the report; all of it is recomputed except a cohort that exists already. The scores are published where a folder is given."""
    begun_s = time.perf_counter()
    if not shown.table.exists():
        drawn = ["--subjects", shown.subjects, "--size", shown.size, "--strength", shown.strength]
        run_module("tools.make_cohort", shown.folder / "cohort", *drawn)
    measuring = ["--cluster", shown.cluster, "--batch-size", shown.batch, "--optimizer", "adam", "--budget", 60, "-o", shown.profile]
    run_command("calibrate", *shown.model, *measuring)
    for strategy in (SPLIT, "single"):
        run_command("plan", shown.profile, "--strategy", strategy, "-o", shown.plan(strategy))
    runs = [trained(shown, strategy, seed, shown.table) for seed in range(shown.seeds) for strategy in (SPLIT, "single")]
    runs.append(trained(shown, SPLIT, 0, _shuffled(shown.table), SHUFFLED))
    first = runs[0]["checkpoint"]
    one = _participants(shown.table)[0]
    maps = ["--grad-cam", shown.folder / "maps", "--participant", one]
    run_command("predict", "--data", f"nifti:{shown.table}", "--checkpoint", first, "-o", shown.folder / "predictions.tsv", *maps)
    linear = shown.folder / "voxels.json"
    run_module("tools.voxels", shown.table, "--size", shown.size, "--seeds", 1, "--json", linear, "--results", "-")
    cases = json.loads(linear.read_text())["cases"]
    publish(results, TABLE, score_rows(runs, cases))
    return report(shown, runs, cases, time.perf_counter() - begun_s)


def trained(shown: Demonstration, strategy: str, seed: int, table: pathlib.Path, name: str = "") -> dict[str, Any]:
    """Train by a plan with a seed, and return the scores on the participants held out and the seconds it took."""
    begun_s = time.perf_counter()
    stem = shown.folder / (name or f"{strategy}-{seed}")
    state, scores = stem.with_suffix(".npz"), stem.with_name(f"{stem.name}-scores.json")
    data = ["--data", f"nifti:{table}", "--split", shown.folder / f"{name and name + '-'}split.json", "--flip", "--shift", 2]
    data += ["--test-fraction", 0.3, "--shape", shown.size, "--spacing", VIEW_MM / shown.size, "--mask", "otsu"]
    how = ["--optimizer", "adam", "--learning-rate", shown.learning_rate, "--decay", "cosine", "--epochs", shown.epochs, "--seed", seed]
    run_command("train", *shown.model, *data, *how, "--cluster", shown.cluster, "--plan", shown.plan(strategy), "--save", state)
    trained_s = time.perf_counter() - begun_s
    run_command("evaluate", "--data", f"nifti:{table}", "--checkpoint", state, "--cluster", "local", "--json", scores)
    return {"strategy": name or strategy, "seed": seed, "seconds": trained_s, "checkpoint": state, **json.loads(scores.read_text())}


def _participants(table: pathlib.Path) -> list[str]:
    with table.open(encoding="utf-8", newline="") as file:
        return [row["participant_id"] for row in csv.DictReader(file, delimiter="\t")]


def _shuffled(table: pathlib.Path) -> pathlib.Path:
    """Return a table beside another one with the diagnoses shuffled over the participants."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    before = {row["participant_id"]: row["diagnosis"] for row in rows}
    after = list(before.values())
    random.Random(0).shuffle(after)
    given = dict(zip(before, after))
    path = table.with_name(f"participants-{SHUFFLED}.tsv")
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "diagnosis": given[row["participant_id"]]} for row in rows)
    return path


def run_command(*words: Any) -> None:
    """Show and run a command of hetero-mtf; a failure ends the program with its exit status."""
    _say("hetero-mtf", *words)
    _run([sys.executable, "-m", "hetero_mtf.commands.main", *map(str, words)])


def run_module(module: str, *words: Any) -> None:
    """Show and run a module of the clone; a failure ends the program with its exit status."""
    _say("python", "-m", module, *words)
    _run([sys.executable, "-m", module, *map(str, words)])


def _say(*words: Any) -> None:
    click.echo(f"\n$ {shlex.join(map(str, words))}")


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, env=child_variables({}), check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


TABLE = TableForm(
    "mri",
    "3D-ResAttNet-18 on a drawn cohort, 95 % intervals",
    (Column("model", "model"), Column("seed", "seed"), *SCORE_COLUMNS, Column("training_s", "training s", ".0f")),
)


def score_rows(runs: Sequence[dict[str, Any]], linear: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of the scores of all networks and linear models.

    Parameters
    ----------
    runs, linear : as for `report`.
    """
    networks = [{"model": WORDS[run["strategy"]], "seed": run["seed"], **scored(run), "training_s": run["seconds"]} for run in runs]
    suffix = {"true": "", "permuted": ", diagnoses shuffled"}
    models = [{"model": case["model"] + suffix[case["labels"]], "seed": case["seed"], **scored(case)} for case in linear]
    return [table_row(cells) for cells in (*networks, *models)]


def report(shown: Demonstration, runs: Sequence[dict[str, Any]], linear: Sequence[dict[str, Any]], spent_s: float) -> str:
    """Return the scores of all networks and linear models as Markdown, split and single runs of a seed beside each other.

    Parameters
    ----------
    runs : strategy, seed, seconds and scores of each network.
    linear : cases of tools/voxels.py.
    spent_s : seconds that everything took.
    """
    from hetero_mtf.planning.plan.plan import Plan

    rows = score_rows(runs, linear)
    plans = {strategy: Plan.load(shown.plan(strategy)) for strategy in (SPLIT, "single")}
    steps = [f"{WORDS[name]} ({plan.strategy}) {1e3 * plan.predicted.step_s:.0f} ms" for name, plan in plans.items() if plan.predicted]
    lines = [
        f"# {shown.subjects} subjects, 3D-ResAttNet-18 on {shown.cluster}",
        "",
        f"Width {shown.width}, volumes of {shown.size}x{shown.size}x{shown.size}, {shown.epochs} epochs in batches of {shown.batch}. "
        "Networks are judged on the participants held out, linear models on all participants by cross-validation; 95 % intervals.",
        "",
        table(TABLE.columns, rows),
        "",
        f"Predicted steps: {', '.join(steps)}. A network this narrow is learnt in a minute and gains little from a second device;",
        f"tools/bench/resattnet.py is of one that does. Everything together took {spent_s / 60:.1f} min.",
    ]
    return "\n".join(lines)


@click.command(help=__doc__, context_settings={"show_default": True})
@click.option("--folder", type=click.Path(path_type=pathlib.Path, file_okay=False), default="runs/mri", help="Where everything is written.")
@click.option("--subjects", default=200, help="Subjects of the cohort.")
@click.option("--strength", default=1.0, help="Of the atrophy, 0 to 1.")
@click.option("--size", default=48, help="Voxels a side.")
@click.option("--width", default=8, help="Filters of the network's first stage.")
@click.option("--seeds", default=3, help="Seeds to train with.")
@click.option("--epochs", default=15, help="Epochs of each training.")
@click.option("--batch", default=4, help="Volumes per step.")
@click.option("--learning-rate", default=0.002, help="Of Adam, at the start; it falls by a cosine.")
@click.option("--cluster", default="emulate:1.0,0.5", help="The unequal devices.")
@click.option(
    "--results", type=click.Path(path_type=pathlib.Path), help="Folder of the result tables, such as docs/results.  [default: none]"
)
def main(results: pathlib.Path | None, **options: Any) -> None:
    """Run the demonstration, and print and save its report."""
    shown = Demonstration(**options)
    shown.folder.mkdir(parents=True, exist_ok=True)
    text = demonstrate(shown, results)
    (shown.folder / "report.md").write_text(text + "\n", encoding="utf-8")
    click.echo(f"\n{text}\n\nsaved {shown.folder / 'report.md'}")


if __name__ == "__main__":
    main()
