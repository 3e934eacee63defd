from __future__ import annotations

import gzip
import logging
import os
import pathlib
import zipfile

import nibabel
import numpy as np
import pytest

from hetero_mtf.data.volumes.images import nifti
from hetero_mtf.data.volumes.images.nifti import read_grid, read_nifti
from tests.data.volumes.nifti_files import AFFINE, SHAPE, numbers, refused, with_fields, write_scan


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
    np.testing.assert_array_equal(read_nifti(with_fields(path, scl_slope=0.5, scl_inter=-3)).values, numbers() * 0.5 - 3)
    np.testing.assert_array_equal(read_nifti(with_fields(path, scl_slope=0, scl_inter=7)).values, numbers())
    assert "is not a sound NIfTI file" in refused(with_fields(path, scl_slope=1, scl_inter=float("inf")))


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
        ((4, 4, 4, 2, 3), "has the 5 dimensions 4 x 4 x 4 x 2 x 3; a scan has three, take one volume of it into a file of its own"),
    ],
)
def test_other_than_three_dimensions_are_refused(tmp_path: pathlib.Path, shape: tuple[int, ...], message: str) -> None:
    path = write_scan(tmp_path / "a.nii.gz", numbers(shape))
    assert message in refused(path) and message in refused(path, volume=0)


def test_five_dimensions_that_hold_one_volume_are_three(tmp_path: pathlib.Path) -> None:
    assert read_nifti(write_scan(tmp_path / "a.nii", numbers((*SHAPE, 1, 1)))).values.shape == SHAPE


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_volumes_along_any_one_later_axis_are_chosen_by_the_option_that_the_message_names(tmp_path: pathlib.Path, name: str) -> None:
    values = numbers((*SHAPE, 1, 5))
    path = write_scan(tmp_path / name, values)
    assert "holds 5 volumes (8 x 9 x 10 x 1 x 5); take one of them with --volume 0 (volume=0)" in refused(path)
    for number in (0, 4):
        np.testing.assert_array_equal(read_nifti(path, number).values, values[..., 0, number])
    assert "they count from 0" in refused(path, volume=5)


@pytest.mark.parametrize(
    "values",
    [numbers() * 1e-60, numbers() * 1e-3 + 1e9, numbers().astype(np.int64) + 2**60, np.where(numbers() < 9, np.nan, numbers() * 1e-60)],
    ids=["tiny", "offset", "int64", "nan"],
)
def test_values_that_float32_does_not_tell_apart_are_read_once_they_are_scaled(tmp_path: pathlib.Path, values: np.ndarray) -> None:
    nibabel.save(nibabel.Nifti1Image(values, AFFINE, dtype=values.dtype), tmp_path / "a.nii")
    message = refused(tmp_path / "a.nii")
    assert str(np.nanmin(values)) in message and str(np.nanmax(values)) in message and "; shift and scale them into 0 to 1" in message
    low, high = np.nanmin(values), np.nanmax(values)
    scaled = read_nifti(write_scan(tmp_path / "b.nii", (values - low) / (high - low))).values
    assert np.nanmin(scaled) == 0 and np.nanmax(scaled) == 1 and len(np.unique(scaled)) > 100


@pytest.mark.parametrize("slope", [1.0, 0.37])
def test_scaled_values_are_those_of_nibabel(tmp_path: pathlib.Path, slope: float) -> None:
    for dtype in (">f4", "<f8", ">i2", "<i4"):
        values = numbers((*SHAPE, 2)).astype(dtype)
        header = nibabel.Nifti1Header(endianness=dtype[0])
        nibabel.save(nibabel.Nifti1Image(values, AFFINE, header, dtype=values.dtype), tmp_path / "a.nii")
        path = with_fields(tmp_path / "a.nii", scl_slope=slope, scl_inter=-2)
        np.testing.assert_array_equal(read_nifti(path, 1).values, np.asarray(nibabel.load(path).dataobj[..., 1], np.float32))


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
    assert refused(tmp_path / "two.nii" / "a.nii").endswith("two.nii/a.nii does not exist; correct the path in the table")


@pytest.mark.parametrize(("name", "written_as"), [("a.nii", "b.nii.gz"), ("a.nii.gz", "b.nii")])
def test_a_file_whose_name_and_packing_differ_is_read_under_the_name_that_the_message_gives(
    tmp_path: pathlib.Path, name: str, written_as: str
) -> None:
    path = write_scan(tmp_path / written_as).rename(tmp_path / name)
    wrong, _, new_name = refused(path).rpartition("; rename it to ")
    assert "gzipped and named " in wrong and new_name != name
    np.testing.assert_array_equal(read_nifti(path.rename(tmp_path / new_name)).values, numbers())


