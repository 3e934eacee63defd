from __future__ import annotations

import gzip
import logging
import os
import pathlib
import struct

import nibabel
import numpy as np
import pytest

from hetero_mtf.data.volumes.images import nifti
from hetero_mtf.data.volumes.images.nifti import read_grid, read_nifti
from hetero_mtf.errors import DataError
from tests.data.volumes.nifti_files import AFFINE, SHAPE, numbers, write_scan

DIM, PIXDIM, SLOPE, UNITS, QFORM_CODE, SFORM = 40, 76, 112, 123, 252, 280  # bytes into a NIfTI-1 header


def refused(path: pathlib.Path, **options) -> str:
    with pytest.raises(DataError) as caught:
        read_nifti(path, **options)
    return str(caught.value)


def patched(path: pathlib.Path, *changes: tuple[int, str, tuple]) -> pathlib.Path:
    """Change fields of an unpacked file's header."""
    content = bytearray(path.read_bytes())
    for offset, form, values in changes:
        struct.pack_into(form, content, offset, *values)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "A B.NII", "A.NII.GZ"])
@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_packed_and_plain_files_of_both_versions_are_read(tmp_path: pathlib.Path, name: str, kind: type) -> None:
    nibabel.save(kind(numbers(), AFFINE), tmp_path / name)
    volume = read_nifti(tmp_path / name)
    assert volume.values.dtype == np.float32 and not volume.notes
    np.testing.assert_array_equal(volume.values, numbers())
    np.testing.assert_allclose(volume.affine, AFFINE)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "float32", "float64", "int64"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_type_and_byte_order_is_read(tmp_path: pathlib.Path, dtype: str, order: str) -> None:
    values = (numbers() % 100).astype(np.dtype(dtype).newbyteorder(order))
    header = nibabel.Nifti1Header(endianness=order)
    header.set_data_dtype(values.dtype)
    nibabel.save(nibabel.Nifti1Image(values, AFFINE, header, dtype=values.dtype), tmp_path / "a.nii")
    np.testing.assert_array_equal(read_nifti(tmp_path / "a.nii").values, numbers() % 100)


def test_slope_and_intercept_are_applied_and_a_slope_of_zero_is_none(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii")
    np.testing.assert_array_equal(read_nifti(patched(path, (SLOPE, "<2f", (0.5, -3)))).values, numbers() * 0.5 - 3)
    np.testing.assert_array_equal(read_nifti(patched(path, (SLOPE, "<2f", (0, 7)))).values, numbers())
    assert "is not a sound NIfTI file" in refused(patched(path, (SLOPE, "<2f", (1, float("inf")))))


def test_values_beyond_float32_become_infinite_without_a_warning(tmp_path: pathlib.Path) -> None:
    values = numbers().astype(np.float64)
    values[0, 0, 0] = 1e300
    assert np.isinf(read_nifti(write_scan(tmp_path / "a.nii", values)).values[0, 0, 0])


def test_a_fourth_dimension_of_one_is_dropped_and_several_volumes_need_a_choice(tmp_path: pathlib.Path) -> None:
    values = numbers((*SHAPE, 3))
    one = read_nifti(write_scan(tmp_path / "one.nii.gz", values[..., :1]))
    np.testing.assert_array_equal(one.values, values[..., 0])
    assert one.notes == ("dropped the dimensions of one beyond the third of 8 x 9 x 10 x 1",)
    path = write_scan(tmp_path / "three.nii.gz", values)
    assert "holds 3 volumes (8 x 9 x 10 x 3); take one of them with --volume 0 (volume=0), or make their mean" in refused(path)
    for number in range(3):
        second = read_nifti(path, number)
        np.testing.assert_array_equal(second.values, values[..., number])
        assert second.notes == (f"took volume {number} of 3",)
    assert "holds 3 volumes and volume 3 was asked for; they count from 0" in refused(path, volume=3)
    assert read_nifti(write_scan(tmp_path / "plain.nii"), 2).notes == ()  # the choice is for files of several only


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((8, 9), "has the shape 8 x 9, a slice and not a volume; take the 3-D series"),
        ((8, 9, 1), "has the shape 8 x 9 x 1, a slice and not a volume"),
        ((8, 9, 1, 5), "has the shape 8 x 9 x 1 x 5, a slice and not a volume"),
        ((4, 4, 4, 2, 3), "has the 5 dimensions 4 x 4 x 4 x 2 x 3; a scan has three, take one volume of it"),
    ],
)
def test_other_than_three_dimensions_are_refused(tmp_path: pathlib.Path, shape: tuple[int, ...], message: str) -> None:
    path = write_scan(tmp_path / "a.nii.gz", numbers(shape))
    assert message in refused(path) and message in refused(path, volume=0)


