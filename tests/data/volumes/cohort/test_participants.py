from __future__ import annotations

import pathlib

import pytest

from hetero_mtf.data.volumes import Participants, Scan, read_participants
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import write_table

FOUR = [("sub-01", "NC", "a.nii"), ("sub-02", "AD", "b.nii"), ("sub-03", "NC", "c.nii"), ("sub-04", "AD", "d.nii")]


def refused(path: pathlib.Path, *args, **options) -> str:
    with pytest.raises(DataError) as caught:
        read_participants(path, *args, **options)
    return str(caught.value)


def test_paths_are_relative_to_the_table_and_classes_are_sorted(tmp_path: pathlib.Path) -> None:
    found = read_participants(write_table(tmp_path, *FOUR))
    assert found.scans[1] == Scan("sub-02", None, "AD", tmp_path / "b.nii", None, 3)
    assert found.classes == ("AD", "NC") and found.y.tolist() == [1, 0, 1, 0] and found.y.dtype == "int64"
    assert found.ids == ("sub-01", "sub-02", "sub-03", "sub-04") and found.label_column == "diagnosis"


def test_absolute_paths_blanks_in_paths_sessions_and_masks_are_taken(tmp_path: pathlib.Path) -> None:
    rows = [("1", "ses-01", "x", str(tmp_path / "my scan.nii"), "n/a"), ("1", "2", "x", "b.nii", "m.nii")]
    rows += [("2", "n/a", "y", "c.nii", ""), ("3", "1", "x", "d.nii", ""), ("4", "1", "y", "e.nii", "")]
    for name in ("session", "session_id"):
        table = write_table(tmp_path, *rows, header=("participant_id", name, "diagnosis", "path", "mask"))
        participants = read_participants(table)
        scans = participants.scans
        assert participants.session_column == name
        assert [scan.key for scan in scans[:3]] == ["sub-1_ses-01", "sub-1_ses-2", "sub-2"]
        assert scans[0].path == tmp_path / "my scan.nii" and scans[0].mask is None and scans[1].mask == tmp_path / "m.nii"


def test_of_two_columns_of_sessions_the_one_with_values_is_read(tmp_path: pathlib.Path) -> None:
    rows = [(str(number), "n/a", "1", "xy"[number % 2], f"{number}.nii") for number in range(4)]
    table = write_table(tmp_path, *rows, header=("participant_id", "session", "session_id", "diagnosis", "path"))
    participants = read_participants(table)
    assert participants.session_column == "session_id" and participants.scans[0].key == "sub-0_ses-1"
    assert read_participants(write_table(tmp_path, *FOUR)).session_column == "session"  # where there is none


def test_numeric_labels_of_a_named_column_are_ordered_by_value(tmp_path: pathlib.Path) -> None:
    rows = [(str(number), grade, f"{number}.nii") for number, grade in enumerate(["10", "9", "10", "9"])]
    found = read_participants(write_table(tmp_path, *rows, header=("participant_id", "grade", "path")), "grade")
    assert found.classes == ("9", "10") and found.y.tolist() == [1, 0, 1, 0]


def test_ages_as_labels_are_one_sentence_and_not_a_fault_an_age(tmp_path: pathlib.Path) -> None:
    rows = [(f"sub-{number:02d}", str(60 + number), f"{number}.nii") for number in range(24)]
    table = write_table(tmp_path, *rows, header=("participant_id", "age", "path"))
    message = refused(table, "age")
    assert message.startswith(f"{table}: age has 24 different values of 24 participants, numbers from 60 to 83, and regression is not")
    assert "\n" not in message
    assert read_participants(table, "age", labelled=False).scans[0].label == "60"
    assert "age is '61' and the classes are '60'" in refused(table, "age", classes=("60",))


def test_every_fault_of_the_table_is_in_one_report(tmp_path: pathlib.Path) -> None:
    rows = [*FOUR, ("", "AD", "e.nii"), ("sub-06", "n/a", "f.nii"), ("sub-07", "AD", ""), ("sub-01", "AD", "g.nii")]
    rows += [("sub-08", "MCI", "h.nii"), ("sub-09", "ad", "b.nii"), ("sub-10", "NC", "x.nii", "extra")]
    message = refused(write_table(tmp_path, *rows))
    assert message.splitlines() == [
        f"{tmp_path}/participants.tsv has 11 faults; fix the table:",
        "  line 2 (sub-01): line 9 is of the same participant and session; keep one of them",
        f"  line 3 (sub-02): its file {tmp_path}/b.nii is that of line 11 (sub-09); one scan cannot be of two, correct the path",
        "  line 6 (nobody): participant_id is '', which stands for unknown; write it, or leave the row out",
        "  line 7 (sub-06): diagnosis is 'n/a', which stands for unknown; write it, or leave the row out",
        "  line 8 (sub-07): path is '', which stands for unknown; write it, or leave the row out",
        "  line 9 (sub-01): line 2 is of the same participant and session; keep one of them",
        f"  line 11 (sub-09): its file {tmp_path}/b.nii is that of line 3 (sub-02); one scan cannot be of two, correct the path",
        "  line 12: it has 4 cells and the header 3; put one tab between two cells",
        "  labels 'AD', 'ad' differ in writing only; write them alike",
        "  diagnosis: class 'ad' is empty, its 1 participant has no usable scan; fix its scans, or take the class out of the table",
        "  diagnosis: labels 'AD' (of sub-04), 'MCI' (of sub-08), 'NC' (of sub-03) occur with one usable participant only, and training "
        "and testing need 2; correct a misspelt label, add participants, or take the row out of the table",
    ]


