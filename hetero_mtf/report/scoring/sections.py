"""Scores as sections of a page."""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.report.scores import Scores
from hetero_mtf.report.scoring.groups import GroupScores
from hetero_mtf.report.scoring.scores_of_folds import FoldScores
from hetero_mtf.report.section import Image, Section

ABOUT_SCORES = "How well a network classifies scans of participants that it was not trained on."
_LEADING = ("accuracy", "balanced accuracy", "F1", "ROC AUC", "average precision")


def score_sections(
    scores: Scores, groups: Sequence[GroupScores], png: bytes, told: Sequence[str], folds: FoldScores | None = None
) -> tuple[Section, ...]:
    """Return what a page of scores shows.

    Parameters
    ----------
    scores : of all predictions.
    groups : by session and by site.
    png : the curves.
    told : sentences on the calibration.
    folds : the scores of each fold, where there are several.
    """
    several = () if folds is None else (Section(f"Scores of {len(folds.folds)} folds", folds.notes(), folds.table()),)
    leading = [score for score in scores.scores if score.value is not None and score.name.partition(" (")[0] in _LEADING]
    figures = tuple((score.name, f"{score.value:.3f}") for score in leading[: len(_LEADING)])
    name = "Scores" if folds is None else "Scores of all out-of-fold predictions"
    return (
        Section(name, (f"{scores.samples} predictions",), scores.table(), figures=figures),
        *several,
        Section("Calibration, ROC and precision-recall curves", tuple(told), image=Image(png, "; ".join(told))),
        Section("True and predicted classes", (), scores.confusion_table()),
        *(Section(f"Scores by {group.column}", group.lines(), group.table()) for group in groups),
    )
