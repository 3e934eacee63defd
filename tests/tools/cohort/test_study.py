"""Drawn cohorts: what depends on the class, what on the seed, and what is written."""

from __future__ import annotations

import csv
import dataclasses
import pathlib

import nibabel as nib
import numpy as np
import pytest
from click.testing import CliRunner

from hetero_mtf.data.volumes import Preprocessing, read_participants, read_scan
from hetero_mtf.errors import DataError
from tools.cohort.atrophy import NO_ATROPHY
from tools.cohort.scanner import draw_scanner
from tools.cohort.study import ILL, NOISE, SCANNER, WELL, Study, draw_scan, draw_subjects, write_study
from tools.cohort.template import load_template
from tools.make_cohort import main

SMALL = Study(subjects=6, size=20, seed=1)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_study(dataclasses.replace(SMALL, sessions=2), tmp_path_factory.mktemp("study"))


@pytest.mark.slow
def test_the_table_lists_every_scan_with_its_class(written: pathlib.Path) -> None:
    people = read_participants(written)
    assert people.classes == (ILL, WELL) and len(people.ids) == 6 and len(people.scans) == 12
    assert sum(people.y == 0) == 6
    assert all(scan.path.is_file() for scan in people.scans)
    assert {scan.session for scan in people.scans} == {"ses-01", "ses-02"}


