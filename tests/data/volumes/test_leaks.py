from __future__ import annotations

import pathlib

from hetero_mtf.data.volumes.leaks import copies, leak_line, leaks
from hetero_mtf.data.volumes.participants import Participants, Scan
from hetero_mtf.data.volumes.splits import Split

LABELS = ("AD", "NC", "AD", "NC")


def people(folder: pathlib.Path, contents: list[bytes]) -> Participants:
    scans = []
    for index, (label, content) in enumerate(zip(LABELS, contents)):
        path = folder / f"{index}.nii"
        path.write_bytes(content)
        scans.append(Scan(f"sub-{index}", None, label, path))
    return Participants(folder / "participants.tsv", tuple(scans), "diagnosis", ("AD", "NC"))


SPLIT = Split(("sub-0", "sub-1"), ("sub-2", "sub-3"))


def test_the_line_says_that_nothing_leaks_and_what_each_part_holds(tmp_path: pathlib.Path) -> None:
    assert leak_line(SPLIT, people(tmp_path, [b"a", b"b", b"c", b"d"])) == (
        "leak check passed: no participant and no scan is in two parts "
        "(train 2 participants, 2 scans: 1 AD, 1 NC; test 2 participants, 2 scans: 1 AD, 1 NC)"
    )


def test_a_participant_in_two_parts_fails_the_check(tmp_path: pathlib.Path) -> None:
    line = leak_line(Split(("sub-0", "sub-1"), ("sub-1", "sub-2")), people(tmp_path, [b"a", b"b", b"c", b"d"]))
    assert line.startswith("leak check FAILED: sub-1 is in the train part and in the test part (train 2 participants")


def test_a_copy_of_a_scan_under_another_name_fails_the_check_only_across_parts(tmp_path: pathlib.Path) -> None:
    assert leaks(SPLIT, people(tmp_path, [b"a", b"b", b"b", b"d"])) == [
        "sub-1 (train part) and sub-2 (test part) are the same file, byte for byte"
    ]
    assert leaks(SPLIT, people(tmp_path, [b"a", b"a", b"c", b"d"])) == []
    assert leaks(Split(("sub-0",), ("sub-2",)), people(tmp_path, [b"a", b"b", b"b", b"d"])) == []


def test_a_scan_of_two_participants_and_a_link_to_one_are_found(tmp_path: pathlib.Path) -> None:
    found = people(tmp_path, [b"a", b"b", b"c", b"d"])
    (tmp_path / "3.nii").unlink()
    (tmp_path / "3.nii").symlink_to(tmp_path / "0.nii")
    assert leaks(SPLIT, found) == ["sub-0 (train part) and sub-3 (test part) are the same file, byte for byte"]
    scans = (*found.scans[:3], Scan("sub-3", None, "NC", tmp_path / "0.nii"))
    same = Participants(found.path, scans, "diagnosis", ("AD", "NC"))
    assert leaks(SPLIT, same) == ["sub-0 (train part) and sub-3 (test part) are the same file, byte for byte"]


def test_files_that_differ_in_one_byte_anywhere_are_no_copies(tmp_path: pathlib.Path) -> None:
    base = bytearray(300_000)
    paths = []
    for index, place in enumerate((None, 0, 150_000, 299_999, None)):
        content = bytearray(base)
        if place is not None:
            content[place] = 1
        paths.append(tmp_path / str(index))
        paths[-1].write_bytes(content)
    assert sorted(map(len, copies(paths))) == [1, 1, 1, 2]
    assert [paths[0], paths[4]] in copies(paths)


def test_files_that_are_not_there_are_passed_over(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    assert copies([tmp_path / "a", tmp_path / "none", tmp_path / "missing"]) == [[tmp_path / "a"]]
    found = people(tmp_path, [b"a", b"b", b"c", b"d"])
    (tmp_path / "1.nii").unlink()
    assert leaks(SPLIT, found) == []
