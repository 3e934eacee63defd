"""The picture of a genetic search: the best objective after each generation."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.errors import HeteroError
from hetero_mtf.json_file import replace_file
from hetero_mtf.units import seconds_text

FORMATS = ("png", "svg", "pdf")


def draw_convergence(
    path: str | os.PathLike[str],
    history: Sequence[float],
    *,
    after_local_search: float | None = None,
    bound: float | None = None,
    optimal: bool = False,
    others: Sequence[tuple[str, float]] = (),
) -> None:
    """Write a picture of the best J after each generation, with values to compare it with as lines.

    Parameters
    ----------
    path : file to write; .png, .svg or .pdf.
    history : (generations,) best J after each generation, seconds; infinite while no allocation fits.
    after_local_search : J after the final local search, seconds; None to leave it out.
    bound : seconds that no allocation is below; None to leave it out.
    optimal : whether the bound is the exact optimum.
    others : (name, J in seconds) of other allocations, such as the equal partition.

    Raises
    ------
    HeteroError
        If there is no generation, the ending of the path is another one, or the file cannot be written.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    ending = pathlib.Path(path).suffix.lower().lstrip(".")
    if ending not in FORMATS:
        raise HeteroError(f"a picture cannot be written to {path}", f"end its name with .{', .'.join(FORMATS)}")
    if not len(history):
        raise HeteroError("there is no generation to draw", "draw what the genetic allocator found")
    unit, scale = _unit(value for value in (*history, bound, after_local_search) if value is not None)
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axes = figure.subplots()
    values = scale * np.array(history, dtype=float)
    axes.step(np.arange(1, len(values) + 1), np.where(np.isfinite(values), values, np.nan), where="post", label="genetic, best so far")
    for (name, value), style in zip(others, _styles()):
        axes.axhline(scale * value, color="0.5", linestyle=style, linewidth=1.0, label=f"{name}: {seconds_text(value)}")
    if after_local_search is not None:
        label = f"after local search: {seconds_text(after_local_search)}"
        axes.plot([len(values)], [scale * after_local_search], "o", color="#b35900", label=label)
    if bound is not None:
        label = f"{'optimum' if optimal else 'lower bound'}: {seconds_text(bound)}"
        axes.axhline(scale * bound, color="black", linestyle="-" if optimal else "-.", linewidth=1.4, label=label)
    axes.set_title("Convergence of the genetic allocator")
    axes.set_xlabel("generation")
    axes.set_ylabel(f"objective J of the best allocation ({unit})")
    if len(values) > 20:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.legend(frameon=False)
    with replace_file(path) as file:
        figure.savefig(file, format=ending, dpi=120)


def _unit(values_s: Iterable[float]) -> tuple[str, float]:
    """Return the unit in which the largest of some seconds is read well, and how many of it a second has."""
    largest_s = max((value for value in values_s if math.isfinite(value)), default=1.0)
    return next(((unit, scale) for unit, scale in (("s", 1.0), ("ms", 1e3)) if scale * largest_s >= 1), ("us", 1e6))


def _styles() -> list[object]:
    return ["--", ":", "-.", (0, (5, 5)), (0, (1, 5)), (0, (3, 5, 1, 5))]
