"""Curves of a classifier's probabilities: calibration, receiver operating characteristic, and precision against recall."""

from __future__ import annotations

import dataclasses
import io
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetero_mtf.json_file import replace_file
from hetero_mtf.report.colours import DEVICES, colours, device_colour
from hetero_mtf.report.scores import Scores
from hetero_mtf.report.scoring.reliability import Reliability, reliability

_DOTS = 120  # an inch
_GREY = "#8a939c"


@dataclasses.dataclass(frozen=True)
class Curves:
    """What is drawn.

    Parameters
    ----------
    probabilities : (samples, classes) array, 0 to 1.
    true : (samples,) array of class numbers.
    scores : of them; they say which class is positive.
    """

    probabilities: NDArray[np.float64]
    true: NDArray[np.int64]
    scores: Scores

    @property
    def drawn(self) -> tuple[int, ...]:
        """The classes that have a curve against the others: the positive one of two, all of more."""
        classes = self.scores.classes
        return tuple(range(len(classes))) if self.scores.positive is None else (classes.index(self.scores.positive),)

    def reliability(self, c: int) -> Reliability:
        """Return the reliability of the probabilities of a class.

        Parameters
        ----------
        c : its number.
        """
        return reliability(self.probabilities[:, c], self.true == c)

    def document(self) -> dict[str, Any]:
        """Return the calibration of each class that is drawn, as a JSON file holds it."""
        return {self.scores.classes[c]: dataclasses.asdict(self.reliability(c)) for c in self.drawn}


def curves_png(curves: Curves, title: str) -> bytes:
    """Return a picture of the calibration curve with the samples of each bin, the ROC curve and the precision-recall curve.

    Parameters
    ----------
    curves : what is drawn.
    title : text above it; letters that matplotlib's font lacks, as of Chinese, are boxes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.5, 5.2), layout="constrained")
    canvas, grid = FigureCanvasAgg(figure), figure.add_gridspec(2, 3, height_ratios=(4, 1))
    figure.suptitle(title, fontsize=11)
    above = figure.add_subplot(grid[0, 0])
    _calibration(above, figure.add_subplot(grid[1, 0], sharex=above), curves)
    _characteristic(figure.add_subplot(grid[:, 1]), curves)
    _recall(figure.add_subplot(grid[:, 2]), curves)
    page = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        canvas.print_figure(page, format="png", dpi=_DOTS)
    return page.getvalue()


def save_curves(path: str | os.PathLike[str], png: bytes) -> None:
    """Write a picture to a file in one piece.

    Parameters
    ----------
    path : file to write or replace.
    png : the picture.

    Raises
    ------
    HeteroError
        If it cannot be written.
    """
    with replace_file(path) as file:
        file.write(png)


def _calibration(axes: Any, below: Any, curves: Curves) -> None:
    axes.plot([0, 1], [0, 1], ":", color=_GREY, label="perfect")
    width = 1.0 / len(curves.drawn)
    for at, c in enumerate(curves.drawn):
        fit = curves.reliability(c)
        full = [bin for bin in fit.bins if bin.samples]
        label = f"{curves.scores.classes[c]}: Brier {fit.brier:.3f}, ECE {fit.error:.3f}"
        axes.plot([bin.mean_probability for bin in full], [bin.fraction for bin in full], "o-", color=_colour(at), label=label)
        for bin in full:
            span = bin.high - bin.low
            middle = bin.low + span * (at + 0.5) * width
            below.bar(middle, bin.samples, 0.9 * span * width, color=_colour(at))
            below.annotate(str(bin.samples), (middle, bin.samples), ha="center", va="bottom", fontsize=7)
    below.margins(y=0.35)
    below.set(xlabel="predicted probability", ylabel="samples")
    _square(axes, "Calibration", "", "fraction of the class")
    axes.tick_params(labelbottom=False)


def _characteristic(axes: Any, curves: Curves) -> None:
    from sklearn.metrics import roc_curve

    axes.plot([0, 1], [0, 1], ":", color=_GREY, label="chance")
    for at, c in enumerate(curves.drawn):
        name, own = curves.scores.classes[c], curves.true == c
        area = curves.scores[f"ROC AUC ({name})"]
        if area.value is not None:
            false_rate, true_rate, _ = roc_curve(own, curves.probabilities[:, c], drop_intermediate=False)
            axes.plot(false_rate, true_rate, color=_colour(at), label=f"{name}: AUC {area.text()}")
        else:
            axes.plot([], [], color=_colour(at), label=f"{name}: {area.text()}")
    _square(axes, "Receiver operating characteristic", "1 - specificity", "sensitivity")


def _recall(axes: Any, curves: Curves) -> None:
    from sklearn.metrics import precision_recall_curve

    for at, c in enumerate(curves.drawn):
        name, own = curves.scores.classes[c], curves.true == c
        area = curves.scores[f"average precision ({name})"]
        if area.value is not None:
            precision, recall, _ = precision_recall_curve(own, curves.probabilities[:, c])
            label = f"{name}: average precision {area.text()}, chance {own.mean():.3f}"
            axes.plot(recall, precision, drawstyle="steps-post", color=_colour(at), label=label)
            axes.axhline(own.mean(), linestyle=":", color=_colour(at), linewidth=1)
        else:
            axes.plot([], [], color=_colour(at), label=f"{name}: {area.text()}")
    _square(axes, "Precision and recall", "recall (sensitivity)", "precision")


def _square(axes: Any, title: str, across: str, up: str) -> None:
    axes.set(title=title, xlabel=across, ylabel=up, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.legend(fontsize=8, loc="best")


def _colour(at: int) -> str:
    return colours()[device_colour(at % DEVICES)][0]


def told(curves: Curves) -> Sequence[str]:
    """Return a sentence on the calibration of each class that is drawn."""
    lines = []
    for c in curves.drawn:
        fit, name = curves.reliability(c), curves.scores.classes[c]
        lines.append(
            f"calibration ({name}): Brier score {fit.brier:.3f}, expected calibration error {fit.error:.3f} in {len(fit.bins)} bins"
        )
    return tuple(lines)
