"""Claim: auto's plan reaches 0.95 of what the ideal allows over equal batches elsewhere, and beats unequal ones weighted by hand.

Five networks (VGG-8, ResNet-18, an AlexNet, a 3-D ResNet-10, a 3-D U-Net trained by cross-entropy of voxels) on emulated devices: each
device alone, auto's plan, tf.distribute.MultiWorkerMirroredStrategy and PyTorch's DistributedDataParallel with equal batches, and the
latter with unequal batches as users write them by hand: samples in proportion to the devices' speeds, which the same run measures before,
and each loss multiplied by samples * processes / batch. All are open side by side under the same limits and take turns; a figure is the
median over rounds.

Limits of *its step / ours*, for equal batches: 0.95 * its step / ideal, ideal = 1 / sum over devices of 1 / T_d, and 1.6 for ResNet-18. For
unequal batches: at least 1 less the larger spread of both, and 1.1 as the geometric mean of the networks.

    python -m tools.bench.baselines.rivals [--torch-python ~/torch-env/bin/python] [--network vgg8] [--shares 1.0,0.5] [--limit compute]
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import statistics
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.devices.records import LIMITS
from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.baselines.equal_batches import DDP, MIRRORED, NO_TORCH, UNEQUAL_DDP, Baselines
from tools.bench.baselines.tasks import COMPARED, TITLES, Trained, compared_task
from tools.bench.comparison.lost import ideal_s
from tools.bench.comparison.measured import arrangement_text, cluster_text
from tools.bench.comparison.options import limit_option, pace_options, shares_option, torch_option
from tools.bench.comparison.side_by_side import Pace, measure
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

OF_IDEAL, RESNET18_TIMES, UNEQUAL_TIMES = 0.95, 1.6, 1.1  # at least, of the claim
AUTO, IDEAL = "auto", "ideal"
_SPEED_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class RivalCase:
    """What is measured.

    Parameters
    ----------
    network : one of `COMPARED`.
    shares : (devices,) share of a core of each.
    pace : how long to measure.
    torch_python : a Python with torch, or None to leave PyTorch out.
    limit : what the shares limit, of all arrangements.
    """

    network: str
    shares: Sequence[float]
    pace: Pace
    torch_python: str | None = None
    limit: str = LIMITS[0]


def run(question: RivalCase) -> dict[str, Any]:
    """Return the seconds of every round of every arrangement, and the samples of each device."""
    import hetero_mtf as hm
    from hetero_mtf.training.timing import time_plans

    task, count = compared_task(question.network), len(question.shares)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(question.shares, limit=question.limit))
        alone = {f"alone {d}": hm.Plan.single(task.model, d, cluster, task.batch) for d in range(count)}
        before = time_plans(task.model, alone, cluster, *task.data, **task.settings, rounds=_SPEED_ROUNDS, steps=question.pace.steps)
        speeds = [1 / statistics.median(before[name]) for name in alone]
        budget_s, optimizer = question.pace.budget_s, task.settings["optimizer"]
        automatic = hm.plan(hm.calibrate(cluster, task.model, task.batch, optimizer=optimizer, budget_s=budget_s))
        trained = Trained.of(question.network, task.model)
        baselines = Baselines(trained, question.shares, task.batch, question.torch_python, question.limit, cluster.method, speeds)
        times = measure(task, {**alone, AUTO: automatic}, cluster, question.pace, baselines.start(stack))
        method = cluster.method
    return {
        "network": question.network,
        "shares": question.shares,
        "limit": question.limit,
        "limited_by": method,
        "batch": task.batch,
        "speeds": speeds,
        "automatic": automatic.strategy,
        "predicted_s": automatic.predicted.step_s,
        "plan": automatic.to_json(),
        "samples": {AUTO: plan_samples(automatic), **{baseline.name: list(baseline.samples) for baseline in baselines.chosen()}},
        "times": times,
    }


def plan_samples(plan: Any) -> list[int]:
    """Return the samples of each device where all layers that split the batch split it alike, else nothing."""
    splits = {tuple(layout.samples) for stage in plan.stages for layout in stage.layouts if layout.samples}
    return list(splits.pop()) if len(splits) == 1 else []


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement, and one of the ideal."""
    measured = {name: median_and_spread(entry["rounds_s"]) for name, entry in case["times"].items()}
    ours_s, _ = measured[AUTO]
    bound_s = ideal_s([step_s for name, (step_s, _) in measured.items() if name.startswith("alone")])
    table = []
    for name, (step_s, spread) in {**measured, IDEAL: (bound_s, None)}.items():
        limit = None
        if name in (MIRRORED, DDP):
            limit = RESNET18_TIMES if case["network"] == "resnet18" else OF_IDEAL * step_s / bound_s
        elif name == UNEQUAL_DDP:
            limit = least_ratio((step_s, spread), measured[AUTO])
        cells = {
            **step_cells(case, name, step_s, spread, ours_s),
            "cluster": cluster_text(case["shares"], case["limit"]),
            "arrangement": f"{AUTO} ({case['automatic']})" if name == AUTO else arrangement_text(name),
        }
        table.append(table_row(cells, {"times_ours": None if limit is None else round(limit, 2)}))
    return table


