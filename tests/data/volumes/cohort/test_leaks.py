from __future__ import annotations

import dataclasses
import gzip
import pathlib

import nibabel
import numpy as np
import pytest

from hetero_mtf.data.volumes import CohortOptions, Preprocessing, VolumeCache, open_cohort
from hetero_mtf.data.volumes.cohort.leaks import copies, leak_line, leaks
from hetero_mtf.data.volumes.cohort.participants import Participants, Scan
from hetero_mtf.data.volumes.cohort.splits import Split
from tests.data.volumes.nifti_files import AFFINE, SHAPE, numbers, write_cohort, write_scan

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


def test_a_participant_in_two_parts_in_another_spelling_fails_the_check_unless_ids_are_taken_exactly(tmp_path: pathlib.Path) -> None:
    found = people(tmp_path, [b"a", b"b", b"c", b"d"])
    scans = (*found.scans[:2], dataclasses.replace(found.scans[2], participant="0"), found.scans[3])
    respelt, split = dataclasses.replace(found, scans=scans), Split(("sub-0", "sub-1"), ("0", "sub-3"))
    line = leak_line(split, respelt)
    assert line.startswith("leak check FAILED: sub-0 (also written 0) is in the train part and in the test part")
    exact = leak_line(split, dataclasses.replace(respelt, comparison="exact"))
    assert exact.startswith("leak check passed") and "test 2 participants, 2 scans" in exact


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


def again(path: pathlib.Path, way: str) -> None:
    """Write the first scan of a cohort anew, with other bytes."""
    first = path.parent / "0.nii.gz"
    if way == "packed":
        path.write_bytes(gzip.compress(gzip.decompress(first.read_bytes()), 1, mtime=1))
    elif way == "exported":
        image = nibabel.load(first)
        image.header["descrip"] = b"exported again"
        nibabel.save(image, path)
    else:
        turned = AFFINE @ np.diag([-1.0, 1, 1, 1])
        turned[0, 3] = AFFINE[0, 0] * (SHAPE[0] - 1)
        write_scan(path, numbers(SHAPE, 0)[::-1], turned)


@pytest.mark.parametrize("way", ["packed", "exported", "turned"])
def test_a_scan_that_was_written_anew_fails_the_check_where_scans_were_read(tmp_path: pathlib.Path, way: str) -> None:
    table = write_cohort(tmp_path)
    again(tmp_path / "2.nii.gz", way)
    options = CohortOptions(classes=("AD", "NC"))
    for _ in range(2):  # from the files, then from the cache
        found = open_cohort(table, VolumeCache(tmp_path / "cache", Preprocessing(SHAPE)), options).participants
        assert leaks(Split(("sub-00", "sub-01"), ("sub-02", "sub-03")), found) == [
            "sub-00 (train part) and sub-02 (test part) are the same scan in different files"
        ]
        assert leaks(Split(("sub-00", "sub-02"), ("sub-01", "sub-03")), found) == []


def test_a_copy_that_was_read_is_told_once(tmp_path: pathlib.Path) -> None:
    found = people(tmp_path, [b"a", b"b", b"b", b"d"])
    read = dataclasses.replace(found, scans=tuple(dataclasses.replace(s, content=s.path.read_text()) for s in found.scans))
    assert leaks(SPLIT, read) == leaks(SPLIT, found) != []


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
