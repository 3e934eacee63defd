from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import special
from sklearn import metrics

from hetero_mtf.errors import DataError
from hetero_mtf.report.intervals import mean_of_proportions, wilson
from hetero_mtf.report.scores import Score, scores


def drawn(classes: int, samples: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.integers(0, classes, samples)
    return special.softmax(rng.normal(size=(samples, classes)) + np.eye(classes)[true], axis=1), true


@pytest.mark.parametrize("positive", ["AD", "NC"])
def test_scores_of_two_classes_are_those_of_scikit_learn(positive: str) -> None:
    p, true = drawn(2)
    found = scores(p, true, ("AD", "NC"), positive)
    guess, at = p.argmax(axis=1), ("AD", "NC").index(positive)
    expected = {
        "accuracy": metrics.accuracy_score(true, guess),
        "balanced accuracy": metrics.balanced_accuracy_score(true, guess),
        f"sensitivity ({positive})": metrics.recall_score(true, guess, pos_label=at),
        f"specificity ({positive})": metrics.recall_score(true, guess, pos_label=1 - at),
        f"precision ({positive})": metrics.precision_score(true, guess, pos_label=at),
        f"F1 ({positive})": metrics.f1_score(true, guess, pos_label=at),
        f"ROC AUC ({positive})": metrics.roc_auc_score(true == at, p[:, at]),
        f"average precision ({positive})": metrics.average_precision_score(true == at, p[:, at]),
    }
    assert {score.name: score.value for score in found.scores} == pytest.approx(expected)
    np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(true, guess))
    assert found.positive == positive and found.samples == 90


def test_scores_of_more_classes_are_those_of_scikit_learn() -> None:
    p, true = drawn(3)
    names = ("AD", "MCI", "NC")
    found, guess = scores(p, true, names), p.argmax(axis=1)
    assert found.positive is None
    assert found["balanced accuracy"].value == pytest.approx(metrics.balanced_accuracy_score(true, guess))
    assert found["ROC AUC"].value == pytest.approx(metrics.roc_auc_score(true, p, multi_class="ovr", average="macro"))
    assert found["F1"].value == pytest.approx(metrics.f1_score(true, guess, average="macro"))
    assert found["average precision"].value == pytest.approx(metrics.average_precision_score(np.eye(3)[true], p, average="macro"))
    for c, name in enumerate(names):
        assert found[f"precision ({name})"].value == pytest.approx(metrics.precision_score(true == c, guess == c))
        assert found[f"F1 ({name})"].value == pytest.approx(metrics.f1_score(true, guess, average=None)[c])
        assert found[f"average precision ({name})"].value == pytest.approx(metrics.average_precision_score(true == c, p[:, c]))
        assert found[f"sensitivity ({name})"].value == pytest.approx(metrics.recall_score(true == c, guess == c))
        assert found[f"specificity ({name})"].value == pytest.approx(metrics.recall_score(true != c, guess != c))
        assert found[f"ROC AUC ({name})"].value == pytest.approx(metrics.roc_auc_score(true == c, p[:, c]))


def test_every_score_has_the_interval_of_its_counts_and_says_them() -> None:
    guess = [0] * 8 + [1] * 2 + [1] * 17 + [0] * 3
    found = scores(np.eye(2)[guess], [0] * 10 + [1] * 20, ("AD", "NC"), "AD")
    assert found["sensitivity (AD)"] == Score("sensitivity (AD)", 0.8, wilson(8, 10), "8 of 10")
    assert found["specificity (AD)"] == Score("specificity (AD)", 0.85, wilson(17, 20), "17 of 20")
    assert found["accuracy"].interval == wilson(25, 30)
    assert found["balanced accuracy"].interval == mean_of_proportions([(8, 10), (17, 20)])
    assert found["ROC AUC (AD)"].basis == "10 against 20"
    assert found["accuracy"].text() == "0.833 (0.664 to 0.927)"
    assert found["precision (AD)"] == Score("precision (AD)", 8 / 11, wilson(8, 11), "8 of 11")
    assert found["F1 (AD)"] == Score("F1 (AD)", 16 / 21, None, "8 right, 2 missed, 3 wrong") and found["F1 (AD)"].text() == "0.762"
    without = {score.name for score in found.scores if score.interval is None}
    assert without == {"F1 (AD)", "average precision (AD)"}
    wide = scores(np.eye(2)[guess], [0] * 10 + [1] * 20, ("AD", "NC"), "AD", 0.99)
    for score in found.scores:
        other = wide[score.name]
        assert (
            score.name in without
            or score.interval
            and other.interval
            and other.interval[0] < score.interval[0] <= score.interval[1] < other.interval[1]
        )


