from __future__ import annotations

import collections
import dataclasses
import json
import pathlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.splits import Split, hold_out_split, k_fold_splits, participant_labels
from hetero_mtf.errors import DataError


def cohort(*labels: str | tuple[str | None, ...]) -> Participants:
    """Return participants sub-00, sub-01, ...; a tuple is a label for each session."""
    scans = []
    for index, entry in enumerate(labels):
        for number, label in enumerate((entry,) if isinstance(entry, str) else entry, 1):
            session = None if isinstance(entry, str) else f"ses-{number:02}"
            scans.append(Scan(f"sub-{index:02}", session, label, pathlib.Path(f"{index}-{number}.nii")))
    classes = tuple(sorted({scan.label for scan in scans if scan.label}))
    return Participants(pathlib.Path("participants.tsv"), tuple(scans), "diagnosis", classes)


def counts(ids: tuple[str, ...], participants: Participants) -> collections.Counter[str]:
    labels = participant_labels(participants)
    return collections.Counter(labels[i][0] for i in ids)


sizes = st.lists(st.integers(3, 12), min_size=2, max_size=4)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(sizes, st.floats(0.1, 0.5), st.sampled_from([0.0, 0.2]), st.integers(0, 5))
def test_a_hold_out_puts_everybody_in_one_part_and_of_each_class_the_wanted_part(sizes, test, validation, seed) -> None:
    people = cohort(*(f"c{label}" for label, size in enumerate(sizes) for _ in range(size)))
    split = hold_out_split(people, test, validation, seed)
    assert sorted([*split.train, *split.validation, *split.test]) == sorted(people.ids)
    for label, size in enumerate(sizes):
        tested, chosen = (counts(ids, people)[f"c{label}"] for ids in (split.test, split.validation))
        assert 1 <= tested and abs(tested - test * size) <= 1 and counts(split.train, people)[f"c{label}"] >= 1
        assert chosen == (min(max(1, round(validation * size)), size - tested - 1) if validation else 0)


@settings(max_examples=15, deadline=None)
@given(sizes, st.sampled_from([2, 3]), st.sampled_from([0.0, 0.25]), st.integers(0, 5))
def test_every_participant_is_tested_in_one_fold_and_each_class_is_spread_evenly(sizes, folds, validation, seed) -> None:
    people = cohort(*(f"c{label}" for label, size in enumerate(sizes) for _ in range(size + (folds == 2))))
    splits = k_fold_splits(people, folds, validation, seed)
    assert sorted(i for split in splits for i in split.test) == sorted(people.ids)
    assert [(split.fold, split.folds, split.seed) for split in splits] == [(n, folds, seed) for n in range(1, folds + 1)]
    for split in splits:
        assert sorted([*split.train, *split.validation, *split.test]) == sorted(people.ids)
        assert all(set(counts(ids, people)) == set(people.classes) for ids in split.parts.values())
    for label in people.classes:
        tested = [counts(split.test, people)[label] for split in splits]
        assert max(tested) - min(tested) <= 1


def test_the_draw_follows_the_seed_and_not_the_order_of_the_table() -> None:
    people = cohort(*["AD", "NC"] * 10)
    turned = dataclasses.replace(people, scans=people.scans[::-1])
    assert hold_out_split(people, 0.2, 0.2, 1) == hold_out_split(turned, 0.2, 0.2, 1) != hold_out_split(people, 0.2, 0.2, 2)
    assert k_fold_splits(people, 4, 0.2, 1) == k_fold_splits(turned, 4, 0.2, 1) != k_fold_splits(people, 4, 0.2, 2)


def test_all_sessions_of_a_participant_are_in_one_part() -> None:
    people = cohort(*[("AD", "AD", "AD"), ("NC", "NC")] * 6)
    for split in (hold_out_split(people), *k_fold_splits(people, 3)):
        scans = [people.part(ids).scans for ids in split.parts.values()]
        assert sum(map(len, scans)) == len(people.scans)
        assert not {s.participant for s in scans[0]} & {s.participant for s in scans[1]}


def test_a_participant_with_sessions_of_different_labels_counts_as_of_the_rarest() -> None:
    people = cohort(*["NC"] * 8, ("NC", "AD"), ("NC", "AD"), ("MCI", "NC"), ("MCI", "AD"), "MCI")
    assert participant_labels(people)["sub-08"] == ("AD", "NC") and participant_labels(people)["sub-10"] == ("MCI", "NC")
    split = hold_out_split(people, 0.3)
    for ids in split.parts.values():
        assert {scan.label for scan in people.part(ids).scans} == {"AD", "MCI", "NC"}


