"""Of the two positions that a header may state, a usable one is taken, and a message blames the part that is wrong."""

from __future__ import annotations

import pathlib
from typing import Any

import nibabel
import numpy as np
import pytest

from hetero_mtf.data.volumes.images.nifti import read_grid, read_nifti
from tests.data.volumes.nifti_files import AFFINE, numbers, refused, with_fields, with_qform, write_scan

NAN, INFINITY = float("nan"), float("inf")
KINDS = {"nifti1": nibabel.Nifti1Image, "nifti2": nibabel.Nifti2Image}


def sizes(*pixdim: float, qfac: float = 1.0) -> list[float]:
    return [qfac, *pixdim, 1, 1, 1, 1]


def scan(folder: pathlib.Path, kind: str = "nifti1", order: str = "<") -> pathlib.Path:
    """Write a scan of one version in one byte order."""
    header = KINDS[kind].header_class(endianness=order)
    nibabel.save(KINDS[kind](numbers(), AFFINE, header), folder / "a.nii")
    return folder / "a.nii"


def test_the_sform_is_taken_where_both_are_set_and_a_difference_is_noted(tmp_path: pathlib.Path) -> None:
    image = nibabel.Nifti1Image(numbers(), AFFINE)
    moved = AFFINE.copy()
    moved[:3, 3] = (3, 0, 4)
    image.set_sform(AFFINE, 1)
    image.set_qform(moved, 1)
    nibabel.save(image, tmp_path / "a.nii")
    volume = read_nifti(tmp_path / "a.nii")
    np.testing.assert_allclose(volume.affine, AFFINE)
    assert volume.notes == ("sform and qform differ by up to 5 mm: sform taken",)
    image.set_sform(None, 0)
    nibabel.save(image, tmp_path / "a.nii")
    volume = read_nifti(tmp_path / "a.nii")
    np.testing.assert_allclose(volume.affine, moved)
    assert not volume.notes


def test_a_header_without_orientation_is_taken_with_a_warning_about_left_and_right(tmp_path: pathlib.Path) -> None:
    image = nibabel.Nifti1Image(numbers(), None)
    image.header.set_zooms((1, 2, 3))
    image.set_sform(None, 0)
    image.set_qform(None, 0)
    nibabel.save(image, tmp_path / "a.nii")
    volume = read_nifti(tmp_path / "a.nii")
    assert volume.notes == (
        "the header has no orientation (sform and qform codes are 0): taken as nibabel does, left and right may be swapped",
    )
    np.testing.assert_allclose(np.abs(np.diag(volume.affine)), [1, 2, 3, 1])


def test_voxel_sizes_of_zero_matter_only_without_an_sform(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii")
    with_fields(path, pixdim=[1, 0, 0, 0, 1, 1, 1, 1], qform_code=1)
    np.testing.assert_allclose(read_nifti(path).affine, AFFINE)
    for code in (0, 1):
        with_fields(path, qform_code=code, sform_code=0)
        assert "has voxels of 0 x 0 x 0 mm; correct the voxel sizes in its header" in refused(path)


def test_an_impossible_quaternion_matters_only_without_an_sform(tmp_path: pathlib.Path) -> None:
    path = with_qform(write_scan(tmp_path / "a.nii"), 1, 1, 1, sform_code=1)
    np.testing.assert_allclose(read_nifti(path).affine, AFFINE)
    with_fields(path, sform_code=0)
    assert "a.nii has a quaternion of the length 1.73205, longer than 1.0001; correct its qform" in refused(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((float("nan"), 0, 0, 0), "has an affine with NaN or infinite entries; correct its sform"),
        ((0, 2, 0, 0), "has voxels of 0 x 2.82843 x 2 mm; correct the voxel sizes"),
        ((1e6, 0, 0, 0), "has voxels of 1e+06 x 2 x 2 mm"),
    ],
)
def test_an_affine_that_cannot_be_is_refused(tmp_path: pathlib.Path, row: tuple[float, ...], message: str) -> None:
    assert message in refused(with_fields(write_scan(tmp_path / "a.nii"), srow_x=row))


def test_axes_in_one_plane_are_refused(tmp_path: pathlib.Path) -> None:
    path = with_fields(write_scan(tmp_path / "a.nii"), srow_x=(2, 2, 0, 0), srow_y=(2, 2, 0, 0))
    assert "has an affine whose axes lie in one plane; correct its sform" in refused(path)


@pytest.mark.parametrize(("unit", "factor"), [("meter", 1000.0), ("micron", 0.001), ("mm", 1.0), ("unknown", 1.0)])
def test_units_of_the_header_become_millimetres(tmp_path: pathlib.Path, unit: str, factor: float) -> None:
    placed = AFFINE.copy()
    placed[:3, 3] = (10, -20, 30)
    image = nibabel.Nifti1Image(numbers(), np.diag([1 / factor] * 3 + [1]) @ placed)
    image.header.set_xyzt_units(unit)
    nibabel.save(image, tmp_path / "a.nii")
    volume = read_nifti(tmp_path / "a.nii")
    np.testing.assert_allclose(volume.affine, placed, rtol=1e-6)
    assert bool(volume.notes) == (factor != 1)