@pytest.mark.parametrize(
    ("classes", "positive"),
    [
        (("AD", "NC"), "AD"),
        (("CN", "MCI"), "MCI"),
        (("0", "1"), "1"),
        (("a", "b"), "b"),
        (("Control", "case"), "case"),
        (("no", "0"), "0"),
        (("AD", "MCI"), "AD"),
        (("pMCI", "sMCI"), "pMCI"),
        (("EMCI", "LMCI"), "LMCI"),
        (("NC", "sMCI"), "sMCI"),
    ],
)
def test_the_class_that_is_worse_is_the_positive_one(classes: tuple[str, str], positive: str) -> None:
    assert scores(np.eye(2), [0, 1], classes).positive == positive


def test_what_one_class_alone_cannot_tell_is_not_defined_and_says_so() -> None:
    found = scores(np.eye(2)[[0, 0, 1]], [0, 0, 0], ("AD", "NC"))
    undefined = {score.name: score.text() for score in found.scores if score.value is None}
    assert undefined == {
        "balanced accuracy": "not defined: no sample of class 'NC'",
        "specificity (AD)": "not defined: no sample of another class than 'AD'",
        "ROC AUC (AD)": "not defined: every sample is of class 'AD'",
        "average precision (AD)": "not defined: every sample is of class 'AD'",
    }
    assert found["accuracy"].value == pytest.approx(2 / 3)
    assert "not defined: no sample of class 'NC'" in found.table().text()


def test_where_no_positive_is_predicted_precision_is_not_defined_and_f1_is_zero() -> None:
    found = scores(np.eye(2)[[1, 1, 1]], [0, 1, 1], ("AD", "NC"))
    assert found["precision (AD)"].text() == "not defined: no sample is predicted to be of class 'AD'"
    assert found["F1 (AD)"].value == 0.0 and found["F1 (AD)"].basis == "0 right, 1 missed, 0 wrong"
    none = scores(np.eye(2)[[1, 1]], [1, 1], ("AD", "NC"))
    assert none["F1 (AD)"].text() == "not defined: no sample is, or is predicted to be, of class 'AD'"


@pytest.mark.parametrize(("classes", "true"), [(2, 0), (2, 1), (3, 1)])
def test_one_sample_alone_has_an_accuracy_and_no_score_is_nan(classes: int, true: int) -> None:
    found = scores(np.full((1, classes), 1 / classes), [true], [f"class {c}" for c in range(classes)])
    assert found["accuracy"].value == float(true == 0)
    json.dumps(found.document(), allow_nan=False)
    assert all(score.text().startswith("not defined: ") for score in found.scores if score.value is None)
    assert {"balanced accuracy"} < {score.name for score in found.scores if score.value is None}


def test_a_class_that_neither_is_nor_is_predicted_leaves_the_mean_f1_not_defined() -> None:
    found = scores(np.eye(3)[[0, 0, 1]], [0, 1, 1], ("a", "b", "c"))
    assert found["F1"].text() == found["F1 (c)"].text() == "not defined: no sample is, or is predicted to be, of class 'c'"
    assert found["F1 (a)"].value == pytest.approx(2 / 3) and found["average precision"].text() == "not defined: no sample of class 'c'"