def test_all_spellings_of_a_participant_are_in_one_part_unless_they_are_taken_exactly() -> None:
    spellings = [(f"sub-{number:02}", str(number), f"SUB-{number}.0") for number in range(10, 30)]
    scans = [
        Scan(spelling, f"{session}", ("AD", "NC")[at % 2], pathlib.Path(f"{spelling}.nii"))
        for at, names in enumerate(spellings)
        for session, spelling in enumerate(names)
    ]
    people = Participants(pathlib.Path("t.tsv"), tuple(scans), "dx", ("AD", "NC"))
    for split in (hold_out_split(people, 0.3, 0.2), *k_fold_splits(people, 4)):
        parts = [people.part(ids).scans for ids in split.parts.values()]
        assert [len(part) % 3 for part in parts] == [0] * len(parts) and sum(map(len, parts)) == 60
    exact = dataclasses.replace(people, comparison="exact")
    assert sum(map(len, hold_out_split(exact, 0.3).parts.values())) == 60


def test_participants_without_a_label_are_in_no_part() -> None:
    people = cohort("AD", "AD", "NC", "NC", (None,))
    split = hold_out_split(people, 0.5)
    assert sorted([*split.train, *split.test]) == ["sub-00", "sub-01", "sub-02", "sub-03"]


def test_the_smallest_class_that_can_be_split_is_in_both_parts() -> None:
    people = cohort("AD", "AD", *["NC"] * 98)
    for fraction in (0.01, 0.2, 0.99):
        split = hold_out_split(people, fraction)
        assert counts(split.test, people)["AD"] == counts(split.train, people)["AD"] == 1


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ((0.0, 0.0), "a test part of 0 and a validation part of 0 leave nothing to train on or nothing to test on; give parts above 0"),
        ((1.0, 0.0), "a test part of 1 and a validation part of 0 leave"),
        ((0.5, 0.5), "a test part of 0.5 and a validation part of 0.5 leave"),
        ((0.2, -0.1), "a test part of 0.2 and a validation part of -0.1 leave"),
        ((float("nan"), 0.0), "a test part of nan and a validation part of 0 leave"),
    ],
)
def test_parts_that_leave_nothing_are_refused(fractions: tuple[float, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        hold_out_split(cohort(*["AD", "NC"] * 10), *fractions)


def test_classes_with_too_few_participants_are_named() -> None:
    people = cohort("AD", "MCI", "MCI", "NC", "NC", "NC")
    found = "too few participants for 2 parts, which need 2 of each class: class 'AD' has 1; add some, or ask for fewer parts"
    with pytest.raises(DataError, match=found):
        hold_out_split(people)
    with pytest.raises(DataError, match="for 3 parts, which need 3 of each class: class 'AD' has 1, class 'MCI' has 2; add"):
        hold_out_split(people, 0.2, 0.2)
    with pytest.raises(DataError, match="for 5 folds, which need 5 of each class: class 'AD' has 1, class 'MCI' has 2, class 'NC' has 3"):
        k_fold_splits(people, 5)
    with pytest.raises(
        DataError, match="for 2 folds with a validation part, which need 4 of each class: class 'AD' has 1, class 'MCI' has 2"
    ):
        k_fold_splits(people, 2, 0.2)
    with pytest.raises(DataError, match="of each class: no class"):
        hold_out_split(cohort((None,)))


def test_one_fold_is_refused() -> None:
    with pytest.raises(DataError, match="1 folds are too few: one is tested on and another trained on; ask for 2 at least"):
        k_fold_splits(cohort(*["AD", "NC"] * 4), 1)


def test_a_split_is_written_with_its_kind_and_what_drew_it(tmp_path: pathlib.Path) -> None:
    split = k_fold_splits(cohort(*["AD", "NC"] * 4), 2, seed=3)[1]
    split.save(tmp_path / "split.json")
    document = json.loads((tmp_path / "split.json").read_text())
    assert (document["kind"], document["version"], document["seed"], document["fold"], document["folds"]) == ("split", 1, 3, 2, 2)
    assert tuple(document["test"]) == split.test and document["validation"] == []


def test_a_split_within_some_participants_keeps_their_parts() -> None:
    split = Split(("a", "b"), ("c", "d"), ("e",), seed=1)
    assert split.within(["a", "d", "x"]) == Split(("a",), ("d",), (), seed=1)
    assert list(Split(("a",), ("b",)).parts) == ["train", "test"] and list(split.parts) == ["train", "validation", "test"]
