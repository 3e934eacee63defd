from __future__ import annotations

import pathlib

import pytest

from hetero_mtf.data.volumes import Participants, Scan, read_participants
from hetero_mtf.data.volumes.cohort.reading import listed_files
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


SESSIONS = ("participant_id", "session", "diagnosis", "path")


def cohort_of(folder: pathlib.Path, *names: str, **options) -> str | Participants:
    """Return a cohort of four people and of some names more, each in a session of its own, or its faults."""
    rows = [(f"p{number}", "1", ("NC", "AD")[number % 2], f"p{number}.nii") for number in range(4)]
    rows += [(name, str(2 + number), "NC", f"{number}.nii") for number, name in enumerate(names)]
    table = write_table(folder, *rows, header=SESSIONS)
    try:
        return read_participants(table, **options)
    except DataError as fault:
        return str(fault)


@pytest.mark.parametrize(
    "names",
    [
        ("sub-0050770", "50770"),
        ("sub-01", "sub-001"),
        ("sub-01", "SUB-01"),
        ("1", "1.0"),
        ("sub-01", "1"),
        ("\uff11", "1"),
        ("sub\u201101", "sub-01"),
        ("J\u00fcrgen", "j\u00fcrgen"),
        ("a\u00a0 b", "a b"),
        ("'01'", "1"),
    ],
)
def test_a_participant_written_in_two_forms_is_a_fault_unless_they_are_taken_exactly(
    tmp_path: pathlib.Path, names: tuple[str, str]
) -> None:
    message = cohort_of(tmp_path, *names)
    assert isinstance(message, str) and "has 1 fault;" in message and "differ in writing only; write each alike" in message
    assert all(text in message for text in ("(line 6)", "(line 7)", "--ids exact"))
    exact = cohort_of(tmp_path, *names, ids="exact")
    assert isinstance(exact, Participants) and len(exact.ids) == 6


@pytest.mark.parametrize(
    "names", [("1000", "1e3"), ("1000", "1_000"), ("1", "0x1"), ("1", "+1"), ("1.5", "1.50"), ("1", "1.5"), ("s1", "s01"), ("sub-", "0")]
)
def test_what_is_no_whole_number_is_an_identifier_as_it_is_written(tmp_path: pathlib.Path, names: tuple[str, str]) -> None:
    people = cohort_of(tmp_path, *names)
    assert isinstance(people, Participants) and people.ids[4:] == names


def test_one_name_in_two_unicode_forms_or_with_invisible_characters_is_one_participant(tmp_path: pathlib.Path) -> None:
    for ids in ("alike", "exact"):
        people = cohort_of(tmp_path, "\u00e9 1", "e\u0301\u00a01", "\u00e9\u200b 1\u200b", ids=ids)
        assert isinstance(people, Participants) and people.ids[4:] == ("\u00e9 1",) and len(people.scans) == 7


def test_many_spellings_are_a_few_pairs_and_a_count(tmp_path: pathlib.Path) -> None:
    message = cohort_of(tmp_path, *(name for number in range(7) for name in (f"sub-0{number}", str(number))), "1.0")
    assert isinstance(message, str)
    assert "participants 'sub-00' (line 6) and '0' (line 7), 'sub-01' (line 8) and '1' (line 9) and '1.0' (line 20), 'sub-02'" in message
    assert (
        " and 2 more differ in writing only; write each alike, or take them as different people with --ids exact (ids='exact')" in message
    )


def test_one_session_in_two_spellings_is_a_repetition(tmp_path: pathlib.Path) -> None:
    rows = [("sub-01", "ses-01", "NC", "a.nii"), ("sub-01", "1.0", "NC", "b.nii"), ("sub-02", "2", "NC", "c.nii")]
    rows += [("sub-03", "1", "AD", "d.nii"), ("sub-04", "1", "AD", "e.nii")]
    table = write_table(tmp_path, *rows, header=SESSIONS)
    message = refused(table)
    assert (
        "has 1 fault;" in message and "line 3 (sub-01): line 2 (sub-01, session ses-01) is of the same participant and session" in message
    )
    assert "--ids exact" in message and len(read_participants(table, ids="exact").scans) == 5


def test_rows_of_one_participant_in_two_spellings_are_repetitions_and_no_two_of_a_class(tmp_path: pathlib.Path) -> None:
    rows = [("sub-01", "NC", "a.nii"), ("1", "NC", "b.nii"), ("sub-03", "AD", "c.nii"), ("sub-04", "AD", "d.nii")]
    message = refused(write_table(tmp_path, *rows))
    assert "line 3 (1): line 2 (sub-01) is of the same participant and session in another spelling; keep one of them" in message
    assert "label 'NC' (of sub-01) occurs with one usable participant only" in message


def test_a_comparison_of_ids_that_there_is_not_is_refused(tmp_path: pathlib.Path) -> None:
    assert "ids is 'exactly'; give 'alike' or 'exact'" in str(cohort_of(tmp_path, ids="exactly"))