def test_a_file_that_was_packed_twice_is_read_after_it_was_unpacked_once(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.nii.gz"
    once = write_scan(path).read_bytes()
    for name in ("a.nii.gz", "a.nii.gz.gz"):
        (tmp_path / name).write_bytes(gzip.compress(once))
        assert "a gzip file within a gzip file" in refused(tmp_path / name) and "unpack it once with gunzip" in refused(tmp_path / name)
    path.write_bytes(gzip.decompress(path.read_bytes()))
    np.testing.assert_array_equal(read_nifti(path).values, numbers())


@pytest.mark.parametrize(
    ("content", "kind", "remedy"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "a Git LFS pointer", "git lfs pull"),
        (b"/annex/objects/MD5E-s5--0.nii.gz\n", "a pointer of git-annex", "datalad get"),
        (b"<!DOCTYPE html>\n<html></html>", "an HTML page", "download the file again"),
        (bytes(128) + b"DICM" + bytes(400), "a DICOM file", "dcm2niix"),
        (gzip.compress(bytes(128) + b"DICM" + bytes(400)), "a DICOM file", "dcm2niix"),
    ],
    ids=["lfs", "annex", "html", "dicom", "packed-dicom"],
)
def test_what_is_no_nifti_file_is_named_with_what_to_do(tmp_path: pathlib.Path, content: bytes, kind: str, remedy: str) -> None:
    for name in ("a.nii", "a.nii.gz", "a.dat"):
        (tmp_path / name).write_bytes(content)
        wrong, _, advice = refused(tmp_path / name).partition("; ")
        assert kind in wrong and remedy in advice and "gzip file (" not in wrong


def test_a_link_of_git_annex_without_its_content_says_how_to_get_it(tmp_path: pathlib.Path) -> None:
    link, content = tmp_path / "a.nii", tmp_path / ".git" / "annex" / "objects" / "MD5E-s1--0.nii"
    link.symlink_to(os.path.relpath(content, tmp_path))
    assert "a link of git-annex" in refused(link) and "datalad get" in refused(link)
    content.parent.mkdir(parents=True)
    write_scan(content)
    assert read_nifti(link).values.shape == SHAPE


def test_a_zip_file_is_unpacked_even_a_damaged_one_is_named(tmp_path: pathlib.Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.nii.gz", "w") as archive:
        archive.write(write_scan(tmp_path / "b.nii.gz"), "c.nii.gz")
    assert "is a zip file and not a NIfTI file; unpack it" in refused(tmp_path / "a.nii.gz")
    zipfile.ZipFile(tmp_path / "a.nii.gz").extractall(tmp_path)
    np.testing.assert_array_equal(read_nifti(tmp_path / "c.nii.gz").values, numbers())
    (tmp_path / "a.nii.gz").write_bytes((tmp_path / "a.nii.gz").read_bytes()[:100])
    assert "is a zip file" in refused(tmp_path / "a.nii.gz")


@pytest.mark.parametrize("kind", [nibabel.Nifti1Pair, nibabel.Nifti2Pair, nibabel.AnalyzeImage])
def test_a_header_without_its_voxels_is_one_file_after_conversion(tmp_path: pathlib.Path, kind: type) -> None:
    nibabel.save(kind(numbers(), AFFINE), tmp_path / "a.img")
    content = (tmp_path / "a.hdr").read_bytes()
    (tmp_path / "b.nii").write_bytes(content)
    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(content))
    for name in ("a.hdr", "b.nii", "b.nii.gz"):
        assert "(.hdr" in refused(tmp_path / name) and "; convert header and voxels to one .nii file" in refused(tmp_path / name)
    image = nibabel.load(tmp_path / "a.img")
    nibabel.save(nibabel.Nifti1Image(np.asarray(image.dataobj), image.affine), tmp_path / "c.nii")
    np.testing.assert_array_equal(read_nifti(tmp_path / "c.nii").values, numbers())


def test_a_sound_packed_file_with_too_few_voxels_is_cut_off_in_one_line(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii")
    (tmp_path / "a.nii.gz").write_bytes(gzip.compress(path.read_bytes()[:1000]))
    message = refused(tmp_path / "a.nii.gz")
    assert "is cut off" in message and "unpacked the file has 1000; copy or convert it again" in message and "\n" not in message


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
    with_fields(path, dim=[3, 30000, 30000, 30000, 1, 1, 1, 1])
    assert "has the shape 30000 x 30000 x 30000, more than 536870912 voxels a volume" in refused(path) or "is cut off" in refused(path)
    with_fields(path, dim=[3, 700, 700, 700, 1, 1, 1, 1])
    assert "is cut off: its header says 700 x 700 x 700 of int16, 686000352 bytes, and the file has 1792; copy" in refused(path)
    packed = tmp_path / "a.nii.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert "is cut off: its header says" in refused(packed)
    assert "a.nii" in refused(with_fields(path, dim=[3, 8, -9, 10, 1, 1, 1, 1]))


def test_more_voxels_than_any_scanner_gives_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nifti, "MAX_VOXELS", 100)
    assert "has the shape 8 x 9 x 10, more than 100 voxels a volume" in refused(write_scan(tmp_path / "a.nii"))


def test_what_nibabel_mends_of_a_header_is_noted_and_not_logged(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = with_fields(write_scan(tmp_path / "a.nii"), pixdim=[1, -2, 2, 2, 1, 1, 1, 1])
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
