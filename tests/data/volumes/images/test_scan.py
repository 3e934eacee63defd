from __future__ import annotations

import pathlib

import nibabel
import numpy as np
import pytest

from hetero_mtf.data.volumes import Preprocessing, read_scan, to_scan_space
from hetero_mtf.data.volumes.images.scan import read_foreground
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import AFFINE, SHAPE, numbers, with_qform, write_scan

PLAIN = {"normalisation": "none"}


def oblique() -> np.ndarray:
    angle = np.radians(15)
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    affine = turn @ np.array([[0, 0, 2.0, -9], [-2.0, 0, 0, 8], [0, 2.5, 0, 1], [0, 0, 0, 1]])
    return affine


def smooth(shape=(20, 22, 24)) -> np.ndarray:
    grids = np.meshgrid(*(np.linspace(0, 3, size) for size in shape), indexing="ij")
    return (100 * (np.sin(grids[0]) + np.cos(grids[1]) * grids[2]) + 400).astype(np.float32)


def test_a_scan_that_fits_already_is_handed_over_as_it_is(tmp_path: pathlib.Path) -> None:
    volume = read_scan(write_scan(tmp_path / "a b.nii.gz"), Preprocessing(SHAPE, **PLAIN))
    np.testing.assert_array_equal(volume.values, numbers())
    np.testing.assert_array_equal(volume.affine, AFFINE)
    assert volume.values.dtype == np.float32 and volume.notes == ()


def test_all_notes_are_there_in_the_order_of_the_steps(tmp_path: pathlib.Path) -> None:
    values = numbers((*SHAPE, 2)).astype(np.float32)
    values[0, 0, 0, 0] = np.nan
    volume = read_scan(write_scan(tmp_path / "a.nii", values, np.diag([-2, 2, 2, 1])), Preprocessing((8, 9, 9), volume=0))
    assert volume.notes == (
        "took volume 0 of 2",
        "set 1 NaN or infinite voxels to 0 (0.14%)",
        "turned from LAS to RAS",
        "cropped by 0 x 0 x 1 voxels",
    )


def test_the_mask_of_what_is_not_zero_is_taken_before_interpolation(tmp_path: pathlib.Path) -> None:
    values = np.zeros((16, 16, 16), np.float32)
    values[4:12, 4:12, 4:12] = numbers((8, 8, 8))
    steps = Preprocessing((16, 16, 16), (1.7, 1.7, 1.7), mask="nonzero", interpolation=3)
    made = read_scan(write_scan(tmp_path / "a.nii", values), steps).values
    kept = made != 0
    assert 0.8 < kept.sum() / (8 * 2 / 1.7) ** 3 < 1.3 and not kept[0].any()
    assert abs(made[kept].mean()) < 1e-5 and abs(made[kept].std() - 1) < 1e-5


