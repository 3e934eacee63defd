"""Claim: on the drawn cohort a linear model of voxels is well below a 3-D convolutional network.

The baselines are those that were usual before networks: a linear support vector machine and a ridge logistic regression on standardised
voxels, and a logistic regression on the principal components that hold 80 % of the variance of smoothed voxels. Each participant is
predicted by a model that was trained on other folds; the area under the ROC curve (AUC) is over all of them, with DeLong's 95 % interval,
and the folds are drawn again with each seed. Scans are read as the network reads them. With permuted labels the AUC has to be near a half.

    python -m tools.make_cohort cohort && python -m tools.voxels cohort/participants.tsv [--size 48] [--seeds 3] [--json voxels.json]

Klöppel and others, "Automatic classification of MR scans in Alzheimer's disease", Brain 131(3), 2008, for linear machines on voxels.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import click
import numpy as np
from scipy import ndimage, special

from hetero_mtf.data.volumes import Participants, Preprocessing, read_participants, read_scan
from hetero_mtf.data.volumes.cohort.splits import k_fold_splits
from hetero_mtf.errors import HeteroError
from hetero_mtf.report.scores import Scores, scores
from tools.bench.comparison.measured import SCORE_COLUMNS, scored
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

VIEW_MM = 192.0
SMOOTH_VOXELS = 1.5
VARIANCE = 0.8  # of the smoothed voxels, that the components hold
TABLE = TableForm(
    "voxels",
    "Linear models of voxels on the drawn cohort, 95 % intervals",
    (Column("model", "model"), Column("labels", "labels"), Column("seed", "seed"), *SCORE_COLUMNS),
)


def volumes(participants: Participants, size: int) -> np.ndarray:
    """Return the scans as a network gets them: (scans, size, size, size) array of float32."""
    steps = Preprocessing((size,) * 3, spacing_mm=(VIEW_MM / size,) * 3, mask="otsu")
    return np.stack([read_scan(scan.path, steps, scan.mask).values for scan in participants.scans])


def features(scans: np.ndarray) -> dict[str, np.ndarray]:
    """Return what the models look at: all voxels, and smoothed ones, every second along each axis."""
    smooth = np.stack([ndimage.gaussian_filter(volume, SMOOTH_VOXELS)[::2, ::2, ::2] for volume in scans])
    return {"voxels": scans.reshape(len(scans), -1), "smoothed": smooth.reshape(len(scans), -1)}


def models() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Return the models by name, each with what it looks at."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return {
        "linear support vector machine": ("voxels", lambda: make_pipeline(StandardScaler(), SVC(kernel="linear"))),
        "the same on smoothed voxels": ("smoothed", lambda: make_pipeline(StandardScaler(), SVC(kernel="linear"))),
        "ridge logistic regression": ("smoothed", lambda: make_pipeline(StandardScaler(), LogisticRegression(C=1e-4, max_iter=1000))),
        "logistic regression on components": (
            "smoothed",
            lambda: make_pipeline(StandardScaler(), PCA(VARIANCE, svd_solver="full"), LogisticRegression(max_iter=1000)),
        ),
    }


def out_of_fold(make: Callable[[], Any], x: np.ndarray, y: np.ndarray, participants: Participants, seed: int, folds: int) -> Scores:
    """Return the scores of a linear model, each participant's by one that was trained on other folds."""
    who = np.array([scan.participant for scan in participants.scans])
    outputs = np.empty(len(y))
    for split in k_fold_splits(participants, folds, seed=seed):
        tested = np.isin(who, split.test)
        model = make().fit(x[~tested], y[~tested])
        outputs[tested] = model.decision_function(x[tested])
    positive = special.expit(outputs)
    return scores(np.stack([1 - positive, positive], axis=1), y, participants.classes, positive=participants.classes[1])


def permuted(participants: Participants, seed: int) -> np.ndarray:
    """Return class numbers permuted among participants; all sessions of one stay together."""
    first = {scan.participant: label for scan, label in reversed(list(zip(participants.scans, participants.y)))}
    dealt = dict(zip(first, np.random.default_rng(seed).permutation(list(first.values()))))
    return np.array([dealt[scan.participant] for scan in participants.scans])


def cases(participants: Participants, looked_at: Mapping[str, np.ndarray], seeds: int, folds: int) -> list[dict[str, Any]]:
    """Return the scores of every model and seed, and of permuted labels with the first seed."""
    records = []
    for name, (what, make) in models().items():
        for seed in range(seeds):
            result = out_of_fold(make, looked_at[what], participants.y, participants, seed, folds)
            records.append({"model": name, "labels": "true", "seed": seed, **result.document()})
        result = out_of_fold(make, looked_at[what], permuted(participants, 0), participants, 0, folds)
        records.append({"model": name, "labels": "permuted", "seed": 0, **result.document()})
    return records


def row(case: dict[str, Any]) -> Row:
    """Return the row of a case."""
    return table_row({"model": case["model"], "labels": case["labels"], "seed": case["seed"], **scored(case)})


@click.command(help=__doc__, context_settings={"show_default": True})
@click.argument("table", type=click.Path(dir_okay=False, path_type=pathlib.Path))
@click.option("--label", default="diagnosis", help="Column of the labels, of which there are two.")
@click.option("--size", default=48, help="Voxels a side that scans are resampled to, over 192 mm.")
@click.option("--seeds", default=3, help="Draws of the folds.")
@click.option("--folds", default=5, help="Folds.")
@output_options()
def main(table: pathlib.Path, label: str, size: int, seeds: int, folds: int, output: Output) -> None:
    """Score linear models on the voxels of a cohort."""
    try:
        participants = read_participants(table, label)
        if len(participants.classes) != 2:
            raise click.ClickException(f"{table} has {len(participants.classes)} classes; this bench compares two")
        records = cases(participants, features(volumes(participants, size)), seeds, folds)
    except HeteroError as fault:
        raise click.ClickException(str(fault)) from fault
    rows = [row(case) for case in records]
    output.report(TABLE, rows)
    output.record({"cases": records})


if __name__ == "__main__":
    main()