def step_cells(case: dict[str, Any], name: str, step_s: float, spread: float | None, ours_s: float) -> dict[str, Any]:
    """Return the cells of an arrangement's row that are the same wherever it was measured.

    Parameters
    ----------
    case : with network, batch, and samples of each arrangement.
    name : of the arrangement.
    step_s, spread : seconds of its step, and their spread.
    ours_s : seconds of the step that it is compared with.
    """
    return {
        "network": f"{TITLES[case['network']]}, batch {case['batch']}",
        "samples": ":".join(map(str, case["samples"].get(name, ()))) or None,
        "step_ms": 1e3 * step_s,
        "times_ours": step_s / ours_s,
        "spread": spread,
    }


def least_ratio(its: tuple[float, float], ours: tuple[float, float]) -> float:
    """Return what its step / ours is at least where ours is not slower beyond the larger spread.

    Parameters
    ----------
    its, ours : seconds of a step, and their spread, relative to them.
    """
    return 1 - max(step_s * spread for step_s, spread in (its, ours)) / ours[0]


def _summary(measured: Sequence[Row]) -> list[str]:
    """Return what the unequal batches of all networks say together, of each cluster."""
    ratios: dict[str, list[float]] = {}
    for row in measured:
        if row.texts.get("arrangement") == UNEQUAL_DDP:
            ratios.setdefault(row.texts["cluster"], []).append(row.numbers["times_ours"])
    return [_mean_text(cluster, each) for cluster, each in ratios.items()]


def _mean_text(cluster: str, ratios: Sequence[float]) -> str:
    mean = statistics.geometric_mean(ratios)
    text = f"{mean:.2f}" if mean >= UNEQUAL_TIMES else f"**{mean:.2f}**"
    cases = "1 case" if len(ratios) == 1 else f"{len(ratios)} cases"
    return f"At {cluster}: step of {UNEQUAL_DDP} / ours: {text} (at least {UNEQUAL_TIMES:g}) in the geometric mean of {cases}."


TABLE = TableForm(
    "rivals",
    "auto against equal and unequal batches elsewhere",
    (
        Column("network", "network"),
        Column("cluster", "cluster"),
        Column("arrangement", "arrangement"),
        Column("samples", "samples of each device"),
        Column("step_ms", "ms/step", ".0f"),
        Column("times_ours", "its step / ours", ".2f", "at_least"),
        Column("spread", "spread", ".2f"),
    ),
    case=("network", "cluster"),
    summarise=_summary,
)


@click.command(help=__doc__)
@click.option("--network", "names", multiple=True, type=click.Choice(COMPARED), help="One, several times for more.  [default: all]")
@shares_option
@limit_option
@torch_option
@pace_options(7, 2, 90.0)
@output_options(after="network")
def main(names: tuple[str, ...], shares: tuple[float, ...], limit: str, torch_python: str | None, pace: Pace, output: Output) -> None:
    """Measure, and print the table."""
    notes = [NO_TORCH] if torch_python is None else []
    cases = Cases(output)
    for name in names or COMPARED:
        case = cases.measure(name, functools.partial(run, RivalCase(name, shares, pace, torch_python, limit)))
        output.publish(TABLE, rows(case), notes if len(cases.done) == 1 else [])
    click.echo(shown(TABLE, [row for case in cases.done for row in rows(case)], notes))


if __name__ == "__main__":
    main()
