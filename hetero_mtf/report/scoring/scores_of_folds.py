"""FoldScores: the scores of each fold, their mean and standard deviation, and those of all out-of-fold predictions together."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence
from typing import Any

from hetero_mtf.report.scores import Score, Scores
from hetero_mtf.report.table import Table

UNDEFINED = "not defined"


@dataclasses.dataclass(frozen=True)
class FoldScores:
    """Scores of a cross-validation.

    Parameters
    ----------
    folds : (folds,) the scores of each.
    pooled : of the predictions of all folds together.
    """

    folds: tuple[Scores, ...]
    pooled: Scores

    def values(self, name: str) -> tuple[float, ...]:
        """Return a score of the folds in which it is defined.

        Parameters
        ----------
        name : such as "accuracy".
        """
        values = (fold[name].value for fold in self.folds)
        return tuple(value for value in values if value is not None)

    def mean(self, name: str) -> float | None:
        """Return the mean over the folds in which a score is defined, None where it is in none.

        Parameters
        ----------
        name : such as "accuracy".
        """
        values = self.values(name)
        return statistics.fmean(values) if values else None

    def deviation(self, name: str) -> float | None:
        """Return the sample standard deviation over the folds in which a score is defined, None where these are fewer than two.

        With n values x_i and their mean m: sqrt(sum (x_i - m)^2 / (n - 1)).

        Parameters
        ----------
        name : such as "accuracy".
        """
        values = self.values(name)
        return statistics.stdev(values) if len(values) > 1 else None

    def table(self) -> Table:
        """Return a row for each score: of each fold, the mean, the standard deviation, and of all predictions together."""
        headings = ("score", *(f"fold {number}" for number in range(1, len(self.folds) + 1)), "mean", "standard deviation", "pooled")
        rows = []
        for score in self.pooled.scores:
            own = [_text(fold[score.name].value) for fold in self.folds]
            defined = len(self.values(score.name))
            mean = _text(self.mean(score.name)) + ("" if defined in (0, len(self.folds)) else f" (of {defined})")
            rows.append((score.name, *own, mean, _text(self.deviation(score.name)), _text(score.value)))
        counts = (*(str(fold.samples) for fold in self.folds), "", "", str(self.pooled.samples))
        return Table(headings, (("predictions", *counts), *rows), f"Scores of {len(self.folds)} folds")

    def notes(self) -> tuple[str, ...]:
        """Return why scores are not defined, one a line."""
        where = [(f"fold {number}", fold) for number, fold in enumerate(self.folds, 1)]
        pairs = [(name, pair) for name, scores in (*where, ("pooled", self.pooled)) for pair in undefined(scores.scores)]
        return tuple(f"{name}: {names} not defined: {reason}" for name, (names, reason) in pairs)

    def document(self) -> dict[str, Any]:
        """Return what a JSON file of them holds."""
        names = [score.name for score in self.pooled.scores]
        return {
            "folds": [{"fold": number, "samples": fold.samples, **fold.document()} for number, fold in enumerate(self.folds, 1)],
            "mean": {name: self.mean(name) for name in names},
            "standard_deviation": {name: self.deviation(name) for name in names},
            "defined_in": {name: len(self.values(name)) for name in names},
            "pooled": {"samples": self.pooled.samples, **self.pooled.document()},
        }


def undefined(scores: Sequence[Score]) -> tuple[tuple[str, str], ...]:
    """Return which scores are not defined, those with one reason together, and the reason.

    Parameters
    ----------
    scores : defined ones are left out.

    Examples
    --------
    >>> undefined([Score("a", None, None, "no sample"), Score("b", 0.5, None, "1 of 2"), Score("c", None, None, "no sample")])
    (('a, c', 'no sample'),)
    """
    names = dict[str, list[str]]()
    for score in scores:
        if score.value is None:
            names.setdefault(score.basis, []).append(score.name)
    return tuple((", ".join(of), reason) for reason, of in names.items())


def _text(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.3f}"
