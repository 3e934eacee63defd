"""The output of a layer, with its layout on the mesh."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from hetero_mtf.mesh.compat import Tensor, mtf

SLABS = "slabs"


def lies_in_slabs(dimension: mtf.Dimension) -> bool:
    """Return whether a spatial dimension lies in slabs, by its name."""
    return str(dimension.name).startswith(SLABS)


@dataclasses.dataclass(frozen=True)
class Slabs:
    """Which positions of a spatial dimension each place of a mesh axis has; what several have lies on each of them.

    Parameters
    ----------
    dimension : number of the spatial dimension.
    axis : name of the mesh axis.
    ranges : (places,) [begin, end) of the positions; below 0 and above the extent are positions that are filled.
    fill : what is there.
    """

    dimension: int
    axis: str
    ranges: tuple[tuple[int, int], ...]
    fill: float = 0.0

    @classmethod
    def of_sizes(cls, dimension: int, axis: str, sizes: Sequence[int]) -> Slabs:
        """Return slabs of given sizes, one behind the other.

        Examples
        --------
        >>> Slabs.of_sizes(0, "devices", (3, 0, 2)).ranges
        ((0, 3), (3, 3), (3, 5))
        """
        ends = list(itertools.accumulate(sizes))
        return cls(dimension, axis, tuple(zip([0, *ends], ends)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """(places,) positions of each."""
        return tuple(end - begin for begin, end in self.ranges)

    def tile(self, extent: int) -> bool:
        """Return whether they are slabs of a dimension of an extent, one behind the other."""
        borders = [0, *(end for _, end in self.ranges)]
        return borders[-1] == extent and all(begin == border for (begin, _), border in zip(self.ranges, borders))


@dataclasses.dataclass(frozen=True)
class Value:
    """The output of a layer.

    Parameters
    ----------
    tensor : mtf.Tensor [batch, ..., channels].
    sizes : (processors,) units of each processor of the last dimension; None where it is unsplit.
    features : number of last dimensions that Flatten joins; they are kept while split.
    unflat : for an unsplit flattened value, its shape before Flatten.
    logits : for the output of an activation, its input and its name.
    mask : for an output that carries one, mtf.Tensor [batch, ...] of truth values.
    """

    tensor: Tensor
    sizes: tuple[int, ...] | None = None
    features: int = 1
    unflat: tuple[int, ...] = ()
    logits: tuple[Tensor, str] | None = None
    mask: Tensor | None = None

    @property
    def batch(self) -> mtf.Dimension:
        """The batch dimension, whole or split."""
        return self.tensor.shape.dims[0]

    @property
    def channels(self) -> mtf.Dimension:
        """The last dimension."""
        return self.tensor.shape.dims[-1]

    @property
    def feature_dims(self) -> list[mtf.Dimension]:
        """The dimensions of the channels: one, or more after a split Flatten."""
        return list(self.tensor.shape.dims[-self.features :])
