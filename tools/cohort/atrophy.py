"""What the illness takes: cortex along widened folds, in a part of the brain that is another one in every subject."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy import ndimage

from tools.cohort.template import CENTRE_MM, Floats, Template

# mm in the template's space, right half; each is on the left too
REGIONS = {
    "frontal": (34.0, 40.0, 22.0),
    "temporal": (52.0, -18.0, -18.0),
    "parietal": (42.0, -52.0, 42.0),
    "occipital": (26.0, -84.0, 4.0),
    "central": (36.0, -8.0, 54.0),
}
RADIUS_MM = (50.0, 60.0)  # standard deviation of a place
PLATEAU = 1.5  # times the bell over a place, up to 1, is how much is taken there
WIDENING_MM = 2.0  # of the ventricle, at strength 1
MIDDLE_MM = 4.0  # half width of the change from the left half to the right
GRAIN_MM, GRAINS = 3.0, (64, 72, 64)  # the grid that folds are drawn on
FOLD_MM = 13.0  # smoothness of the field whose zeros are the folds
WIDTH = 0.22  # of a fold, in standard deviations of that field: about 5 mm


@dataclasses.dataclass(frozen=True)
class Atrophy:
    """What is lost, beyond what age takes.

    Parameters
    ----------
    regions : names of the nearest regions, with the side, such as "temporal left".
    centres : (regions, 3) array of float, mm in the template's space.
    loss : part of the grey matter that is lost in the middle of a fold.
    radius_mm : standard deviation of a place.
    widening_mm : by how much the ventricle of its side is wider.
    folds : (X, Y, Z) array of float, a voxel each GRAIN_MM around the brain's middle: 1 in the middle of a fold, 0 far from one.
    """

    regions: tuple[str, ...]
    centres: Floats
    loss: float
    radius_mm: float
    widening_mm: float
    folds: Floats

    def loss_at(self, places: Floats) -> Floats:
        """Return the part of the grey matter that is lost.

        Parameters
        ----------
        places : (3, places) array of float, mm in the template's space.

        Returns
        -------
        (places,) array of float, 0 to 1.
        """
        inside = np.zeros(places.shape[1])
        for centre in self.centres:
            far2 = ((places - centre[:, None]) ** 2).sum(0) / self.radius_mm**2
            inside = np.maximum(inside, np.exp(-far2 / 2))
        at = (places - CENTRE_MM[:, None]) / GRAIN_MM + (np.array(self.folds.shape)[:, None] - 1) / 2
        return self.loss * np.minimum(1.0, PLATEAU * inside) * ndimage.map_coordinates(self.folds, at, order=1)

    def widening_at(self, places: Floats) -> Floats:
        """Return by how many mm the ventricles are wider: on the sides of the head that atrophy is on.

        Parameters
        ----------
        places : as for `loss_at`.
        """
        taken = np.zeros(places.shape[1])
        for side in {float(np.sign(centre[0])) for centre in self.centres}:
            taken += 1 / (1 + np.exp(-side * places[0] / MIDDLE_MM))
        return self.widening_mm * taken


NO_ATROPHY = Atrophy((), np.zeros((0, 3)), 0.0, 1.0, 0.0, np.zeros((1, 1, 1)))


def draw_atrophy(rng: np.random.Generator, strength: float, template: Template) -> Atrophy:
    """Return atrophy around one or two places of the cortex, graded by a strength.

    Parameters
    ----------
    rng : drawn from.
    strength : 0 (none) to 1 (in the middle of its folds no grey matter is left).
    """
    centres = template.cortex[:, rng.integers(template.cortex.shape[1], size=int(rng.integers(1, 3)))].T
    regions = tuple(_region(centre) for centre in centres)
    return Atrophy(regions, centres, strength, float(rng.uniform(*RADIUS_MM)), WIDENING_MM * strength, _folds(rng))


def _region(centre: Floats) -> str:
    """Return the name of the nearest region, with its side."""
    folded = np.array([abs(centre[0]), centre[1], centre[2]])
    name = min(REGIONS, key=lambda name: float(((folded - REGIONS[name]) ** 2).sum()))
    return f"{name} {'right' if centre[0] > 0 else 'left'}"


def _folds(rng: np.random.Generator) -> Floats:
    """Return sheets around the zeros of a smooth random field."""
    field = ndimage.gaussian_filter(rng.normal(size=GRAINS), FOLD_MM / GRAIN_MM, mode="wrap")
    return np.exp(-((field / field.std() / WIDTH) ** 2))
