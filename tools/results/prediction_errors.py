"""How far predicted steps are off, in one table: every table that has both a prediction and a measurement is a row of it."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping

from hetero_mtf.errors import DataError
from hetero_mtf.report.table import Table
from tools.results.records import ResultSet, Row


@dataclasses.dataclass(frozen=True)
class Predictions:
    """Predictions and measurements of a table.

    Parameters
    ----------
    text : what was predicted, and from what.
    name : of the results.
    predicted, measured : columns of milliseconds.
    page : that has the table, below docs/results, without its ending.
    errors : column of several errors a row, where the table has no milliseconds; empty for none.
    """

    text: str
    name: str
    predicted: str
    measured: str
    page: str
    errors: str = ""


PREDICTIONS = (
    Predictions("plans of all strategies, from a calibration alone", "prediction", "predicted_ms", "measured_ms", "predictions"),
    Predictions("plans of six networks, from a calibration alone", "calibration", "", "", "predictions", "default_errors"),
    Predictions("plans of six networks, run by refinement", "calibration", "", "", "predictions", "run_errors"),
    Predictions("plans of six networks, after refinement, never run", "calibration", "", "", "predictions", "never_run_errors"),
    Predictions("networks drawn by seed, from a calibration alone", "unseen", "predicted_ms", "before_ms", "auto"),
    Predictions("networks drawn by seed, after refinement", "unseen", "corrected_ms", "after_ms", "auto"),
    Predictions("plans of `auto` at usual batches, after refinement", "auto_efficiency", "predicted_ms", "auto_ms", "auto"),
    Predictions("networks of today, from a calibration alone", "written", "predicted_ms", "before_ms", "auto"),
    Predictions("networks of today, after refinement", "written", "corrected_ms", "after_ms", "auto"),
    Predictions("splits of samples, of ResNet-18", "uneven_batch", "predicted_ms", "measured_ms", "splits"),
    Predictions("splits of samples and units, of an AlexNet-like network", "hybrid", "predicted_ms", "measured_ms", "splits"),
    Predictions("pipelines of two stages", "pipeline", "predicted_ms", "measured_ms", "pipelines"),
    Predictions("without a flush, and beside it", "late_speed_arrangements", "predicted_ms", "measured_ms", "without_flush"),
    Predictions("3D-ResAttNet-18, planned and refined", "resattnet", "predicted_ms", "auto_ms", "mri"),
)


def errors_table(results: Mapping[str, ResultSet]) -> str:
    """Return the table in Markdown: medians of the absolute error, and the worst with its sign; error = predicted / measured - 1.

    Parameters
    ----------
    results : name -> results.

    Raises
    ------
    DataError
        If a table has no row with both figures.
    """
    headings = ("predicted steps", "number", "median error", "worst", "table")
    return Table(headings, tuple(_entries(each, results) for each in PREDICTIONS), left=1).markdown()


def _entries(each: Predictions, results: Mapping[str, ResultSet]) -> tuple[str, ...]:
    found = results.get(each.name)
    errors = [error for row in found.rows for error in _errors(row, each)] if found is not None else []
    if not errors:
        columns = each.errors or f"{each.predicted} with {each.measured}"
        raise DataError(f"{each.name} has no {columns}", "correct tools/results/prediction_errors.py")
    worst = max(errors, key=abs)
    median = statistics.median(map(abs, errors))
    return each.text, str(len(errors)), f"{median:.1%}", f"{worst:+.0%}", f"[{each.page}]({each.page}.md)"


def _errors(row: Row, each: Predictions) -> list[float]:
    if each.errors:
        return list(row.lists.get(each.errors, ()))
    predicted, measured = row.numbers.get(each.predicted, 0.0), row.numbers.get(each.measured, 0.0)
    return [predicted / measured - 1] if predicted and measured else []
