"""The scores of a training of all folds: those of each fold beside it, and of all together at the end."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hetero_mtf.commands.mri.fold_files import FoldFiles
from hetero_mtf.commands.mri.fold_predictions import FoldPredictions
from hetero_mtf.commands.mri.fold_record import FoldRecord
from hetero_mtf.commands.mri.score_report import score_report
from hetero_mtf.json_file import write_json
from hetero_mtf.report.scoring.scores_of_folds import FoldScores


def save_scores(files: FoldFiles, part: FoldPredictions, fold: int) -> None:
    """Write the scores of a fold as JSON.

    Parameters
    ----------
    files : where they go.
    part : the predictions of the fold.
    fold : its number, from 1.

    Raises
    ------
    HeteroError
        If they cannot be written.
    """
    document = {"kind": "scores", "version": 1, "checkpoint": files.state(fold), "part": "test", "fold": fold}
    write_json(files.fold_scores(fold), {**document, **score_report(part.predictions, f"fold {fold}").document()})


def report_folds(files: FoldFiles, record: FoldRecord, parts: Sequence[FoldPredictions], together: FoldPredictions) -> None:
    """Print the scores of all folds, and save them and the out-of-fold predictions.

    Parameters
    ----------
    files : where they go.
    record : what was trained.
    parts : the predictions of each fold.
    together : those of all folds.

    Raises
    ------
    HeteroError
        If something cannot be written.
    """
    report = score_report(
        together.predictions, f"{len(parts)} folds: out-of-fold predictions of {together.predictions.participants.path.name}"
    )
    folds = FoldScores(tuple(part.predictions.scores() for part in parts), report.scores)
    click.echo(folds.table().text())
    for line in folds.notes():
        click.echo(line)
    click.echo(f"\nPooled, each scan predicted by the network that was not trained on its participant:\n\n{report.text()}\n")
    together.save(files.predictions)
    record.save(files.record, {**folds.document(), "pooled": {"samples": report.scores.samples, **report.document()}})
    for path in (files.predictions, files.record):
        click.echo(f"saved {path}")
    report.draw(files.plot, files.page, "train", folds)
