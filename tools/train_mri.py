"""Train 3D-ResAttNet-18 on scans of two classes over unequal devices: one command, from files to the test accuracy and the speed-up.

Without --data a cohort is generated (tools/make_cohort.py: deformed copies of one template, no patient's scans), which is said. Three
tenths of the participants are held out for testing. Options that are not listed here go to `hetero-mtf train`. All that is written is in
--folder.

    python -m tools.train_mri [--data nifti:TABLE] [--cluster emulate:1.0,0.5] [--epochs 15] [--quick]

TABLE has tab-separated columns participant_id, diagnosis and path, as a BIDS participants.tsv; --label names another column of labels.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from typing import Any

import click

from hetero_mtf.commands.process.two_devices import unequal_pair
from hetero_mtf.errors import HeteroError
from tools.results.training_run import FURTHER, LOGS, STATE, check_further, run_command, saving, unless_given
from tools.results.training_summary import summary_text, training_summary

ROOT = pathlib.Path(__file__).resolve().parents[1]
VIEW_MM = 192.0  # what the network sees along each axis
TEST_FRACTION = 0.3
BESIDE = ("balanced accuracy", "ROC AUC")
QUICK: dict[str, Any] = {"subjects": 80, "size": 32, "epochs": 8, "budget": 15.0}


@dataclasses.dataclass(frozen=True)
class MriTraining:
    """What is trained.

    Parameters
    ----------
    data : "nifti:TABLE"; None for a generated cohort.
    cluster : devices, as --cluster of `hetero-mtf train`; None for two unequal ones of this machine.
    strategy, epochs, batch_size, learning_rate, budget, seed : as there.
    size : voxels a side of the volumes that the network reads.
    width : filters of the network's first stage.
    subjects, strength : of the generated cohort.
    folder : where everything is written.
    further : options for `hetero-mtf train`.
    """

    data: str | None
    cluster: str | None
    strategy: str
    epochs: int
    batch_size: int
    learning_rate: float
    budget: float
    seed: int
    size: int
    width: int
    subjects: int
    strength: float
    folder: pathlib.Path
    further: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The command that trains, without the data set and the files that it writes."""
        place = os.path.relpath(ROOT / "models" / "resattnet3d.py")
        model = ["--model", f"{place}:resattnet18", "--model-arg", f"size={self.size}", "--model-arg", f"width={self.width}"]
        volumes = ["--shape", self.size, "--spacing", VIEW_MM / self.size, "--mask", "otsu", "--flip", "--shift", 2]
        how = ["--strategy", self.strategy, "--epochs", self.epochs, "--batch-size", self.batch_size, "--seed", self.seed]
        how += ["--optimizer", "adam", "--learning-rate", self.learning_rate, "--decay", "cosine", "--budget", self.budget]
        how += ["--test-fraction", TEST_FRACTION, "--cluster", self.cluster or unequal_pair()]
        return ["train", *model, *map(str, [*volumes, *how]), "--no-rebalance", "--compare"]


def train(training: MriTraining) -> str:
    """Train, and return the summary.

    Raises
    ------
    HeteroError
        If no cohort can be generated.
    SystemExit
        If the training fails.
    """
    saved = saving(training.folder)
    data = training.data or f"nifti:{cohort(training)}"
    run_command(*training.command, "--data", data, *saved, *training.further)
    state, scores = training.folder / STATE, training.folder / "scores.json"
    run_command("evaluate", "--data", data, "--checkpoint", state, "--cluster", "local:cpu:0", "--json", scores)
    accuracy, beside = read_scores(scores)
    return summary_text(training_summary(state, training.folder / LOGS, accuracy, beside))


def read_scores(path: pathlib.Path) -> tuple[float, tuple[tuple[str, str], ...]]:
    """Return the accuracy in a file of scores, and a row each on the other scores that a summary has.

    Parameters
    ----------
    path : what `hetero-mtf evaluate --json` wrote.
    """
    document = json.loads(path.read_text(encoding="utf-8"))["scores"]
    values = {name.partition(" (")[0]: score["value"] for name, score in document.items()}
    rows = tuple((name, f"{values[name]:.3f}") for name in BESIDE if values.get(name) is not None)
    return values["accuracy"], rows


def cohort(training: MriTraining) -> pathlib.Path:
    """Return the table of a generated cohort, which is generated if it is not there; say that it is not of patients.

    Raises
    ------
    HeteroError
        If a figure is out of range, the template is missing or the files cannot be written.
    """
    from tools.cohort.study import Study, write_study

    folder = training.folder / f"cohort-{training.subjects}-{training.size}-{training.strength:g}"
    table = folder / "participants.tsv"
    if not table.exists():
        write_study(Study(subjects=training.subjects, size=training.size, strength=training.strength), folder)
    click.echo(
        f"No --data was given, so these are no patients' scans but a generated cohort of {training.subjects} subjects, half of them with "
        f"atrophy (strength {training.strength:g}): {table}; a linear model of its voxels: python -m tools.voxels {table}"
    )
    return table


@click.command(help=__doc__, context_settings=FURTHER)
@click.option("--data", help="nifti:TABLE.  [default: a generated cohort]")
@click.option("--cluster", help="The devices.  [default: a GPU and the CPU, or two emulated devices of unequal speed]")
@click.option("--strategy", default="auto", help="How to split.")
@click.option("--epochs", type=click.IntRange(1), default=15, help="Epochs.")
@click.option("--batch-size", type=click.IntRange(1), default=4, help="Volumes/step.")
@click.option("--learning-rate", type=float, default=0.002, help="Of Adam, at the start; it falls by a cosine.")
@click.option("--budget", type=float, default=60.0, help="Seconds that measuring the devices may take.")
@click.option("--seed", default=0, help="Of the initial weights and the order of samples.")
@click.option("--size", default=48, help="Voxels a side that the network reads, of a view of 192 mm.")
@click.option("--width", default=8, help="Filters of the network's first stage; 32 in full.")
@click.option("--subjects", type=click.IntRange(2), default=200, help="Subjects of the generated cohort.")
@click.option("--strength", default=1.0, help="Of the atrophy in the generated cohort, 0 to 1.")
@click.option(
    "--folder", type=click.Path(path_type=pathlib.Path, file_okay=False), default="runs/train-mri", help="Where everything is written."
)
@click.option(
    "--quick", is_flag=True, help="Few small volumes, of which little is learnt, some 3 minutes on two cores; options that are given win."
)
@click.argument("further", nargs=-1, type=click.UNPROCESSED)
def main(quick: bool, further: tuple[str, ...], **options: Any) -> None:
    """Train and print the summary."""
    check_further(further)
    data = options["data"]
    if data is not None and not data.startswith("nifti:"):
        raise click.UsageError(f"--data {data} names no table of scans; write nifti:TABLE, such as nifti:cohort/participants.tsv")
    if quick:
        options |= unless_given(QUICK)
        further = ("--no-refine", *further)
    try:
        text = train(MriTraining(**options, further=further))
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    click.echo(f"\n{text}")


if __name__ == "__main__":
    main()
