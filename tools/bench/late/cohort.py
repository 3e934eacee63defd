"""Claim: without a flush, the ROC AUC of 3D-ResAttNet-18 in two stages is within 0.03 of synchronous training, in the mean over seeds.

A cohort of MRI scans is drawn (tools/make_cohort.py), and the network of tools/mri.py is trained on it for as many epochs from the same
weights, on the same batches: on one device, and in two stages by schedule "decoupled". A difference is paired by seed; its mean and its
standard error are given. Trainings that are equivalent but for float32's order of summation differ by up to 0.09 in one seed (`make mri`).

    python -m tools.bench.late.cohort [--seeds 5] [--json cohort.json [--resume]]
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import click

from tools.bench.late.paired import paired
from tools.mri import Demonstration, run_command, run_module, trained
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

MOST_DIFFERENCE = 0.03  # of the claim
CLUSTER = "emulate:1.0,1.0"
SYNCHRONOUS, LATE = "single", ("replay", "stored")
TITLES = {SYNCHRONOUS: "one device", **{backward: f"decoupled, {backward}" for backward in LATE}}


def write_plans(setting: Demonstration) -> None:
    """Measure the devices, and write the plan of each row."""
    import hetero_mtf as hm

    measuring = ["--cluster", setting.cluster, "--batch-size", setting.batch, "--optimizer", "adam", "--budget", 30, "-o", setting.profile]
    run_command("calibrate", *setting.model, *measuring)
    run_command("plan", setting.profile, "--strategy", "single", "-o", setting.plan(SYNCHRONOUS))
    pipeline = ["--strategy", "pipeline", "--schedule", "decoupled", "--stages", 2]
    run_command("plan", setting.profile, *pipeline, "-o", setting.plan("decoupled"))
    plan = hm.Plan.load(setting.plan("decoupled"))
    for backward in LATE:
        dataclasses.replace(plan, stale=hm.StaleOptions(backward), predicted=None).save(setting.plan(backward))


def rows(cases: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row for each way to train.

    Parameters
    ----------
    cases : seed, and the AUC by name.
    """
    lines = []
    for name, title in TITLES.items():
        own: list[float] = [case["auc"][name] for case in cases]
        numbers: dict[str, Any] = {"auc": own, "mean": statistics.fmean(own)}
        if name != SYNCHRONOUS:
            differences = [case["auc"][name] - case["auc"][SYNCHRONOUS] for case in cases]
            numbers |= paired(differences)
            numbers["distance"] = abs(numbers["difference"])
        lines.append(table_row({"variant": title, **numbers}))
    return lines


TABLE = TableForm(
    "late_cohort",
    "3D-ResAttNet-18 in two stages without a flush",
    (
        Column("variant", "trained as"),
        Column("auc", "ROC AUC by seed", ".3f"),
        Column("mean", "mean", ".3f"),
        Column("difference", "less one device, mean of pairs", "+.3f"),
        Column("error", "standard error", ".3f"),
        Column("distance", "distance", ".3f", "at_most", MOST_DIFFERENCE),
    ),
    case=("variant",),
)


def _auc(run: dict[str, Any]) -> float:
    """Return the ROC AUC of the scores that `evaluate` writes."""
    return next(score["value"] for name, score in run["scores"].items() if name.startswith("ROC AUC"))


def trained_case(setting: Demonstration, seed: int) -> dict[str, Any]:
    """Return the ROC AUC of each way to train, from one seed."""
    return {"seed": seed, "auc": {name: _auc(trained(setting, name, seed, setting.table)) for name in TITLES}}


@click.command(help=__doc__)
@click.option(
    "--folder", type=click.Path(path_type=pathlib.Path, file_okay=False), default="runs/late", help="Where everything is written."
)
@click.option("--seeds", default=5, show_default=True, help="Number of seeds.")
@output_options(after="seed", resumes=True)
def main(folder: pathlib.Path, seeds: int, output: Output) -> None:
    """Train, print the table."""
    setting = Demonstration(
        folder,
        subjects=200,
        strength=1.0,
        size=48,
        width=8,
        seeds=seeds,
        epochs=15,
        batch=4,
        learning_rate=0.002,
        cluster=CLUSTER,
    )
    folder.mkdir(parents=True, exist_ok=True)
    if not setting.table.exists():
        drawn = ["--subjects", setting.subjects, "--size", setting.size, "--strength", setting.strength]
        run_module("tools.make_cohort", folder / "cohort", *drawn)
    write_plans(setting)
    cases = Cases(output)
    for seed in range(seeds):
        if not cases.find(seed=seed):
            cases.measure(f"seed {seed}", functools.partial(trained_case, setting, seed))
            print(shown(TABLE, rows(cases.done)), flush=True)
    output.report(TABLE, rows(cases.done))


if __name__ == "__main__":
    main()
