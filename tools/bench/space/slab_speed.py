"""Claim: one volume cut into slabs by measured speed trains faster on unequal devices than by any plan without slabs.

A 3-D U-Net trains volumes of 64^3 and 96^3, one a step, on emulated devices: each device alone, slabs by measured speed and equal ones,
filters, and the optimal layouts of layers with slabs and without. Plans come of one calibration, are open side by side and take turns; a
figure is the median over rounds. efficiency = ideal / measured, ideal = 1 / sum over devices of 1 / T_d, T_d the step of device d alone.
Then steps in slabs are traced, and each layer's passes compared with its curve over the thickness of slabs. Short passes on a limited
device take what is left of its share just then, so each is the mean of several steps; the median by time is the error that passes with
half of the predicted time are below. How far the means of every other of the steps are apart shows what no curve could predict. Devices of
a whole core are judged by themselves too, as emulation slows short passes less than long ones.

    python -m tools.bench.space.slab_speed [--shares 1.0,0.5] [--sets avx512,sse41] [--extent 64 --extent 96] [--rounds 5]
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import statistics
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.planning.profile.spread import median_and_spread
from tools.bench.comparison.measured import arrangement_text, cluster_text
from tools.bench.comparison.options import pace_options, shares_option
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

FILTERS, TRACES = (16, 32, 64), 10
WANTED, CURVE_ERROR = 1.3, 0.1
EMULATED = "An emulated device of part of a core that has waited runs at full speed at first: short passes take less than curves say."
WITHOUT = ("filters", "layers without slabs")  # and each device alone
TABLE = TableForm(
    "slab_speed",
    "A 3-D U-Net on one volume a step",
    (
        Column("extent", "volume"),
        Column("cluster", "cluster"),
        Column("arrangement", "arrangement"),
        Column("slabs", "slabs of the volume"),
        Column("predicted_ms", "predicted ms/step", ".0f"),
        Column("measured_ms", "ms/step", ".0f"),
        Column("spread", "spread", ".0%"),
        Column("times_fast", "x fastest device", ".2f", "at_least"),
        Column("times_others", "x best without slabs", ".2f", "at_least"),
        Column("efficiency", "efficiency", ".2f"),
    ),
    case=("extent", "cluster"),
)
CURVES = TableForm(
    "slab_curves",
    "Layers in slabs beside their curves over thickness",
    (
        Column("extent", "volume"),
        Column("cluster", "cluster"),
        Column("passes", "passes of layers", ".0f"),
        Column("median", "off by, median", ".1%", "at_most"),
        Column("unlimited", "on whole cores, median", ".1%", "at_most"),
        Column("by_time", "median by time", ".1%", "at_most"),
        Column("apart", "halves of the steps apart, median", ".1%"),
        Column("weighted", "all passes together", "+.1%"),
    ),
    case=("extent", "cluster"),
)


def timed(extent: int, shares: Sequence[float], sets: Sequence[str], pace: Pace) -> dict[str, Any]:
    """Return plans, their seconds and the errors of curves for volumes of an extent.

    Parameters
    ----------
    extent : of the volume in each dimension.
    shares : (devices,) of a core.
    sets : (devices,) newest instruction set of each; empty for all.
    pace : how long to measure.
    """
    import hetero_mtf as hm
    from models.unet3d import unet3d

    model = unet3d(extent, 1, 2, FILTERS)
    task = TrainingTask(model, 1)
    with hm.Cluster.emulate(shares, instruction_sets=sets) as cluster:
        profile = hm.calibrate(cluster, model, 1, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        made = {name: hm.plan(profile, strategy=name) for name in ("space", "filters", "layers")}
        whole = dataclasses.replace(profile, curves=tuple(curve for curve in profile.curves if curve.dimension != "space"))
        plans = {f"alone {d}": hm.Plan.single(model, d, cluster, 1) for d in range(len(shares))}
        plans |= {"space": made["space"], "equal slabs": hm.Plan.space(model, [1] * len(shares), cluster, 1), "filters": made["filters"]}
        plans |= {"layers": made["layers"], "layers without slabs": hm.plan(whole, strategy="layers")}
        figures = measure(task, plans, cluster, Pace(pace.rounds, pace.steps, pace.budget_s, 0), {})
        errors = curve_errors(task, made["space"], cluster, profile)
    for name, plan in plans.items():
        figures[name]["predicted_s"] = plan.predicted.step_s if plan.predicted is not None else None
        figures[name]["slabs"] = list(plan.stages[0].layouts[0].slabs)
    case = {"extent": extent, "shares": list(shares), "sets": list(sets)}
    return {**case, "figures": figures, "curves": errors, "automatic": hm.plan(profile).strategy}


def curve_errors(task: TrainingTask, plan: Any, cluster: Any, profile: Any) -> list[tuple[float, float, float, float]]:
    """Return of each pass of each layer in slabs the device's share of a core, and predicted and traced seconds.

    Traced are the means of every other step, from the first and from the second.
    """
    import hetero_mtf as hm
    from hetero_mtf.planning.cost.layer_cost import Costs
    from hetero_mtf.planning.refinement.observations import observations
    from hetero_mtf.planning.refinement.plan_run import PlanRun
    from hetero_mtf.training.plan_runner import traced_step

    with hm.Trainer(task.model, plan, cluster, **task.settings) as trainer:
        for _ in range(3):
            trainer.train_on_batch(*task.data)
        traces = tuple(traced_step(trainer.trace_on_batch(*task.data), cluster.devices) for _ in range(TRACES))
    shares = [device.share for device in cluster.devices]
    found: dict[tuple[int, int, str], list[tuple[float, float]]] = {}
    for trace in traces:
        for entry in observations(Costs(profile), [PlanRun(plan, (trace.step_s,), (trace,), trace.step_s, trace.step_s)]):
            if entry.split == "positions":
                found.setdefault((entry.layer, entry.device, entry.step_pass), []).append((entry.predicted_s, entry.traced_s))
    passes = ((shares[device], *zip(*each)) for (_, device, _), each in found.items())
    mean = statistics.fmean
    return [(share, mean(predicted), mean(traced[::2]), mean(traced[1::2])) for share, predicted, traced in passes]


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement."""
    seconds = {name: entry["measured_s"] for name, entry in case["figures"].items()}
    alone = {name: value for name, value in seconds.items() if name.startswith("alone")}
    fast_s, ideal_s = min(alone.values()), 1 / sum(1 / value for value in alone.values())
    best_s = min([fast_s, *(seconds[name] for name in WITHOUT)])
    table = []
    for name, entry in case["figures"].items():
        median_s, spread = median_and_spread(entry["rounds_s"])
        planned = name == "space"
        cells = {"extent": f"{case['extent']}^3", "cluster": _cluster(case), "arrangement": arrangement_text(name)}
        cells["slabs"] = ":".join(map(str, entry["slabs"])) or "-"
        predicted_ms = None if entry["predicted_s"] is None else 1e3 * entry["predicted_s"]
        figures = {"predicted_ms": predicted_ms, "measured_ms": 1e3 * median_s, "spread": spread, "times_fast": fast_s / median_s}
        ratios = {"times_others": best_s / median_s, "efficiency": None if name in alone else ideal_s / median_s}
        table.append(table_row({**cells, **figures, **ratios}, {"times_fast": WANTED, "times_others": 1.0} if planned else {}))
    return table


