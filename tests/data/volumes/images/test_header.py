"""What a header says of its voxels is taken as NIfTI defines it, or the field that is wrong is named."""

from __future__ import annotations

import gzip
import pathlib
from typing import Any

import nibabel
import numpy as np
import pytest

from hetero_mtf.data.volumes.images.nifti import read_nifti
from tests.data.volumes.nifti_files import AFFINE, SHAPE, numbers, refused, with_fields, write_scan

NAN, INFINITY = float("nan"), float("inf")
THREE = [3, *SHAPE, 1, 1, 1, 1]
KINDS = {"nifti1": nibabel.Nifti1Image, "nifti2": nibabel.Nifti2Image}


@pytest.mark.parametrize("kind", KINDS)
def test_voxels_begin_behind_the_header_whatever_lower_byte_it_states(tmp_path: pathlib.Path, kind: str) -> None:
    least = KINDS[kind].header_class.single_vox_offset
    for offset in (0, 1, 348, least - 1, -10):
        nibabel.save(KINDS[kind](numbers(), AFFINE), tmp_path / "a.nii")
        path = with_fields(tmp_path / "a.nii", vox_offset=offset)
        (tmp_path / "b.nii.gz").write_bytes(gzip.compress(path.read_bytes()))
        for volume in (read_nifti(path), read_nifti(tmp_path / "b.nii.gz")):
            np.testing.assert_array_equal(volume.values, numbers())
            assert volume.notes == (f"vox_offset of the header is {offset}: taken as {least}",)


REFUSED: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "fraction": ({"vox_offset": 352.5}, "from byte 352.5 on by its header (vox_offset), no whole number", {"vox_offset": 352}),
    "nan": ({"vox_offset": NAN}, "from byte nan on by its header (vox_offset), no whole number", {"vox_offset": 352}),
    "infinite": ({"vox_offset": INFINITY}, "from byte inf on by its header (vox_offset), no whole number", {"vox_offset": 352}),
    "beyond": ({"vox_offset": 1e6}, "from byte 1000000 on by its header (vox_offset), beyond its end", {"vox_offset": 352}),
    "none": ({"dim": [0, *SHAPE, 1, 1, 1, 1]}, "0 dimensions in its header (dim[0]), and NIfTI has 1 to 7", {"dim": THREE}),
    "eight": ({"dim": [8, *SHAPE, 1, 1, 1, 1]}, "8 dimensions in its header (dim[0])", {"dim": THREE}),
    "below 0": ({"dim": [-3, *SHAPE, 1, 1, 1, 1]}, "-3 dimensions in its header (dim[0])", {"dim": THREE}),
    "negative": ({"dim": [3, 8, -9, 10, 1, 1, 1, 1]}, "the shape 8 x -9 x 10, without voxels", {"dim": THREE}),
    "count": ({"dim": [4, *SHAPE, -1, 1, 1, 1]}, "the shape 8 x 9 x 10 x -1, without voxels", {"dim": [4, *SHAPE, 1, 1, 1, 1]}),
    "magic": ({"magic": b"xyz"}, "has the magic b'xyz' in its header where NIfTI has b'n+1'", {"magic": b"n+1"}),
    "no type": ({"datatype": 0}, "the datatype code 0, which are not read; convert it to int16", {"datatype": 4}),
    "bits": ({"datatype": 1}, "the datatype code 1, which are not read; convert it to int16", {"datatype": 4}),
    "type": ({"datatype": 9999}, "the datatype code 9999, which are not read; convert it to int16", {"datatype": 4}),
    "intercept": ({"scl_slope": 1, "scl_inter": INFINITY}, "its intercept (scl_inter) is inf, with", {"scl_inter": 0}),
    "no intercept": ({"scl_slope": 1, "scl_inter": NAN}, "its intercept (scl_inter) is nan, with", {"scl_inter": 0}),
}


@pytest.mark.parametrize(("fields", "message", "corrected"), REFUSED.values(), ids=REFUSED)
def test_a_field_that_cannot_be_is_named_and_the_file_is_read_once_it_is_corrected(
    tmp_path: pathlib.Path, fields: dict[str, Any], message: str, corrected: dict[str, Any]
) -> None:
    path = with_fields(write_scan(tmp_path / "a.nii"), **fields)
    assert message in refused(path) and "; " in refused(path)
    np.testing.assert_array_equal(read_nifti(with_fields(path, **corrected)).values, numbers())


NOTED: dict[str, tuple[dict[str, Any], str]] = {
    "fourth": ({"dim": [4, *SHAPE, 0, 1, 1, 1]}, "dim[4] of the header is 0: taken as 1"),
    "seventh": ({"dim": [7, *SHAPE, 1, 1, 1, 0]}, "dim[7] of the header is 0: taken as 1"),
    "bits": ({"bitpix": 32}, "bitpix of the header is 32, and int16 has 16: int16 taken"),
    "slope": ({"scl_slope": INFINITY}, "scl_slope of the header is inf: values taken as they are stored"),
    "pair": ({"magic": b"ni1"}, "magic of the header is ni1, of a pair of files: voxels taken from this one, where it says"),
}


@pytest.mark.parametrize(("fields", "note"), NOTED.values(), ids=NOTED)
def test_a_field_that_leaves_no_doubt_about_the_voxels_is_noted(tmp_path: pathlib.Path, fields: dict[str, Any], note: str) -> None:
    volume = read_nifti(with_fields(write_scan(tmp_path / "a.nii"), **fields))
    np.testing.assert_array_equal(volume.values, numbers())
    assert volume.notes[0] == note


@pytest.mark.parametrize("slope, intercept", [(NAN, 0), (0, 5), (0, NAN), (NAN, NAN)])
def test_a_slope_that_is_not_set_is_no_scaling_and_no_note(tmp_path: pathlib.Path, slope: float, intercept: float) -> None:
    volume = read_nifti(with_fields(write_scan(tmp_path / "a.nii"), scl_slope=slope, scl_inter=intercept))
    np.testing.assert_array_equal(volume.values, numbers())
    assert not volume.notes


@pytest.mark.parametrize("length", [17, -1, 2**20])
def test_extensions_are_not_read_so_that_damaged_ones_do_not_matter(tmp_path: pathlib.Path, length: int) -> None:
    content = write_scan(tmp_path / "a.nii").read_bytes()
    extension = b"\x01\0\0\0" + np.array([length, 6], "<i4").tobytes() + bytes(24)
    (tmp_path / "a.nii").write_bytes(content[:348] + extension + content[352:])
    volume = read_nifti(with_fields(tmp_path / "a.nii", vox_offset=384))
    np.testing.assert_array_equal(volume.values, numbers())
    assert not volume.notes


def test_a_header_that_is_cut_off_says_so(tmp_path: pathlib.Path) -> None:
    path = write_scan(tmp_path / "a.nii")
    path.write_bytes(path.read_bytes()[:200])
    assert "is cut off within its header, after 200 of 348 bytes; copy or convert it again" in refused(path)


def test_a_transfer_as_text_is_named_by_the_header_of_version_2(tmp_path: pathlib.Path) -> None:
    nibabel.save(nibabel.Nifti2Image(numbers(), AFFINE), tmp_path / "a.nii")
    assert "data may be corrupted by EOL conversion" in refused(with_fields(tmp_path / "a.nii", eol_check=(10, 10, 26, 10)))
