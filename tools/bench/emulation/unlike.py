"""Claim: on devices that differ from layer to layer the planner gains over one relative speed for all layers.

A share of a core slows every layer alike. Here each emulated device has a core of its own, and its oneDNN kernels may use an older
instruction set than the other's. Five networks; each device alone, equal filters, filters and samples by one relative speed (that of the
whole network, measured), and what auto plans are open side by side and take turns. efficiency = ideal / measured.

    python -m tools.bench.emulation.unlike [--model vgg11] [--sets avx512,avx2]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.devices.instruction_sets import NAMES
from tools.bench.comparison.lost import ideal_s
from tools.bench.comparison.networks import FIVE, NETWORKS
from tools.bench.comparison.options import pace_options
from tools.bench.comparison.recorded_steps import recorded_steps
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure
from tools.bench.emulation.onednn_part import onednn_part
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

SETS = ("avx512,avx2", "avx2,sse41")
EQUAL, FILTERS, SAMPLES, AUTO = "equal filters", "filters by one speed", "samples by one speed", "auto"

FORM = TableForm(
    "unlike",
    "Devices of unlike instruction sets, a core each",
    (
        Column("network", "network"),
        Column("sets", "instruction sets"),
        Column("alone_ms", "each device alone ms", ".0f"),
        Column("onednn", "part of a step by oneDNN", ".0%"),
        Column("ratios", "speed ratio of layers: least / median / most", ".1f"),
        Column("equal_ms", "equal filters ms", ".0f"),
        Column("filters_ms", "filters by one speed ms", ".0f"),
        Column("samples_ms", "samples by one speed ms", ".0f"),
        Column("chosen", "auto chooses"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("auto_ms", "auto ms", ".0f"),
        Column("error", "error", "+.0%"),
        Column("efficiency", "efficiency", ".2f"),
        Column("times", "best by one speed / auto", ".2f", "at_least", 1.0),
    ),
    case=("network", "sets"),
)


def run(name: str, sets: Sequence[str], pace: Pace) -> dict[str, Any]:
    """Return the seconds of every arrangement of a network on devices of some instruction sets.

    Parameters
    ----------
    name : key in `NETWORKS`.
    sets : (devices,) instruction set of each.
    pace : how long to measure.
    """
    import hetero_mtf as hm
    from hetero_mtf.planning.cost.layer_cost import Costs

    task = TrainingTask(NETWORKS[name].make(), NETWORKS[name].usual)
    count = len(sets)
    with hm.Cluster.emulate([1.0] * count, instruction_sets=sets) as cluster:
        profile = hm.calibrate(cluster, task.model, task.batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        speeds = (1 / Costs(profile).beside_s).tolist()
        automatic = hm.plan(profile)
        plans = {f"alone {d}": hm.Plan.single(task.model, d, cluster, task.batch) for d in range(count)}
        plans[EQUAL] = hm.Plan.equal(task.model, cluster, task.batch)
        plans[FILTERS] = hm.Plan.filters(task.model, speeds, cluster, task.batch)
        plans[SAMPLES] = hm.Plan.batch(task.model, speeds, cluster, task.batch)
        times = measure(task, {**plans, AUTO: automatic}, cluster, pace, {})
        parts = [_onednn_part(task, plans[f"alone {d}"], cluster) for d in range(count)]
    return {
        "network": name,
        "sets": list(sets),
        "batch": task.batch,
        "ratios": layer_ratios(profile),
        "automatic": automatic.strategy,
        "predicted_s": automatic.predicted.step_s,
        "times": times,
        "onednn": parts,
    }


def _onednn_part(task: TrainingTask, plan: Any, cluster: Any) -> float:
    """Return the part of a step on one device that oneDNN computes."""
    import hetero_mtf as hm

    with hm.Trainer(task.model, plan, cluster, **task.settings) as trainer:
        for _ in range(3):
            trainer.train_on_batch(*task.data)
        return onednn_part(recorded_steps(trainer, *task.data, steps=3))


def layer_ratios(profile: Any) -> list[float]:
    """Return how many times as long each measured layer takes on the slowest device as on the fastest, its forward and backward pass."""
    from hetero_mtf.planning.cost.layer_cost import Costs

    costs = Costs(profile)
    seconds = [
        sum(costs.tables.rows(layer, "replicated", step_pass)[:, -1] for step_pass in ("forward", "backward"))
        for layer in dict.fromkeys(costs.alike)
    ]
    by_device = np.array([each for each in seconds if np.min(each) > 0])
    return (by_device.max(axis=1) / by_device.min(axis=1)).tolist() if len(by_device) else []


def row(case: dict[str, Any]) -> Row:
    """Return the row of a network and its instruction sets."""
    seconds = {name: entry["measured_s"] for name, entry in case["times"].items()}
    alone_s = [value for name, value in seconds.items() if name.startswith("alone")]
    ratios = case["ratios"]
    return table_row(
        {
            "network": f"{NETWORKS[case['network']].title}, batch {case['batch']}",
            "sets": ", ".join(case["sets"]),
            "alone_ms": [1e3 * value for value in alone_s],
            "onednn": case["onednn"],
            "ratios": [min(ratios), float(np.median(ratios)), max(ratios)] if ratios else None,
            "equal_ms": 1e3 * seconds[EQUAL],
            "filters_ms": 1e3 * seconds[FILTERS],
            "samples_ms": 1e3 * seconds[SAMPLES],
            "chosen": case["automatic"],
            "predicted_ms": 1e3 * case["predicted_s"],
            "auto_ms": 1e3 * seconds[AUTO],
            "error": case["predicted_s"] / seconds[AUTO] - 1,
            "efficiency": ideal_s(alone_s) / seconds[AUTO],
            "times": min(seconds[FILTERS], seconds[SAMPLES], *alone_s) / seconds[AUTO],
        }
    )


@click.command(help=__doc__)
@click.option("--model", "models", multiple=True, type=click.Choice(list(NETWORKS)), help="A network, several times for more.")
@click.option("--sets", "pairs", multiple=True, default=SETS, show_default=True, help=f"Of {', '.join(NAMES)}, one for each device.")
@pace_options(5, 2, 60.0)
@output_options(after="network")
def main(models: tuple[str, ...], pairs: tuple[str, ...], pace: Pace, output: Output) -> None:
    """Measure, and print the table."""
    cases: list[dict[str, Any]] = []
    for pair in pairs:
        for name in models or FIVE:
            cases.append(run(name, [part.strip() for part in pair.split(",")], pace))
            output.record({"cases": cases})
            output.publish(FORM, [row(cases[-1])])
    click.echo(shown(FORM, [row(case) for case in cases]))


if __name__ == "__main__":
    main()
