"""How the figures of the documentation look: a light background of their own, so that they are readable on a dark page too."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import matplotlib
from matplotlib.figure import Figure

DEVICES = ("#1f6fb2", "#b35900")  # the faster device, the slower device
REPLICATED, IDLE, INK, PALE = "#c9ced6", "#f1f3f5", "#1b1f24", "#dfe3e8"
LARGEST_BYTES = 200_000


def save_figure(path: pathlib.Path, size: tuple[float, float], draw: Callable[[Figure], None]) -> None:
    """Write a figure as SVG; the same drawing gives the same file.

    Parameters
    ----------
    path : file to write or replace.
    size : width and height, inches.
    draw : draws into the figure.
    """
    settings = {"svg.hashsalt": "hetero_mtf", "font.size": 10, "hatch.linewidth": 0.6, "hatch.color": "#9aa3ad"}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        draw(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
