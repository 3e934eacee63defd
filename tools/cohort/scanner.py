"""A scanner: where it puts its voxels, what it adds to an image, and how it writes it down. It knows nothing of the subject's class."""

from __future__ import annotations

import dataclasses
import itertools

import nibabel as nib
import numpy as np
from scipy import ndimage

from tools.cohort.template import Floats

VIEW_MM = 192.0
TYPES = ("int16", "uint8", "float32")
ENDINGS = (".nii.gz", ".nii")
GAMMA = 0.12  # standard deviation of its log
BIAS, BIAS_KNOTS = 0.08, 3
NOISE = (0.005, 0.025)  # of the brightest


@dataclasses.dataclass(frozen=True)
class Scanner:
    """One visit to a scanner.

    Parameters
    ----------
    axes : for each axis of the array, the axis of space it runs along, 0 (left to right), 1 (back to front), 2 (up).
    signs : 1 or -1 for each axis of the array: the way it runs.
    spacing_mm : voxel size along each axis of the array.
    origin_mm : the middle of the array in space.
    gain, gamma : brightness and contrast.
    knots : (BIAS_KNOTS,) * 3 array of float, log of a smooth bias field.
    noise : standard deviation in each of the two channels that a magnitude is of, of the brightest.
    dtype, ending : how the file is written.
    """

    axes: tuple[int, ...]
    signs: tuple[int, ...]
    spacing_mm: tuple[float, ...]
    origin_mm: tuple[float, ...]
    gain: float
    gamma: float
    knots: Floats
    noise: float
    dtype: str
    ending: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Voxels along each axis of the array."""
        return tuple(round(VIEW_MM / spacing) for spacing in self.spacing_mm)

    @property
    def affine(self) -> Floats:
        """(4, 4) array of float, from voxels to mm."""
        affine = np.eye(4)
        affine[:3, :3] = 0.0
        for axis, (along, sign, spacing) in enumerate(zip(self.axes, self.signs, self.spacing_mm)):
            affine[along, axis] = sign * spacing
        affine[:3, 3] = np.array(self.origin_mm) - affine[:3, :3] @ ((np.array(self.shape) - 1) / 2)
        return affine

    def points(self) -> Floats:
        """Return where the voxels are: (3, voxels) array of float, mm."""
        voxels = np.stack(np.meshgrid(*map(np.arange, self.shape), indexing="ij")).reshape(3, -1)
        return self.affine[:3, :3] @ voxels + self.affine[:3, 3:]

    def image(self, t1: Floats, rng: np.random.Generator) -> nib.Nifti1Image:
        """Return the scan of a brain.

        Parameters
        ----------
        t1 : (voxels,) array of float in [0, 1], as `points` orders them.
        rng : the noise is drawn from it.
        """
        fraction = [np.linspace(0, n - 1, size) for n, size in zip(self.knots.shape, self.shape)]
        bias = np.exp(ndimage.map_coordinates(self.knots, np.meshgrid(*fraction, indexing="ij"), order=2, mode="nearest"))
        clean = np.clip(t1, 0.0, 1.0).reshape(self.shape) ** self.gamma * bias
        parts = rng.normal(0.0, self.noise, (2, *self.shape))
        return self._written(self.gain * np.hypot(clean + parts[0], parts[1]))

    def _written(self, values: Floats) -> nib.Nifti1Image:
        kind = np.dtype(self.dtype)
        slope = float(np.float32(values.max() / np.iinfo(kind).max)) if kind.kind != "f" else 1.0
        image = nib.Nifti1Image((np.rint(values / slope) if kind.kind != "f" else values).astype(kind), self.affine)
        image.header.set_slope_inter(slope, 0.0)  # integers are written as they are, and read times this
        image.header.set_xyzt_units("mm")
        return image


def draw_scanner(rng: np.random.Generator, size: int) -> Scanner:
    """Return a visit to some scanner.

    Parameters
    ----------
    rng : drawn from.
    size : voxels a side of the usual grid; a scanner's are up to a sixth larger or smaller.
    """
    orders = list(itertools.permutations(range(3)))
    spacing = VIEW_MM / size * np.exp(rng.uniform(-0.15, 0.15, 3))
    return Scanner(
        axes=orders[rng.integers(len(orders))],
        signs=tuple(int(sign) for sign in rng.choice([-1, 1], 3)),
        spacing_mm=tuple(round(float(s), 3) for s in spacing),
        origin_mm=tuple(float(o) for o in rng.normal(0.0, 2.0, 3)),
        gain=float(np.exp(rng.normal(5.0, 0.7))),
        gamma=float(np.exp(rng.normal(0.0, GAMMA))),
        knots=rng.normal(0.0, BIAS, (BIAS_KNOTS,) * 3),
        noise=float(rng.uniform(*NOISE)),
        dtype=TYPES[rng.integers(len(TYPES))],
        ending=ENDINGS[rng.integers(len(ENDINGS))],
    )