def test_classes_that_do_not_occur_leave_the_areas_of_the_others_defined() -> None:
    found = scores(np.full((4, 4), 0.25), [0, 0, 2, 2], ("a", "b", "c", "d"))
    assert found["ROC AUC"].text() == found["balanced accuracy"].text() == "not defined: no sample of class 'b' and 'd'"
    assert found["ROC AUC (b)"].text() == found["sensitivity (b)"].text() == "not defined: no sample of class 'b'"
    assert found["ROC AUC (a)"].value == 0.5 and found["specificity (b)"].value == 1.0


def test_of_equal_probabilities_the_first_class_is_predicted() -> None:
    assert scores([[0.5, 0.5]], [0], ("a", "b")).confusion == ((1, 0), (0, 0))


def test_tables_show_every_score_and_count() -> None:
    found = scores(np.eye(2)[[0, 0, 1]], [0, 1, 1], ("AD", "NC"))
    text = found.table().text()
    assert "Scores of 3 predictions" in text and "95% confidence" in text and "0.667   0.208 to 0.939" in text and "2 of 3" in text
    assert found.confusion_table().rows == (("true AD", "1", "0"), ("true NC", "1", "1"))
    assert found.confusion_table().headings == ("", "predicted AD", "predicted NC")


def test_a_document_is_json_and_holds_every_score() -> None:
    document = json.loads(json.dumps(scores(np.eye(2)[[0, 0]], [0, 0], ("AD", "NC")).document(), allow_nan=False))
    assert document["scores"]["accuracy"]["value"] == 1.0 and document["scores"]["ROC AUC (AD)"]["value"] is None
    assert document["confusion"] == [[2, 0], [0, 0]] and document["positive"] == "AD" and document["confidence"] == 0.95


def test_a_score_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"there is no score 'AUC'; there are accuracy, balanced accuracy, sensitivity \(AD\)"):
        scores(np.eye(2), [0, 1], ("AD", "NC"))["AUC"]


@pytest.mark.parametrize(
    ("probabilities", "true", "classes", "message"),
    [
        (np.eye(2), [0, 1], ("a",), "the classes 'a' cannot be scored; name two different ones at least"),
        (np.eye(2), [0, 1], ("a", "a"), "the classes 'a', 'a' cannot be scored"),
        (np.eye(2), [0, 1], (), "the classes of none cannot be scored"),
        (np.eye(2), [0, 1], ("a", "b", "c"), r"probabilities have shape \(2, 2\) and true classes \(2,\); expected \(samples, 3\) and"),
        (np.eye(2), [0], ("a", "b"), r"true classes \(1,\); expected \(samples, 2\) and \(samples,\), at least one sample"),
        (np.zeros((0, 2)), [], ("a", "b"), r"shape \(0, 2\) and true classes \(0,\); expected"),
        ([0.5, 0.5], [0, 1], ("a", "b"), r"probabilities have shape \(2,\)"),
        (np.eye(2), [0, 2], ("a", "b"), "true classes are int64 from 0 to 2; give class numbers from 0 to 1"),
        (np.eye(2), [-1, 0], ("a", "b"), "true classes are int64 from -1 to 0; give"),
        (np.eye(2), [0.0, 1.0], ("a", "b"), "true classes are float64 from 0.0 to 1.0; give"),
        ([[0, 1], [np.nan, 1], [np.inf, 0]], [0, 1, 1], ("a", "b"), "2 of 3 predictions are NaN or infinite, the first at 1; look at"),
    ],
)
def test_what_cannot_be_scored_is_refused(probabilities, true, classes: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        scores(probabilities, true, classes)


def test_a_positive_class_or_a_confidence_that_is_none_is_refused() -> None:
    with pytest.raises(DataError, match="positive class 'MCI' is not one of 'AD', 'NC'; name one of them"):
        scores(np.eye(2), [0, 1], ("AD", "NC"), "MCI")
    for confidence in (0.0, 1.0, 95, float("nan")):
        with pytest.raises(DataError, match="is not one; give one between 0 and 1, such as 0.95"):
            scores(np.eye(2), [0, 1], ("AD", "NC"), confidence=confidence)