def test_five_dimensions_that_hold_one_volume_are_three(tmp_path: pathlib.Path) -> None:
    assert read_nifti(write_scan(tmp_path / "a.nii", numbers((*SHAPE, 1, 1)))).values.shape == SHAPE


def test_colours_and_complex_numbers_are_refused(tmp_path: pathlib.Path) -> None:
    colours = np.zeros(SHAPE, [("R", "u1"), ("G", "u1"), ("B", "u1")])
    message = "and not one real number a voxel; convert it to a grey volume"
    assert f"holds colours, or other records, {message}" in refused(write_scan(tmp_path / "a.nii", colours))
    assert f"holds complex numbers {message}" in refused(write_scan(tmp_path / "a.nii", np.ones(SHAPE, np.complex64)))


def test_files_that_are_missing_empty_or_of_another_kind_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    assert refused(tmp_path / "no.nii") == f"{tmp_path}/no.nii does not exist; correct the path in the table"
    (tmp_path / "empty.nii.gz").touch()
    assert "empty.nii.gz is empty; copy or convert it again" in refused(tmp_path / "empty.nii.gz")
    (tmp_path / "a.dcm").touch()
    assert "a.dcm is not named .nii or .nii.gz; convert it to NIfTI" in refused(tmp_path / "a.dcm")
    (tmp_path / "f.nii").mkdir()
    assert "f.nii is a folder, not a file; correct the path" in refused(tmp_path / "f.nii")
    os.mkfifo(tmp_path / "p.nii")
    assert "p.nii is a device or pipe, not a file" in refused(tmp_path / "p.nii")
    (tmp_path / "text.nii").write_text("hello" * 100)
    assert "text.nii is not a NIfTI file, it begins with b'hell'" in refused(tmp_path / "text.nii")
    (tmp_path / "two.nii").write_bytes(b"xy")
    assert "it begins with b'xy'" in refused(tmp_path / "two.nii")
    (tmp_path / "text.nii.gz").write_bytes(gzip.compress(b"hello" * 100))
    assert "text.nii.gz is not a NIfTI file" in refused(tmp_path / "text.nii.gz")
    (tmp_path / "plain.nii.gz").write_bytes(write_scan(tmp_path / "a.nii").read_bytes())
    assert "plain.nii.gz is a damaged gzip file (Not a gzipped file" in refused(tmp_path / "plain.nii.gz")
    (tmp_path / "packed.nii").write_bytes(write_scan(tmp_path / "a.nii.gz").read_bytes())
    assert "packed.nii is gzipped and named .nii; rename it to packed.nii.gz" in refused(tmp_path / "packed.nii")


def test_a_file_without_permission_says_so(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_scan(tmp_path / "a.nii")
    monkeypatch.setattr("builtins.open", lambda *args, **options: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert "a.nii: Permission denied; copy or convert it again" in refused(path)


@pytest.mark.parametrize("kept", [2, 100, 347, 351, 400, 1791])
def test_a_plain_file_cut_off_anywhere_is_refused(tmp_path: pathlib.Path, kept: int) -> None:
    path = write_scan(tmp_path / "a.nii")
    assert path.stat().st_size == 1792
    path.write_bytes(path.read_bytes()[:kept])
    assert "; copy or convert it again" in refused(path)


@pytest.mark.parametrize("kept", [1, 5, 20, 400, 0.5, -9, -1])
def test_a_packed_file_cut_off_anywhere_even_in_its_checksum_is_refused(tmp_path: pathlib.Path, kept: float) -> None:
    path = write_scan(tmp_path / "a.nii.gz")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept) if isinstance(kept, float) else kept])
    assert "a.nii.gz" in refused(path)


