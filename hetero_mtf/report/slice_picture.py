"""A picture of a volume in three slices with a heat map over them."""

from __future__ import annotations

import io
import os
import warnings

import nibabel
import numpy as np
from numpy.typing import NDArray

from hetero_mtf.json_file import replace_file

# name of the slice, the axis it is cut across, the axes along the picture's width and height, what is at its left and right
_VIEWS = (("axial", 2, 0, 1, "LR"), ("coronal", 1, 0, 2, "LR"), ("sagittal", 0, 1, 2, "PA"))
_OPAQUE = 0.7  # of the heat at its largest; less where it is less, for the scan to be seen
_DOTS = 120  # an inch


def save_slices(
    path: str | os.PathLike[str], scan: NDArray[np.float32], heat: NDArray[np.float32], affine: NDArray[np.float64], title: str
) -> None:
    """Write a PNG of an axial, a coronal and a sagittal slice through the peak of a heat map, with the map over the scan.

    The patient's left is at the left.

    Parameters
    ----------
    path : file to write or replace.
    scan : (D, H, W) array.
    heat : (D, H, W) array on the same grid, 0 to 1.
    affine : (4, 4) of that grid, to mm, x to the right, y to the front, z up.
    title : text above the picture; letters that matplotlib's font lacks, as of Chinese, are boxes.

    Raises
    ------
    HeteroError
        If it cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    back, front = (nibabel.as_closest_canonical(nibabel.Nifti1Image(np.asarray(v, np.float32), affine)) for v in (scan, heat))
    values, over, sizes_mm = back.get_fdata(), front.get_fdata(), back.header.get_zooms()[:3]
    at = peak(over)
    place_mm = back.affine @ [*at, 1]
    figure = Figure(figsize=(10, 4), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=11)
    low, high = np.percentile(values, (1, 99.5))
    for axes, (name, across, wide, tall, sides) in zip(figure.subplots(1, 3), _VIEWS):
        one, other = (np.take(volume, at[across], across).T for volume in (values, over))
        aspect = float(sizes_mm[tall] / sizes_mm[wide])
        axes.imshow(one, cmap="gray", vmin=low, vmax=max(high, low + 1e-9), origin="lower", aspect=aspect)
        seen = _OPAQUE * np.clip(other, 0.0, 1.0)
        drawn = axes.imshow(other, cmap="inferno", alpha=seen, vmin=0, vmax=1, origin="lower", aspect=aspect)
        axes.set_title(f"{name}, {'xyz'[across]} = {place_mm[across]:.0f} mm", fontsize=9)
        axes.set_xticks([0, one.shape[1] - 1], list(sides))
        axes.set_yticks([])
    figure.colorbar(drawn, ax=figure.axes, shrink=0.7, label="class activation (largest: 1)")
    page = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas.print_figure(page, format="png", dpi=_DOTS)
    with replace_file(path) as file:
        file.write(page.getvalue())


def peak(heat: NDArray[np.float64]) -> tuple[int, ...]:
    """Return the indices of the largest value; of a map that is the same everywhere, the middle.

    Parameters
    ----------
    heat : array of any number of axes.
    """
    if heat.max() == heat.min():
        return tuple(length // 2 for length in heat.shape)
    return tuple(int(index) for index in np.unravel_index(int(heat.argmax()), heat.shape))
