"""Scans: from a file to the array a network sees, and from such an array back to the file's own space."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

import nibabel
import numpy as np
from nibabel import processing

from hetero_mtf.data.array import Array
from hetero_mtf.data.volumes.images.intensity import head, normalised, without_nan
from hetero_mtf.data.volumes.images.nifti import Volume, read_grid, read_nifti
from hetero_mtf.data.volumes.images.preprocessing import Preprocessing
from hetero_mtf.data.volumes.images.target_grid import fit_grid, fitted
from hetero_mtf.errors import DataError

_SOURCES = {"table": "the table's mask", "nonzero": "the voxels that are not 0", "otsu": "the head by Otsu's threshold"}
_ONE_MASK = "a scan has one mask, write it to a file of its own"
LEAST_EXTENT = 2  # voxels; below, a scan is a few dots, and the unit in its header wrong


@dataclasses.dataclass(frozen=True)
class Foreground:
    """Which voxels of a scan are of the head, or of what its mask keeps.

    Parameters
    ----------
    own : array of bool on the scan's own grid.
    fitted : (D, H, W) array of bool on the grid of `read_scan`'s result.
    source : what it comes from, for a log.
    """

    own: Array
    fitted: Array
    source: str


def read_scan(path: str | os.PathLike[str], steps: Preprocessing, mask: str | os.PathLike[str] | None = None) -> Volume:
    """Return a scan as a network sees it.

    Parameters
    ----------
    path : a .nii or .nii.gz file.
    steps : what to do with it.
    mask : the file of its mask, not 0 where the scan counts; needed if and only if `steps.mask` is "table".

    Returns
    -------
    Volume with values of shape `steps.shape`, without a channel axis, and with notes of all that was not plain.

    Raises
    ------
    DataError
        If the file cannot be read or holds no picture, or nothing of it is within the mask and the shape.
    """
    source = pathlib.Path(path)
    volume = read_nifti(source, steps.volume)
    values, replaced = without_nan(volume.values, steps.nan_share, str(source), volume.beyond)
    fit = fit_grid(values.shape, volume.affine, steps)
    if fit.extent.min() < LEAST_EXTENT:
        spans = " x ".join(f"{voxels:.2g}" for voxels in fit.extent)
        raise DataError(f"{source} spans {spans} voxels of the wanted spacing", "correct the voxel sizes in its header, or the spacing")
    result = fitted(values, fit, steps.interpolation)
    inside = np.isfinite(result)
    in_mask = _mask(source, values, volume.affine, steps, mask)
    if in_mask is not None:
        inside &= fitted(in_mask.astype(np.float32), fit, order=0, outside=0.0) > 0.5
    intensities = normalised(result, inside, in_mask is not None, steps.normalisation, str(source))
    return Volume(intensities, fit.affine, (*volume.notes, *replaced, *fit.notes))


def _mask(source: pathlib.Path, values: Array, affine: Array, steps: Preprocessing, path: str | os.PathLike[str] | None) -> Array | None:
    """Return which voxels of a scan count, on its own grid, or None for all."""
    if steps.mask == "none":
        return None
    if steps.mask == "nonzero":
        return np.asarray(values != 0)
    if steps.mask == "otsu":
        return head(values)
    if path is None:
        raise DataError(f"{source} has no mask, and masks are to come from the table", "fill in its column mask, or use another mask")
    mask = read_nifti(pathlib.Path(path), several=_ONE_MASK)
    on = (np.nan_to_num(mask.values) != 0).astype(np.float32)
    if not on.any():
        raise DataError(f"{path} is 0 everywhere, a mask of nothing", f"make the mask of {source} again")
    if on.shape != values.shape or not np.allclose(mask.affine, affine, atol=1e-3):
        moved = processing.resample_from_to(nibabel.Nifti1Image(on, mask.affine), (values.shape, affine), order=0)
        on = np.asarray(moved.dataobj, np.float32)
    return np.asarray(on > 0.5)


def read_foreground(path: str | os.PathLike[str], steps: Preprocessing, mask: str | os.PathLike[str] | None = None) -> Foreground:
    """Return the foreground of a scan, whether or not `steps` mask it: by its mask file where there is one, else as they compute it.

    Parameters
    ----------
    path : a .nii or .nii.gz file.
    steps : the preprocessing; with mask "nonzero" the voxels that are not 0 are taken, else the head against the background.
    mask : the file of its mask, not 0 where the scan counts; None, or one that does not exist, leaves it to `steps`.

    Raises
    ------
    DataError
        If a file cannot be read or holds no picture.
    """
    source, there = pathlib.Path(path), mask is not None and os.path.exists(mask)
    kind = "table" if there else "nonzero" if steps.mask == "nonzero" else "otsu"
    volume = read_nifti(source, steps.volume)
    values = without_nan(volume.values, steps.nan_share, str(source), volume.beyond)[0]
    own = _mask(source, values, volume.affine, dataclasses.replace(steps, mask=kind), mask)
    assert own is not None
    inside = fitted(own.astype(np.float32), fit_grid(values.shape, volume.affine, steps), order=0, outside=0.0) > 0.5
    return Foreground(own, inside, _SOURCES[kind])


def to_scan_space(values: Array, affine: Array, path: str | os.PathLike[str], inside: Array | None = None) -> Any:
    """Return an image of values on a scan's own grid, to lay over it.

    Parameters
    ----------
    values : (D, H, W) array, such as a heat map on the grid of `read_scan`'s result or a coarser one.
    affine : (4, 4) affine of that grid, in mm.
    path : the scan's file.
    inside : array of bool on the scan's own grid, outside which the image is 0; None for all of it.

    Returns
    -------
    nibabel.Nifti1Image of float32 with the scan's shape (of one volume) and affine, linearly interpolated, 0 beyond `values`; ready for
    `nibabel.save`.

    Raises
    ------
    DataError
        If the scan's header cannot be read, or the values are no volume.
    """
    if np.ndim(values) != 3:
        raise DataError(f"values of shape {np.shape(values)} are no volume", "hand over an array of shape (D, H, W)")
    shape, own_affine, header = read_grid(pathlib.Path(path))
    image = nibabel.Nifti1Image(np.asarray(values, np.float32), affine)
    moved = processing.resample_from_to(image, (shape, own_affine), order=1)
    own = np.asarray(moved.dataobj, np.float32)
    overlay = nibabel.Nifti1Image(own if inside is None else np.where(inside, own, np.float32(0)), own_affine)
    overlay.set_sform(own_affine, int(header["sform_code"]) or int(header["qform_code"]) or 1)
    overlay.set_qform(own_affine, int(header["qform_code"]) or int(header["sform_code"]) or 1, strip_shears=True)
    overlay.header.set_xyzt_units("mm")
    return overlay
