"""Small NIfTI files and tables for the tests of volumes."""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Sequence
from typing import Any

import nibabel
import numpy as np
import pytest

from hetero_mtf.data.volumes.images.nifti import read_nifti
from hetero_mtf.errors import DataError

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
SHAPE = (8, 9, 10)
HEADER = ("participant_id", "diagnosis", "path")


def numbers(shape: Sequence[int] = SHAPE, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, 1000, tuple(shape)).astype(np.int16)


def write_scan(path: pathlib.Path, values: np.ndarray | None = None, affine: np.ndarray | None = AFFINE, seed: int = 0) -> pathlib.Path:
    values = numbers(seed=seed) if values is None else values
    nibabel.save(nibabel.Nifti1Image(values, affine), path)
    return path


def write_table(folder: pathlib.Path, *rows: Sequence[str], header: Sequence[str] = HEADER) -> pathlib.Path:
    path = folder / "participants.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in (header, *rows)))
    return path


def write_cohort(folder: pathlib.Path, count: int = 4) -> pathlib.Path:
    for number in range(count):
        write_scan(folder / f"{number}.nii.gz", seed=number)
    return write_table(folder, *((f"sub-{number:02d}", "AD" if number % 2 else "NC", f"{number}.nii.gz") for number in range(count)))


def refused(path: pathlib.Path, **options: Any) -> str:
    """Return why a file is not read."""
    with pytest.raises(DataError) as caught:
        read_nifti(path, **options)
    return str(caught.value)


def with_fields(path: pathlib.Path, **fields: Any) -> pathlib.Path:
    """Change fields of the header of an unpacked file of either version and byte order, whatever their values."""
    content = path.read_bytes()
    order = "<" if struct.unpack("<i", content[:4])[0] in (348, 540) else ">"
    kind = nibabel.Nifti2Header if struct.unpack(f"{order}i", content[:4])[0] == 540 else nibabel.Nifti1Header
    header = kind(content[: kind.sizeof_hdr], order, check=False)
    for name, value in fields.items():
        header.structarr[name] = value
    path.write_bytes(header.binaryblock + content[kind.sizeof_hdr :])
    return path


def with_qform(path: pathlib.Path, *quaternion: float, sform_code: int = 0, **fields: Any) -> pathlib.Path:
    """Give an unpacked file a qform with (b, c, d) of a quaternion, and an sform of a code."""
    bcd = dict(zip(("quatern_b", "quatern_c", "quatern_d"), quaternion or (0.0, 0.0, 0.0)))
    return with_fields(path, qform_code=1, sform_code=sform_code, **{**bcd, **fields})
