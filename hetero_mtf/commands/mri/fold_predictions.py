"""Out-of-fold predictions: each scan predicted by the network that was not trained on its participant, as a table with commas."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from hetero_mtf.commands.mri.predictions import UNKNOWN, Predictions
from hetero_mtf.data.volumes.cohort.participants import CENTRES, Participants, Scan
from hetero_mtf.errors import DataError
from hetero_mtf.json_file import replace_file


@dataclasses.dataclass(frozen=True)
class FoldPredictions:
    """Predictions with the fold that each scan was tested in.

    Parameters
    ----------
    predictions : of the scans.
    folds : (scans,) numbers of the folds, from 1.
    """

    predictions: Predictions
    folds: tuple[int, ...]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a line a scan: participant, session, site, fold, true and predicted class, and the probability of each class.

        Probabilities are written in full, so that what is read again is the same to the last bit.

        Parameters
        ----------
        path : file to write or replace.

        Raises
        ------
        HeteroError
            If it cannot be written.
        """
        people, page = self.predictions.participants, io.StringIO(newline="")
        writer = csv.writer(page, lineterminator="\n")
        writer.writerow(_headings(people))
        for scan, fold, number, row in zip(people.scans, self.folds, self.predictions.numbers, self.predictions.probabilities):
            cells = (scan.participant, scan.session or UNKNOWN, scan.centre or UNKNOWN, fold, scan.label or UNKNOWN, people.classes[number])
            writer.writerow([*cells, *(repr(float(value)) for value in row)])
        with replace_file(path) as file:
            file.write(page.getvalue().encode(errors="surrogateescape"))


def load_fold(path: str | os.PathLike[str], people: Participants, fold: int) -> FoldPredictions:
    """Return the predictions of a fold that `FoldPredictions.save` wrote.

    Parameters
    ----------
    path : the file.
    people : the scans that the fold tests on.
    fold : its number, from 1.

    Raises
    ------
    DataError
        If the file cannot be read, or is of other scans.
    """
    remedy = f"remove {path}, and the fold is predicted again"
    try:
        text = pathlib.Path(path).read_bytes().decode(errors="surrogateescape")
        headings, *lines = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    except (OSError, csv.Error) as fault:
        raise DataError(f"cannot read {path}: {getattr(fault, 'strerror', None) or fault}", remedy) from fault
    fixed = len(_headings(people)) - len(people.classes)
    shown = [(cells[0], cells[1], cells[3]) for cells in lines if len(cells) == len(headings)]
    wanted = [(scan.participant, scan.session or UNKNOWN, str(fold)) for scan in people.scans]
    if headings != _headings(people) or shown != wanted or len(lines) != len(wanted):
        raise DataError(f"{path} is not of the {len(wanted)} scans that fold {fold} tests on", remedy)
    try:
        rows = np.array([[float(cell) for cell in cells[fixed:]] for cells in lines], dtype=np.float64)
    except ValueError as fault:
        raise DataError(f"{path} has a probability that is no number ({fault})", remedy) from fault
    return FoldPredictions(Predictions(people, rows, ("test",) * len(wanted)), (fold,) * len(wanted))


def pooled(people: Participants, parts: Sequence[FoldPredictions]) -> FoldPredictions:
    """Return the predictions of all folds together, in the table's order.

    Parameters
    ----------
    people : the scans of all folds.
    parts : those of each fold.
    """
    rows = dict[Scan, tuple[np.ndarray, int]]()
    for part in parts:
        rows.update(
            {scan: (row, n) for scan, row, n in zip(part.predictions.participants.scans, part.predictions.probabilities, part.folds)}
        )
    tested = dataclasses.replace(people, scans=tuple(scan for scan in people.scans if scan in rows))
    probabilities = np.stack([rows[scan][0] for scan in tested.scans])
    return FoldPredictions(Predictions(tested, probabilities, ("test",) * len(tested.scans)), tuple(rows[scan][1] for scan in tested.scans))


def _headings(people: Participants) -> list[str]:
    named = ["participant_id", people.session_column, people.centre_column or CENTRES[0], "fold", "true", "predicted"]
    return [*named, *(f"probability_{name}" for name in people.classes)]
