"""The brain that every subject of a drawn cohort is a deformed copy of."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

CENTRE_MM = np.array([0.0, -17.0, 5.0])  # of the brain, in the template's space
RESOLUTION_MM = 2
PSF_MM = 1.2  # standard deviation of the blur of a scanner
DEPTH_MM = 25.0  # fluid deeper below the brain's surface is in the ventricles and cisterns
FLUID = 0.06  # T1; the template has more, being a mean of many brains
LOWEST_MM = -25.0  # of the cortex
PULL_MM = 5.0  # standard deviation of the slope around the ventricles
Floats = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Template:
    """A T1 image with its tissues, to be read at any place.

    Parameters
    ----------
    channels : (6, X, Y, Z) array of float: T1 in [0, 1], grey matter, brain (fractions of a voxel), and a vector field that
        points to the nearest ventricle, along x, y and z, of length 1 at most.
    inverse : (4, 4) array of float, from mm in the template's space to voxels.
    fluid : T1 of cerebrospinal fluid.
    cortex : (3, places) array of float, mm: the cortex of both halves, without the cerebellum.
    """

    channels: Floats
    inverse: Floats
    fluid: float
    cortex: Floats

    def at(self, points: Floats, first: int, last: int) -> Floats:
        """Return some channels at places, 0 outside.

        Parameters
        ----------
        points : (3, places) array of float, mm.
        first, last : channels from `first` up to, not with, `last`.

        Returns
        -------
        (last - first, places) array of float, interpolated linearly.
        """
        voxels = self.inverse[:3, :3] @ points + self.inverse[:3, 3:]
        return np.stack([ndimage.map_coordinates(channel, voxels, order=1) for channel in self.channels[first:last]])


@functools.cache
def load_template() -> Template:
    """Return the ICBM 152 brain (symmetric, 2009a) that is a part of the nilearn package; nothing is downloaded.

    References
    ----------
    Fonov, Evans, Botteron, Almli, McKinstry, Collins, "Unbiased average age-appropriate atlases for pediatric studies",
    NeuroImage 54(1), 2011.
    """
    from nilearn import datasets

    image = datasets.load_mni152_template(resolution=RESOLUTION_MM)
    t1, grey, white = (_values(i) for i in (image, *(load(RESOLUTION_MM) for load in _tissues(datasets))))
    brain = _values(datasets.load_mni152_brain_mask(resolution=RESOLUTION_MM))
    fluid = np.clip(brain - grey - white, 0.0, 1.0)
    deep = fluid * (ndimage.distance_transform_edt(brain) * RESOLUTION_MM > DEPTH_MM)
    slope = np.stack(np.gradient(ndimage.gaussian_filter(deep, PULL_MM / RESOLUTION_MM)))
    slope /= np.sqrt((slope**2).sum(0)).max()
    blurred = [ndimage.gaussian_filter(a, PSF_MM / RESOLUTION_MM) for a in (t1 * brain, grey, brain)]
    places = image.affine[:3, :3] @ np.array(np.nonzero(grey > 0.6)) + image.affine[:3, 3:]
    cortex = places[:, places[2] > LOWEST_MM]
    return Template(np.stack([*blurred, *slope]), np.linalg.inv(image.affine), FLUID, cortex)


def _tissues(datasets: Any) -> tuple[Any, Any]:
    return datasets.load_mni152_gm_template, datasets.load_mni152_wm_template


def _values(image: Any) -> Floats:
    return np.asarray(image.dataobj, dtype=float)
