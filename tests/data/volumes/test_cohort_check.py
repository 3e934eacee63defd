from __future__ import annotations

import pathlib
import threading

import numpy as np
import pytest

from hetero_mtf.data.volumes import CohortOptions, Participants, Preprocessing, VolumeCache, check_scans, open_cohort
from hetero_mtf.data.volumes import cohort_check as check
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import SHAPE, numbers, write_cohort, write_scan, write_table

STEPS = Preprocessing(SHAPE)


def cache_of(folder: pathlib.Path) -> VolumeCache:
    return VolumeCache(folder / "cache", STEPS)


def refused(table: pathlib.Path, *args, **options) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_cohort(table, cache_of(table.parent), *args, **options)
    return str(caught.value).splitlines()


def broken_cohort(folder: pathlib.Path) -> pathlib.Path:
    """Write a table of good scans and of one with every fault there is."""
    for name in ("good1", "good2", "good3", "good4", "mute"):
        write_scan(folder / f"{name}.nii.gz", seed=len(name) + ord(name[-1]))
    (folder / "text.nii.gz").write_text("this is no gzip file")
    whole = write_scan(folder / "cut.nii.gz").read_bytes()
    (folder / "cut.nii.gz").write_bytes(whole[: len(whole) // 2])
    write_scan(folder / "four.nii", numbers((*SHAPE, 3)))
    write_scan(folder / "flat.nii", numbers((8, 9)))
    write_scan(folder / "nan.nii", np.where(numbers() > 500, np.nan, 1).astype(np.float32))
    write_scan(folder / "constant.nii", np.zeros(SHAPE, np.int16))
    (folder / "other.nii").write_bytes(write_scan(folder / "other.nii.gz").read_bytes())
    rows = [("sub-01", "AD", "good1.nii.gz"), ("sub-02", "AD", "good2.nii.gz"), ("sub-03", "NC", "good3.nii.gz")]
    rows += [("sub-04", "NC", "good4.nii.gz"), ("sub-05", "AD", "text.nii.gz"), ("sub-06", "AD", "cut.nii.gz")]
    rows += [("sub-07", "NC", "four.nii"), ("sub-08", "NC", "flat.nii"), ("sub-09", "NC", "nan.nii")]
    rows += [("sub-10", "NC", "constant.nii"), ("sub-11", "AD", "missing.nii"), ("sub-12", "AD", "other.nii")]
    rows += [("sub-01", "AD", "good1.nii.gz"), ("sub-13", "n/a", "mute.nii.gz")]
    return write_table(folder, *rows)


def test_a_sound_cohort_is_read_once_and_fills_the_cache(tmp_path: pathlib.Path) -> None:
    table, cache, seen = write_cohort(tmp_path), cache_of(tmp_path), []
    cohort = open_cohort(table, cache, advance=seen.append)
    assert cohort.participants.ids == ("sub-00", "sub-01", "sub-02", "sub-03") and not cohort.skipped
    assert cohort.lines() == ("4 scans of 4 participants: 2 AD, 2 NC",) and seen == list(cohort.participants.ids)
    open_cohort(table, cache)
    assert (cache.decoded, cache.kept) == (4, 4)


def test_faults_of_rows_and_files_are_one_report_in_the_tables_order(tmp_path: pathlib.Path) -> None:
    lines = refused(broken_cohort(tmp_path))
    assert lines[0] == (
        f"{tmp_path}/participants.tsv with its scans has 10 faults; fix them, or leave out 10 rows with --skip-bad (skip_bad=True):"
    )
    expected = ["gzip", "cut off", "holds 3 volumes", "a slice and not", "NaN or infinite", "everywhere", "not exist", "rename it"]
    expected += ["same participant", "diagnosis is 'n/a'"]
    assert [line.split()[1] for line in lines[1:]] == [str(number) for number in range(6, 16)]
    for line, words in zip(lines[1:], expected):
        assert words in line and line.startswith("  line ")


def test_with_skip_bad_what_is_sound_is_left_and_the_rest_is_in_the_log(tmp_path: pathlib.Path) -> None:
    cohort = open_cohort(broken_cohort(tmp_path), cache_of(tmp_path), CohortOptions(skip_bad=True))
    assert cohort.participants.ids == ("sub-01", "sub-02", "sub-03", "sub-04") and len(cohort.participants.scans) == 4
    assert len(cohort.skipped) == 10
    assert cohort.lines()[0] == "4 scans of 4 participants: 2 AD, 2 NC" and cohort.lines()[1].startswith("left out: line 6 (sub-05): ")


@pytest.mark.parametrize("linked", [False, True])
def test_paths_that_all_lead_nowhere_are_one_sentence(tmp_path: pathlib.Path, linked: bool) -> None:
    (tmp_path / "elsewhere").mkdir()
    table = tmp_path / "elsewhere" / "people.tsv"
    (table.symlink_to if linked else table.hardlink_to)(write_cohort(tmp_path))
    origin = f"{table.parent}, the folder of the table{' and not of the file it links to' if linked else ''}"
    expected = f"not one of the 4 files in {table} exists, such as {table.parent}/0.nii.gz; write paths from {origin}"
    assert refused(table) == refused(table, CohortOptions(skip_bad=True)) == [expected]


def test_a_dataset_whose_content_was_not_fetched_says_so_in_one_sentence(tmp_path: pathlib.Path) -> None:
    table = write_cohort(tmp_path)
    for number in range(4):
        (tmp_path / f"{number}.nii.gz").unlink()
        (tmp_path / f"{number}.nii.gz").symlink_to(f".git/annex/objects/{number}.nii.gz")
    (line,) = refused(table)
    assert "not one of the 4 files" in line and "a link of git-annex" in line and "datalad get" in line and "write paths" not in line
    for number in range(4):
        (tmp_path / f"{number}.nii.gz").unlink()
        (tmp_path / f"{number}.nii.gz").symlink_to(f"elsewhere/{number}.nii.gz")
    assert f"0.nii.gz is a link to {tmp_path}/elsewhere/0.nii.gz, which does not exist" in refused(table)[0]


def test_files_that_stand_in_for_others_are_named_each_in_the_report(tmp_path: pathlib.Path) -> None:
    table = write_cohort(tmp_path, 6)
    for number in range(4):
        (tmp_path / f"{number}.nii.gz").unlink()
    (tmp_path / "0.nii.gz").symlink_to(".git/annex/objects/0.nii.gz")
    (tmp_path / "1.nii.gz").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    (tmp_path / "2.nii.gz").write_bytes(write_scan(tmp_path / "plain.nii").read_bytes())
    (tmp_path / "3.nii.gz").write_text("<html><body>Please log in</body></html>")
    words = [("link of git-annex", "datalad get"), ("Git LFS pointer", "git lfs pull"), ("not gzipped", "rename it to 2.nii")]
    words += [("HTML page", "download the file again")]
    for line, (kind, remedy) in zip(refused(table)[1:], words):
        assert kind in line and remedy in line


def test_masks_that_are_wanted_and_all_missing_are_one_sentence(tmp_path: pathlib.Path) -> None:
    table, steps = write_cohort(tmp_path), Preprocessing(SHAPE, mask="table")
    with pytest.raises(DataError, match=r"participants.tsv names no mask and .* column mask, or train with another --mask$"):
        open_cohort(table, VolumeCache(None, steps))


def test_what_leaving_out_rows_does_not_mend_stops_even_so(tmp_path: pathlib.Path) -> None:
    table = write_cohort(tmp_path, 6)
    for number in (0, 2, 4):
        (tmp_path / f"{number}.nii.gz").unlink()
    for options in (CohortOptions(), CohortOptions(skip_bad=True)):
        lines = refused(table, options)
        assert lines[0].endswith("has 4 faults; fix them; leaving out the bad rows (--skip-bad) is not enough:")
        assert "class 'NC' is empty, its 3 participants have no usable scan" in lines[-1]


def test_a_class_that_broken_files_leave_with_one_participant_is_named(tmp_path: pathlib.Path) -> None:
    table = write_cohort(tmp_path)
    (tmp_path / "0.nii.gz").write_bytes(b"")
    lines = refused(table)
    assert len(lines) == 3 and "label 'NC' (of sub-02) occurs with one usable participant only" in lines[2]


def test_with_no_scan_left_the_report_says_so(tmp_path: pathlib.Path) -> None:
    lines = refused(write_table(tmp_path, ("1", "AD", "no.nii")), CohortOptions(classes=("AD",), skip_bad=True))
    assert "no.nii does not exist" in lines[1] and lines[2] == "  no scan can be used; fix the files above, or check the paths"


def test_faults_from_elsewhere_such_as_of_a_split_join_the_report(tmp_path: pathlib.Path) -> None:
    table, asked = write_cohort(tmp_path), []
    (tmp_path / "0.nii.gz").unlink()

    def split_faults(participants: Participants) -> list[str]:
        asked.append(participants.ids)
        return ["split.json: sub-01 is in train and in test; keep it in one"]

    lines = refused(table, more=split_faults)
    assert lines[-1] == "  split.json: sub-01 is in train and in test; keep it in one" and "does not exist" in lines[1]
    assert asked == [("sub-00", "sub-01", "sub-02", "sub-03")]


def test_to_predict_neither_labels_nor_several_classes_are_needed(tmp_path: pathlib.Path) -> None:
    write_scan(tmp_path / "a.nii")
    table = write_table(tmp_path, ("1", "a.nii"), header=("participant_id", "path"))
    cohort = open_cohort(table, cache_of(tmp_path), CohortOptions(labelled=False, classes=("AD", "NC")))
    assert cohort.participants.classes == ("AD", "NC") and cohort.lines() == ("1 scan of 1 participant",)


def test_notes_are_counted_and_the_rare_ones_left_out_of_the_log(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = write_cohort(tmp_path)
    for number in range(3):
        write_scan(tmp_path / f"{number}.nii.gz", affine=np.diag([-2.0, 2, 2, 1]))
    write_scan(tmp_path / "3.nii.gz", affine=np.diag([2.0, -2, 2, 1]))
    cohort = open_cohort(table, cache_of(tmp_path))
    assert cohort.lines()[1:] == ("3 scans: turned from LAS to RAS", "1 scan: turned from RPS to RAS")
    monkeypatch.setattr(check, "_NOTES", 1)
    assert cohort.lines()[1:] == ("3 scans: turned from LAS to RAS", "and 1 more kind of notes")


def test_what_was_not_plain_about_the_table_is_in_the_log(tmp_path: pathlib.Path) -> None:
    for number in range(5):
        write_scan(tmp_path / f"{number}.nii", seed=number)
    rows = [(f"p{number}", "unknown", ("AD", "NC")[number % 2], f"{number}.nii") for number in range(4)]
    table = write_table(tmp_path, *rows, ("p4", "A", "None", "4.nii"), header=("participant_id", "site", "diagnosis", "path"))
    lines = open_cohort(table, cache_of(tmp_path), CohortOptions(skip_bad=True)).lines()
    assert lines[0] == "4 scans of 4 participants: 2 AD, 2 NC"
    assert lines[1:3] == (
        "site: 'unknown' in 4 rows taken as missing, as n/a is",
        "diagnosis: 'None' in 1 row taken as missing, as n/a is; if that is a class, name all classes with --class (classes=...)",
    )
    assert lines[3].startswith("left out: line 6 (p4): diagnosis is 'None', which stands for unknown")


def test_people_that_are_taken_exactly_have_notes_of_their_own(tmp_path: pathlib.Path) -> None:
    names = ("sub-1", "1", "sub-2", "2")
    for number in range(4):
        write_scan(tmp_path / f"{number}.nii", affine=np.diag([-2.0, 2, 2, 1]), seed=number)
    table = write_table(tmp_path, *((name, ("AD", "NC")[at % 2], f"{at}.nii") for at, name in enumerate(names)))
    cohort = open_cohort(table, cache_of(tmp_path), CohortOptions(ids="exact"))
    assert cohort.lines() == ("4 scans of 4 participants: 2 AD, 2 NC", "4 scans: turned from LAS to RAS")


def test_many_notes_that_begin_alike_are_one_line(tmp_path: pathlib.Path) -> None:
    table = write_cohort(tmp_path, 6)
    for number, signs in enumerate(((-2.0, 2, 2, 1), (-2.0, 2, 2, 1), (2.0, -2, 2, 1), (2.0, 2, -2, 1), (-2.0, -2, 2, 1))):
        write_scan(tmp_path / f"{number}.nii.gz", affine=np.diag(signs))
    assert open_cohort(table, cache_of(tmp_path)).lines()[1:] == ("5 scans: turned from LAS to RAS, or in 3 other ways",)


def test_sessions_of_one_participant_have_notes_of_their_own(tmp_path: pathlib.Path) -> None:
    rows = []
    for number in range(4):
        write_scan(tmp_path / f"{number}.nii", affine=np.diag([-2.0 if number else 2.0, 2, 2, 1]), seed=number)
        rows.append((str(number // 2), str(number % 2), "AD", f"{number}.nii"))
    table = write_table(tmp_path, *rows, header=("participant_id", "session", "diagnosis", "path"))
    cohort = open_cohort(table, cache_of(tmp_path), CohortOptions(classes=("AD",)))
    assert list(cohort.notes) == ["sub-0_ses-1", "sub-1_ses-0", "sub-1_ses-1"]
    assert cohort.lines() == ("4 scans of 2 participants: 4 AD", "3 scans: turned from LAS to RAS")


def test_an_error_nobody_thought_of_is_a_fault_with_the_files_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: VolumeCache, scan: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(VolumeCache, "volume", broken)
    lines = refused(write_cohort(tmp_path))
    assert f"line 2 (sub-00): {tmp_path}/0.nii.gz cannot be used (KeyError: 'surprise'); convert it again" in lines[1]


def test_files_are_read_side_by_side_and_the_threads_end(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, before = write_cohort(tmp_path, 6), threading.active_count()
    together, read = threading.Barrier(3, timeout=20), VolumeCache.volume

    def meeting(self: VolumeCache, scan) -> object:
        together.wait()  # passed only where three threads are here at once
        return read(self, scan)

    monkeypatch.setattr(VolumeCache, "volume", meeting)
    open_cohort(table, cache_of(tmp_path), CohortOptions(workers=3))
    assert threading.active_count() == before


def test_of_two_rows_of_one_session_the_one_that_is_kept_has_its_own_notes_and_content(tmp_path: pathlib.Path) -> None:
    for number in range(3):
        write_scan(tmp_path / f"{number}.nii", affine=np.diag([-2.0 if number == 2 else 2.0, 2, 2, 1]), seed=number)
    table = write_table(tmp_path, ("1", "AD", "0.nii"), ("2", "NC", "1.nii"), ("1", "AD", "2.nii"))
    cohort = open_cohort(table, cache_of(tmp_path), CohortOptions(classes=("AD", "NC"), skip_bad=True))
    alone = open_cohort(write_table(tmp_path, ("1", "AD", "0.nii")), cache_of(tmp_path), CohortOptions(classes=("AD",)))
    assert [scan.line for scan in cohort.participants.scans] == [2, 3] and not cohort.notes
    contents = [scan.content for scan in cohort.participants.scans]
    assert len({*contents, ""}) == 3 and contents[0] == alone.participants.scans[0].content


@pytest.mark.parametrize("workers", [0, True, 1.5])
def test_threads_are_counted_in_whole_numbers(tmp_path: pathlib.Path, workers: object) -> None:
    participants = Participants(tmp_path, (), "dx", ())
    with pytest.raises(DataError, match=f"workers is {workers}; use a whole number from 1"):
        check_scans(participants, cache_of(tmp_path), workers)  # type: ignore[arg-type]
