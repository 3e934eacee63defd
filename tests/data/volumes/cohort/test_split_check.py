from __future__ import annotations

import dataclasses
import json
import pathlib

import pytest

from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.split_check import check_split, examine_split, read_split, shared_participants, split_notes
from hetero_mtf.data.volumes.cohort.splits import Split, hold_out_split, k_fold_splits
from hetero_mtf.errors import DataError, HeteroError


def cohort(*labels: str, first: int = 0) -> Participants:
    scans = tuple(Scan(f"sub-{index:02}", None, label, pathlib.Path(f"{index}.nii")) for index, label in enumerate(labels, first))
    return Participants(pathlib.Path("people.tsv"), scans, "diagnosis", ("AD", "NC"))


PEOPLE = cohort(*["AD", "NC"] * 4)


def written(tmp_path: pathlib.Path, **entries) -> pathlib.Path:
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"kind": "split", "version": 1, **entries}))
    return path


def texts(split: Split, participants: Participants = PEOPLE, usable: Participants | None = None) -> list[str]:
    return [fault.text for fault in check_split(split, participants, usable)]


@pytest.mark.parametrize("split", [hold_out_split(PEOPLE, 0.25, 0.25), *k_fold_splits(PEOPLE, 4, 0.3)])
def test_a_saved_split_is_read_as_it_was(tmp_path: pathlib.Path, split: Split) -> None:
    split.save(tmp_path / "split.json")
    assert read_split(tmp_path / "split.json", PEOPLE) == split


def test_a_split_made_by_hand_needs_its_parts_only(tmp_path: pathlib.Path) -> None:
    split = read_split(written(tmp_path, train=["sub-00", "sub-01"], test=["sub-02", "sub-03"]), PEOPLE)
    assert split == Split(("sub-00", "sub-01"), ("sub-02", "sub-03"))
    left = "4 of 8 participants are in no part and left out: sub-04, sub-05, sub-06, sub-07"
    assert split_notes(split, PEOPLE) == [left]


def test_every_fault_is_named_at_once(tmp_path: pathlib.Path) -> None:
    path = written(
        tmp_path,
        train=["sub-00", "sub-01", "sub-02", "sub-01"],
        validation=["sub-02", "03", "somebody"],
        test=["sub-02", 5],
        seeds=1,
    )
    with pytest.raises(DataError) as caught:
        read_split(path, PEOPLE)
    head, *faults = str(caught.value).splitlines()
    assert head == f"{path} has 7 faults; fix the file, or take it away and let the split be drawn:"
    assert [fault.strip() for fault in faults] == [
        "split.json: test[1]: is 5, must be a text; correct it",
        "split.json: seeds: is not known; correct it",
        "train part: sub-01 is named twice; name each once",
        "sub-02 is in the train part and in the validation part; keep each in one part, or what is tested was trained on",
        "sub-02 is in the train part and in the test part; keep each in one part, or what is tested was trained on",
        "sub-02 is in the validation part and in the test part; keep each in one part, or what is tested was trained on",
        "validation part: 03, somebody are not in the table people.tsv; write ids as the table does, 'sub-03' for '03'",
    ]


def test_a_participant_in_two_parts_is_a_fault() -> None:
    split = Split(("sub-00", "sub-01", "sub-02"), ("sub-02", "sub-03", "sub-00"))
    told = "sub-00, sub-02 are in the train part and in the test part"
    assert shared_participants(split) == [told]
    assert texts(split) == [f"{told}; keep each in one part, or what is tested was trained on"]


def test_a_class_that_a_part_lacks_is_a_fault_and_so_is_an_empty_part() -> None:
    assert texts(Split(("sub-00", "sub-02"), ("sub-01", "sub-04"))) == [
        "train part: no participant with a usable scan is of class 'NC'; put some there"
    ]
    assert texts(Split((), ("sub-00", "sub-01"))) == ["train part: it is empty; name participants"]
    assert texts(Split(("sub-00", "sub-01"), ())) == ["test part: it is empty; name participants"]