@pytest.mark.slow
def test_truth_says_what_the_ill_have_lost_and_where(written: pathlib.Path) -> None:
    with (written.parent / "truth.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    labels = {scan.participant: scan.label for scan in read_participants(written).scans}
    for row in rows:
        assert row["diagnosis"] == labels[row["participant_id"]]
        assert (float(row["loss"]) > 0) == bool(row["regions"]) == bool(row["centres_mm"]) == (row["diagnosis"] == ILL)


@pytest.mark.slow
def test_all_scans_show_the_brain_in_the_middle_whatever_their_header(written: pathlib.Path) -> None:
    people = read_participants(written)
    steps = Preprocessing((24, 24, 24), spacing_mm=(8, 8, 8), normalisation="minmax")
    seen = np.stack([read_scan(scan.path, steps).values for scan in people.scans])
    mean = seen.mean(axis=0)
    assert min(np.corrcoef(mean.ravel(), volume.ravel())[0, 1] for volume in seen) > 0.75
    headers = [nib.load(scan.path) for scan in people.scans]
    assert len({nib.aff2axcodes(h.affine) for h in headers}) > 4 and len({h.header.get_data_dtype().name for h in headers}) == 3
    assert len({tuple(h.shape) for h in headers}) > 8


@pytest.mark.slow
def test_every_data_type_keeps_the_values_up_to_its_steps(written: pathlib.Path) -> None:
    study, people = dataclasses.replace(SMALL, sessions=2), read_participants(written)
    drawn = {(who.participant, f"ses-{number + 1:02}"): (who, number) for who in draw_subjects(study) for number in (0, 1)}
    steps = {"int16": 1 / 32767, "uint8": 1 / 255, "float32": 1e-6}
    for scan in people.scans:
        subject, number = drawn[scan.participant, str(scan.session)]
        exact = dataclasses.replace(draw_scanner(study.stream(subject.index, number, SCANNER), study.size), dtype="float32")
        t1 = subject.anatomy.t1(load_template(), exact.points())
        values = np.asarray(exact.image(t1, study.stream(subject.index, number, NOISE)).dataobj)
        kept = nib.load(scan.path)
        np.testing.assert_allclose(kept.get_fdata(), values, atol=0.51 * values.max() * steps[kept.get_data_dtype().name])


@pytest.mark.slow
def test_a_seed_gives_the_same_files_again_and_another_seed_others(written: pathlib.Path, tmp_path: pathlib.Path) -> None:
    again = write_study(dataclasses.replace(SMALL, sessions=2), tmp_path / "again")
    for path in sorted(p for p in written.parent.rglob("*") if p.is_file()):
        assert (again.parent / path.relative_to(written.parent)).read_bytes() == path.read_bytes()
    other = next(iter(draw_subjects(dataclasses.replace(SMALL, seed=2))))
    assert other.anatomy.age != next(iter(draw_subjects(SMALL))).anatomy.age


@pytest.mark.slow
def test_only_the_atrophy_depends_on_the_class() -> None:
    for subject in draw_subjects(SMALL):
        healthy = dataclasses.replace(subject, anatomy=dataclasses.replace(subject.anatomy, atrophy=NO_ATROPHY))
        (scan, ending), (other, other_ending) = draw_scan(SMALL, subject, 0), draw_scan(SMALL, healthy, 0)
        assert ending == other_ending and scan.get_data_dtype() == other.get_data_dtype()
        np.testing.assert_array_equal(scan.affine, other.affine)
        same = np.array_equal(np.asarray(scan.dataobj), np.asarray(other.dataobj))
        assert same == (subject.label == WELL)


@pytest.mark.slow
def test_without_strength_the_ill_are_as_the_well() -> None:
    study = dataclasses.replace(SMALL, strength=0.0)
    for subject in draw_subjects(study):
        healthy = dataclasses.replace(subject, anatomy=dataclasses.replace(subject.anatomy, atrophy=NO_ATROPHY))
        scan, other = (np.asarray(draw_scan(study, who, 0)[0].dataobj) for who in (subject, healthy))
        np.testing.assert_array_equal(scan, other)


@pytest.mark.slow
def test_atrophy_darkens_and_more_strength_darkens_more() -> None:
    def brightness(strength: float) -> float:
        study = dataclasses.replace(SMALL, strength=strength)
        ill = [subject for subject in draw_subjects(study) if subject.label == ILL]
        points = draw_scanner(study.stream(0, 0, SCANNER), study.size).points()
        return float(np.mean([subject.anatomy.t1(load_template(), points).mean() for subject in ill]))

    assert brightness(0.0) > brightness(0.5) > brightness(1.0)


@pytest.mark.slow
def test_sessions_show_one_brain_in_different_scanners() -> None:
    subject = next(iter(draw_subjects(SMALL)))
    first, second = (draw_scan(SMALL, subject, session)[0] for session in (0, 1))
    assert not np.array_equal(first.affine, second.affine)


@pytest.mark.slow
@pytest.mark.parametrize(("subjects", "ill"), [(2, 1), (7, 3), (8, 4)])
def test_half_of_the_subjects_are_ill(subjects: int, ill: int) -> None:
    labels = [subject.label for subject in draw_subjects(dataclasses.replace(SMALL, subjects=subjects))]
    assert (len(labels), labels.count(ILL)) == (subjects, ill)


def test_figures_out_of_range_are_all_named() -> None:
    with pytest.raises(DataError) as caught:
        Study(1, 0, 8, 1.5, -1)
    assert str(caught.value) == (
        "no cohort can be drawn: subjects is 1: at least 2 are needed; sessions is 0: at least 1 is needed; "
        "size is 8: it is 16 to 128; strength is 1.5: it is 0 to 1; seed is -1: it is 0 or more; give other figures"
    )


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    outcome = CliRunner().invoke(main, [str(tmp_path), "--subjects", "2"])
    assert outcome.exit_code == 1 and f"{tmp_path} is not empty; name a new folder, or empty it" in outcome.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match="cannot write to .*/file/inside: Not a directory; choose another place or free some space"):
        write_study(SMALL, tmp_path / "file" / "inside")


@pytest.mark.slow
def test_the_command_says_how_many_scans_it_wrote_and_where(tmp_path: pathlib.Path) -> None:
    outcome = CliRunner().invoke(main, [str(tmp_path / "new"), "--subjects", "2", "--size", "16", "--seed", "3"])
    assert outcome.exit_code == 0 and outcome.output.startswith("2 scans of 2 subjects in ")
    assert outcome.output.rstrip().endswith("new/participants.tsv")