def test_of_equal_rows_the_first_is_no_fault(tmp_path: pathlib.Path) -> None:
    message = refused(write_table(tmp_path, *FOUR, FOUR[0]))
    assert "has 1 fault;" in message and "line 6 (sub-01): line 2 is of the same participant and session" in message


def test_one_file_through_a_link_is_one_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "link.nii").symlink_to(tmp_path / "a.nii")
    message = refused(write_table(tmp_path, *FOUR, ("sub-05", "AD", "link.nii")))
    assert f"line 6 (sub-05): its file {tmp_path}/link.nii is that of line 2 (sub-01)" in message


def test_a_participant_written_in_two_ways_is_one(tmp_path: pathlib.Path) -> None:
    rows = [("sub-01", "1", "AD", "a.nii"), ("01", "2", "AD", "b.nii"), ("3", "1", "NC", "c.nii"), ("4", "1", "NC", "d.nii")]
    message = refused(write_table(tmp_path, *rows, header=("participant_id", "session", "diagnosis", "path")))
    assert "line 3 (01): line 2 writes this participant 'sub-01'; write it alike" in message


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (("participant_id", "dx", "path"), "lacks the column 'diagnosis': it has 'participant_id', 'dx', 'path'; add what is missing, or"),
        (("participant_id", "diagnosis", "age"), "'diagnosis', 'age'; add what is missing, each scan's file from "),
        (("id", "diagnosis", "file"), "lacks the columns 'participant_id', 'path': it has 'id', 'diagnosis', 'file'"),
    ],
)
def test_missing_columns_are_all_named(tmp_path: pathlib.Path, header: tuple[str, ...], message: str) -> None:
    assert message in refused(write_table(tmp_path, *FOUR, header=header))


def test_without_labels_the_column_may_be_missing_or_partly_empty(tmp_path: pathlib.Path) -> None:
    bare = read_participants(write_table(tmp_path, ("1", "a.nii"), header=("participant_id", "path")), labelled=False)
    assert bare.scans[0].label is None and bare.classes == ()
    partly = read_participants(write_table(tmp_path, ("1", "AD", "a.nii"), ("2", "", "b.nii")), labelled=False, classes=("AD", "NC"))
    assert [scan.label for scan in partly.scans] == ["AD", None] and partly.classes == ("AD", "NC")
    with pytest.raises(DataError, match=r"1 of 2 scans have no label among the classes 'AD', 'NC', such as sub-2 \(no label\); write"):
        partly.y


def test_given_classes_keep_their_order_and_refuse_other_labels(tmp_path: pathlib.Path) -> None:
    table = write_table(tmp_path, *FOUR)
    assert read_participants(table, classes=("NC", "MCI", "AD")).y.tolist() == [0, 2, 0, 2]
    message = refused(table, classes=("NC", "MCI"))
    assert "line 3 (sub-02): diagnosis is 'AD' and the classes are 'NC', 'MCI'; correct it, or leave the row out" in message
    assert "has 2 faults" in message


def test_parts_hold_all_scans_of_their_participants_and_keep_the_classes() -> None:
    scans = tuple(Scan(who, when, "AD", pathlib.Path(f"{who}{when}.nii"), line=n) for n, (who, when) in enumerate(["a1", "b1", "a2"]))
    whole = Participants(pathlib.Path("t.tsv"), scans, "dx", ("AD", "NC"))
    assert [scan.session for scan in whole.part(["a"]).scans] == ["1", "2"] and whole.part(["a"]).classes == ("AD", "NC")
    assert [scan.line for scan in whole.without({1}).scans] == [0, 2]


@pytest.mark.parametrize("name", ["site", "site_id"])
def test_sites_are_read_where_the_table_has_them(tmp_path: pathlib.Path, name: str) -> None:
    rows = [
        ("sub-01", "NC", " A ", "a.nii"),
        ("sub-02", "AD", "n/a", "b.nii"),
        ("sub-03", "NC", "", "c.nii"),
        ("sub-04", "AD", "B", "d.nii"),
    ]
    people = read_participants(write_table(tmp_path, *rows, header=("participant_id", "diagnosis", name, "path")))
    assert people.centre_column == name and [scan.centre for scan in people.scans] == ["A", None, None, "B"]
    predicted = write_table(tmp_path, *[(who, place, path) for who, place, path in FOUR], header=("participant_id", "site", "path"))
    assert read_participants(predicted, "site").centre_column is None  # what is to be predicted
    without = read_participants(write_table(tmp_path, *FOUR))
    assert without.centre_column is None and {scan.centre for scan in without.scans} == {None}


def test_another_column_of_sites_is_named_and_one_that_is_not_there_is_refused(tmp_path: pathlib.Path) -> None:
    rows = [(who, label, "A", "9", path) for who, label, path in FOUR]
    table = write_table(tmp_path, *rows, header=("participant_id", "diagnosis", "site", "scanner", "path"))
    assert {scan.centre for scan in read_participants(table, centre="scanner").scans} == {"9"}
    message = refused(table, centre="hospital")
    assert "lacks the column 'hospital': it has 'participant_id'" in message and "name the column of sites with --site" in message
