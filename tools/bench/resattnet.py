"""Claim: `auto` trains 3D-ResAttNet-18 at least 1.2 times as fast as the best equal split, with an efficiency of at least 0.85.

Every device alone, equal batches, equal filters (all devices, by this project: the other arrangements of a step are the same) and the
plan that auto takes are open side by side on emulated devices and take turns; a figure is the median over rounds. efficiency = ideal /
measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of device d alone. Paper B (Akintoye et al., IEEE Access 10 (2022)
77950-77961) reports 20 % over existing parallel methods in the mean for a network of this kind.

    python tools/bench/resattnet.py [--shares 1.0,0.5] [--json resattnet.json]
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import click

from tools.bench.auto import EQUAL, EQUAL_FILTERS, AutoCase, run
from tools.bench.comparison.measured import markdown, record
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.side_by_side import Pace, parts_text

EFFICIENCY, TIMES_EQUAL = 0.85, 1.2  # at least, of the claim
NETWORK = "resattnet18"
CLUSTERS = ("1.0,0.5", "1.0,0.5,0.5")


def table(cases: list[dict[str, Any]]) -> str:
    """Return a row a cluster.

    Parameters
    ----------
    cases : what `run` returns.
    """
    rows = []
    for case in cases:
        times = {name: f"{1e3 * entry['measured_s']:.0f}" for name, entry in case["times"].items()}
        alone = " / ".join(value for name, value in times.items() if name.startswith("alone"))
        rows.append(
            [
                ", ".join(f"{share:g}" for share in case["shares"]),
                str(case["batch"]),
                alone,
                times[EQUAL],
                times[EQUAL_FILTERS],
                f"{1e3 * case['predicted_s']:.0f}",
                times["auto"],
                case["automatic"],
                f"{1e3 * case['ideal_s']:.0f}",
                f"{case['efficiency']:.2f}",
                f"{times_best_equal(case):.2f}",
                parts_text(case["measured_parts"]),
            ]
        )
    columns = ["cluster", "batch", "each alone ms", "equal batches ms", "equal filters ms", "predicted ms", "auto ms", "auto takes"]
    return markdown(
        [*columns, "ideal ms", f"efficiency ({EFFICIENCY})", f"x best equal split ({TIMES_EQUAL})", "compute+communication+idle ms"], rows
    )


def times_best_equal(case: dict[str, Any]) -> float:
    """Return how many times as fast auto is as the faster of the two equal splits."""
    return min(case["times_as_fast"][name] for name in (EQUAL, EQUAL_FILTERS))


@click.command(help=__doc__)
@click.option("--shares", "clusters", multiple=True, help="Shares of a core, such as 1.0,0.5; several times for more.")
@click.option("--batch", type=click.IntRange(1), default=NETWORKS[NETWORK].usual, show_default=True, help="Volumes per step.")
@click.option("--rounds", default=5, show_default=True, help="Rounds; a figure is their median.")
@click.option("--budget", default=90.0, show_default=True, help="Seconds that each calibration may take.")
@click.option("--json", "path", help="File to write the figures to, after each cluster.")
def main(clusters: tuple[str, ...], batch: int, rounds: int, budget: float, path: str | None) -> None:
    """Measure, and print the table."""
    cases: list[dict[str, Any]] = []
    for cluster in clusters or CLUSTERS:
        shares = [float(share) for share in cluster.split(",")]
        cases.append(run(AutoCase(NETWORK, shares, batch, Pace(rounds, 1, budget), (EQUAL, EQUAL_FILTERS))))
        record(path, " ".join(["python", *sys.argv]), {"cases": cases})
    print(table(cases))


if __name__ == "__main__":
    main()
