"""Claim: `auto` trains 3D-ResAttNet-18 at least 1.2 times as fast as the best equal split, with an efficiency of at least 0.85.

Every device alone, equal batches, equal filters (all devices, by this project: the other arrangements of a step are the same) and the
plan that auto takes are open side by side on emulated devices and take turns; a figure is the median over rounds. efficiency = ideal /
measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of device d alone. Paper B (Akintoye et al., IEEE Access 10 (2022)
77950-77961) reports 20 % over existing parallel methods in the mean for a network of this kind.

    python -m tools.bench.resattnet [--shares 1.0,0.5] [--json resattnet.json]
"""

from __future__ import annotations

import functools
from typing import Any

import click

from tools.bench.auto import EQUAL, EQUAL_FILTERS, AutoCase, run
from tools.bench.comparison.measured import cluster_text, shares_of
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import rounds_option
from tools.bench.comparison.side_by_side import Pace, parts_text
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

EFFICIENCY, TIMES_EQUAL = 0.85, 1.2  # at least, of the claim
NETWORK = "resattnet18"
CLUSTERS = ("1.0,0.5", "1.0,0.5,0.5")


TABLE = TableForm(
    "resattnet",
    "3D-ResAttNet-18 beside equal splits",
    (
        Column("cluster", "cluster"),
        Column("batch", "batch"),
        Column("alone_ms", "each device alone ms", ".0f"),
        Column("equal_batches_ms", "equal batches ms", ".0f"),
        Column("equal_filters_ms", "equal filters ms", ".0f"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("auto_ms", "auto ms", ".0f"),
        Column("chosen", "auto chooses"),
        Column("ideal_ms", "ideal ms", ".0f"),
        Column("efficiency", "efficiency", ".2f", "at_least", EFFICIENCY),
        Column("times_equal", "x best equal split", ".2f", "at_least", TIMES_EQUAL),
        Column("measured_parts", "compute+communication+idle ms"),
    ),
    case=("cluster", "batch"),
)


def row(case: dict[str, Any]) -> Row:
    """Return the row of a cluster.

    Parameters
    ----------
    case : what `run` returns.
    """
    split = {"equal_batches_ms": EQUAL, "equal_filters_ms": EQUAL_FILTERS}
    return table_row(
        {
            "cluster": cluster_text(case["shares"]),
            "batch": case["batch"],
            "alone_ms": [1e3 * entry["measured_s"] for name, entry in case["times"].items() if name.startswith("alone")],
            **{key: 1e3 * case["times"][name]["measured_s"] for key, name in {**split, "auto_ms": "auto"}.items()},
            "predicted_ms": 1e3 * case["predicted_s"],
            "chosen": case["automatic"],
            "ideal_ms": 1e3 * case["ideal_s"],
            "efficiency": case["efficiency"],
            "times_equal": times_best_equal(case),
            "measured_parts": parts_text(case["measured_parts"]),
        }
    )


def times_best_equal(case: dict[str, Any]) -> float:
    """Return how many times as fast auto is as the faster of the two equal splits."""
    return min(case["times_as_fast"][name] for name in (EQUAL, EQUAL_FILTERS))


@click.command(help=__doc__)
@click.option("--shares", "clusters", multiple=True, help="Shares of a core, such as 1.0,0.5; several times for more.")
@click.option("--batch", type=click.IntRange(1), default=NETWORKS[NETWORK].usual, show_default=True, help="Volumes per step.")
@rounds_option(5)
@click.option("--budget", default=90.0, show_default=True, help="Seconds that each calibration may take.")
@output_options(after="cluster")
def main(clusters: tuple[str, ...], batch: int, rounds: int, budget: float, output: Output) -> None:
    """Measure, and print the table."""
    cases = Cases(output)
    for cluster in clusters or CLUSTERS:
        question = AutoCase(NETWORK, shares_of(cluster), batch, Pace(rounds, 1, budget), (EQUAL, EQUAL_FILTERS))
        output.publish(TABLE, [row(cases.measure(cluster, functools.partial(run, question)))])
    click.echo(shown(TABLE, [row(case) for case in cases.done]))


if __name__ == "__main__":
    main()
