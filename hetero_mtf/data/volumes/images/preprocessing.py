"""Preprocessing: what turns a scan into the array a network sees; stored with the model and written to the log."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from hetero_mtf.errors import DataError
from hetero_mtf.units import value_text

VERSION = 2  # of what the steps do: a change of it makes every cached volume stale
NORMALISATIONS = ("zscore", "minmax", "percentile", "none")
MASKS = ("none", "nonzero", "otsu", "table")
MAX_VOXELS = 2**28  # 1 GiB of float32
_PAIRS = ("LR", "PA", "SI")
_NORMALISED = {
    "zscore": "mean 0, standard deviation 1",
    "minmax": "lowest 0, highest 1",
    "percentile": "first percentile 0, last 1, the rest clipped",
    "none": "intensities as they are",
}
_MASKED = {
    "none": "no mask",
    "nonzero": "mask of the voxels that are not 0",
    "otsu": "mask of the head against the background (Otsu's threshold)",
    "table": "mask from the table's column mask",
}
_ORDERS = ("nearest voxel", "linear", "quadratic", "cubic")


@dataclasses.dataclass(frozen=True)
class Preprocessing:
    """The steps from a file to an array, in this order: turn, resample, crop or pad about the middle, mask, normalise.

    Parameters
    ----------
    shape : (3,) voxels of the result along its axes.
    spacing_mm : (3,) mm from voxel to voxel of the result; None keeps each scan's own.
    orientation : where the result's axes point to: one letter each of L or R, P or A, S or I.
    interpolation : order of the spline where the scan's grid is not the result's: 0 (nearest voxel) to 3.
    normalisation : "zscore", "minmax", "percentile" (first and last) or "none"; computed over the mask, or else the scan's own voxels.
    mask : what is kept, all else becomes 0: "none" keeps all, "nonzero", "otsu" (head, not background), "table" (files of its own).
    volume : which volume of a file with several to take, from 0; None refuses such files.
    nan_share : part of a scan's voxels that may be NaN or infinite; they become 0.

    Raises
    ------
    DataError
        If a choice is not among these; all of them at once.

    Examples
    --------
    >>> Preprocessing((64, 64, 64), spacing_mm=(3, 3, 3)).lines()[1]
    'resampled to 3 x 3 x 3 mm (linear)'
    """

    shape: tuple[int, int, int]
    spacing_mm: tuple[float, float, float] | None = None
    orientation: str = "RAS"
    interpolation: int = 1
    normalisation: str = "zscore"
    mask: str = "none"
    volume: int | None = None
    nan_share: float = 0.05

    def __post_init__(self) -> None:
        faults = _faults(self)
        if faults:
            raise DataError(f"the preprocessing cannot be done: {'; '.join(faults)}")
        object.__setattr__(self, "shape", tuple(map(int, self.shape)))
        if self.spacing_mm is not None:
            object.__setattr__(self, "spacing_mm", tuple(map(float, self.spacing_mm)))

    @property
    def left_right_axis(self) -> int:
        """The axis of the result that runs between left and right."""
        return next(axis for axis, letter in enumerate(self.orientation) if letter in "LR")

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that differ where any choice does."""
        text = json.dumps({**self.to_json(), "version": VERSION}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def lines(self) -> tuple[str, ...]:
        """Return the choices for a log, one a line."""
        spacing = "each scan's own spacing kept" if self.spacing_mm is None else f"resampled to {_by(self.spacing_mm)} mm"
        several = "files of several volumes refused" if self.volume is None else f"volume {self.volume} of files with several"
        return (
            f"axes turned to {self.orientation}",
            f"{spacing} ({_ORDERS[self.interpolation]})",
            f"cropped or padded about the middle to {_by(self.shape)} voxels",
            _MASKED[self.mask],
            f"normalised: {_NORMALISED[self.normalisation]}",
            f"{several}; NaN and infinite voxels set to 0, up to {self.nan_share:.3g} of a scan",
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document."""
        return dataclasses.asdict(self) | {
            "shape": list(self.shape),
            "spacing_mm": None if self.spacing_mm is None else list(self.spacing_mm),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Preprocessing:
        """Return the preprocessing in a document made by `to_json`.

        Raises
        ------
        DataError
            If entries are missing, unknown or wrong.
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(document, Mapping) or set(document) != set(names):
            entries = sorted(map(str, document)) if isinstance(document, Mapping) else value_text(document)
            raise DataError(f"the stored preprocessing has {entries} and not the entries {', '.join(names)}", "train again")
        listed: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in document.items()}
        return cls(**listed)


def _by(values: tuple[float, ...]) -> str:
    return " x ".join(f"{value:g}" for value in values)


def _faults(steps: Preprocessing) -> list[str]:
    faults = []
    if not _three(steps.shape, int) or min(steps.shape) < 2 or math.prod(steps.shape) > MAX_VOXELS:
        faults.append(f"shape is {value_text(steps.shape)}; give three whole numbers from 2, of {MAX_VOXELS} voxels at most together")
    if steps.spacing_mm is not None and not (_three(steps.spacing_mm, (int, float)) and all(0.01 <= mm <= 100 for mm in steps.spacing_mm)):
        faults.append(f"spacing_mm is {value_text(steps.spacing_mm)}; give three numbers from 0.01 to 100, or None")
    letters = steps.orientation if isinstance(steps.orientation, str) else ""
    if len(letters) != 3 or any(sum(letter in pair for letter in letters) != 1 for pair in _PAIRS):
        faults.append(f"orientation is {value_text(steps.orientation)}; give one letter each of L or R, P or A, S or I, such as RAS")
    for name, allowed in (("interpolation", (0, 1, 2, 3)), ("normalisation", NORMALISATIONS), ("mask", MASKS)):
        value = getattr(steps, name)
        if value not in allowed or isinstance(value, (bool, float)):
            faults.append(f"{name} is {value_text(value)}; use one of {', '.join(map(str, allowed))}")
    if steps.volume is not None and (not isinstance(steps.volume, int) or isinstance(steps.volume, bool) or steps.volume < 0):
        faults.append(f"volume is {value_text(steps.volume)}; use a whole number from 0, or None")
    share = steps.nan_share
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share < 1:
        faults.append(f"nan_share is {value_text(share)}; use a number from 0, below 1")
    return faults


def _three(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, (tuple, list)) and len(value) == 3 and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)
