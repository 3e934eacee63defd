"""The figure of the speed-up on equal devices: each arrangement measured, beside the ideal."""

from __future__ import annotations

import pathlib
from typing import Any

from matplotlib.figure import Figure

from tools.documented.style import DEVICES, INK
from tools.results.records import ResultSet, Row

MARKS = ("o", "s", "^", "D")


def speed_ups(rows: tuple[Row, ...]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return network -> arrangement -> (devices, speed-up), from one device on, where it is 1.

    Parameters
    ----------
    rows : of the results `paper_speedup`.
    """
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        points = curves.setdefault(row.texts["network"], {}).setdefault(row.texts["arrangement"], [(1.0, 1.0)])
        points.append((row.numbers["devices"], row.numbers["speedup"]))
    return {network: {name: sorted(points) for name, points in own.items()} for network, own in curves.items()}


def draw_speed_ups(figure: Figure, path: pathlib.Path) -> None:
    """Draw a panel a network.

    Parameters
    ----------
    figure : figure to draw into.
    path : file of the results.
    """
    curves = speed_ups(ResultSet.load(path).rows)
    panels = figure.subplots(1, len(curves), squeeze=False)[0]
    for axes, (network, own) in zip(panels, sorted(curves.items())):
        _draw_panel(axes, network, own)


def _draw_panel(axes: Any, network: str, curves: dict[str, list[tuple[float, float]]]) -> None:
    counts = sorted({devices for points in curves.values() for devices, _ in points})
    axes.plot(counts, counts, linestyle=":", color=INK, label="ideal")
    for number, (name, points) in enumerate(curves.items()):
        colour, mark = DEVICES[number % len(DEVICES)], MARKS[number % len(MARKS)]
        axes.plot(*zip(*points), marker=mark, color=colour, label=name)
    axes.set_title(network, fontsize=10, loc="left")
    axes.set_xticks(counts)
    axes.set_xlabel("devices")
    axes.set_ylabel("speed-up")
    axes.legend(frameon=False, fontsize=8)
