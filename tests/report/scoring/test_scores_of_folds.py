"""The scores of folds: mean, sample standard deviation, and what is not defined."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hetero_mtf.report.scores import scores
from hetero_mtf.report.scoring.scores_of_folds import FoldScores

CLASSES = ("AD", "NC")
GUESSES = ([0, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1])
TRUTHS = ([0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1])


@pytest.fixture
def folds() -> FoldScores:
    each = tuple(scores(np.eye(2)[guess], true, CLASSES) for guess, true in zip(GUESSES, TRUTHS))
    return FoldScores(each, scores(np.eye(2)[np.concatenate(GUESSES)], np.concatenate(TRUTHS), CLASSES))


def test_mean_and_sample_standard_deviation_are_over_the_folds_with_a_value(folds: FoldScores) -> None:
    accuracies = [1.0, 0.5, 1.0]
    assert folds.values("accuracy") == tuple(accuracies)
    assert folds.mean("accuracy") == pytest.approx(np.mean(accuracies))
    assert folds.deviation("accuracy") == pytest.approx(np.std(accuracies, ddof=1))
    assert folds.values("sensitivity (AD)") == (1.0, 0.5) and folds.mean("sensitivity (AD)") == 0.75
    assert folds.pooled["accuracy"].value == pytest.approx(10 / 12)


def test_a_table_has_a_row_a_score_and_says_what_is_not_defined(folds: FoldScores) -> None:
    rows = {row[0]: row[1:] for row in folds.table().rows}
    assert rows["predictions"] == ("4", "4", "4", "", "", "12")
    assert rows["accuracy"] == ("1.000", "0.500", "1.000", "0.833", "0.289", "0.833")
    assert rows["sensitivity (AD)"] == ("1.000", "0.500", "not defined", "0.750 (of 2)", "0.354", "0.750")
    lacking = "fold 3: balanced accuracy, sensitivity (AD), ROC AUC (AD), average precision (AD) not defined: no sample of class 'AD'"
    assert lacking in folds.notes()
    assert not any("nan" in cell for row in folds.table().rows for cell in row)


def test_a_score_that_no_fold_has_or_one_only_has_no_mean_or_no_deviation() -> None:
    one, other = scores(np.eye(2)[[0]], [0], CLASSES), scores(np.eye(2)[[1]], [1], CLASSES)
    folds = FoldScores((one, other), scores(np.eye(2)[[0, 1]], [0, 1], CLASSES))
    assert folds.mean("ROC AUC (AD)") is None and folds.deviation("ROC AUC (AD)") is None
    assert folds.mean("sensitivity (AD)") == 1.0 and folds.deviation("sensitivity (AD)") is None
    rows = {row[0]: row[1:] for row in folds.table().rows}
    assert rows["ROC AUC (AD)"] == ("not defined",) * 4 + ("1.000",)
    assert rows["sensitivity (AD)"] == ("1.000", "not defined", "1.000 (of 1)", "not defined", "1.000")


def test_a_document_is_json_with_none_for_what_is_not_defined(folds: FoldScores) -> None:
    document = json.loads(json.dumps(folds.document(), allow_nan=False))
    assert [fold["fold"] for fold in document["folds"]] == [1, 2, 3] and document["pooled"]["samples"] == 12
    assert document["mean"]["accuracy"] == pytest.approx(5 / 6) and document["defined_in"]["ROC AUC (AD)"] == 2
    assert document["standard_deviation"]["accuracy"] == pytest.approx(np.std([1, 0.5, 1], ddof=1))