def test_a_flipped_bit_in_a_packed_file_is_found(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii.gz")
    content = bytearray(path.read_bytes())
    content[-8] ^= 1  # the checksum
    path.write_bytes(content)
    assert "is a damaged gzip file (CRC check failed" in refused(path)


def test_a_header_of_giant_dimensions_is_refused_before_memory_is_taken(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii")
    patched(path, (DIM, "<4h", (3, 30000, 30000, 30000)))
    assert "has the shape 30000 x 30000 x 30000, more than 536870912 voxels a volume" in refused(path) or "is cut off" in refused(path)
    patched(path, (DIM, "<4h", (3, 700, 700, 700)))
    assert "is cut off: its header says 700 x 700 x 700 of int16, 686000352 bytes, and the file has 1792; copy" in refused(path)
    packed = tmp_path / "a.nii.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert "is cut off: its header says" in refused(packed)
    patched(path, (DIM, "<4h", (3, 8, -9, 10)))
    assert "a.nii" in refused(path)


def test_more_voxels_than_any_scanner_gives_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nifti, "MAX_VOXELS", 100)
    assert "has the shape 8 x 9 x 10, more than 100 voxels a volume" in refused(write_scan(tmp_path / "a.nii"))


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
    patched(path, (PIXDIM + 4, "<3f", (0, 0, 0)), (QFORM_CODE, "<h", (1,)))
    np.testing.assert_allclose(read_nifti(path).affine, AFFINE)
    for code in (0, 1):
        patched(path, (QFORM_CODE, "<2h", (code, 0)))
        assert "has voxels of 0 x 0 x 0 mm; correct the voxel sizes in its header" in refused(path)


def test_an_impossible_quaternion_matters_only_without_an_sform(tmp_path: pathlib.Path) -> None:
    path = patched(write_scan(tmp_path / "a.nii"), (QFORM_CODE, "<2h3f", (1, 1, 1, 1, 1)))
    np.testing.assert_allclose(read_nifti(path).affine, AFFINE)
    patched(path, (QFORM_CODE, "<2h", (1, 0)))
    assert "a.nii is not a sound NIfTI file (" in refused(path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((float("nan"), 0, 0, 0), "has an affine with NaN or infinite entries; correct its sform"),
        ((0, 2, 0, 0), "has voxels of 0 x 2.82843 x 2 mm; correct the voxel sizes"),
        ((1e6, 0, 0, 0), "has voxels of 1e+06 x 2 x 2 mm"),
    ],
)
def test_an_affine_that_cannot_be_is_refused(tmp_path: pathlib.Path, row: tuple[float, ...], message: str) -> None:
    assert message in refused(patched(write_scan(tmp_path / "a.nii"), (SFORM, "<4f", row)))


def test_axes_in_one_plane_are_refused(tmp_path: pathlib.Path) -> None:
    path = patched(write_scan(tmp_path / "a.nii"), (SFORM, "<8f", (2, 2, 0, 0, 2, 2, 0, 0)))
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
    volume = read_nifti(patched(write_scan(tmp_path / "a.nii"), (UNITS, "<B", (7,))))
    assert volume.notes == ("the header's unit is none of NIfTI: taken as mm",)
    np.testing.assert_allclose(volume.affine, AFFINE)


def test_what_nibabel_mends_of_a_header_is_noted_and_not_logged(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = patched(write_scan(tmp_path / "a.nii"), (PIXDIM + 4, "<3f", (-2, 2, 2)))
    with caplog.at_level(logging.DEBUG):
        volume = read_nifti(path)
    assert volume.notes == ("header corrected: pixdim[1,2,3] should be positive; setting to abs of pixdim values",)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG):
        nibabel.load(path)
    assert caplog.records


def test_the_grid_is_read_without_the_voxels(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii.gz", numbers((*SHAPE, 3)))
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    shape, affine, header = read_grid(path)
    assert shape == SHAPE and header.get_data_shape() == (*SHAPE, 3)
    np.testing.assert_allclose(affine, AFFINE)
