"""Out-of-fold predictions: written, read again, and put together."""

import csv
import pathlib

import numpy as np
import pytest

from hetero_mtf.commands.mri.fold_predictions import FoldPredictions, load_fold, pooled
from hetero_mtf.commands.mri.predictions import Predictions
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.errors import DataError

CLASSES = ("AD", "NC")


def people(count=6, column="site"):
    scans = [
        Scan(
            f"sub-{n}, {n}", f"ses-{n}" if n % 2 else None, CLASSES[n % 2], pathlib.Path(f"{n}.nii"), line=n + 2, centre="A" if n else None
        )
        for n in range(count)
    ]
    return Participants(pathlib.Path("participants.tsv"), tuple(scans), "diagnosis", CLASSES, "session", column)


def of_fold(everybody, fold, seed=0):
    chosen = tuple(scan for at, scan in enumerate(everybody.scans) if at % 2 == fold - 1)
    part = Participants(everybody.path, chosen, "diagnosis", CLASSES, "session", everybody.centre_column)
    rows = np.random.default_rng(seed + fold).dirichlet([1, 1], len(chosen))
    return FoldPredictions(Predictions(part, rows, ("test",) * len(chosen)), (fold,) * len(chosen))


def test_what_is_written_is_read_to_the_last_bit(tmp_path):
    part = of_fold(people(), 2)
    part.save(tmp_path / "p.csv")
    read = load_fold(tmp_path / "p.csv", part.predictions.participants, 2)
    np.testing.assert_array_equal(read.predictions.probabilities, part.predictions.probabilities)
    assert read.folds == (2, 2, 2) and read.predictions.participants == part.predictions.participants


@pytest.mark.parametrize("column", ["site", None, "scanner"])
def test_a_line_says_who_where_in_which_fold_what_is_true_and_what_is_predicted(tmp_path, column):
    part = of_fold(people(column=column), 1)
    part.save(tmp_path / "p.csv")
    headings, first, *_ = list(csv.reader((tmp_path / "p.csv").read_text().splitlines()))
    assert headings == ["participant_id", "session", column or "site", "fold", "true", "predicted", "probability_AD", "probability_NC"]
    assert first[:5] == ["sub-0, 0", "n/a", "n/a", "1", "AD"] and first[5] == CLASSES[part.predictions.numbers[0]]
    assert [float(cell) for cell in first[6:]] == part.predictions.probabilities[0].tolist()


def test_all_folds_together_are_in_the_order_of_the_table():
    everybody = people()
    together = pooled(everybody, [of_fold(everybody, 2), of_fold(everybody, 1)])
    assert together.predictions.participants.scans == everybody.scans and together.folds == (1, 2) * 3
    for fold in (1, 2):
        rows = together.predictions.probabilities[fold - 1 :: 2]
        np.testing.assert_array_equal(rows, of_fold(everybody, fold).predictions.probabilities)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [], "is not of the 3 scans that fold 1 tests on"),
        (lambda lines: lines[:-1], "is not of the 3 scans"),
        (lambda lines: [lines[0].replace("AD", "XX"), *lines[1:]], "is not of the 3 scans"),
        (lambda lines: [lines[0], *reversed(lines[1:])], "is not of the 3 scans"),
        (lambda lines: [*lines, "more"], "is not of the 3 scans"),
        (lambda lines: [*lines[:-1], lines[-1].rpartition(",")[0] + ",x"], "has a probability that is no number"),
        (lambda lines: [*lines[:-1], '"' + lines[-1]], "cannot read"),
    ],
)
def test_a_damaged_table_is_refused_with_the_remedy(tmp_path, change, words):
    part, path = of_fold(people(), 1), tmp_path / "p.csv"
    part.save(path)
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))
    with pytest.raises(DataError, match=f"{words}.*; remove .*p.csv, and the fold is predicted again"):
        load_fold(path, part.predictions.participants, 1)


def test_a_table_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="cannot read .*none.csv: No such file"):
        load_fold(tmp_path / "none.csv", people(), 1)
