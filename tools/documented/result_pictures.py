"""Pictures of result tables: how near networks come to the ideal, and predictions beside measurements of steps and memory."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tools.documented.style import DEVICES, INK, PALE
from tools.results.prediction_errors import PREDICTIONS
from tools.results.records import ResultSet, Row

MARKS = "os^Dv<>Phd*"
WITHIN = 0.2  # part by which predicted memory may be off
NEAR = 0.15  # part by which steps of others may be off
ELSEWHERE = (
    ("Sailor: OPT-350M, RTX 2080, RTX 3090, Titan RTX", "others_sailor", "last_s", "measured_s", {"cluster": "mixed"}),
    ("Sailor: OPT-350M, GH200", "others_sailor", "last_s", "measured_s", {"cluster": "GH200"}),
    ("AMP: GPT-2, V100 and T4", "others_amp", "predicted_s", "measured_s", {}),
    ("VirtualFlow: ResNet-50, V100 and P100", "others_virtualflow", "predicted_step_s", "step_s", {}),
)
"""Text, results, columns of predicted and measured seconds, and the texts of the rows that count."""


def draw_efficiency(figure: Figure, folder: pathlib.Path) -> None:
    """Draw the efficiency of `auto` by network: a dot for each table row, and the ceiling by communication as a line.

    Parameters
    ----------
    figure : to draw into.
    folder : of the result tables.
    """
    rows = [row for name in ("auto_efficiency", "unseen", "written") for row in _rows(folder, name)]
    named = [(_label(row), _efficiency(row), row.numbers.get("ceiling")) for row in rows if _efficiency(row) is not None]
    named.sort(key=lambda entry: entry[1] or 0.0)
    axes = figure.add_subplot()
    places = np.arange(len(named))
    axes.scatter([entry[1] for entry in named], places, color=DEVICES[0], zorder=3, label="measured")
    ceilings = [(at, entry[2]) for at, entry in zip(places, named) if entry[2] is not None]
    ceiling = [value for _, value in ceilings], [at for at, _ in ceilings]
    axes.scatter(*ceiling, marker="|", s=70, color=INK, zorder=3, label="ceiling by communication")
    axes.set(yticks=places, xlim=(0.4, 1.0), xlabel="efficiency (ideal / measured)")
    axes.set_yticklabels([entry[0] for entry in named], fontsize=7)
    axes.legend(loc="upper left", frameon=False)
    _plain(axes)


def draw_predictions(figure: Figure, folder: pathlib.Path) -> None:
    """Draw predicted beside measured steps of all tables that have both; the line is where they are equal.

    Parameters
    ----------
    figure : to draw into.
    folder : of the result tables.
    """
    axes = figure.add_subplot()
    for mark, each in zip(MARKS, (each for each in PREDICTIONS if each.predicted)):
        pairs = [_pair(row, each.predicted, each.measured) for row in _rows(folder, each.name)]
        known = [pair for pair in pairs if all(pair)]
        label = each.text.replace("`", "")
        axes.scatter([measured for _, measured in known], [predicted for predicted, _ in known], marker=mark, s=18, alpha=0.75, label=label)
    _equal(axes, "measured step, ms", "predicted step, ms")
    axes.legend(loc="upper left", frameon=False, fontsize=7)


def draw_memory(figure: Figure, folder: pathlib.Path) -> None:
    """Draw predicted beside measured peak memory of workers, with the band within which predictions are wanted.

    Parameters
    ----------
    figure : to draw into.
    folder : of the result tables.
    """
    axes = figure.add_subplot()
    pairs = [_pair(row, "predicted_mb", "measured_mb") for row in _rows(folder, "memory")]
    known = [pair for pair in pairs if all(pair)]
    axes.scatter([measured for _, measured in known], [predicted for predicted, _ in known], s=14, color=DEVICES[0], zorder=3)
    low, high = _equal(axes, "measured peak, MB", "predicted peak, MB")
    ends = np.array([low, high])
    axes.fill_between(ends, (1 - WITHIN) * ends, (1 + WITHIN) * ends, color=PALE, zorder=1)


def draw_elsewhere(figure: Figure, folder: pathlib.Path) -> None:
    """Draw predicted beside measured steps of others' GPUs, one point a run, with a band of 15 %.

    Parameters
    ----------
    figure : to draw into.
    folder : of the result tables; a source without one is left out.
    """
    axes = figure.add_subplot()
    for mark, (label, name, predicted, measured, only) in zip(MARKS, ELSEWHERE):
        if not (folder / f"{name}.json").exists():
            continue
        rows = [row for row in _rows(folder, name) if all(row.texts.get(key) == text for key, text in only.items())]
        known = [pair for pair in (_pair(row, predicted, measured) for row in rows) if all(pair)]
        axes.scatter([took for _, took in known], [said for said, _ in known], marker=mark, s=20, alpha=0.8, zorder=3, label=label)
    low, high = _equal(axes, "measured step, s", "predicted step, s")
    ends = np.array([low, high])
    axes.fill_between(ends, (1 - NEAR) * ends, (1 + NEAR) * ends, color=PALE, zorder=1)
    axes.legend(loc="upper left", frameon=False, fontsize=7)


def _equal(axes: Axes, measured: str, predicted: str) -> tuple[float, float]:
    """Scale both axes alike and draw the line where they are equal; return its ends."""
    axes.set(xscale="log", yscale="log", xlabel=measured, ylabel=predicted)
    low, high = min(axes.get_xlim()[0], axes.get_ylim()[0]), max(axes.get_xlim()[1], axes.get_ylim()[1])
    axes.plot([low, high], [low, high], color=INK, linewidth=0.8, zorder=2)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
    _plain(axes)
    return low, high


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _rows(folder: pathlib.Path, name: str) -> Sequence[Row]:
    return ResultSet.load(folder / f"{name}.json").rows


def _pair(row: Row, predicted: str, measured: str) -> tuple[float, float]:
    return row.numbers.get(predicted, 0.0), row.numbers.get(measured, 0.0)


def _efficiency(row: Row) -> float | None:
    return row.numbers.get("efficiency", row.numbers.get("efficiency_after"))


def _label(row: Row) -> str:
    name = row.texts["network"]
    short = name if len(name.split(", ")) < 3 else "drawn"
    return f"{short}, {row.texts['cluster']}"
