from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

from hetero_mtf.data.volumes import ClassWeight, Participants, Scan
from hetero_mtf.data.volumes.class_weight import weights_text
from hetero_mtf.errors import DataError

LABELS = ("AD", "NC", "NC", "MCI", "NC", "AD", "NC")
CLASSES = ("AD", "MCI", "NC")


def people(labels: tuple[str, ...] = LABELS) -> Participants:
    scans = tuple(Scan(str(number), None, label, pathlib.Path("a.nii")) for number, label in enumerate(labels))
    return Participants(pathlib.Path("t.tsv"), scans, "diagnosis", CLASSES)


def test_balanced_weights_are_those_of_scikit_learn_and_one_in_the_mean() -> None:
    found = ClassWeight(balanced=True).numbers(people())
    np.testing.assert_allclose(found, compute_class_weight("balanced", classes=np.arange(3), y=people().y))
    assert np.mean(np.array(found)[people().y]) == pytest.approx(1)


def test_classes_that_are_not_named_weigh_one_and_none_need_be() -> None:
    assert ClassWeight((("NC", 0.5), ("MCI", 3.0))).numbers(people()) == (1.0, 3.0, 0.5)
    assert ClassWeight().numbers(people()) == ()


def test_a_class_without_a_scan_cannot_be_balanced() -> None:
    few = dataclasses.replace(people(), scans=people(("AD", "NC")).scans)
    with pytest.raises(DataError, match="^class MCI has no scan to train on and cannot be balanced; give it one, or give weights$"):
        ClassWeight(balanced=True).numbers(few)


@pytest.mark.parametrize(
    "given, words",
    [
        (((("AD", 2.0),), True), "class weights are to be balanced and to be AD=2; give one or the other"),
        (((("AD", 2.0), ("AD", 3.0)),), "class AD has two weights; give one"),
        (((("AD", 0.0), ("NC", float("nan"))),), "class weights AD=0, NC=nan are no positive numbers"),
    ],
)
def test_weights_that_mean_nothing_are_refused(given, words: str) -> None:
    with pytest.raises(DataError, match=f"^{words}"):
        ClassWeight(*given)


def test_weights_are_told_by_the_classes_names() -> None:
    assert weights_text((0.75, 1.5), ("AD", "NC")) == "0.75 AD, 1.5 NC" and weights_text((), ("AD", "NC")) == "1 AD, 1 NC"
