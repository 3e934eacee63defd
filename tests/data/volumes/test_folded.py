from __future__ import annotations

import pathlib

import pytest

from hetero_mtf.data.volumes import Augmentation, ClassWeight, CohortOptions, Preprocessing, VolumeCache, VolumeRequest, open_volumes
from hetero_mtf.data.volumes.cohort.fold_choice import FoldChoice
from hetero_mtf.data.volumes.folded import FoldedVolumes, folded
from tests.data.volumes.nifti_files import HEADER, SHAPE, write_cohort, write_scan, write_table


def opened(table: pathlib.Path, weight: ClassWeight) -> FoldedVolumes:
    choice, cache = FoldChoice(3), VolumeCache(None, Preprocessing(SHAPE))
    request = VolumeRequest(str(table), cache, CohortOptions(), choice, Augmentation(flip=True), class_weight=weight)
    return folded(open_volumes(request), choice, weight)


def test_each_fold_has_its_own_parts_and_shares_all_else(tmp_path: pathlib.Path) -> None:
    volumes = opened(write_cohort(tmp_path, 12), ClassWeight())
    tested = [who for number in (1, 2, 3) for who in volumes.fold(number).part("test").ids]
    assert sorted(tested) == sorted(volumes.participants.ids)
    assert volumes.split == volumes.fold(1).split and volumes.fold(2).split.fold == 2
    for number in (1, 2, 3):
        own = volumes.fold(number)
        assert type(own).__name__ == "VolumeData" and own.cache is volumes.cache and own.augmentation.flip
        assert not set(own.part("train").ids) & set(own.part("test").ids) and own.record.split == own.split


def test_the_leak_check_of_every_fold_is_told(tmp_path: pathlib.Path) -> None:
    lines = opened(write_cohort(tmp_path, 12), ClassWeight()).lines
    checks = [line for line in lines if "leak check" in line]
    assert [line.partition(":")[0] for line in checks] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]
    assert all("leak check passed" in line for line in checks)


def test_balanced_weights_follow_from_who_is_trained_on_in_each_fold(tmp_path: pathlib.Path) -> None:
    for number in range(11):
        write_scan(tmp_path / f"{number}.nii", seed=number)
    rows = [(f"sub-{n:02d}", "AD" if n < 4 else "NC", f"{n}.nii") for n in range(11)]
    volumes = opened(write_table(tmp_path, *rows, header=HEADER), ClassWeight(balanced=True))
    for number in (1, 2, 3):
        labels = [scan.label for scan in volumes.fold(number).part("train").scans]
        expected = [len(labels) / (2 * labels.count(name)) for name in ("AD", "NC")]
        assert volumes.fold(number).class_weight == pytest.approx(expected)
    assert len(set(volumes.weights)) > 1
