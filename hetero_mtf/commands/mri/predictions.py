"""Predictions of a network for scans, as a table and with scores."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
from typing import Any

import numpy as np

from hetero_mtf.commands.workload.chosen_loss import probabilities_of
from hetero_mtf.data.volumes.cache import VolumeCache
from hetero_mtf.data.volumes.cohort.participants import Participants
from hetero_mtf.data.volumes.volume_source import VolumeSource
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.json_file import replace_file
from hetero_mtf.report.scores import Scores, scores

UNKNOWN = "n/a"
DIGITS = 9  # significant ones, as many as a float32 has


@dataclasses.dataclass(frozen=True)
class Predictions:
    """The probability of each class for each scan.

    Parameters
    ----------
    participants : the scans.
    probabilities : (scans, classes) array of float.
    parts : (scans,) the part of the training's split each was in: "train", "validation", "test", "none", or "n/a" where it is not known.
    """

    participants: Participants
    probabilities: np.ndarray
    parts: tuple[str, ...]

    @property
    def numbers(self) -> list[int]:
        """Class number of each scan's largest probability, of equals the first."""
        return [int(number) for number in self.probabilities.argmax(axis=1)]

    @property
    def fresh(self) -> list[int]:
        """Indices of the scans with a known class that were neither trained on nor chosen by."""
        known = self.participants.classes
        there = zip(self.participants.scans, self.parts)
        return [at for at, (scan, part) in enumerate(there) if scan.label in known and part not in ("train", "validation")]

    def some(self, chosen: list[int]) -> Predictions:
        """Return the predictions of some scans.

        Parameters
        ----------
        chosen : their indices.
        """
        people = dataclasses.replace(self.participants, scans=tuple(self.participants.scans[at] for at in chosen))
        return Predictions(people, self.probabilities[chosen], tuple(self.parts[at] for at in chosen))

    def scores(self, chosen: list[int] | None = None, positive: str | None = None) -> Scores:
        """Return the scores of some predictions.

        Parameters
        ----------
        chosen : indices of scans with a known class; None: all.
        positive : of two classes the one that sensitivity is of; None as `hetero_mtf.report.scores.scores`.

        Raises
        ------
        DataError
            If one has no known class, or there are none.
        """
        some = self if chosen is None else self.some(chosen)
        return scores(some.probabilities, some.participants.y, some.participants.classes, positive)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tab-separated values: who, where, the probability of each class, what is predicted, what is true if known, the part.

        Where a scan was taken is left out if the table has no column of sites.

        Parameters
        ----------
        path : file to write or replace.

        Raises
        ------
        HeteroError
            If it cannot be written.
        """
        classes = self.participants.classes
        page = io.StringIO(newline="")
        writer = csv.writer(page, delimiter="\t", lineterminator="\n")
        column = self.participants.centre_column
        named = ["participant_id", self.participants.session_column, *([] if column is None else [column])]
        writer.writerow([*named, *(f"probability_{name}" for name in classes), "predicted", "true", "part"])
        for scan, row, number, part in zip(self.participants.scans, self.probabilities, self.numbers, self.parts):
            true = scan.label if scan.label in classes else None
            cells = [f"{value:.{DIGITS}g}" for value in row]
            who = [scan.participant, scan.session or UNKNOWN, *([] if column is None else [scan.centre or UNKNOWN])]
            writer.writerow([*who, *cells, classes[number], true or UNKNOWN, part])
        with replace_file(path) as file:
            file.write(page.getvalue().encode(errors="surrogateescape"))


def predicted(
    trainer: Any, graph: LayerGraph, participants: Participants, cache: VolumeCache, workers: int, parts: tuple[str, ...]
) -> Predictions:
    """Return the predictions of a trainer's network for scans.

    Parameters
    ----------
    trainer : Trainer, with the trained weights.
    graph : LayerGraph of its model.
    participants : the scans, with the classes of the training.
    cache : gives their arrays.
    workers : threads that decode.
    parts : (scans,) as for `Predictions`.

    Raises
    ------
    DataError
        If there are no scans.
    """
    size = trainer.plan.batch_size
    with VolumeSource(participants, cache, size, shuffle=False, labels=False, workers=workers, dtype=graph.dtype) as source:
        outputs = trainer.predict(source)
    return Predictions(participants, probabilities_of(outputs, len(participants.classes), graph), parts)