def test_a_unit_nobody_knows_is_noted(tmp_path: pathlib.Path) -> None:
    volume = read_nifti(with_fields(write_scan(tmp_path / "a.nii"), xyzt_units=7))
    assert volume.notes == ("the header's unit is none of NIfTI: taken as mm",)
    np.testing.assert_allclose(volume.affine, AFFINE)


@pytest.mark.parametrize("longer", [2e-7, 9e-5])
@pytest.mark.parametrize("kind, order", [("nifti1", "<"), ("nifti1", ">"), ("nifti2", "<"), ("nifti2", ">")])
def test_a_quaternion_longer_than_one_by_rounding_is_taken_as_one(tmp_path: pathlib.Path, kind: str, order: str, longer: float) -> None:
    direction = np.array([0.6, 0.0, 0.8])
    path = with_qform(scan(tmp_path, kind, order), *direction * (1 + longer), qoffset_x=5)
    volume = read_nifti(path)
    expected = 2 * (2 * np.outer(direction, direction) - np.eye(3))  # by half a turn about the direction, voxels of 2 mm
    np.testing.assert_allclose(volume.affine[:3, :3], expected, atol=1e-6)
    np.testing.assert_array_equal(volume.affine[:3, 3], [5, 0, 0])
    (note,) = volume.notes
    assert note.startswith("quaternion of the header has the length 1.0000") and note.endswith(": taken as 1")
    np.testing.assert_array_equal(read_grid(path)[1], volume.affine)


