from __future__ import annotations

import pathlib

from hetero_mtf.data.volumes import Participants, Scan


def test_parts_hold_all_scans_of_their_participants_and_keep_the_classes() -> None:
    scans = tuple(Scan(who, when, "AD", pathlib.Path(f"{who}{when}.nii"), line=n) for n, (who, when) in enumerate(["a1", "b1", "a2"]))
    whole = Participants(pathlib.Path("t.tsv"), scans, "dx", ("AD", "NC"))
    assert [scan.session for scan in whole.part(["a"]).scans] == ["1", "2"] and whole.part(["a"]).classes == ("AD", "NC")
    assert [scan.line for scan in whole.without({1}).scans] == [0, 2]


def respelt(**changes) -> Participants:
    rows = [("sub-01", "ses-01"), ("1", "2"), ("SUB-001.0", None), ("02", "1"), ("sub-2", "ses-2")]
    scans = tuple(Scan(who, when, "AD", pathlib.Path(f"{n}.nii"), line=n) for n, (who, when) in enumerate(rows))
    return Participants(pathlib.Path("t.tsv"), scans, "dx", ("AD", "NC"), **changes)


def test_a_participant_and_a_session_have_the_name_that_is_written_first() -> None:
    people = respelt()
    assert people.ids == ("sub-01", "02") and people.sessions == ("ses-01", "2", None, "ses-01", "2")
    assert [[scan.line for scan in people.part([who]).scans] for who in ("1", "sub-02", "3")] == [[0, 1, 2], [3, 4], []]


def test_taken_exactly_only_equal_text_is_one_participant() -> None:
    people = respelt(comparison="exact")
    assert people.ids == tuple(scan.participant for scan in people.scans) and people.sessions == ("ses-01", "2", None, "1", "ses-2")
    assert [scan.line for scan in people.part(["1"]).scans] == [1]
