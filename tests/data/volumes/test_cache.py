from __future__ import annotations

import ast
import concurrent.futures
import dataclasses
import errno
import hashlib
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from hetero_mtf.data.volumes import Preprocessing, Scan, VolumeCache, cache
from hetero_mtf.data.volumes.cache_folder import kept_files
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import AFFINE, SHAPE, numbers, write_scan

STEPS = Preprocessing(SHAPE, normalisation="none")


def scan_of(path: pathlib.Path, mask: pathlib.Path | None = None) -> Scan:
    return Scan("01", None, "AD", path, mask)


def entries(folder: pathlib.Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def scan(tmp_path: pathlib.Path) -> Scan:
    return scan_of(write_scan(tmp_path / "a.nii.gz"))


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "cache"


def test_a_volume_is_decoded_once_and_then_mapped_from_its_entry(scan: Scan, folder: pathlib.Path) -> None:
    first, again = VolumeCache(folder, STEPS), VolumeCache(folder, STEPS)
    np.testing.assert_array_equal(first.get(scan), numbers())
    found = again.get(scan)
    assert isinstance(found, np.memmap) and found.dtype == np.float32 and not found.flags.writeable
    np.testing.assert_array_equal(found, numbers())
    assert (first.decoded, first.kept, again.decoded, again.kept) == (1, 0, 0, 1)
    assert [name.rpartition(".")[2] for name in entries(folder)] == ["json", "npy"] and entries(folder)[0].startswith("sub-01_")


def test_entries_are_known_by_their_names_and_other_files_beside_them_are_not(scan: Scan, folder: pathlib.Path) -> None:
    VolumeCache(folder, STEPS).get(scan)
    kept = entries(folder)
    (folder / "state_of_my_training.npy").touch()
    assert len(kept) == 2 and [path.name for path in kept_files([folder, folder / "none"])] == kept


def test_affine_and_notes_are_kept_with_it(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    scan = scan_of(write_scan(tmp_path / "a.nii", affine=np.diag([-2.0, 2, 2, 1])))
    made, kept = (VolumeCache(folder, STEPS).volume(scan) for _ in range(2))
    assert isinstance(kept.values, np.memmap) and made.notes == kept.notes == ("turned from LAS to RAS",)
    np.testing.assert_array_equal(made.values, kept.values)
    np.testing.assert_array_equal(made.affine, kept.affine)
    assert made.content == kept.content == hashlib.sha256(made.values.tobytes()).hexdigest()


def test_the_digest_of_a_kept_volume_is_not_taken_again(scan: Scan, folder: pathlib.Path) -> None:
    first = VolumeCache(folder, STEPS).volume(scan).content
    entry = next(folder.glob("*.npy"))
    entry.write_bytes(entry.read_bytes()[:-4] + b"\0\0\0\0")  # large volumes are mapped, and need not all be read to be checked
    assert VolumeCache(folder, STEPS).volume(scan).content == first


def test_an_entry_is_a_npy_file_that_is_mapped_without_pythons_parser(scan: Scan, folder: pathlib.Path, monkeypatch) -> None:
    VolumeCache(folder, STEPS).get(scan)
    np.testing.assert_array_equal(np.load(next(folder.glob("*.npy"))), numbers())
    monkeypatch.setattr(ast, "parse", lambda *_, **__: pytest.fail("Python 3.11 parses source in one thread at a time only"))
    assert isinstance(VolumeCache(folder, STEPS).get(scan), np.memmap)


@pytest.mark.parametrize("same", ["size", "time", "neither"])
def test_a_changed_file_is_decoded_again_and_its_old_entry_removed(scan: Scan, folder: pathlib.Path, same: str) -> None:
    found = VolumeCache(folder, STEPS)
    path = scan_of(scan.path.parent / "a.nii").path
    scan = scan_of(write_scan(path, seed=1))
    found.get(scan)
    before, stamp = entries(folder), path.stat()
    write_scan(path, numbers(SHAPE, 2) if same == "size" else numbers((*SHAPE, 1), 2))
    if same == "size":
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    if same == "time":
        path.write_bytes(path.read_bytes() + b"\0")
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    np.testing.assert_array_equal(found.get(scan), numbers(SHAPE, 2))
    assert len(entries(folder)) == 2 and not set(before) & set(entries(folder))


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_with_the_size_and_the_time_of_the_one_before_is_decoded_again(
    tmp_path: pathlib.Path, folder: pathlib.Path, replaced: bool
) -> None:
    scan, found = scan_of(write_scan(tmp_path / "a.nii")), VolumeCache(folder, STEPS)
    found.get(scan)
    stamp = scan.path.stat()
    path = write_scan(tmp_path / "new.nii" if replaced else scan.path, seed=1)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    os.replace(path, scan.path)
    assert (scan.path.stat().st_size, scan.path.stat().st_mtime_ns) == (stamp.st_size, stamp.st_mtime_ns)
    np.testing.assert_array_equal(found.get(scan), numbers(SHAPE, 1))
    assert len(entries(folder)) == 2


def test_other_steps_paths_and_masks_have_entries_of_their_own(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    one, two = write_scan(tmp_path / "a.nii"), write_scan(tmp_path / "b.nii", seed=1)
    mask = write_scan(tmp_path / "m.nii", np.ones(SHAPE, np.uint8))
    masked = dataclasses.replace(STEPS, mask="table")
    for steps, scan in ((STEPS, scan_of(one)), (STEPS, scan_of(two)), (masked, scan_of(one, mask)), (masked, scan_of(two, mask))):
        VolumeCache(folder, steps).get(scan)
    assert len(entries(folder)) == 8
    os.utime(write_scan(mask, (np.arange(720).reshape(SHAPE) > 300).astype(np.uint8)), ns=(1, 1))
    made = VolumeCache(folder, masked).get(scan_of(one, mask))
    assert (made.ravel()[:301] == 0).all() and made.ravel()[301:].all() and len(entries(folder)) == 8


def test_a_mask_that_is_not_wanted_need_not_be_there(scan: Scan, folder: pathlib.Path) -> None:
    masked = scan_of(scan.path, scan.path.parent / "no.nii")
    np.testing.assert_array_equal(VolumeCache(folder, STEPS).get(masked), numbers())
    with pytest.raises(DataError, match="no.nii does not exist"):
        VolumeCache(folder, dataclasses.replace(STEPS, mask="table")).get(masked)


def test_one_scan_has_an_entry_for_each_choice_of_steps(scan: Scan, folder: pathlib.Path) -> None:
    for _ in range(2):
        assert VolumeCache(folder, STEPS).get(scan).max() == numbers().max()
        assert VolumeCache(folder, dataclasses.replace(STEPS, normalisation="minmax")).get(scan).max() == 1
    assert len(entries(folder)) == 4


def test_a_link_that_leads_elsewhere_is_noticed(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    stamp = (10**18, 10**18)
    for seed in (1, 2):
        os.utime(write_scan(tmp_path / f"{seed}.nii", seed=seed), ns=stamp)
    link, found = tmp_path / "a.nii", VolumeCache(folder, STEPS)
    for seed in (1, 2):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / f"{seed}.nii")
        np.testing.assert_array_equal(found.get(scan_of(link)), numbers(SHAPE, seed))


@pytest.mark.parametrize("damage", ["truncate", "empty", "text", "other shape", "pickle", "folder"])
def test_a_damaged_entry_is_made_again(scan: Scan, folder: pathlib.Path, damage: str) -> None:
    VolumeCache(folder, STEPS).get(scan)
    (entry,) = folder.glob("*.npy")
    whole = entry.read_bytes()
    entry.unlink()
    if damage == "folder":
        entry.mkdir()
    elif damage == "other shape":
        np.save(entry, np.zeros((2, 2, 2), np.float32))
    elif damage == "pickle":
        np.save(entry, np.array([{}], object), allow_pickle=True)
    else:
        entry.write_bytes({"truncate": whole[:-4], "empty": b"", "text": b"hello"}[damage])
    found = VolumeCache(folder, STEPS)
    np.testing.assert_array_equal(found.get(scan), numbers())
    assert found.decoded == 1
    if damage == "folder":
        assert found.trouble.startswith("decoded volumes are not kept from here on: cannot write ")
    else:
        assert entry.read_bytes() == whole and not found.trouble


@pytest.mark.parametrize("damage", ["", "{}", '{"kind": "volume", "version": 1, "affine_mm": [1], "notes": []}'])
def test_a_damaged_note_file_is_made_again(scan: Scan, folder: pathlib.Path, damage: str) -> None:
    made = VolumeCache(folder, STEPS).volume(scan)
    (notes,) = folder.glob("*.json")
    whole = notes.read_text()
    notes.write_text(damage)
    found = VolumeCache(folder, STEPS)
    np.testing.assert_array_equal(found.volume(scan).affine, made.affine)
    assert found.decoded == 1 and notes.read_text() == whole


def test_a_full_disk_stops_the_keeping_and_not_the_work(scan: Scan, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def full(*args, **options) -> None:
        tried.append(args)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    found = VolumeCache(folder, STEPS)
    for _ in range(3):
        np.testing.assert_array_equal(found.get(scan), numbers())
    assert len(tried) == 1 and "No space left on device; choose another place or free some space" in found.trouble
    assert not list(folder.glob("*.npy")) and not list(folder.glob(".*"))


def test_a_folder_that_cannot_be_made_stops_the_keeping_and_not_the_work(scan: Scan, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    found = VolumeCache(tmp_path / "file" / "cache", STEPS)
    np.testing.assert_array_equal(found.get(scan), numbers())
    assert "Not a directory" in found.trouble


def test_without_a_folder_nothing_is_kept(scan: Scan, tmp_path: pathlib.Path) -> None:
    found = VolumeCache(None, STEPS)
    for _ in range(2):
        np.testing.assert_array_equal(found.volume(scan).values, numbers())
    assert (found.decoded, found.kept, found.trouble) == (2, 0, "") and [path.name for path in tmp_path.iterdir()] == ["a.nii.gz"]


def test_a_file_that_changes_while_it_is_read_is_refused(scan: Scan, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = cache.read_scan

    def meanwhile(path: pathlib.Path, *rest) -> object:
        volume = read(path, *rest)
        write_scan(path, numbers((*SHAPE, 1), 5))
        return volume

    monkeypatch.setattr(cache, "read_scan", meanwhile)
    with pytest.raises(DataError, match="a.nii.gz was changed while it was read; start again when it is complete"):
        VolumeCache(folder, STEPS).get(scan)
    assert not folder.exists()


def test_a_link_that_is_made_to_a_file_while_it_is_read_changes_nothing(scan: Scan, monkeypatch: pytest.MonkeyPatch) -> None:
    read = cache.read_scan

    def meanwhile(path: pathlib.Path, *rest) -> object:
        os.link(path, path.with_name("backup.nii.gz"))
        return read(path, *rest)

    monkeypatch.setattr(cache, "read_scan", meanwhile)
    np.testing.assert_array_equal(VolumeCache(None, STEPS).get(scan), numbers())


def test_missing_files_and_paths_that_cannot_be_are_refused(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    found = VolumeCache(folder, STEPS)
    with pytest.raises(DataError, match="no.nii does not exist; correct the path in the table"):
        found.get(scan_of(tmp_path / "no.nii"))
    with pytest.raises(DataError, match="cannot read .*: File name too long; correct the path in the table"):
        found.get(scan_of(tmp_path / f"{'x' * 300}.nii"))
    with pytest.raises(DataError, match="cannot read .*: embedded null (byte|character in path); correct"):
        found.get(scan_of(tmp_path / "a\0.nii"))


def test_names_of_any_participant_are_names_of_files(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii")
    for who in ("../x y", "*[a]", "ü" * 200, "a_b"):
        VolumeCache(folder, STEPS).get(Scan(who, "1/2", None, path))
    assert len(list(folder.glob("*.npy"))) == 4


def test_what_a_killed_process_left_is_removed_after_an_hour_and_nothing_else(scan: Scan, folder: pathlib.Path) -> None:
    VolumeCache(folder, STEPS).get(scan)
    old, young, foreign = folder / f".x.npy.{'0' * 12}", folder / f".y.npy.{'0' * 12}", folder / "mine.txt"
    for path in (old, young, foreign):
        path.touch()
    for path in (old, foreign):
        os.utime(path, (1e9, 1e9))
    VolumeCache(folder, STEPS)
    assert not old.exists() and young.exists() and foreign.exists() and len(entries(folder)) == 4


def test_threads_that_want_the_same_scans_agree(tmp_path: pathlib.Path, folder: pathlib.Path) -> None:
    scans = [Scan(str(n), None, None, write_scan(tmp_path / f"{n}.nii.gz", seed=n)) for n in range(4)]
    found = VolumeCache(folder, STEPS)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number, values in enumerate(pool.map(found.get, scans * 10)):
            np.testing.assert_array_equal(values, numbers(SHAPE, number % 4))
    assert len(entries(folder)) == 8 and found.decoded + found.kept == 40


FILL = """
import pathlib, sys
import numpy as np
from hetero_mtf.data.volumes import Preprocessing, Scan, VolumeCache
folder, count = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for turn in range(20):
    for path in (folder / "cache").glob("*.npy"):
        path.unlink(missing_ok=True)
    cache = VolumeCache(folder / "cache", Preprocessing((8, 9, 10), normalisation="none"))
    for n in range(count):
        values = cache.get(Scan(str(n), None, None, folder / f"{n}.nii"))
        assert float(values.sum(dtype=np.float64)) == float(sys.argv[3 + n]), n
    assert not cache.trouble, cache.trouble
"""


@pytest.mark.slow
def test_processes_that_fill_and_empty_one_folder_side_by_side_never_meet_a_half_written_entry(tmp_path: pathlib.Path) -> None:
    sums = []
    for number in range(4):
        write_scan(tmp_path / f"{number}.nii", affine=AFFINE, seed=number)
        sums.append(str(float(numbers(SHAPE, number).sum())))
    command = [sys.executable, "-c", FILL, str(tmp_path), "4", *sums]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert not any(process.returncode for process in running), said
