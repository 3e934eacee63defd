"""Grids: turning, resampling, cropping and padding a volume so that it fits the wanted shape and spacing."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence

import numpy as np
from nibabel import affines, orientations
from scipy import ndimage

from hetero_mtf.data.array import Array
from hetero_mtf.data.volumes.images.preprocessing import Preprocessing

# Turned less than this off the scanner's axes, a scan counts as straight: an eighth of a voxel over 128 of them.
STRAIGHT_RADIANS = 1e-3
SAME_SPACING = 1e-3  # relative
_RIM = 1  # voxels that a scan is continued by, so that the outer half of its outermost voxels is part of it


@dataclasses.dataclass(frozen=True)
class GridFit:
    """The map from a scan's voxels to those of the result: axes are turned first, then voxels follow from an affine map.

    Parameters
    ----------
    ornt : (3, 2) array, nibabel's orientation: which axes swap and flip.
    shape : (3,) voxels of the result.
    linear, offset : (3, 3) and (3,) arrays: indices of the result to indices of the turned scan.
    affine : (4, 4) array of the result, in mm.
    extent : (3,) array, how many voxels of the result the scan spans along its axes.
    exact : whether the result's voxels are voxels of the scan, so that nothing is interpolated.
    notes : what is done.
    """

    ornt: Array
    shape: tuple[int, int, int]
    linear: Array
    offset: Array
    affine: Array
    extent: Array
    exact: bool
    notes: tuple[str, ...]


def fit_grid(shape: Sequence[int], affine: Array, steps: Preprocessing) -> GridFit:
    """Return how a scan's grid becomes the wanted one, their middles on each other.

    A straight scan keeps its slight tilt and, where the spacing is its own already, its very voxels. An oblique one is resampled along
    the scanner's axes.

    Parameters
    ----------
    shape, affine : (3,) voxels and (4, 4) affine of the scan, in mm.
    steps : shape, spacing and orientation to come to.
    """
    goal = orientations.axcodes2ornt(steps.orientation)
    ornt = orientations.ornt_transform(orientations.io_orientation(affine), goal)
    turned = affine @ orientations.inv_ornt_aff(ornt, tuple(shape))
    sizes = affines.voxel_sizes(turned)
    tilt = float(np.arccos(np.clip(np.abs(turned[:3, :3] / sizes).max(axis=0), 0, 1)).max())
    spacing = sizes if steps.spacing_mm is None else np.array(steps.spacing_mm)
    straight = tilt < STRAIGHT_RADIANS
    exact = straight and bool(np.allclose(spacing, sizes, rtol=SAME_SPACING, atol=0))
    spacing = sizes if exact else spacing
    axes = turned[:3, :3] / sizes if straight else _directions(goal)
    linear = np.diag(spacing / sizes) if straight else np.linalg.solve(turned[:3, :3], axes * spacing)
    middle = (np.array(shape)[np.argsort(ornt[:, 0])] - 1) / 2
    offset = middle - linear @ ((np.array(steps.shape) - 1) / 2)
    offset = np.floor(offset + 0.5) if exact else offset
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = axes * spacing, turned[:3, :3] @ offset + turned[:3, 3]
    notes = [] if exact else [f"resampled from {_by(sizes)} to {_by(spacing)} mm"]
    notes += [] if straight else [f"oblique by {np.degrees(tilt):.3g} degrees: resampled along the scanner's axes"]
    extent = (2 * middle + 1) / np.linalg.norm(linear, axis=0)
    every = (*_turn_note(affine, steps), *notes, *_edge_notes(extent, steps))
    return GridFit(ornt, steps.shape, linear, offset, result, extent, exact, every)


def _directions(goal: Array) -> Array:
    """Return the (3, 3) array whose columns are the directions of the axes of an orientation."""
    axes = np.zeros((3, 3))
    axes[goal[:, 0].astype(int), range(3)] = goal[:, 1]
    return axes


def _turn_note(affine: Array, steps: Preprocessing) -> list[str]:
    codes = "".join(orientations.aff2axcodes(affine))
    return [] if codes == steps.orientation else [f"turned from {codes} to {steps.orientation}"]


def _edge_notes(extent: Array, steps: Preprocessing) -> list[str]:
    """Return how far the result falls short of the scan and goes beyond it, in voxels of the result on both sides together."""
    over = np.round(np.array(steps.shape) - extent).astype(int)
    cropped = [f"cropped by {_by(np.maximum(-over, 0))} voxels"] if (over < 0).any() else []
    return cropped + ([f"padded by {_by(np.maximum(over, 0))} voxels"] if (over > 0).any() else [])


def fitted(values: Array, fit: GridFit, order: int, outside: float = np.nan) -> Array:
    """Return a volume on the result's grid.

    Where the result's voxels are f times larger, the volume is smoothed first, so that less of what they cannot show is aliased: by a
    Gaussian of (f - 1) / 2 voxels, as scikit-image does. Of detail a little too fine for them, at f of less than 2, much is left.

    Parameters
    ----------
    values : (D, H, W) array on the scan's grid.
    fit : from the scan's grid to the result's.
    order : of the interpolating spline; 0, as for masks, does not smooth.
    outside : value of the voxels beyond the scan's.

    Returns
    -------
    (D, H, W) array of float32 on the result's.
    """
    turned = orientations.apply_orientation(values, fit.ornt)
    grid_values = np.full(fit.shape, outside, np.float32)
    if fit.exact:
        source, target = _overlap(turned.shape, fit)
        grid_values[target] = turned[source]
        return grid_values
    factors = np.linalg.norm(fit.linear, axis=1)
    if order and (factors > 1 + SAME_SPACING).any():
        turned = ndimage.gaussian_filter(turned, np.maximum(0.0, (factors - 1) / 2), output=np.float32, mode="nearest")
    rimmed = np.pad(turned.astype(np.float32, copy=False), _RIM, mode="edge")
    diagonal = np.diag(fit.linear)
    matrix = diagonal if np.array_equal(fit.linear, np.diag(diagonal)) else fit.linear  # scipy is faster with a diagonal
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The behavior of affine_transform")  # SciPy up to 1.15, of each diagonal: it was another in 0.17
        ndimage.affine_transform(rimmed, matrix, fit.offset + _RIM, fit.shape, grid_values, order, "constant", outside)
    return grid_values


def _overlap(shape: Sequence[int], fit: GridFit) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Return which voxels of the turned scan go where in the result."""
    starts = fit.offset.astype(int)
    source = tuple(slice(max(0, at), max(0, min(have, at + want))) for at, have, want in zip(starts, shape, fit.shape))
    target = tuple(slice(max(0, -at), max(0, -at) + part.stop - part.start) for at, part in zip(starts, source))
    return source, target


def _by(values: Array) -> str:
    return " x ".join(f"{value:.4g}" for value in values)
