"""Claim: what `auto` plans is at least 0.90 efficient, and at least 1.6 times as fast as equal batches in other libraries.

Efficiency: each of five networks on emulated devices; every device alone and the plan that auto takes are open side by side and take
turns, and a figure is the median over rounds. efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of
device d alone. What is missing to 1 is compute beyond the ideal, communication and idle time: predicted, and measured by tracing steps. The
communication ceiling is the efficiency of compute that is balanced perfectly, with what layouts send at the measured rate, and the ceiling
together the same for devices that slow each other (tools/bench/comparison/ceiling.py).

Comparison: six convolutions of 64 to 512 filters with pools, 32x32 images, a dense layer of 256; PyTorch's DistributedDataParallel over
gloo, where a Python with torch is named, and tf.distribute.MultiWorkerMirroredStrategy, with equal batches on the same cores under the
same limits, take turns with this project's plans.

    python -m tools.bench.auto [--torch-python ~/torch-env/bin/python] [--json auto.json]
    python -m tools.bench.auto --part efficiency --model vgg11
    python -m tools.bench.auto --part efficiency --model vgg11 --limit compute
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.devices.records import LIMITS
from tools.bench.baselines.equal_batches import DDP, MIRRORED, NO_TORCH, Baselines
from tools.bench.baselines.tasks import Trained
from tools.bench.comparison.ceiling import communication_ceilings
from tools.bench.comparison.lost import PARTS, ideal_s, lost, on_all
from tools.bench.comparison.measured import arrangement_text, cluster_text
from tools.bench.comparison.networks import FIVE, NETWORKS
from tools.bench.comparison.options import limit_option, pace_options, shares_option, torch_option
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure, parts_text
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

EFFICIENCY, TIMES_AS_FAST = 0.90, 1.6  # at least, of the claim
COMPARED = "vgg8"
EQUAL, EQUAL_FILTERS = "our equal batches", "our equal filters"


@dataclasses.dataclass(frozen=True)
class AutoCase:
    """What is measured.

    Parameters
    ----------
    network : key in `NETWORKS`.
    shares : (devices,) share of a core of each.
    batch : samples per step.
    pace : how long to measure.
    equal : what equal splits of this project take part: EQUAL, EQUAL_FILTERS or both.
    compared : whether equal batches of other libraries take part.
    torch_python : a Python with torch, or None to leave PyTorch out.
    limit : what the shares limit, of all arrangements.
    """

    network: str
    shares: Sequence[float]
    batch: int
    pace: Pace
    equal: tuple[str, ...] = ()
    compared: bool = False
    torch_python: str | None = None
    limit: str = LIMITS[0]


def run(question: AutoCase) -> dict[str, Any]:
    """Return the seconds of every arrangement, predicted and measured, and where those of auto's plan go."""
    import hetero_mtf as hm

    network = NETWORKS[question.network]
    task, count = TrainingTask(network.make(), question.batch), len(question.shares)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(question.shares, limit=question.limit))
        trained = Trained.of(question.network, task.model)
        baselines = Baselines(trained, question.shares, task.batch, question.torch_python, question.limit, cluster.method)
        others = baselines.start(stack) if question.compared else {}
        budget_s = question.pace.budget_s
        profile = hm.calibrate(cluster, task.model, task.batch, optimizer=task.settings["optimizer"], budget_s=budget_s)
        automatic = hm.plan(profile)
        plans = {f"alone {d}": hm.Plan.single(task.model, d, cluster, task.batch) for d in range(count)}
        split = {EQUAL: hm.Plan.batch, EQUAL_FILTERS: hm.Plan.filters}
        plans |= {name: split[name](task.model, [1.0] * count, cluster, task.batch) for name in question.equal}
        times = measure(task, {**plans, "auto": automatic}, cluster, question.pace, others)
        names, method = [device.name for device in cluster.devices], cluster.method
    return {
        "network": question.network,
        "shares": question.shares,
        "limit": question.limit,
        "batch": task.batch,
        "limited_by": method,
        "automatic": automatic.strategy,
        "predicted_s": automatic.predicted.step_s,
        "times": times,
        "plan": automatic.to_json(),
        **_conclusions(times, automatic, profile, names),
    }


def _conclusions(times: dict[str, Any], automatic: Any, profile: Any, devices: list[str]) -> dict[str, Any]:
    """Return ideal, efficiency, its ceilings, and what is lost where."""
    predicted = automatic.predicted
    alone_s = [times[f"alone {d}"]["measured_s"] for d in range(len(devices))]
    step_s = times["auto"]["measured_s"]
    measured_parts = on_all(times["auto"]["measured_parts"], devices, step_s)
    predicted_parts = on_all([dataclasses.asdict(part) for part in predicted.parts], devices, predicted.step_s)
    return {
        "ideal_s": ideal_s(alone_s),
        "efficiency": ideal_s(alone_s) / step_s,
        "ceiling": max(communication_ceilings(profile, {"auto": automatic}, alone_s).values()),
        "together": max(communication_ceilings(profile, {"auto": automatic}, alone_s, together=True).values()),
        "predicted_parts": predicted_parts,
        "measured_parts": measured_parts,
        "lost": lost(measured_parts, alone_s, step_s),
        "times_as_fast": {name: times[name]["measured_s"] / step_s for name in (MIRRORED, DDP, EQUAL, EQUAL_FILTERS) if name in times},
    }