@pytest.mark.parametrize(
    "cell",
    ["#N/A", "NULL", "None", "<NA>", "unknown", "-", "\u2014", "NA", "nan", ".", "?", "#N/A N/A", "#NULL!", "#DIV/0!", "missing", "nil"]
    + ["NaT", "\\N", "N.A.", "(null)"],
)
def test_what_stands_for_unknown_is_no_class_and_no_name_and_is_told(tmp_path: pathlib.Path, cell: str) -> None:
    header = ("participant_id", "session", "site", "diagnosis", "path", "mask")
    rows = [(f"p{number}", cell, cell, "ABc"[number % 2], f"{number}.nii", cell) for number in range(4)]
    rows += [("p4", "1", "X", cell, "4.nii", "4m.nii"), (cell, "1", "X", "A", "5.nii", ""), ("p6", "1", "X", "A", cell, "")]
    table = write_table(tmp_path, *rows, header=header)
    message = refused(table)
    assert "has 3 faults;" in message and all(f"line {line} (" in message for line in (6, 7, 8))
    assert message.count(f"is {cell!r}, which stands for unknown; write it") == 3
    assert "name all classes with --class (classes=...) if it is one" in message.splitlines()[1]
    people = read_participants(write_table(tmp_path, *rows[:5], header=header), labelled=False)
    assert people.classes == ("A", "B") and {(s.session, s.centre, s.mask) for s in people.scans[:4]} == {(None, None, None)}
    assert people.notes == (
        f"session: {cell!r} in 4 rows taken as missing, as n/a is",
        f"site: {cell!r} in 4 rows taken as missing, as n/a is",
        f"diagnosis: {cell!r} in 1 row taken as missing, as n/a is; if that is a class, name all classes with --class (classes=...)",
        f"mask: {cell!r} in 4 rows taken as missing, as n/a is",
    )


def test_empty_cells_and_n_a_are_not_told_and_numbers_are_values(tmp_path: pathlib.Path) -> None:
    rows = [
        (f"p{number}", ("", "n/a", "N/A ", "n/a\u200b")[number], "-999", ("A", "B")[number % 2], f"{number}.nii") for number in range(4)
    ]
    people = read_participants(write_table(tmp_path, *rows, header=("participant_id", "session", "site", "diagnosis", "path")))
    assert people.notes == () and {(scan.session, scan.centre) for scan in people.scans} == {(None, "-999")}


def test_a_class_may_have_a_name_that_else_stands_for_unknown(tmp_path: pathlib.Path) -> None:
    rows = [(f"p{number}", ("None", "lesion")[number % 2], f"{number}.nii") for number in range(4)]
    people = read_participants(write_table(tmp_path, *rows), classes=("None", "lesion"))
    assert people.classes == ("None", "lesion") and people.y.tolist() == [0, 1, 0, 1] and people.notes == ()
    assert "is 'none', which stands for unknown" in refused(
        write_table(tmp_path, *rows, ("p5", "none", "5.nii")), classes=("None", "lesion")
    )


def test_labels_sites_and_columns_in_two_unicode_forms_are_one(tmp_path: pathlib.Path) -> None:
    labels, sites = ("Pr\u00e9", "Pre\u0301", "Pr\u00e9\u200b", "w\u00a0x"), ("\u00c4", "A\u0308", "\ufeff\u00c4", "\u00c4")
    rows = [(f"p{number}", sites[number % 4], labels[number % 4], f"{number}.nii") for number in range(8)]
    table = write_table(tmp_path, *rows, header=("\ufeffparticipant_id", "cen\u200btre", "e\u0301tat", "path"))
    people = read_participants(table, "\u00e9tat", centre="centre")
    assert people.classes == ("Pr\u00e9", "w x") and {scan.centre for scan in people.scans} == {"\u00c4"}
    assert read_participants(table, "e\u0301tat", classes=("Pre\u0301", "w x")).y.tolist() == [0, 0, 0, 1] * 2


def test_a_file_is_taken_by_its_name_and_else_by_the_same_name_in_another_unicode_form(tmp_path: pathlib.Path) -> None:
    composed, apart = "\u00e9.nii", "e\u0301.nii"
    folder = tmp_path / "a\u0308"
    folder.mkdir()
    (folder / composed).write_text("")
    rows = [("p1", "A", f"\u00e4/{apart}"), ("p2", "A", apart), ("p3", "B", "\u200bp3.nii"), ("p4", "B", "gone\u0301.nii")]
    for name in (composed, apart, "p3.nii"):
        (tmp_path / name).write_text("")
    table = write_table(tmp_path, *rows)
    people = read_participants(table)
    assert [scan.path for scan in people.scans] == [folder / composed, tmp_path / apart, tmp_path / "p3.nii", tmp_path / "gone\u0301.nii"]
    (note,) = people.notes
    assert "2 files taken by a name in another Unicode form than the table's" in note and note.isascii()
    assert listed_files(table) == tuple(scan.path for scan in people.scans)


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
