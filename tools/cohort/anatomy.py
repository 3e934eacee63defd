"""A subject's brain: its pose and shape, what age took from it, and what the illness."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import ndimage

from tools.cohort.atrophy import NO_ATROPHY, Atrophy
from tools.cohort.template import CENTRE_MM, Floats, Template

WAVE_MM = 40.0  # distance between the knots of a deformation
KNOTS = 7
FINER = 4  # times as many places between which a deformation is straight
CORTEX = 2.0  # times the fraction of grey matter, up to 1, is what can be lost in a place


@dataclasses.dataclass(frozen=True)
class Anatomy:
    """A subject's brain as a map from its own space into the template's.

    Parameters
    ----------
    pose : (3, 4) array of float: turns, scales and shifts mm of the subject to mm of the template.
    knots : (4, KNOTS, KNOTS, KNOTS) array of float: a smooth deformation after it along x, y and z, mm, and by what part of it age
        has taken more or less in a place.
    age : 0 (young) to 1 (old): part of `aged` that has happened.
    aged : grey matter lost and mm of wider ventricles at age 1, all over the brain.
    """

    pose: Floats
    knots: Floats
    age: float
    aged: tuple[float, float]
    atrophy: Atrophy

    def t1(self, template: Template, points: Floats) -> Floats:
        """Return the T1 of places, without any scanner.

        Parameters
        ----------
        points : (3, places) array of float, mm in the subject's space.

        Returns
        -------
        (places,) array of float in [0, 1]; 0 outside the brain.
        """
        places = self.pose[:, :3] @ points + self.pose[:, 3:]
        *bends, uneven = self._fields(places)
        places = places + np.stack(bends)
        widening = self.age * self.aged[1] + self.atrophy.widening_at(places)
        places = places + widening * template.at(places, 3, 6)
        t1, grey, brain = template.at(places, 0, 3)
        cortex = np.minimum(1.0, CORTEX * grey)
        thinned = np.clip(self.age * self.aged[0] * (1 + uneven), 0.0, 1.0)
        left = (1 - cortex * thinned) * (1 - cortex * self.atrophy.loss_at(places))
        return t1 - (1 - left) * (t1 - template.fluid * brain).clip(0.0)

    def centres(self) -> Floats:
        """Return where the atrophy is: (regions, 3) array of float, mm in the subject's space, the deformation left out."""
        return np.linalg.solve(self.pose[:, :3], (self.atrophy.centres - self.pose[:, 3]).T).T

    def _fields(self, places: Floats) -> Floats:
        """Return what is between the knots: (4, places) array of float."""
        fine = [ndimage.zoom(knots, FINER, order=3) for knots in self.knots]
        at = ((places - CENTRE_MM[:, None]) / WAVE_MM + (KNOTS - 1) / 2) * (fine[0].shape[0] - 1) / (KNOTS - 1)
        return np.stack([ndimage.map_coordinates(field, at, order=1, mode="nearest") for field in fine])


@dataclasses.dataclass(frozen=True)
class Variety:
    """How much healthy brains differ.

    Parameters
    ----------
    turn_deg, shift_mm, scale, bend_mm : standard deviations of turns, shifts, scales along each axis and deformations.
    uneven : standard deviation of the part by which age has taken more or less in a place.
    aged : as in `Anatomy`.
    """

    turn_deg: float = 4.0
    shift_mm: float = 3.0
    scale: float = 0.04
    bend_mm: float = 3.0
    uneven: float = 0.4
    aged: tuple[float, float] = (0.7, 6.0)


def draw_anatomy(rng: np.random.Generator, variety: Variety, atrophy: Atrophy = NO_ATROPHY) -> Anatomy:
    """Return a brain of some age; what is drawn does not depend on its atrophy.

    Parameters
    ----------
    rng : drawn from.
    """
    angles = np.deg2rad(rng.normal(0.0, variety.turn_deg, 3))
    scales = np.exp(rng.normal(0.0, variety.scale, 3))
    matrix = _turned(angles) / scales
    pose = np.column_stack([matrix, CENTRE_MM + matrix @ rng.normal(0.0, variety.shift_mm, 3)])
    spread = np.array([variety.bend_mm] * 3 + [variety.uneven])[:, None, None, None]
    knots = spread * rng.normal(size=(4, KNOTS, KNOTS, KNOTS))
    return Anatomy(pose, knots, float(rng.uniform()), variety.aged, atrophy)


def _turned(angles: Floats) -> Floats:
    matrix = np.eye(3)
    for axis, angle in enumerate(angles):
        first, second = (axis + 1) % 3, (axis + 2) % 3
        turn = np.eye(3)
        turn[first, first] = turn[second, second] = np.cos(angle)
        turn[first, second], turn[second, first] = -np.sin(angle), np.sin(angle)
        matrix = matrix @ turn
    return matrix