def curve_row(case: dict[str, Any]) -> Row:
    """Return how far curves over thickness are off."""
    predicted, traced = [each[1] for each in case["curves"]], [statistics.fmean(each[2:]) for each in case["curves"]]
    off = [abs(t / p - 1) for p, t in zip(predicted, traced)]
    unlimited = [error for error, (share, *_) in zip(off, case["curves"]) if share == 1]
    cells = {"extent": f"{case['extent']}^3", "cluster": _cluster(case), "passes": float(len(off))}
    errors: dict[str, float | None] = {
        "median": statistics.median(off),
        "unlimited": statistics.median(unlimited) if unlimited else None,
        "by_time": _weighted_median(off, predicted),
        "apart": statistics.median(abs(first / second - 1) for *_, first, second in case["curves"]),
        "weighted": sum(traced) / sum(predicted) - 1,
    }
    judged = {name: CURVE_ERROR for name in ("median", "unlimited", "by_time") if errors[name] is not None}
    return table_row({**cells, **errors}, judged)


def _cluster(case: dict[str, Any]) -> str:
    """Return the devices as `emulate:` takes them."""
    shares = cluster_text(case["shares"])
    return ",".join(f"{share}@{name}" for share, name in zip(shares.split(","), case["sets"])) or shares


def _weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    ordered, half = sorted(zip(values, weights)), sum(weights) / 2
    reached = itertools.accumulate(weight for _, weight in ordered)
    return next(value for (value, _), so_far in zip(ordered, reached) if so_far >= half)


@click.command(help=__doc__)
@shares_option
@click.option("--sets", default="", help="Newest instruction set of each device, such as avx512,sse41.")
@click.option("--extent", "extents", type=int, multiple=True, default=(64, 96), show_default=True, help="Of a volume, or several.")
@pace_options(5, 1, 240.0)
@output_options(after="extent", resumes=True)
def main(shares: tuple[float, ...], sets: str, extents: tuple[int, ...], pace: Pace, output: Output) -> None:
    """Measure, and print both tables."""
    cases, table, curves = Cases(output), [], []
    names = sets.split(",") if sets else []
    for extent in extents:
        found = cases.find(extent=extent, shares=list(shares), sets=names)
        case = found or cases.measure(f"{extent}^3 on {shares} {sets}".rstrip(), functools.partial(timed, extent, shares, names, pace))
        table += rows(case)
        curves.append(curve_row(case))
    note = f"Filters of the levels: {', '.join(map(str, FILTERS))}. `auto` takes {cases.done[-1]['automatic']} for the last volume."
    output.publish(CURVES, curves, [EMULATED])
    click.echo(shown(CURVES, curves, [EMULATED]))
    output.report(TABLE, table, [note])


if __name__ == "__main__":
    main()
