"""Claim: the predicted seconds of a step are within 10 % of the measured ones (median), 25 % at worst, and the first plan is the best.

Each of five networks is calibrated once on each of four emulated clusters. All strategies plan from the saved profile, in a process
without TensorFlow or devices, and their predictions are on disk before the first step is taken. Then the plan that auto takes, the
device that is fastest alone and the next plans by their predictions are open side by side and take turns; a figure is the median over
rounds. Plans predicted to take more than twice the best are left out. error = predicted / measured - 1; regret = seconds of the plan
ranked first / those of the fastest one measured - 1.

    python -m tools.bench.prediction --json prediction.json [--resume]
    python -m tools.bench.prediction --model vgg11 --cluster 1.0,0.5
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import click

from tools.bench.comparison.accuracy import MEDIAN_ERROR, REGRET, WORST_ERROR, chosen, distinct, error, regret
from tools.bench.comparison.networks import FIVE, NETWORKS
from tools.bench.comparison.offline_plans import now, plan_apart
from tools.bench.comparison.options import pace_options
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure, parts_text
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

CLUSTERS = ("1.0,1.0", "1.0,0.5", "1.0,0.33", "1.0,0.5,0.5")


@dataclasses.dataclass(frozen=True)
class PredictionCase:
    """A network on a cluster.

    Parameters
    ----------
    network : key in `NETWORKS`.
    cluster : shares of a core, as text.
    batch : samples per step.
    """

    network: str
    cluster: str
    batch: int

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.network}-{self.cluster.replace(',', '-')}"


def run(case: PredictionCase, folder: pathlib.Path, pace: Pace, most: int, also: Sequence[str] = ()) -> dict[str, Any]:
    """Return what was predicted and measured of one case; profile, plans and predictions are left in the folder.

    Parameters
    ----------
    case : what is measured.
    folder : where files are left.
    pace : how long to measure.
    most, also : as for `chosen`.
    """
    import hetero_mtf as hm

    task = TrainingTask(NETWORKS[case.network].make(), case.batch)
    here = folder / case.name
    here.mkdir(parents=True, exist_ok=True)
    with hm.Cluster.parse(f"emulate:{case.cluster}") as cluster:
        start_s = time.perf_counter()
        profile = hm.calibrate(cluster, task.model, case.batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        calibration_s = time.perf_counter() - start_s
        profile.save(here / "profile.json")
        predictions = plan_apart(here / "profile.json", here)
        strategy_plans = {name: hm.Plan.load(here / f"{name}.json") for name in predictions["predicted_s"]}
        same = distinct(strategy_plans)
        wanted = [name for name, others in same.items() if set(others) & set(also)]
        plans = {
            name: strategy_plans[name]
            for name in chosen({name: strategy_plans[name].predicted.step_s for name in same}, "auto", most, also=wanted)
        }
        began = now()
        times = measure(task, plans, cluster, pace, {})
        method = cluster.method
    entries = [{"plan": same[name], **_predicted(plan), **times[name]} for name, plan in plans.items()]
    head = {**dataclasses.asdict(case), "limited_by": method, "calibration_s": calibration_s, "automatic": strategy_plans["auto"].strategy}
    return {**head, "predictions": predictions, "first_step": began, "plans": entries}


def _predicted(plan: Any) -> dict[str, Any]:
    return {"predicted_s": plan.predicted.step_s, "predicted_parts": [dataclasses.asdict(part) for part in plan.predicted.parts]}


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row a plan of a case."""
    title = f"{NETWORKS[case['network']].title}, batch {case['batch']}"
    return [
        table_row(
            {
                "network": title,
                "cluster": case["cluster"],
                "plan": ", ".join(plan["plan"]),
                "predicted_ms": 1e3 * plan["predicted_s"],
                "measured_ms": 1e3 * plan["measured_s"],
                "error": error(plan),
                "predicted_parts": parts_text(plan["predicted_parts"]),
                "measured_parts": parts_text(plan["measured_parts"]),
            }
        )
        for plan in case["plans"]
    ]


