"""A refinement as commands print it."""

from __future__ import annotations

from hetero_mtf.planning.refinement.loop import Refinement
from hetero_mtf.report.table import Table, folded_text
from hetero_mtf.units import seconds_text


def refinement_text(refinement: Refinement, columns: int | None = None) -> str:
    """Return the plans that were run, with predicted and measured steps, and the plan in force.

    Parameters
    ----------
    columns : characters of a line at most; None for those of the terminal.
    """
    rows = tuple(
        (
            f"{run.plan.strategy}{' (in force)' if run is refinement.best else ''}",
            ", ".join(run.plan.devices[index] for index in run.plan.used),
            seconds_text(run.first_predicted_s),
            seconds_text(run.predicted_s),
            seconds_text(run.median_s),
            f"{run.spread:.0%}",
        )
        for run in refinement.runs
    )
    heading = ("plan", "devices", "calibrated", "predicted", "measured", "spread")
    best, first = refinement.best, refinement.first
    kept = "the plan is kept" if best is first else f"strategy {best.plan.strategy} replaces {first.plan.strategy}"
    gain = "" if best is first else f", {refinement.gain:.2f} times as fast"
    explained = (
        f"Refined in {seconds_text(refinement.seconds)}, until {refinement.reason}: {kept}{gain}. "
        "calibrated: predicted from the calibration alone; predicted: with the factors of the plans that were run before."
    )
    return "\n".join([Table(heading, rows, left=2).text(columns), folded_text(explained, columns)])
