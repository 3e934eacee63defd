"""Scores by session, by site, or by any other column of a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetero_mtf.report.scores import Score, Scores, scores
from hetero_mtf.report.scoring.scores_of_folds import undefined
from hetero_mtf.report.table import NOTHING, Table

UNKNOWN = "n/a"
FEW = 10  # scans; scores of fewer scatter widely
_SHOWN = ("accuracy", "balanced accuracy", "sensitivity", "specificity", "F1", "ROC AUC", "average precision")


@dataclasses.dataclass(frozen=True)
class Group:
    """The scores of the scans with one entry in a column.

    Parameters
    ----------
    name : the entry, "n/a" where it is not known.
    participants : how many are among them.
    scores : of the scans.
    """

    name: str
    participants: int
    scores: Scores


@dataclasses.dataclass(frozen=True)
class GroupScores:
    """The scores by a column.

    Parameters
    ----------
    column : its name in the table.
    groups : in order of their names, the one that is not known last.
    """

    column: str
    groups: tuple[Group, ...]

    def table(self) -> Table:
        """Return a row for each group: participants, scans, scans of each class, and scores; all have their basis in `document`."""
        first = self.groups[0].scores
        names = [score.name for score in self._shown(self.groups[0])]
        headings = (self.column, "participants", "scans", *first.classes, *names)
        rows = tuple(
            (group.name, str(group.participants), str(group.scores.samples), *_cells(group.scores, names)) for group in self.groups
        )
        return Table(headings, rows, f"Scores by {self.column}")

    def lines(self) -> tuple[str, ...]:
        """Return the groups that are small, and a group that is all there is."""
        if len(self.groups) == 1:
            only = self.groups[0]
            return (f"{self.column}: all {only.scores.samples} scans are of {only.name}, and its scores are those above",)
        few = [f"{group.name} ({group.scores.samples})" for group in self.groups if group.scores.samples < FEW]
        small = [f"{self.column}: fewer than {FEW} scans, so that scores scatter widely: {', '.join(few)}"] if few else []
        return (*small, *self._undefined())

    def _undefined(self) -> tuple[str, ...]:
        """Return why scores are not defined, a line for all groups with the same reason, as there may be many sites."""
        groups = dict[tuple[str, str], list[str]]()
        for group in self.groups:
            for names, reason in undefined(self._shown(group)):
                groups.setdefault((names, reason), []).append(group.name)
        return tuple(f"{self.column} {', '.join(of)}: {names} not defined: {reason}" for (names, reason), of in groups.items())

    def _shown(self, group: Group) -> tuple[Score, ...]:
        return tuple(score for score in group.scores.scores if _is_shown(score.name, group.scores))

    def text(self) -> str:
        """Return the table and the lines below it for a terminal."""
        return "\n".join([*([self.table().text()] if len(self.groups) > 1 else []), *self.lines()])

    def document(self) -> dict[str, Any]:
        """Return what a JSON file of them holds: the name of each group with its counts and scores."""
        return {
            group.name: {"participants": group.participants, "samples": group.scores.samples, **group.scores.document()}
            for group in self.groups
        }


def group_scores(
    column: str,
    names: Sequence[str | None],
    participants: Sequence[str],
    predictions: tuple[NDArray[np.float64], NDArray[np.int64]],
    classes: Sequence[str],
    positive: str | None = None,
) -> GroupScores:
    """Return the scores of each group of scans.

    Parameters
    ----------
    column : what the names are of, such as "site".
    names : (scans,) the group of each, None where it is not known.
    participants : (scans,) whose scan it is.
    predictions : (scans, classes) array of probabilities, and (scans,) array of true class numbers; at least one scan.
    classes, positive : as for `hetero_mtf.report.scores.scores`.

    Raises
    ------
    DataError
        As `hetero_mtf.report.scores.scores`.
    """
    probabilities, true = predictions
    given = [UNKNOWN if name is None else name for name in names]
    groups = []
    for name in sorted(set(given), key=lambda name: (name == UNKNOWN, name)):
        at = [index for index, other in enumerate(given) if other == name]
        people = len({participants[index] for index in at})
        groups.append(Group(name, people, scores(probabilities[at], true[at], classes, positive)))
    return GroupScores(column, tuple(groups))


def _is_shown(name: str, of: Scores) -> bool:
    kind, _, rest = name.partition(" (")
    return kind in _SHOWN and (len(of.classes) == 2 or not rest)


def _cells(of: Scores, names: Sequence[str]) -> tuple[str, ...]:
    values = [of[name].value for name in names]
    counts = tuple(str(sum(row)) for row in of.confusion)
    return (*counts, *(NOTHING if value is None else f"{value:.3f}" for value in values))
