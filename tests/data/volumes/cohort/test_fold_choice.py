from __future__ import annotations

import pathlib

import pytest

from hetero_mtf.data.volumes import Participants, read_participants
from hetero_mtf.data.volumes.cohort.fold_choice import FoldChoice
from hetero_mtf.data.volumes.cohort.splits import k_fold_splits
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import HEADER, write_cohort, write_table


@pytest.fixture
def people(tmp_path: pathlib.Path) -> Participants:
    return read_participants(write_cohort(tmp_path, 12))


@pytest.mark.parametrize("validation", [None, 0.3])
def test_every_participant_is_tested_once_and_never_in_two_parts(people: Participants, validation: float | None) -> None:
    splits = FoldChoice(3, validation, 5).splits(people)
    assert splits == k_fold_splits(people, 3, validation or 0.0, 5) and FoldChoice(3, validation, 5).split(people, people) == splits[0]
    assert sorted(who for split in splits for who in split.test) == sorted(people.ids)
    for split in splits:
        parts = [set(ids) for ids in split.parts.values()]
        assert sum(map(len, parts)) == len(set.union(*parts)) == 12
    assert FoldChoice(3).faults(people) == []


def test_all_sessions_of_a_participant_are_in_one_fold(tmp_path: pathlib.Path) -> None:
    rows = [(f"sub-{n // 2}", f"ses-{n % 2}", "AD" if n // 2 % 2 else "NC", f"{n}.nii") for n in range(24)]
    table = write_table(tmp_path, *rows, header=(HEADER[0], "session", *HEADER[1:]))
    people = read_participants(table)
    for split in FoldChoice(4).splits(people):
        assert len(people.part(split.test).scans) == 2 * len(split.test) and not set(split.test) & set(split.train)


def test_more_folds_than_participants_of_a_class_are_refused(people: Participants) -> None:
    with pytest.raises(
        DataError, match="too few participants for 40 folds, which need 40 of each class: .* 'AD' has 6.*; add some, or ask"
    ):
        FoldChoice(40).splits(people)


def test_a_scan_under_two_names_in_two_folds_is_a_leak_of_one_of_them(people: Participants, tmp_path: pathlib.Path) -> None:
    for number in range(2, 12, 2):
        (tmp_path / f"{number}.nii.gz").write_bytes((tmp_path / "0.nii.gz").read_bytes())
    with pytest.raises(DataError, match=r"fold 1 of 3: leak check FAILED: .* same file, byte for byte .*; leave out one of the rows"):
        FoldChoice(3).splits(people)
