"""Sliding windows: where they lie in a volume, what they are padded with, and how much each of their voxels counts.

Places, padding and importance are those of MONAI's `sliding_window_inference` (docs.monai.io, 1.5), so that results can be compared.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.errors import DataError

MODES = ("constant", "gaussian")
PADDINGS = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Way of padding -> its name for `numpy.pad`."""

LEAST_IMPORTANCE = 1e-3  # of a voxel, unless the least of the Gaussian is larger
Part = tuple[slice, ...]
"""A region of a volume or of a window, one slice for each spatial dimension."""


@dataclasses.dataclass(frozen=True)
class Windowing:
    """How windows are laid over volumes and put together.

    Parameters
    ----------
    roi_size : (dimensions,) extents of a window, voxels; None for those of the volume.
    overlap : (dimensions,) part of a window that the next one covers too, from 0 to below 1.
    mode : "constant" for voxels that count alike, "gaussian" for less towards the borders of a window.
    sigma_scale : (dimensions,) standard deviation of the Gaussian, as a part of the window.
    padding_mode : what volumes are padded with that are smaller than a window, a key of `PADDINGS`.
    cval : the value, for "constant".
    """

    roi_size: tuple[int | None, ...]
    overlap: tuple[float, ...]
    mode: str = "constant"
    sigma_scale: tuple[float, ...] = ()
    padding_mode: str = "constant"
    cval: float = 0.0

    @classmethod
    def of(cls, dimensions: int, roi_size: Any, overlap: Any, mode: str, sigma_scale: Any, padding_mode: str, cval: float) -> Windowing:
        """Return what a user asks for.

        Parameters
        ----------
        dimensions : number of spatial dimensions.
        roi_size, overlap, sigma_scale : a number for all dimensions, or one for each.
        mode, padding_mode, cval : as for the class.

        Raises
        ------
        DataError
            If one of them is none of these.
        """
        extents = tuple(None if size is None or size == -1 else size for size in _each(roi_size, dimensions, "roi_size"))
        overlaps, sigmas = _each(overlap, dimensions, "overlap"), _each(sigma_scale, dimensions, "sigma_scale")
        if not all(size is None or (isinstance(size, (int, np.integer)) and size > 0) for size in extents):
            raise DataError(f"roi_size is {roi_size}, not whole numbers above 0", "give the extents of a window, None for all of an axis")
        if not all(_is_number(part) and 0 <= part < 1 for part in overlaps):
            raise DataError(f"overlap is {overlap}, not from 0 to below 1", "give the part that neighbouring windows share")
        if not all(_is_number(part) and 0 < part < math.inf for part in sigmas):
            raise DataError(f"sigma_scale is {sigma_scale}, not above 0", "give the deviation as a part of the window")
        for name, value, known in (("mode", mode, MODES), ("padding_mode", padding_mode, PADDINGS)):
            if value not in known:
                raise DataError(f"{name} is {value!r}", f"give one of {', '.join(known)}")
        whole = tuple(None if size is None else int(size) for size in extents)
        return cls(whole, tuple(map(float, overlaps)), mode, tuple(map(float, sigmas)), padding_mode, cval)

    def window(self, extents: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of the windows of a volume.

        Parameters
        ----------
        extents : (dimensions,) of the volume.
        """
        return tuple(extent if size is None else size for size, extent in zip(self.roi_size, extents, strict=True))

    def places(self, extents: Sequence[int]) -> list[Place]:
        """Return the windows of a volume, the last dimension running fastest.

        Parameters
        ----------
        extents : (dimensions,) of the volume.
        """
        axes = [
            _places_of_axis(extent, size, overlap)
            for extent, size, overlap in zip(extents, self.window(extents), self.overlap, strict=True)
        ]
        return [Place(*map(tuple, zip(*each))) for each in itertools.product(*axes)]

    def cut(self, volumes: Any, sample: int, place: Place) -> np.ndarray:
        """Return a window of a volume, padded where that is smaller.

        Parameters
        ----------
        volumes : (samples, *extents, channels) array; only what is needed of it is read.
        sample : number of the volume.
        place : as `places` gives it.
        """
        window = np.asarray(volumes[(sample, *place.of_volume, slice(None))])
        if not any(map(any, place.padding)):
            return window
        options: dict[str, Any] = {"constant_values": self.cval} if self.padding_mode == "constant" else {}
        padded: np.ndarray = np.pad(window, [*place.padding, (0, 0)], PADDINGS[self.padding_mode], **options)  # type: ignore[call-overload]
        return padded

    def importance(self, window: Sequence[int], dtype: Any) -> np.ndarray:
        """Return how much each voxel of a window counts.

        Parameters
        ----------
        window : (dimensions,) its extents.
        dtype : of the result.

        Returns
        -------
        (*window, 1) array, above 0.
        """
        if self.mode == "constant":
            return np.ones((*window, 1), dtype)
        weights = np.ones(())
        for size, scale in zip(window, self.sigma_scale, strict=True):
            distance = np.arange(size) - (size - 1) / 2
            weights = weights[..., np.newaxis] * np.exp(-(distance**2) / (2 * (scale * size) ** 2))
        return np.maximum(weights, max(weights.min(), LEAST_IMPORTANCE))[..., np.newaxis].astype(dtype)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a window lies.

    Parameters
    ----------
    of_volume : what of the volume it holds.
    of_window : where in the window that is.
    padding : (before, after) voxels of each dimension that lie outside the volume.
    """

    of_volume: Part
    of_window: Part
    padding: tuple[tuple[int, int], ...]


def _places_of_axis(extent: int, size: int, overlap: float) -> list[tuple[slice, slice, tuple[int, int]]]:
    """Return the windows of one dimension."""
    if extent <= size:
        before = (size - extent) // 2
        return [(slice(0, extent), slice(before, before + extent), (before, size - extent - before))]
    step = max(1, int(size * (1 - overlap)))
    starts = [*range(0, extent - size, step), extent - size]
    return [(slice(start, start + size), slice(0, size), (0, 0)) for start in starts]


def _each(value: Any, count: int, name: str) -> tuple[Any, ...]:
    """Return a value for each dimension."""
    values = tuple(value) if isinstance(value, (list, tuple, np.ndarray)) else (value,) * count
    if len(values) != count:
        raise DataError(f"{name} has {len(values)} entries and volumes have {count} spatial dimensions", "give one number, or one for each")
    return values


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
