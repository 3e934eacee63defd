"""Intensities: NaN, masks and normalisation of a volume."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from hetero_mtf.data.array import Array
from hetero_mtf.errors import DataError

BINS = 256
PERCENTILES = (1.0, 99.0)


def without_nan(values: Array, nan_share: float, what: str, beyond: int = 0) -> tuple[Array, tuple[str, ...]]:
    """Return a volume with 0 for NaN and infinity, and a note of it.

    Parameters
    ----------
    values : (D, H, W) array of float32; changed in place where it can be.
    nan_share : part of the voxels that may be replaced.
    what : how messages call the scan.
    beyond : how many of the voxels are infinite only because float32 ends before them.

    Raises
    ------
    DataError
        If more are not finite, or all others are equal.
    """
    finite = np.isfinite(values)
    bad = values.size - int(np.count_nonzero(finite))
    share = bad / values.size
    if bad and (share > nan_share or bad == values.size):
        kinds = "NaN or infinite values" if not beyond else f"NaN or infinite values, {beyond} of them beyond float32 (3.4e38),"
        kinds = "values beyond float32 (3.4e38)" if beyond == bad else kinds
        wrong = f"{what} has {kinds} in {bad} of {values.size} voxels ({share:.1%}, allowed are {nan_share:.1%})"
        remedy = "scale them down" if beyond == bad else "convert it again"
        raise DataError(wrong, f"{remedy}, or allow more with --nan-share (nan_share=...) where they stand for background")
    if bad:
        values = np.where(finite, values, np.float32(0))
    if values.min() == values.max():
        raise DataError(f"{what} has the value {values.flat[0]:g} everywhere, there is no picture in it", "convert it again")
    return values, (f"set {bad} NaN or infinite voxels to 0 ({share:.2%})",) if bad else ()


def head(values: Array) -> Array:
    """Return where the head is: above Otsu's threshold, the largest connected part, its holes filled.

    Parameters
    ----------
    values : (D, H, W) array of float32.

    Returns
    -------
    (D, H, W) array of bool.

    References
    ----------
    N. Otsu, "A threshold selection method from gray-level histograms", IEEE Trans. SMC 9 (1979) 62-66. The largest part and the holes
    are this project's addition; a skull is not stripped.
    """
    parts, count = ndimage.label(values > otsu_threshold(values))
    sizes = np.bincount(parts.ravel(), minlength=count + 1)
    sizes[0] = 0
    return np.asarray(ndimage.binary_fill_holes(parts == sizes.argmax()), bool)


def otsu_threshold(values: Array) -> float:
    """Return the value that parts dark from bright voxels with the largest variance between the two.

    Of a histogram with counts c and middles m, it is the border k that maximises w0 w1 (m0 - m1)^2: w the weights of the voxels up to
    the border and above it, m0 and m1 their means.

    Parameters
    ----------
    values : array of any shape, not all equal.
    """
    counts, edges = np.histogram(values, BINS)
    middles = (edges[:-1] + edges[1:]) / 2
    below, total = np.cumsum(counts)[:-1], counts.sum()
    sums = np.cumsum(counts * middles)
    above = total - below
    means_apart = sums[:-1] / np.maximum(below, 1) - (sums[-1] - sums[:-1]) / np.maximum(above, 1)
    return float(edges[1 + int(np.argmax(below * above * means_apart**2))])


def normalised(values: Array, inside: Array, masked: bool, normalisation: str, what: str) -> Array:
    """Return a volume with normalised intensities.

    Parameters
    ----------
    values : (D, H, W) array of float32; NaN beyond the scan's own voxels.
    inside : (D, H, W) array of bool, the voxels that count.
    masked : whether the others become 0; else those beyond the scan get the lowest value there is.
    normalisation : "zscore", "minmax", "percentile" or "none".
    what : how messages call the scan.

    Raises
    ------
    DataError
        If no voxel counts, or those that do are too equal for it.
    """
    counted = values[inside].astype(np.float64)
    if not counted.size:
        raise DataError(f"{what} has no voxel within its mask and the wanted shape", "correct the mask, or take a larger shape or spacing")
    low, scale = _low_and_scale(counted, normalisation)
    if not scale > 0 or not np.isfinite(scale):
        remedy = "use another normalisation or mask, or a larger shape"
        raise DataError(f"{what} cannot be normalised by {normalisation}, its voxels that count differ by {scale:g}", remedy)
    rest = 0.0 if masked else (counted.min() - low) / scale
    scaled = np.full(values.shape, rest, np.float32)
    scaled[inside] = (counted - low) / scale
    if normalisation == "percentile":
        np.clip(scaled, 0, 1, out=scaled)
    return scaled


def _low_and_scale(counted: Array, normalisation: str) -> tuple[float, float]:
    if normalisation == "zscore":
        spread = float(counted.std())
        return float(counted.mean()), spread if spread > 1e-6 * float(np.abs(counted).max()) else 0.0
    if normalisation == "minmax":
        return float(counted.min()), float(counted.max() - counted.min())
    if normalisation == "percentile":
        low, high = np.percentile(counted, PERCENTILES)
        return float(low), float(high - low)
    return 0.0, 1.0