def efficiency_row(case: dict[str, Any]) -> Row:
    """Return the row of a network: times, efficiency, what is lost where, and the parts of a step of each device."""
    return table_row(
        {
            "network": f"{NETWORKS[case['network']].title}, batch {case['batch']}",
            "cluster": cluster_text(case["shares"], case.get("limit", LIMITS[0])),
            "alone_ms": [1e3 * entry["measured_s"] for name, entry in case["times"].items() if name.startswith("alone")],
            "ideal_ms": 1e3 * case["ideal_s"],
            "predicted_ms": 1e3 * case["predicted_s"],
            "auto_ms": 1e3 * case["times"]["auto"]["measured_s"],
            "chosen": case["automatic"],
            "efficiency": case["efficiency"],
            "ceiling": case["ceiling"],
            "together": case["together"],
            "lost": [case["lost"][name] for name in PARTS],
            "predicted_parts": parts_text(case["predicted_parts"]),
            "measured_parts": parts_text(case["measured_parts"]),
        }
    )


def comparison_rows(case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement: milliseconds per step, and how many times as fast auto's plan is."""
    step_s = case["times"]["auto"]["measured_s"]
    seconds = {name: entry["measured_s"] for name, entry in case["times"].items()}
    rows = []
    for name, value in {**seconds, "ideal": case["ideal_s"]}.items():
        automatic = name == "auto"
        names = {
            "cluster": cluster_text(case["shares"], case.get("limit", LIMITS[0])),
            "arrangement": f"auto ({case['automatic']})" if automatic else arrangement_text(name),
        }
        times = {"predicted_ms": 1e3 * case["predicted_s"] if automatic else None, "measured_ms": 1e3 * value}
        wanted = {"times_auto": TIMES_AS_FAST if name in (MIRRORED, DDP) else None}
        rows.append(table_row({**names, **times, "times_auto": value / step_s}, wanted))
    return rows


EFFICIENCIES = TableForm(
    "auto_efficiency",
    "Efficiency of auto",
    (
        Column("network", "network"),
        Column("cluster", "cluster"),
        Column("alone_ms", "each device alone ms", ".0f"),
        Column("ideal_ms", "ideal ms", ".0f"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("auto_ms", "auto ms", ".0f"),
        Column("chosen", "auto chooses"),
        Column("efficiency", "efficiency", ".2f", "at_least", EFFICIENCY),
        Column("ceiling", "communication ceiling", ".2f"),
        Column("together", "ceiling together", ".2f"),
        Column("lost", "lost: compute / communication / idle", ".0%"),
        Column("predicted_parts", "predicted parts ms"),
        Column("measured_parts", "measured parts ms"),
    ),
    case=("network", "cluster"),
)
COMPARISON = TableForm(
    "auto_comparison",
    "auto against equal batches elsewhere",
    (
        Column("cluster", "cluster"),
        Column("arrangement", "arrangement"),
        Column("predicted_ms", "predicted ms/step", ".0f"),
        Column("measured_ms", "ms/step", ".0f"),
        Column("times_auto", "auto is x times as fast", ".2f", "at_least"),
    ),
    case=("cluster",),
)


@click.command(help=__doc__)
@click.option("--part", type=click.Choice(["all", "efficiency", "comparison"]), default="all", show_default=True, help="What to measure.")
@click.option("--model", "models", multiple=True, type=click.Choice(list(NETWORKS)), help="A network, several times for more.")
@shares_option
@click.option("--batch", type=click.IntRange(1), help="Samples per step, for efficiency.  [default: as each network is usually trained]")
@torch_option
@pace_options(7, 2, 90.0)
@limit_option
@output_options(after="network")
def main(
    part: str,
    models: tuple[str, ...],
    shares: tuple[float, ...],
    batch: int | None,
    torch_python: str | None,
    limit: str,
    pace: Pace,
    output: Output,
) -> None:
    """Measure, and print the tables."""
    document: dict[str, Any] = {}
    if part != "comparison":
        cases: list[dict[str, Any]] = []
        for network in models or FIVE:
            cases.append(run(AutoCase(network, shares, batch or NETWORKS[network].usual, pace, limit=limit)))
            output.record(document | {"efficiency": cases})
            output.publish(EFFICIENCIES, [efficiency_row(cases[-1])])
        click.echo(shown(EFFICIENCIES, [efficiency_row(case) for case in cases]))
        print("\nParts are compute+communication+idle of each device; what is lost is a part of the step and sums to 1 - efficiency.\n")
        document["efficiency"] = cases
    if part != "efficiency":
        compared = run(AutoCase(COMPARED, shares, NETWORKS[COMPARED].batch, pace, (EQUAL,), True, torch_python, limit))
        output.record(document | {"comparison": compared})
        notes = [NO_TORCH] if torch_python is None else []
        output.report(COMPARISON, comparison_rows(compared), notes)


if __name__ == "__main__":
    main()