@pytest.mark.parametrize("kind", KINDS)
def test_a_quaternion_that_is_longer_by_more_is_named_and_read_once_corrected(tmp_path: pathlib.Path, kind: str) -> None:
    path = with_qform(scan(tmp_path, kind), 1.0002)
    assert "has a quaternion of the length 1.0002, longer than 1.0001; correct its qform (quatern_b" in refused(path)
    np.testing.assert_array_equal(read_nifti(with_qform(path, 1.0)).affine, np.diag([2, -2, -2, 1]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_rounding_of_a_quaternion_in_float64_is_not_worth_a_note(tmp_path: pathlib.Path, kind: str) -> None:
    assert read_nifti(with_qform(scan(tmp_path, kind), 1 + 2e-15)).notes == ()


def test_a_quaternion_is_that_of_nibabel_wherever_that_reads_it(tmp_path: pathlib.Path) -> None:
    for number in range(20):
        four = np.random.default_rng(number).normal(size=4)
        path = with_qform(scan(tmp_path), *np.float32(four / np.linalg.norm(four))[1:], pixdim=sizes(1.1, 0.9, 3, qfac=-1))
        np.testing.assert_array_equal(read_nifti(path).affine, nibabel.load(path).affine)


def test_a_quaternion_longer_than_one_is_compared_with_the_sform_too(tmp_path: pathlib.Path) -> None:
    path = with_qform(scan(tmp_path), 0, 0, 1.0000002, sform_code=1)
    volume = read_nifti(path)
    np.testing.assert_array_equal(volume.affine, AFFINE)
    (note,) = volume.notes
    assert note.startswith("sform and qform differ by up to 42.5") and note.endswith("sform taken")


UNUSABLE_SFORMS: dict[str, tuple[dict[str, Any], str]] = {
    "zeros": ({"srow_x": 0, "srow_y": 0, "srow_z": 0}, "voxels of 0 x 0 x 0 mm"),
    "column": ({"srow_x": 0}, "voxels of 0 x 2 x 2 mm"),
    "nan": ({"srow_y": NAN}, "NaN or infinite"),
    "plane": ({"srow_x": (2, 2, 0, 0), "srow_y": (2, 2, 0, 0)}, "axes lie in one plane"),
}


@pytest.mark.parametrize(("fields", "reason"), UNUSABLE_SFORMS.values(), ids=UNUSABLE_SFORMS)
def test_the_qform_is_taken_where_the_sform_cannot_be_used(tmp_path: pathlib.Path, fields: dict[str, Any], reason: str) -> None:
    path = with_qform(scan(tmp_path), sform_code=1, qoffset_x=7, **fields)
    volume = read_nifti(path)
    np.testing.assert_array_equal(volume.affine, [[2, 0, 0, 7], [0, 2, 0, 0], [0, 0, 2, 0], [0, 0, 0, 1]])
    (note,) = volume.notes
    assert note.startswith("unusable sform (") and reason in note and note.endswith(": qform taken")
    _, affine, header = read_grid(path)
    np.testing.assert_array_equal(affine, volume.affine)
    assert (int(header["sform_code"]), int(header["qform_code"])) == (0, 1)


def test_one_fault_of_each_form_are_both_named(tmp_path: pathlib.Path) -> None:
    path = with_qform(scan(tmp_path), 1, 1, 1, sform_code=1, srow_x=NAN)
    message = refused(path)
    assert "NaN or infinite entries in its sform and a quaternion of the length 1.73205" in message
    assert "; correct its sform or correct its qform" in message
    assert read_nifti(with_qform(path, 0, 0, 0, sform_code=1)).notes


FAULTS_OF_QFORM: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "quaternion": ({"quatern_c": NAN}, "a quaternion with NaN or infinite entries; correct its qform (quatern_b", {"quatern_c": 0}),
    "infinite": ({"quatern_c": INFINITY}, "a quaternion with NaN or infinite entries; correct its qform (quatern_b", {"quatern_c": 0}),
    "offset": ({"qoffset_y": NAN}, "an offset with NaN or infinite entries; correct its qform (qoffset_x", {"qoffset_y": 0}),
    "nan": ({"pixdim": sizes(NAN, 2, 2)}, "voxels of nan x 2 x 2 mm; correct the voxel sizes in its header", {"pixdim": sizes(2, 2, 2)}),
    "inf": ({"pixdim": sizes(2, INFINITY, 2)}, "voxels of 2 x inf x 2 mm; correct the voxel sizes in", {"pixdim": sizes(2, 2, 2)}),
    "zero": ({"pixdim": sizes(2, 2, 0)}, "voxels of 2 x 2 x 0 mm; correct the voxel sizes in its header", {"pixdim": sizes(2, 2, 2)}),
}


@pytest.mark.parametrize(("fields", "message", "corrected"), FAULTS_OF_QFORM.values(), ids=FAULTS_OF_QFORM)
def test_a_fault_of_the_qform_is_blamed_on_it_and_a_note_where_the_sform_can_be_used(
    tmp_path: pathlib.Path, fields: dict[str, Any], message: str, corrected: dict[str, Any]
) -> None:
    path = with_qform(scan(tmp_path), **fields)
    assert f"a.nii has {message}" in refused(path)
    volume = read_nifti(with_fields(path, sform_code=1))
    np.testing.assert_array_equal(volume.affine, AFFINE)
    note = volume.notes[-1]
    assert note.startswith("unusable qform (") and message.partition(";")[0] in note and note.endswith(": sform taken")
    np.testing.assert_array_equal(read_nifti(with_fields(path, sform_code=0, **corrected)).affine, AFFINE)


@pytest.mark.parametrize(
    ("qfac", "sign", "noted"), [(1, 1, False), (0, 1, False), (-1, -1, False), (2, 1, True), (-2, -1, True), (NAN, 1, True)]
)
def test_the_sign_of_qfac_counts_and_0_is_1(tmp_path: pathlib.Path, qfac: float, sign: int, noted: bool) -> None:
    volume = read_nifti(with_qform(scan(tmp_path), pixdim=sizes(2, 2, 2, qfac=qfac)))
    np.testing.assert_array_equal(volume.affine, np.diag([2, 2, 2 * sign, 1]))
    assert [note.endswith(f": taken as {sign}") for note in volume.notes] == [True] * noted


@pytest.mark.parametrize("name", ["sform_code", "qform_code"])
def test_a_code_that_is_none_of_nifti_is_a_position_all_the_same(tmp_path: pathlib.Path, name: str) -> None:
    placed = with_fields(scan(tmp_path), qoffset_x=9, srow_x=(2, 0, 0, 9), sform_code=0, qform_code=0)
    volume = read_nifti(with_fields(placed, **{name: 7}))
    assert volume.affine[0, 3] == 9 and volume.notes == (f"{name} 7 is none of NIfTI: taken as 1",)
    assert int(read_grid(placed)[2][name]) == 1


def test_the_unit_of_time_is_none_of_length(tmp_path: pathlib.Path) -> None:
    metres = {"srow_x": (0.002, 0, 0, 0), "srow_y": (0, 0.002, 0, 0), "srow_z": (0, 0, 0.002, 0)}
    volume = read_nifti(with_fields(scan(tmp_path), xyzt_units=1 + 64, **metres))  # 64 is no unit of time
    np.testing.assert_allclose(volume.affine, AFFINE)
    assert volume.notes == ("the header's unit is meter: turned into mm",)
    assert read_nifti(with_fields(scan(tmp_path), xyzt_units=2 + 64)).notes == ()


def test_forms_in_metres_are_compared_in_millimetres(tmp_path: pathlib.Path) -> None:
    metres = {"srow_x": (0.002, 0, 0, 0.005), "srow_y": (0, 0.002, 0, 0), "srow_z": (0, 0, 0.002, 0)}
    path = with_qform(scan(tmp_path), sform_code=1, pixdim=sizes(0.002, 0.002, 0.002), xyzt_units=1, **metres)
    assert read_nifti(path).notes[0] == "sform and qform differ by up to 5 mm: sform taken"


def test_a_wrong_unit_is_named_with_the_voxel_sizes_it_gives(tmp_path: pathlib.Path) -> None:
    path = with_fields(scan(tmp_path), xyzt_units=1)
    assert "voxels of 2000 x 2000 x 2000 mm, its unit is meter; correct the unit (xyzt_units)" in refused(path)
    assert read_nifti(with_fields(path, xyzt_units=2)).notes == ()