def test_the_head_is_kept_by_otsu(tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(0).normal(0, 1, (16, 16, 16)).astype(np.float32)
    values[3:12, 3:12, 3:12] += 100
    made = read_scan(write_scan(tmp_path / "a.nii", values), Preprocessing((16, 16, 16), mask="otsu")).values
    assert (made != 0).sum() == 9**3 and (made[3:12, 3:12, 3:12] != 0).all()


@pytest.mark.parametrize("affine", [AFFINE, np.diag([-2.0, 2, 2, 1])])
def test_a_mask_file_counts_where_it_lies_in_the_scanner(tmp_path: pathlib.Path, affine: np.ndarray) -> None:
    scan = write_scan(tmp_path / "a.nii", affine=affine)
    mask = np.zeros((5, 5, 5), np.uint8)
    mask[1:4, 1:4, 1:4] = 7
    placed = affine.copy()
    placed[:3, 3] = (affine @ [2, 2, 2, 1])[:3]  # the mask's grid begins at the scan's voxel (2, 2, 2)
    made = read_scan(scan, Preprocessing(SHAPE, mask="table", **PLAIN), write_scan(tmp_path / "m.nii", mask, placed)).values
    made = made if affine[0, 0] > 0 else made[::-1]
    expected = np.zeros(SHAPE, np.float32)
    expected[3:6, 3:6, 3:6] = numbers()[3:6, 3:6, 3:6]
    np.testing.assert_array_equal(made, expected)


def test_masks_that_are_missing_empty_or_elsewhere_are_refused(tmp_path: pathlib.Path) -> None:
    scan, steps = write_scan(tmp_path / "a.nii"), Preprocessing(SHAPE, mask="table")
    with pytest.raises(DataError, match="a.nii has no mask, and masks are to come from the table; fill in its column mask, or use another"):
        read_scan(scan, steps)
    empty = write_scan(tmp_path / "empty.nii", np.zeros(SHAPE, np.uint8))
    with pytest.raises(DataError, match="empty.nii is 0 everywhere, a mask of nothing; make the mask of .*a.nii again"):
        read_scan(scan, steps, empty)
    far = AFFINE.copy()
    far[:3, 3] = 500
    with pytest.raises(DataError, match="a.nii has no voxel within its mask and the wanted shape"):
        read_scan(scan, steps, write_scan(tmp_path / "far.nii", np.ones(SHAPE, np.uint8), far))
    with pytest.raises(DataError, match="no.nii does not exist"):
        read_scan(scan, steps, tmp_path / "no.nii")


@pytest.mark.parametrize("shape", [(*SHAPE, 2), (*SHAPE, 1, 2)])
def test_a_mask_of_several_volumes_is_to_be_written_to_a_file_of_its_own(tmp_path: pathlib.Path, shape: tuple[int, ...]) -> None:
    scan, masks = write_scan(tmp_path / "a.nii"), np.zeros(shape, np.uint8)
    masks[2:5, 2:5, 2:5, ..., 1] = 1
    several = write_scan(tmp_path / "masks.nii", masks)
    for volume in (None, 1):  # the option is for scans
        with pytest.raises(DataError, match="masks.nii holds 2 volumes .*; a scan has one mask, write it to a file of its own$") as caught:
            read_scan(scan, Preprocessing(SHAPE, mask="table", volume=volume), several)
        assert "--volume" not in str(caught.value)
    own = write_scan(tmp_path / "mask.nii", masks[..., 1].reshape(SHAPE))
    volume = read_scan(scan, Preprocessing(SHAPE, mask="table", **PLAIN), own)
    assert np.count_nonzero(volume.values) == 27


def test_a_mask_that_is_not_wanted_is_not_looked_at(tmp_path: pathlib.Path) -> None:
    assert read_scan(write_scan(tmp_path / "a.nii"), Preprocessing(SHAPE, **PLAIN), tmp_path / "no.nii").values.all()


def test_faults_name_the_file(tmp_path: pathlib.Path) -> None:
    for values in (np.full(SHAPE, 3, np.int16), np.full(SHAPE, np.nan, np.float32)):
        with pytest.raises(DataError, match=f"^{tmp_path}/a.nii has "):
            read_scan(write_scan(tmp_path / "a.nii", values), Preprocessing(SHAPE))


@pytest.mark.parametrize("affine", [np.diag([2.0, 2, 2, 1]), oblique()])
def test_the_way_into_the_network_and_back_ends_where_it_began(tmp_path: pathlib.Path, affine: np.ndarray) -> None:
    path = write_scan(tmp_path / "a.nii.gz", smooth(), affine)
    volume = read_scan(path, Preprocessing((40, 40, 40), (1.9, 1.9, 1.9), interpolation=3, **PLAIN))
    back = to_scan_space(volume.values, volume.affine, path)
    assert back.shape == smooth().shape
    np.testing.assert_allclose(back.affine, affine, atol=1e-5)
    middle = (slice(5, -5),) * 3
    np.testing.assert_allclose(back.get_fdata()[middle], smooth()[middle], atol=3)
    nibabel.save(back, tmp_path / "back.nii.gz")
    np.testing.assert_allclose(nibabel.load(tmp_path / "back.nii.gz").affine, affine, atol=1e-5)


def test_a_map_of_a_file_with_several_volumes_is_one_volume_and_in_millimetres(tmp_path: pathlib.Path) -> None:
    image = nibabel.Nifti1Image(numbers((*SHAPE, 3)), np.diag([0.002, 0.002, 0.002, 1]))
    image.header.set_xyzt_units("meter")
    nibabel.save(image, tmp_path / "a.nii")
    volume = read_scan(tmp_path / "a.nii", Preprocessing(SHAPE, volume=2, **PLAIN))
    back = to_scan_space(volume.values, volume.affine, tmp_path / "a.nii")
    np.testing.assert_allclose(back.get_fdata(), numbers((*SHAPE, 3))[..., 2], atol=1e-3)
    assert back.header.get_xyzt_units()[0] == "mm" and back.header.get_zooms() == (2, 2, 2)


@pytest.mark.parametrize(("sform", "qform"), [(4, 0), (0, 2), (0, 0), (1, 1)])
def test_a_map_says_in_which_space_it_lies_as_its_scan_does(tmp_path: pathlib.Path, sform: int, qform: int) -> None:
    image = nibabel.Nifti1Image(numbers(), oblique())
    image.set_sform(oblique(), sform)
    image.set_qform(oblique(), qform)
    nibabel.save(image, tmp_path / "a.nii")
    volume = read_scan(tmp_path / "a.nii", Preprocessing(SHAPE))
    back = to_scan_space(volume.values, volume.affine, tmp_path / "a.nii")
    own = nibabel.load(tmp_path / "a.nii").affine
    assert int(back.header["sform_code"]) == (sform or qform or 1) and int(back.header["qform_code"]) == (qform or sform or 1)
    np.testing.assert_allclose(back.get_sform(), own, atol=1e-4)
    np.testing.assert_allclose(back.get_qform(), own, atol=1e-4)


def test_a_scan_of_a_few_voxels_of_the_result_is_refused(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii", affine=np.diag([0.001, 0.5, 0.5, 1]))
    with pytest.raises(DataError, match="a.nii spans 0.008 x 4.5 x 5 voxels of the wanted spacing; correct the voxel sizes"):
        read_scan(path, Preprocessing(SHAPE, (1, 1, 1)))


def test_the_share_of_nan_is_the_steps_own(tmp_path: pathlib.Path) -> None:
    values = numbers().astype(np.float32)
    values[0, 0, 0] = np.nan
    path = write_scan(tmp_path / "a.nii", values)
    assert read_scan(path, Preprocessing(SHAPE, nan_share=0.002)).notes
    with pytest.raises(DataError, match=r"NaN or infinite values in 1 of 720 voxels \(0.1%, allowed are 0.0%\)"):
        read_scan(path, Preprocessing(SHAPE, nan_share=0.0))


def test_values_beyond_float32_are_not_called_infinite_and_both_advices_work(tmp_path: pathlib.Path) -> None:
    values = np.where(numbers() > 900, 1e300, numbers())
    path = write_scan(tmp_path / "a.nii", values)
    with pytest.raises(DataError, match=r"a.nii has values beyond float32 \(3.4e38\) in 82 of 720 .*; scale them down, or .* --nan-share"):
        read_scan(path, Preprocessing(SHAPE))
    assert read_scan(write_scan(tmp_path / "b.nii", values / 1e298), Preprocessing(SHAPE)).notes == ()
    notes = read_scan(path, Preprocessing(SHAPE, nan_share=0.2)).notes
    assert notes == ("values beyond float32 in 82 voxels: taken as infinite", "set 82 NaN or infinite voxels to 0 (11.39%)")
    values[0, 0, :3] = (np.nan, np.inf, 1e300)
    with pytest.raises(DataError, match=r"a.nii has NaN or infinite values, 8\d of them beyond float32 \(3.4e38\), in 8\d of 720"):
        read_scan(write_scan(path, values), Preprocessing(SHAPE))


@pytest.mark.parametrize("sform", [{"sform_code": 0}, {"sform_code": 4, "srow_x": 0}])
def test_a_map_lies_where_the_only_usable_form_of_its_scan_does(tmp_path: pathlib.Path, sform: dict) -> None:
    path = with_qform(write_scan(tmp_path / "a.nii"), 0, 0, 1.0000002, **sform)
    volume = read_scan(path, Preprocessing(SHAPE, **PLAIN))
    nibabel.save(to_scan_space(volume.values, volume.affine, path), tmp_path / "map.nii")
    back = nibabel.load(tmp_path / "map.nii")
    np.testing.assert_allclose(back.get_fdata(), numbers(), atol=1e-3)
    for affine, code in (back.get_sform(coded=True), back.get_qform(coded=True)):
        np.testing.assert_allclose(affine, np.diag([-2, -2, 2, 1]), atol=1e-6)
        assert code == 1


def test_a_map_beyond_the_result_is_zero_and_a_map_must_be_a_volume(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii")
    volume = read_scan(path, Preprocessing((4, 9, 10), **PLAIN))
    back = to_scan_space(volume.values, volume.affine, path).get_fdata()
    np.testing.assert_array_equal(back[2:6], numbers()[2:6])
    assert (back[[0, 1, 6, 7]] == 0).all()
    with pytest.raises(DataError, match=r"values of shape \(4, 9, 10, 1\) are no volume; hand over an array of shape \(D, H, W\)"):
        to_scan_space(volume.values[..., None], volume.affine, path)


def test_the_foreground_is_the_mask_of_the_table_else_what_the_steps_compute_whether_they_mask_or_not(tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(0).normal(0, 1, (16, 16, 16)).astype(np.float32)
    values[3:12, 3:12, 3:12] += 100
    values[14, 14, 14] = 1000
    head = np.zeros((16, 16, 16), bool)
    head[3:12, 3:12, 3:12] = True
    half = np.arange(16)[:, None, None] * np.ones((16, 16, 16)) < 8
    path = write_scan(tmp_path / "a.nii", values, np.diag([-2.0, 2, 2, 1]))
    mask = write_scan(tmp_path / "m.nii", half.astype(np.uint8), np.diag([-2.0, 2, 2, 1]))
    for kind in ("none", "otsu", "table"):
        found = read_foreground(path, Preprocessing((16, 16, 16), mask=kind))
        np.testing.assert_array_equal(found.own, head)
        np.testing.assert_array_equal(found.fitted, head[::-1])
        assert found.source == "the head by Otsu's threshold"
        named = read_foreground(path, Preprocessing((16, 16, 16), mask=kind), mask)
        np.testing.assert_array_equal(named.own, half)
        np.testing.assert_array_equal(named.fitted, half[::-1])
        assert named.source == "the table's mask"
    assert read_foreground(path, Preprocessing((16, 16, 16)), tmp_path / "gone.nii").source == "the head by Otsu's threshold"
    every = read_foreground(path, Preprocessing((8, 8, 20), mask="nonzero"))
    assert every.own.all() and every.fitted.shape == (8, 8, 20) and every.fitted.sum() == 8 * 8 * 16


def test_a_map_in_the_scan_s_space_is_0_outside_what_is_given(tmp_path: pathlib.Path) -> None:
    path, inside = write_scan(tmp_path / "a.nii.gz"), np.zeros(SHAPE, bool)
    inside[2:5, 1:4, 3:9] = True
    made = to_scan_space(np.ones((4, 4, 5)), np.diag([4.0, 4, 4, 1]), path, inside).get_fdata()
    assert made[inside].max() == 1 and not made[~inside].any()
