"""ScoreReport: the scores of predictions, by session and by site too, printed, as JSON, as a picture and as a page."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import click

from hetero_mtf.commands.mri.predictions import Predictions, predicted
from hetero_mtf.commands.workload.workload import Workload
from hetero_mtf.data.volumes.volume_data import VolumeData
from hetero_mtf.report.page import write_page
from hetero_mtf.report.scores import Scores
from hetero_mtf.report.scoring.curves import Curves, curves_png, save_curves, told
from hetero_mtf.report.scoring.groups import GroupScores, group_scores
from hetero_mtf.report.scoring.scores_of_folds import FoldScores
from hetero_mtf.report.scoring.sections import ABOUT_SCORES, score_sections


@dataclasses.dataclass(frozen=True)
class ScoreReport:
    """What is known of predictions whose truth is known.

    Parameters
    ----------
    curves : the predictions with their scores.
    groups : the scores by session and by site, of those that the table has.
    title : what was predicted, for the picture and the page.
    """

    curves: Curves
    groups: tuple[GroupScores, ...]
    title: str

    @property
    def scores(self) -> Scores:
        """The scores of all predictions."""
        return self.curves.scores

    def text(self) -> str:
        """Return tables of scores, of true and predicted classes, and by session and site, and the calibration, for a terminal."""
        tables = [self.scores.table().text(), self.scores.confusion_table().text()]
        return "\n\n".join([*tables, *(group.text() for group in self.groups), "\n".join(told(self.curves))])

    def document(self) -> dict[str, Any]:
        """Return what a JSON file of the scores holds."""
        return {
            **self.scores.document(),
            "groups": {group.column: group.document() for group in self.groups},
            "calibration": self.curves.document(),
        }

    def draw(
        self, plot: str | os.PathLike[str] | None, page: str | os.PathLike[str] | None, writer: str, folds: FoldScores | None = None
    ) -> None:
        """Write the curves as PNG, and a page with all scores and the curves, where they are wanted, and print where.

        Parameters
        ----------
        plot, page : files to write or replace; None for none.
        writer : the command, for the page.
        folds : the scores of each fold, where there are several.

        Raises
        ------
        HeteroError
            If a file cannot be written.
        """
        if plot is None and page is None:
            return
        png = curves_png(self.curves, self.title)
        if plot is not None:
            save_curves(plot, png)
            click.echo(f"saved {plot}")
        if page is not None:
            sections = score_sections(self.scores, self.groups, png, told(self.curves), folds)
            write_page(page, self.title, sections, ABOUT_SCORES, writer)
            click.echo(f"saved {page}")


def score_report(predictions: Predictions, title: str, chosen: list[int] | None = None, positive: str | None = None) -> ScoreReport:
    """Return the scores of predictions.

    Parameters
    ----------
    predictions : of scans.
    title : what they are of.
    chosen : indices of scans with a known class; None: all.
    positive : of two classes the one that sensitivity is of; None as `hetero_mtf.report.scores.scores`.

    Raises
    ------
    DataError
        If one has no known class, or there are none.
    """
    some = predictions if chosen is None else predictions.some(chosen)
    people, true = some.participants, some.participants.y
    scores = some.scores(positive=positive)
    columns = [(people.session_column, list(people.sessions))] if any(people.sessions) else []
    if people.centre_column is not None:
        columns.append((people.centre_column, [scan.centre for scan in people.scans]))
    who = [people.form(scan.participant) for scan in people.scans]
    pair = (some.probabilities, true)
    groups = tuple(group_scores(column, names, who, pair, people.classes, scores.positive) for column, names in columns)
    return ScoreReport(Curves(some.probabilities, true, scores), groups, title)


def part_report(trainer: Any, workload: Workload, part: str = "test", positive: str | None = None) -> ScoreReport:
    """Return the scores of a trained network over a part of its volumes.

    Parameters
    ----------
    trainer : Trainer with the trained weights.
    workload : the network and its volumes.
    part : "train", "validation" or "test".
    positive : as for `score_report`.

    Raises
    ------
    DataError
        If the split has no such part.
    """
    data = workload.data
    assert isinstance(data, VolumeData)
    chosen, split = data.part(part), data.split
    predictions = predicted(trainer, workload.graph, chosen, data.cache, data.workers, (part,) * len(chosen.scans))
    fold = "" if split.fold is None else f", fold {split.fold} of {split.folds}"
    return score_report(predictions, f"{part} part of {data.name}{fold}", positive=positive)


def print_scores(workload: Workload, trainer: Any) -> None:
    """Print the scores of a trained network over the test part of its volumes.

    Parameters
    ----------
    workload : the network and its volumes.
    trainer : Trainer with the trained weights.
    """
    click.echo(f"\n{part_report(trainer, workload).text()}\n")
