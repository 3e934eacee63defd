"""What the linear baselines see, and that labels are permuted by participant."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from hetero_mtf.data.volumes import Participants, Scan
from tools.voxels import cases, features, models, out_of_fold, permuted, row


def _people(count: int) -> Participants:
    pairs = [(f"sub-{index:02}", session, ("AD", "NC")[index % 2]) for index in range(count) for session in ("ses-1", "ses-2")]
    scans = tuple(Scan(who, session, label, pathlib.Path(f"{who}_{session}.nii")) for who, session, label in pairs)
    return Participants(pathlib.Path("participants.tsv"), scans, "diagnosis", ("AD", "NC"))


def _volumes(people: Participants, signal: float) -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=(len(people.scans), 6, 6, 6))
    noise[:, 2:4, 2:4, 2:4] += signal * people.y[:, None, None, None]
    return noise


def test_a_linear_model_sees_what_is_in_the_same_voxels_of_every_scan_and_no_more() -> None:
    people = _people(40)
    make = models()["linear support vector machine"][1]
    for signal, least, most in ((2.0, 0.95, 1.0), (0.0, 0.25, 0.75)):
        x = features(_volumes(people, signal))["voxels"]
        area = out_of_fold(make, x, people.y, people, 0, 4)["ROC AUC (NC)"].value
        assert area is not None and least <= area <= most


def test_permuted_labels_are_those_of_participants_and_keep_their_number() -> None:
    people = _people(10)
    dealt = permuted(people, 0)
    assert sorted(dealt) == sorted(people.y) and (dealt != people.y).any()
    by_participant: dict[str, set[int]] = {}
    for scan, label in zip(people.scans, dealt):
        by_participant.setdefault(scan.participant, set()).add(int(label))
    assert all(len(labels) == 1 for labels in by_participant.values())


@pytest.mark.slow
def test_every_model_has_a_row_for_each_seed_and_one_with_permuted_labels() -> None:
    people = _people(40)
    found = cases(people, features(_volumes(people, 2.0)), seeds=2, folds=4)
    assert [(case["labels"], case["seed"]) for case in found] == [("true", 0), ("true", 1), ("permuted", 0)] * len(models())
    first = row(found[0])
    assert (first.texts["model"], first.texts["labels"], first.numbers["seed"]) == ("linear support vector machine", "true", 0)
    assert first.texts["roc_auc"].startswith(f"{found[0]['scores']['ROC AUC (NC)']['value']:.3f} (")
    assert all(" to " in first.texts[key] for key in ("accuracy", "sensitivity", "specificity"))
