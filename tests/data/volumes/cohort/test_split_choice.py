from __future__ import annotations

import dataclasses
import pathlib

import pytest

from hetero_mtf.data.volumes import Participants, read_participants
from hetero_mtf.data.volumes.cohort.split_choice import KnownSplit, SplitChoice
from hetero_mtf.data.volumes.cohort.splits import Split, hold_out_split, k_fold_splits
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import write_cohort


@pytest.fixture
def people(tmp_path: pathlib.Path) -> Participants:
    return read_participants(write_cohort(tmp_path, 10))


def test_a_split_is_drawn_by_hold_out_or_as_a_fold(people: Participants) -> None:
    assert SplitChoice().split(people, people) == hold_out_split(people, 0.2)
    assert SplitChoice(test=0.4, validation=0.2, seed=3).split(people, people) == hold_out_split(people, 0.4, 0.2, 3)
    assert SplitChoice(folds=5, fold=2).split(people, people) == k_fold_splits(people, 5)[1]


def test_a_split_is_written_once_and_then_read(people: Participants, tmp_path: pathlib.Path) -> None:
    file = str(tmp_path / "split.json")
    drawn = SplitChoice(file, seed=4).split(people, people)
    assert SplitChoice(file).is_there and SplitChoice(file).split(people, people) == drawn and SplitChoice(file).faults(people) == []
    usable = people.without({scan.line for scan in people.scans if scan.participant == drawn.train[0]})
    assert SplitChoice(file).split(people, usable).parts == {"train": drawn.train[1:], "test": drawn.test}


def test_a_file_of_another_draw_is_refused(people: Participants, tmp_path: pathlib.Path) -> None:
    SplitChoice(str(tmp_path / "split.json"), folds=5, fold=2).split(people, people)
    asked = SplitChoice(str(tmp_path / "split.json"), folds=5, fold=3, seed=1)
    assert asked.faults(people) == [
        "split.json: its seed is 0 and 1 was asked for; leave the option out, or name another file",
        "split.json: its fold is 2 and 3 was asked for; leave the option out, or name another file",
    ]
    with pytest.raises(DataError, match="split.json has 2 faults; fix the file, or take it away"):
        asked.split(people, people)


def test_a_file_that_is_no_split_is_one_fault_among_others(people: Participants, tmp_path: pathlib.Path) -> None:
    (tmp_path / "split.json").write_text("{")
    (fault,) = SplitChoice(str(tmp_path / "split.json")).faults(people)
    assert "split.json is not a complete JSON file" in fault


def test_a_copy_across_parts_is_a_fault_of_a_file_and_stops_a_draw(people: Participants, tmp_path: pathlib.Path) -> None:
    for scan in people.scans[1:]:
        scan.path.write_bytes(people.scans[0].path.read_bytes())
    with pytest.raises(DataError, match="leak check FAILED: .* same file, byte for byte .*; leave out one of the rows in "):
        SplitChoice(str(tmp_path / "split.json")).split(people, people)
    assert not (tmp_path / "split.json").exists()
    split = Split(people.ids[:6], people.ids[6:])
    assert any(text.startswith("the split of net.npz: sub-00 (train part) and") for text in KnownSplit(split, "net.npz").faults(people))


def test_a_known_split_of_nobody_in_the_table_is_one_fault(people: Participants) -> None:
    faults = KnownSplit(Split(("sub-88",), ("sub-99",)), "net.npz").faults(people)
    wrong = f"the split of net.npz is of other participants than those of {people.path}"
    assert faults == [f"{wrong}; take the table of the training, or hetero-mtf predict for another one"]


def test_a_known_split_of_a_table_with_other_spellings_is_a_fault_unless_ids_are_taken_exactly(people: Participants) -> None:
    known = KnownSplit(Split(("1", "2", "3", "SUB-04"), ("sub-05", "sub-06")), "net.npz")
    (fault,) = known.faults(people)
    pairs = "'sub-01' for '1', 'sub-02' for '2', 'sub-03' for '3', 'sub-04' for 'SUB-04'"
    assert fault.startswith(f"the split of net.npz: the table {people.path} writes {pairs}; write them there as in the training, or ")
    assert "--ids exact" in fault
    (few,) = KnownSplit(Split(("1", "2"), ("3", "4")), "net.npz").faults(people)
    assert "writes 'sub-01' for '1'" in few and "of other participants" not in few
    exact = dataclasses.replace(people, comparison="exact")
    assert "1, 2, 3, SUB-04 are not in the table" in known.faults(exact)[0]


def test_choices_that_do_not_go_together_are_all_named() -> None:
    with pytest.raises(DataError, match="one of folds and fold is missing; --folds 5 --fold 1 .*; folds decide how many are tested"):
        SplitChoice(folds=5, test=0.2)
    with pytest.raises(DataError, match="fold 6 of 5 was asked for; they count from 1"):
        SplitChoice(folds=5, fold=6)
    with pytest.raises(DataError, match="a test part of 0.5 and a validation part of 0.5 leave nobody to train on or to test on"):
        SplitChoice(test=0.5, validation=0.5)


def test_a_known_split_of_another_table_names_what_is_missing(people: Participants) -> None:
    faults = KnownSplit(Split(("sub-00", "sub-01", "sub-77"), ("sub-02", "sub-03")), "net.npz").faults(people)
    assert faults == [f"the split of net.npz: train part: sub-77 is not in the table {people.path}; correct the ids, or take them out"]