def rank(case: dict[str, Any]) -> Row:
    """Return the row of a case: what auto chooses, and its regret."""
    title = f"{NETWORKS[case['network']].title}, batch {case['batch']}"
    return table_row({"network": title, "cluster": case["cluster"], "chosen": case["automatic"], "regret": regret(case["plans"])})


def summarise_errors(table: Sequence[Row]) -> list[str]:
    """Return the median and the worst error of all plans."""
    errors = [entry.numbers["error"] for entry in table]
    median, worst = statistics.median(map(abs, errors)), max(errors, key=abs)
    return [f"{len(errors)} plans: median error {median:.1%} (at most {MEDIAN_ERROR:.0%} wanted), worst {worst:+.1%}."]


def summarise_ranks(table: Sequence[Row]) -> list[str]:
    """Return in how many cases the plan ranked first is as good as the best measured one."""
    regrets = [entry.numbers["regret"] for entry in table]
    cases = f"{sum(each <= REGRET for each in regrets)} of {len(regrets)} cases, at worst {max(regrets):.1%}"
    return [f"The plan ranked first is within {REGRET:.0%} of the best measured one in {cases}."]


TABLE = TableForm(
    "prediction",
    "Predicted and measured steps",
    (
        Column("network", "network"),
        Column("cluster", "cluster"),
        Column("plan", "plan"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("measured_ms", "measured ms", ".0f"),
        Column("error", "error", "+.1%", "within", WORST_ERROR),
        Column("predicted_parts", "predicted parts ms"),
        Column("measured_parts", "measured parts ms"),
    ),
    case=("network", "cluster"),
    summarise=summarise_errors,
)
RANKS = TableForm(
    "prediction_ranks",
    "The plan ranked first beside the best measured one",
    (
        Column("network", "network"),
        Column("cluster", "cluster"),
        Column("chosen", "auto chooses"),
        Column("regret", "regret", ".1%", "at_most", REGRET),
    ),
    case=("network", "cluster"),
    summarise=summarise_ranks,
)


def report(cases: list[dict[str, Any]]) -> str:
    """Return the tables of all cases with their summaries."""
    tables = [shown(TABLE, [each for case in cases for each in rows(case)]), shown(RANKS, [rank(case) for case in cases])]
    return "\n\n".join([*tables, "Parts are compute+communication+idle of each device."])


@click.command(help=__doc__)
@click.option("--model", "models", multiple=True, type=click.Choice(list(NETWORKS)), help="A network, several times for more.")
@click.option("--cluster", "clusters", multiple=True, help="Shares of a core, such as 1.0,0.5; several times for more.")
@click.option("--batch", type=int, help="Samples per step.  [default: each network's]")
@pace_options(5, 2, 90.0)
@click.option("--most", default=4, show_default=True, help="Plans of a case to measure at most.")
@click.option("--strategy", "also", multiple=True, help="A strategy to measure whatever is predicted, such as pipeline.")
@click.option("--folder", help="Where profiles, plans and predictions are left.  [default: a new folder for temporary files]")
@output_options(after="case", resumes=True)
def main(
    models: tuple[str, ...],
    clusters: tuple[str, ...],
    batch: int | None,
    pace: Pace,
    most: int,
    also: tuple[str, ...],
    folder: str | None,
    output: Output,
) -> None:
    """Run the cases, print their tables and the summary."""
    pairs = itertools.product(models or FIVE, clusters or CLUSTERS)
    cases = [PredictionCase(network, cluster, batch or NETWORKS[network].batch) for network, cluster in pairs]
    measured = Cases(output)
    place = pathlib.Path(folder or tempfile.mkdtemp(prefix="hetero_mtf-prediction-"))
    for case in cases:
        if measured.find(**dataclasses.asdict(case)):
            continue
        figures = measured.measure(case.name, functools.partial(run, case, place, pace, most, also))
        output.publish(TABLE, rows(figures))
        output.publish(RANKS, [rank(figures)])
    print(report(measured.done))
    print(f"Profiles, plans and predictions are in {place}.")


if __name__ == "__main__":
    main()