def test_what_cannot_be_read_does_not_count_for_a_class_but_is_known() -> None:
    split = Split(("sub-00", "sub-01"), ("sub-02", "sub-03"))
    usable = PEOPLE.part(["sub-00", "sub-01", "sub-03"])
    assert texts(split, PEOPLE, usable) == ["test part: no participant with a usable scan is of class 'AD'; put some there"]


def test_many_unknown_participants_are_counted() -> None:
    split = Split(("sub-00", "sub-01", *(f"x{i}" for i in range(7))), ("sub-02", "sub-03"))
    assert texts(split) == ["train part: x0, x1, x2, x3, x4 and 2 more are not in the table people.tsv; correct the ids, or take them out"]


def test_an_empty_id_is_shown_as_such() -> None:
    assert texts(Split(("sub-00", "sub-01", ""), ("sub-02", "sub-03"))) == [
        "train part: '' is not in the table people.tsv; correct the ids, or take them out"
    ]


def test_ids_with_sub_that_the_table_writes_without_are_explained() -> None:
    bare = Participants(
        PEOPLE.path, tuple(Scan(str(i), None, s.label, s.path) for i, s in enumerate(PEOPLE.scans)), "diagnosis", ("AD", "NC")
    )
    assert texts(Split(("sub-0", "1"), ("2", "3")), bare)[0] == (
        "train part: sub-0 is not in the table people.tsv; write ids as the table does, '0' for 'sub-0'"
    )


def test_a_participant_in_two_parts_in_another_spelling_is_a_fault_unless_ids_are_taken_exactly() -> None:
    split = Split(("sub-00", "sub-01", "SUB-1"), ("2.0", "sub-03", "000"))
    found = texts(split)
    assert found[:2] == [
        "train part: sub-01 (also written SUB-1) is named twice; name each once",
        "sub-00 (also written 000) is in the train part and in the test part; keep each in one part, or what is tested was trained on",
    ]
    assert found[2].endswith("SUB-1 is not in the table people.tsv; write ids as the table does, 'sub-01' for 'SUB-1'")
    assert found[3].endswith("write ids as the table does, 'sub-02' for '2.0', 'sub-00' for '000'") and len(found) == 4
    exact = texts(split, dataclasses.replace(PEOPLE, comparison="exact"))
    assert exact[0] == "train part: SUB-1 is not in the table people.tsv; correct the ids, or take them out"
    assert shared_participants(split, "exact") == [] and not any("in the train part and in the test part" in text for text in exact)


def test_ids_in_another_unicode_form_are_those_of_the_table(tmp_path: pathlib.Path) -> None:
    scans = [Scan(f"\u00e9{index}", None, scan.label, scan.path) for index, scan in enumerate(PEOPLE.scans)]
    people = dataclasses.replace(PEOPLE, scans=tuple(scans))
    path = written(tmp_path, train=["e\u03010", "\u00e91\u200b"], test=[" \u00e92", "\u00e93\u00a0"])
    assert read_split(path, people) == Split(("\u00e90", "\u00e91"), ("\u00e92", "\u00e93"))


def test_a_part_that_cannot_be_read_is_not_called_empty(tmp_path: pathlib.Path) -> None:
    _, faults = examine_split(written(tmp_path, train="sub-00", test=["sub-02", "sub-03"]), PEOPLE)
    assert [fault.text for fault in faults] == ["split.json: train: is 'sub-00', must be a list; correct it"]
    _, faults = examine_split(written(tmp_path, train=["sub-00", "sub-01"]), PEOPLE)
    assert [fault.text for fault in faults] == ["split.json: test: is missing; correct it"]


def test_sessions_of_different_labels_are_noted() -> None:
    scans = (*PEOPLE.scans, Scan("sub-00", "ses-02", "NC", pathlib.Path("more.nii")))
    people = Participants(PEOPLE.path, scans, "diagnosis", ("AD", "NC"))
    split = hold_out_split(people, 0.5)
    assert split_notes(split, people) == ["1 participant has sessions of different labels and counts as of the rarest: sub-00"]


def test_a_file_that_is_no_split_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"kind": "plan", "version": 1}')
    with pytest.raises(HeteroError, match="not a split file; make it again with hetero-mtf train"):
        read_split(path, PEOPLE)
