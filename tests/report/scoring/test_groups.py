"""Scores by session and by site."""

from __future__ import annotations

import json

import numpy as np

from hetero_mtf.report.scores import scores
from hetero_mtf.report.scoring.groups import group_scores

CLASSES = ("AD", "NC")


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    first = rng.uniform(size=count)
    return np.stack([first, 1 - first], axis=1), rng.integers(0, 2, count)


def test_each_group_has_the_scores_of_its_own_scans_and_what_is_unknown_comes_last() -> None:
    p, true = drawn(40)
    names = [("B", "A", None, "B")[n % 4] for n in range(40)]
    by = group_scores("site", names, [f"sub-{n // 2}" for n in range(40)], (p, true), CLASSES)
    assert [group.name for group in by.groups] == ["A", "B", "n/a"] and [group.scores.samples for group in by.groups] == [10, 20, 10]
    for group, name in zip(by.groups, ("A", "B", None)):
        at = [n for n in range(40) if names[n] == name]
        assert group.scores == scores(p[at], true[at], CLASSES) and group.participants == len({n // 2 for n in at})
    assert by.lines() == ()


def test_small_groups_are_shown_with_their_counts_and_what_they_cannot_tell() -> None:
    p, true = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]), np.array([0, 1, 0])
    by = group_scores("site", ["A", "A", "B"], ["x", "y", "z"], (p, true), CLASSES)
    assert by.table().headings[:5] == ("site", "participants", "scans", "AD", "NC")
    assert [row[:5] for row in by.table().rows] == [("A", "2", "2", "1", "1"), ("B", "1", "1", "1", "0")]
    text = by.text()
    assert "site: fewer than 10 scans, so that scores scatter widely: A (2), B (1)" in text
    assert "site B: balanced accuracy not defined: no sample of class 'NC'" in text
    assert "site B: ROC AUC (AD), average precision (AD) not defined: every sample is of class 'AD'" in text and "nan" not in text


def test_groups_with_one_reason_share_a_line() -> None:
    p, true = drawn(60)
    by = group_scores("site", [f"{n // 2:02}" for n in range(60)], ["x"] * 60, (p, np.arange(60) // 2 % 2), CLASSES)
    (line,) = [line for line in by.lines() if "every sample is of class 'AD'" in line]
    assert line.startswith("site 00, 02, 04, ") and line.count(", ") == 15 and len(by.lines()) < 10


def test_one_group_is_a_sentence() -> None:
    p, true = drawn(12)
    by = group_scores("session_id", ["ses-1"] * 12, ["x"] * 12, (p, true), CLASSES)
    assert by.text() == "session_id: all 12 scans are of ses-1, and its scores are those above"


def test_a_document_is_json_by_the_names_of_the_groups() -> None:
    p, true = drawn(12)
    by = group_scores("site", ["A"] * 11 + [None], ["x"] * 12, (p, true), CLASSES, "NC")
    document = json.loads(json.dumps(by.document(), allow_nan=False))
    assert set(document) == {"A", "n/a"} and document["n/a"]["samples"] == 1 and document["A"]["positive"] == "NC"


def test_of_more_classes_the_means_are_shown() -> None:
    rng = np.random.default_rng(0)
    p, true = rng.dirichlet(np.ones(3), 30), np.arange(30) % 3
    by = group_scores("site", ["A", "B"] * 15, ["x"] * 30, (p, true), ("AD", "MCI", "NC"))
    assert by.table().headings[6:] == ("accuracy", "balanced accuracy", "F1", "ROC AUC", "average precision")
