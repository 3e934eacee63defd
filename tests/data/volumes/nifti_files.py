"""Small NIfTI files and tables for the tests of volumes."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import nibabel
import numpy as np

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
