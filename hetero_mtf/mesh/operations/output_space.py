"""Spatial dimensions of the outputs of windowed operations."""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.compute import Renamed


def spatial(
    space: Sequence[mtf.Dimension], extents: Sequence[int | mtf.Dimension]
) -> tuple[list[mtf.Dimension], Renamed, list[mtf.Dimension]]:
    """Return the spatial dimensions of an output, which of the input's have another name in it as they lie in slabs, and which are whole.

    Parameters
    ----------
    space : of the input.
    extents : of the output; a dimension where it lies in slabs.
    """
    made = [n if isinstance(n, mtf.Dimension) else mtf.Dimension(d.name, n) for d, n in zip(space, extents, strict=True)]
    whole = [d for d, n in zip(space, extents) if not isinstance(n, mtf.Dimension)]
    return made, {d.name: other.name for d, other in zip(space, made) if d.name != other.name}, whole
