"""Augmentation: small changes of a volume that leave its class as it is, drawn for each epoch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from hetero_mtf.data.array import Array
from hetero_mtf.errors import DataError
from hetero_mtf.units import value_text


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """What is changed.

    Parameters
    ----------
    flip : whether every other volume, by chance, has left and right exchanged.
    shift_voxels : how far a volume is moved at most along each axis, either way; its outermost voxels fill the gap.
    noise : standard deviation of Gaussian noise, as a part of the volume's own.

    Raises
    ------
    DataError
        If a value is out of range; all faults at once.

    Examples
    --------
    >>> Augmentation(flip=True, shift_voxels=2).lines()
    ('left and right exchanged in half of the volumes', 'shifted by up to 2 voxels along each axis')
    """

    flip: bool = False
    shift_voxels: int = 0
    noise: float = 0.0

    def __post_init__(self) -> None:
        faults = []
        if not isinstance(self.flip, bool):
            faults.append(f"flip is {value_text(self.flip)}; use True or False")
        if isinstance(self.shift_voxels, bool) or not isinstance(self.shift_voxels, int) or self.shift_voxels < 0:
            faults.append(f"shift_voxels is {value_text(self.shift_voxels)}; use a whole number from 0")
        if isinstance(self.noise, bool) or not isinstance(self.noise, (int, float)) or not 0 <= self.noise < np.inf:
            faults.append(f"noise is {value_text(self.noise)}; use a number from 0, such as 0.05")
        if faults:
            raise DataError(f"the augmentation cannot be done: {'; '.join(faults)}")

    def lines(self) -> tuple[str, ...]:
        """Return what is changed for a log, one change a line; nothing if nothing is."""
        flip = ["left and right exchanged in half of the volumes"] if self.flip else []
        shift = [f"shifted by up to {self.shift_voxels} voxels along each axis"] if self.shift_voxels else []
        noise = [f"noise of {self.noise:g} of the volume's standard deviation added"] if self.noise else []
        return (*flip, *shift, *noise)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document."""
        return dataclasses.asdict(self)


def augmented(values: Array, augmentation: Augmentation, key: tuple[int, int, int], left_right_axis: int = 0) -> Array:
    """Return a volume with the changes that a key draws; the same key draws the same.

    Every change draws its numbers whether others are wanted or not, so switching one off leaves the others as they were.

    Parameters
    ----------
    values : (D, H, W) array of float32; left as it is.
    augmentation : what to change.
    key : seed, epoch, and the sample's number; each not negative.
    left_right_axis : the axis between left and right.

    Returns
    -------
    (D, H, W) array of float32.
    """
    flip, shift, noise = (np.random.default_rng([*key, part]) for part in range(3))
    changed = values
    if augmentation.flip and flip.random() < 0.5:
        changed = np.flip(changed, left_right_axis)
    if augmentation.shift_voxels:
        changed = _shifted(changed, shift.integers(-augmentation.shift_voxels, augmentation.shift_voxels, 3, endpoint=True))
    if augmentation.noise:
        changed = changed + noise.standard_normal(changed.shape, np.float32) * np.float32(augmentation.noise * float(values.std()))
    return changed


def _shifted(values: Array, by: Array) -> Array:
    for axis, step in enumerate(by):
        length = values.shape[axis]
        values = np.take(values, np.clip(np.arange(length) - step, 0, length - 1), axis)
    return values
