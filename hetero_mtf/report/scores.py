"""Scores of a classifier on samples it was not trained on, with confidence intervals where one is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hetero_mtf.errors import DataError
from hetero_mtf.report.intervals import CONFIDENCE, Interval, mean_of_proportions, wilson
from hetero_mtf.report.roc import Floats, Ints, area, mean_area
from hetero_mtf.report.scoring.retrieval import average_precision, f1, precision
from hetero_mtf.report.table import NOTHING, Table

HEALTHY = frozenset({"nc", "cn", "hc", "nl", "hv", "control", "controls", "healthy", "normal", "negative", "no", "false", "0"})
MILD = frozenset({"mci", "smci", "emci", "lmci", "stable"})  # beside a worse class, such as AD or progressive MCI


@dataclasses.dataclass(frozen=True)
class Score:
    """One score.

    Parameters
    ----------
    name : such as "accuracy" or "sensitivity (AD)".
    value : 0 to 1; None where it is not defined.
    interval : lower and upper limit; None where the value is, and for F1 and the average precision.
    basis : what it is of, such as "38 of 40", or why it is not defined.
    """

    name: str
    value: float | None
    interval: Interval | None
    basis: str

    def text(self) -> str:
        """Return such as "0.950 (0.835 to 0.986)", "0.950", or "not defined: ..."."""
        if self.value is None:
            return f"not defined: {self.basis}"
        return f"{self.value:.3f}" if self.interval is None else f"{self.value:.3f} ({self.interval[0]:.3f} to {self.interval[1]:.3f})"


@dataclasses.dataclass(frozen=True)
class Scores:
    """All scores of some predictions.

    Parameters
    ----------
    classes : their names.
    positive : of two classes the one that sensitivity is of; None of more.
    confusion : (classes, classes) counts, a row for each true class, a column for each predicted one.
    scores : in the order they are shown in.
    confidence : of the intervals.
    """

    classes: tuple[str, ...]
    positive: str | None
    confusion: tuple[tuple[int, ...], ...]
    scores: tuple[Score, ...]
    confidence: float

    def __getitem__(self, name: str) -> Score:
        """Return the score of a name."""
        score = next((score for score in self.scores if score.name == name), None)
        if score is None:
            raise KeyError(f"there is no score {name!r}; there are {', '.join(score.name for score in self.scores)}")
        return score

    @property
    def samples(self) -> int:
        """How many predictions were scored."""
        return sum(map(sum, self.confusion))

    def table(self) -> Table:
        """Return the scores, one a row."""
        rows = tuple(_row(score) for score in self.scores)
        return Table(("score", "value", f"{self.confidence:.0%} confidence", "of"), rows, f"Scores of {self.samples} predictions")

    def confusion_table(self) -> Table:
        """Return how many of each true class were predicted to be of each class."""
        rows = tuple((f"true {name}", *map(str, counts)) for name, counts in zip(self.classes, self.confusion))
        return Table(("", *(f"predicted {name}" for name in self.classes)), rows)

    def document(self) -> dict[str, Any]:
        """Return what a JSON file of the scores holds."""
        return {**dataclasses.asdict(self), "scores": {score.name: dataclasses.asdict(score) for score in self.scores}}


def scores(
    probabilities: ArrayLike, true: ArrayLike, classes: Sequence[str], positive: str | None = None, confidence: float = CONFIDENCE
) -> Scores:
    """Return accuracy, balanced accuracy, sensitivity, specificity, precision, F1 and the areas under the ROC and precision-recall curves.

    Wilson's intervals for proportions, Newcombe's for the mean of them, DeLong's for areas (`hetero_mtf.report.intervals`, `.roc`).
    They hold for other samples of the same kind, not for training again; F1 and the area under the precision-recall curve (average
    precision) have none. Of two classes, sensitivity is the part of the positive class
    that is predicted as such and specificity that of the other; of more, every class has both against the others, and F1 and areas are
    the mean over classes (macro) and of each. The class of the largest probability is the predicted one, of equals the first.

    Parameters
    ----------
    probabilities : (samples, classes) array of float; for the AUC best in float64, as float32 makes many of them 1.
    true : (samples,) array of int, class numbers.
    classes : at least two names.
    positive : of two classes the one to find; None takes the one that is not named like a healthy group (`HEALTHY`) or, if neither is,
        like a mild one (`MILD`), or else the last.
    confidence : between 0 and 1.

    Raises
    ------
    DataError
        If there are no samples, or shapes, class numbers or probabilities are wrong.
    """
    names = tuple(classes)
    p, y = _checked(np.asarray(probabilities, dtype=float), np.asarray(true), names)
    if not 0.0 < confidence < 1.0:
        raise DataError(f"a confidence of {confidence:g} is not one", "give one between 0 and 1, such as 0.95")
    guess = p.argmax(axis=1)
    confusion = np.zeros((len(names), len(names)), dtype=np.int64)
    np.add.at(confusion, (y, guess), 1)
    entries = [_proportion("accuracy", int(np.trace(confusion)), len(y), confidence), _balanced(confusion, names, confidence)]
    if len(names) == 2:
        positive = _positive(names, positive)
        at = names.index(positive)
        entries += [*_of_class(confusion, at, names, confidence), _precision(confusion, guess, y, at, names, confidence)]
        entries += [_f1(confusion, guess, y, at, names), _area(p, y, at, names, confidence), _average_precision(p, y, at, names)]
    else:
        every = range(len(names))
        entries += [score for c in every for score in _of_class(confusion, c, names, confidence)]
        entries += [_precision(confusion, guess, y, c, names, confidence) for c in every]
        entries += _with_mean("F1", [_f1(confusion, guess, y, c, names) for c in every])
        entries += [_mean_area(p, y, names, confidence), *(_area(p, y, c, names, confidence) for c in every)]
        entries += _with_mean("average precision", [_average_precision(p, y, c, names) for c in every])
    counts = tuple(tuple(int(n) for n in row) for row in confusion)
    return Scores(names, positive if len(names) == 2 else None, counts, tuple(entries), confidence)


def _checked(p: Floats, y: Ints, names: tuple[str, ...]) -> tuple[Floats, Ints]:
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataError(f"the classes {', '.join(map(repr, names)) or 'of none'} cannot be scored", "name two different ones at least")
    if p.ndim != 2 or p.shape[1] != len(names) or y.shape != p.shape[:1] or not len(y):
        wrong = f"probabilities have shape {p.shape} and true classes {y.shape}"
        raise DataError(wrong, f"expected (samples, {len(names)}) and (samples,), at least one sample")
    if y.dtype.kind not in "iub" or y.min() < 0 or y.max() >= len(names):
        raise DataError(f"true classes are {y.dtype} from {y.min()} to {y.max()}", f"give class numbers from 0 to {len(names) - 1}")
    bad = ~np.isfinite(p).all(axis=1)
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise DataError(f"{bad.sum()} of {len(y)} predictions are NaN or infinite, the first at {first}", "look at the training's loss")
    return p, y.astype(np.int64)


def _positive(names: tuple[str, ...], wanted: str | None) -> str:
    if wanted is not None and wanted not in names:
        raise DataError(f"positive class {wanted!r} is not one of {', '.join(map(repr, names))}", "name one of them")
    ill = [name for name in names if name.casefold() not in HEALTHY]
    worse = [name for name in ill if name.casefold() not in MILD]
    return wanted if wanted is not None else (worse or ill or names)[-1]


def _proportion(name: str, right: int, of: int, confidence: float, absent: str = "") -> Score:
    if not of:
        return Score(name, None, None, absent)
    return Score(name, right / of, wilson(right, of, confidence), f"{right} of {of}")


def _balanced(confusion: Ints, names: tuple[str, ...], confidence: float) -> Score:
    counts = [(int(confusion[c, c]), int(confusion[c].sum())) for c in range(len(names))]
    absent = _absent(confusion.sum(axis=1), names)
    if absent:
        return Score("balanced accuracy", None, None, absent)
    mean = float(np.mean([right / of for right, of in counts]))
    return Score("balanced accuracy", mean, mean_of_proportions(counts, confidence), f"mean over {len(names)} classes")


def _of_class(confusion: Ints, c: int, names: tuple[str, ...], confidence: float) -> list[Score]:
    """Return sensitivity and specificity of a class against the others."""
    own, others = int(confusion[c].sum()), int(confusion.sum() - confusion[c].sum())
    right, refused = int(confusion[c, c]), int(others - (confusion[:, c].sum() - confusion[c, c]))
    return [
        _proportion(f"sensitivity ({names[c]})", right, own, confidence, f"no sample of class {names[c]!r}"),
        _proportion(f"specificity ({names[c]})", refused, others, confidence, f"no sample of another class than {names[c]!r}"),
    ]


def _precision(confusion: Ints, guess: Ints, y: Ints, c: int, names: tuple[str, ...], confidence: float) -> Score:
    name, value = f"precision ({names[c]})", precision(guess, y, c)
    right, of = int(confusion[c, c]), int(confusion[:, c].sum())
    if value is None:
        return Score(name, None, None, f"no sample is predicted to be of class {names[c]!r}")
    return Score(name, value, wilson(right, of, confidence), f"{right} of {of}")


def _f1(confusion: Ints, guess: Ints, y: Ints, c: int, names: tuple[str, ...]) -> Score:
    name, value = f"F1 ({names[c]})", f1(guess, y, c)
    right, missed, wrong = int(confusion[c, c]), int(confusion[c].sum() - confusion[c, c]), int(confusion[:, c].sum() - confusion[c, c])
    if value is None:
        return Score(name, None, None, f"no sample is, or is predicted to be, of class {names[c]!r}")
    return Score(name, value, None, f"{right} right, {missed} missed, {wrong} wrong")


def _average_precision(p: Floats, y: Ints, c: int, names: tuple[str, ...]) -> Score:
    name, value, own = f"average precision ({names[c]})", average_precision(p, y, c), int((y == c).sum())
    if value is None:
        return Score(name, None, None, f"no sample of class {names[c]!r}" if not own else f"every sample is of class {names[c]!r}")
    return Score(name, value, None, f"{own} against {len(y) - own}")


def _with_mean(name: str, scores: list[Score]) -> list[Score]:
    """Return the mean of a score over all classes, which is defined where all are, and the scores."""
    values = [score.value for score in scores if score.value is not None]
    absent = next((score.basis for score in scores if score.value is None), "")
    if absent:
        return [Score(name, None, None, absent), *scores]
    return [Score(name, float(np.mean(values)), None, f"mean over {len(scores)} classes"), *scores]


def _area(p: Floats, y: Ints, c: int, names: tuple[str, ...], confidence: float) -> Score:
    name, own = f"ROC AUC ({names[c]})", int((y == c).sum())
    if own in (0, len(y)):
        return Score(name, None, None, f"no sample of class {names[c]!r}" if not own else f"every sample is of class {names[c]!r}")
    value, interval = area(p, y, c, confidence)
    return Score(name, value, interval, f"{own} against {len(y) - own}")


def _mean_area(p: Floats, y: Ints, names: tuple[str, ...], confidence: float) -> Score:
    absent = _absent(np.bincount(y, minlength=len(names)), names)
    if absent:
        return Score("ROC AUC", None, None, absent)
    value, interval = mean_area(p, y, confidence)
    return Score("ROC AUC", value, interval, f"mean over {len(names)} classes, each against the others")


def _absent(counts: Ints, names: tuple[str, ...]) -> str:
    missing = [repr(name) for name, count in zip(names, counts) if not count]
    return f"no sample of class {' and '.join(missing)}" if missing else ""


def _row(score: Score) -> tuple[str, ...]:
    if score.value is None:
        return (score.name, NOTHING, NOTHING, f"not defined: {score.basis}")
    limits = NOTHING if score.interval is None else f"{score.interval[0]:.3f} to {score.interval[1]:.3f}"
    return (score.name, f"{score.value:.3f}", limits, score.basis)
