"""The scores of a training of all folds: those of each fold beside it, and of all together at the end."""

from __future__ import annotations

from collections.abc import Sequence

import click

from hetero_mtf.commands.mri.fold_files import FoldFiles
from hetero_mtf.commands.mri.fold_predictions import FoldPredictions
from hetero_mtf.commands.mri.fold_record import FoldRecord
from hetero_mtf.json_file import write_json
from hetero_mtf.report.scoring.folds import FoldScores


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
    write_json(files.fold_scores(fold), {**document, **part.predictions.scores().document()})


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
    scores = FoldScores(tuple(part.predictions.scores() for part in parts), together.predictions.scores())
    click.echo(scores.table().text())
    for line in scores.notes():
        click.echo(line)
    click.echo(f"\nOut of fold: {scores.pooled.table().text()}\n\n{scores.pooled.confusion_table().text()}\n")
    together.save(files.predictions)
    record.save(files.record, scores.document())
    for path in (files.predictions, files.record):
        click.echo(f"saved {path}")
