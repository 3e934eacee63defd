"""Claim: schedules without a flush take at most 1/0.9 of the slowest stage's share, and 1/1.25 of the best synchronous pipeline's step.

For each network on each cluster, side by side in one process tree, taking turns; a figure is the median over rounds: the fastest device
alone, what auto plans, the pipelines fill_drain and 1f1b with 8 microbatches, and decoupled (replay, stored) and 1f1b_2bw (stored, the best
number of microbatches), each with its own best partition; the partition of decoupled (stored) without microbatches is there too. Peak
memory is that of workers that train by one plan alone, less what they take once connected. The ceiling of a case is the best synchronous
pipeline's step / the compute of the slowest stage of the best partition, as predicted; reached is the part of it that the best schedule
without a flush reaches.

    python -m tools.bench.late.speed [--json speed.json [--resume]]
    python -m tools.bench.late.speed --model vgg11 --cluster 0.8,0.4
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import click

from hetero_mtf.runtime.process_memory import peak_bytes
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import pace_options
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure, parts_text
from tools.bench.late.border import border_idle_s
from tools.bench.memory import MB, connect
from tools.bench.prediction import PredictionCase
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

TIMES, REACHED = 1.25, 0.9  # of the claim
MICROBATCHES = 8
DEEP = ("vgg11", "resnet50", "resattnet18")
CLUSTERS = ("0.8,0.8", "0.8,0.4", "0.4,0.4,0.4,0.4")
SYNCHRONOUS, LATE = ("fill_drain", "1f1b"), ("decoupled, replay", "decoupled, stored", "1f1b_2bw, stored")
LATE_SCHEDULES = ("decoupled", "1f1b_2bw")
PARTITION = "partition, one batch"


def run(case: PredictionCase, pace: Pace) -> dict[str, Any]:
    """Return what was predicted and measured of one case."""
    import hetero_mtf as hm
    from hetero_mtf.errors import PlanError

    task = TrainingTask(NETWORKS[case.network].make(), case.batch)
    with hm.Cluster.parse(f"emulate:{case.cluster}") as cluster:
        profile = hm.calibrate(cluster, task.model, case.batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        plans = {"one device": hm.plan(profile, strategy="single"), "auto": hm.plan(profile)}
        for name, options in pipelines().items():
            try:
                plans[name] = hm.plan(profile, strategy="pipeline", pipeline=options)
            except PlanError as fault:
                click.echo(f"{case.network} on {case.cluster}, {name}: {fault}", err=True)
        nothing = {"schedule": "synchronous", "stale": None, "predicted": None}
        plans[PARTITION] = dataclasses.replace(plans[LATE[1]], **nothing)
        figures = measure(task, plans, cluster, pace, {})
        method = cluster.method
    for name, plan in plans.items():
        figures[name] |= by_itself(task, plan, case.cluster)
        figures[name].pop("traced_tasks", None)
        figures[name]["plan"] = f"{plan.strategy} " + "-".join(str(len(stage.layers)) for stage in plan.stages)
        predicted = plan.predicted
        figures[name] |= {"predicted_s": predicted.step_s, "launch_s": predicted.launch_s} if predicted else {"predicted_s": None}
    slowest_s = min(slowest_stage_s(plans[name]) for name in LATE if name in plans)
    return {**dataclasses.asdict(case), "limited_by": method, "slowest_s": slowest_s, "arrangements": figures}


def by_itself(task: TrainingTask, plan: Any, shares: str) -> dict[str, list[float]]:
    """Return the peak bytes of each device's worker, and of a plan without a flush the seconds that each stage rests between steps."""
    import hetero_mtf as hm

    with hm.Cluster.parse(f"emulate:{shares}") as cluster:
        connect(cluster)
        processes = cluster._backend.process_ids()
        before = [peak_bytes(process) for process in processes]
        with hm.Trainer(task.model, plan, cluster, **task.settings) as trainer:
            for _ in range(2 * len(plan.stages)):
                trainer.train_on_batch(*task.data)
            trainer.wait()
            figures = {"peak_bytes": [peak_bytes(process) - start for process, start in zip(processes, before)]}
            border = {"border_s": border_idle_s(trainer, *task.data)} if plan.schedule in LATE_SCHEDULES else {}
    return {**figures, **border}


def pipelines() -> dict[str, Any]:
    """Return the options of each pipeline."""
    import hetero_mtf as hm

    def options(schedule: str, **more: Any) -> Any:
        return hm.PipelineOptions(schedule=schedule, groups=False, **more)

    synchronous = {name: options(name, microbatches=MICROBATCHES) for name in SYNCHRONOUS}
    late = {f"decoupled, {backward}": options("decoupled", stale=hm.StaleOptions(backward)) for backward in ("replay", "stored")}
    return {**synchronous, **late, LATE[2]: options("1f1b_2bw", stale=hm.StaleOptions("stored"))}


def slowest_stage_s(plan: Any) -> float:
    """Return the predicted compute seconds of the slowest device of a plan, in a step."""
    return float(max(part.compute_s for part in plan.predicted.parts))


def conclusions(case: dict[str, Any]) -> dict[str, float]:
    """Return how a case's schedules without a flush compare with synchronous ones.

    Parameters
    ----------
    case : what `run` returns.
    """
    seconds = {name: entry["measured_s"] for name, entry in case["arrangements"].items()}
    pipeline_s = min(seconds[name] for name in SYNCHRONOUS if name in seconds)
    late_s = min(seconds[name] for name in LATE if name in seconds)
    ceiling = pipeline_s / case["slowest_s"]
    return {
        "ceiling": ceiling,
        "times_pipeline": pipeline_s / late_s,
        "reached": pipeline_s / late_s / ceiling,
        "times_alone": seconds["one device"] / late_s,
        "times_auto": seconds["auto"] / late_s,
    }


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement of a case."""
    lines = []
    for name, entry in case["arrangements"].items():
        numbers: dict[str, Any] = {"measured_ms": 1e3 * entry["measured_s"], "samples_s": case["batch"] / entry["measured_s"]}
        if entry["predicted_s"] is not None:
            numbers |= {"predicted_ms": 1e3 * entry["predicted_s"], "launch_ms": 1e3 * entry["launch_s"]}
        if "border_s" in entry:
            numbers["border_ms"] = [1e3 * seconds for seconds in entry["border_s"]]
        numbers["peak_mb"] = [held / MB for held in entry["peak_bytes"]]
        spread = max(entry["rounds_s"]) / min(entry["rounds_s"]) - 1
        parts = parts_text(entry["measured_parts"])
        lines.append(
            table_row({**_case_cells(case), "arrangement": name, "plan": entry["plan"], **numbers, "spread": spread, "parts": parts})
        )
    return lines


def claims_row(case: dict[str, Any]) -> Row:
    """Return the row of a case: the best schedule without a flush beside the others."""
    figures = conclusions(case)
    is_named = (case["network"], case["cluster"]) == ("vgg11", "0.8,0.4")
    return table_row({**_case_cells(case), **figures}, {"times_pipeline": TIMES if is_named else None})


_CASE = (Column("network", "network"), Column("cluster", "cluster"))
TABLE = TableForm(
    "late_speed_arrangements",
    "Schedules without a flush, arrangement by arrangement",
    (
        *_CASE,
        Column("arrangement", "arrangement"),
        Column("plan", "plan: layers by stage"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("launch_ms", "of it launch and feed ms", ".0f"),
        Column("measured_ms", "measured ms", ".0f"),
        Column("samples_s", "samples/s", ".1f"),
        Column("spread", "spread of rounds", ".0%"),
        Column("peak_mb", "peak memory by device MB", ".0f"),
        Column("border_ms", "idle between steps, by stage ms", ".0f"),
        Column("parts", "compute+communication+idle ms"),
    ),
    case=("network", "cluster"),
)
CLAIMS = TableForm(
    "late_speed",
    "Schedules without a flush",
    (
        *_CASE,
        Column("ceiling", "ceiling x best synchronous pipeline", ".2f"),
        Column("times_pipeline", "x best synchronous pipeline", ".2f", "at_least"),
        Column("reached", "of the ceiling", ".2f", "at_least", REACHED),
        Column("times_alone", "x one device", ".2f"),
        Column("times_auto", "x auto", ".2f"),
    ),
    case=("network", "cluster"),
)


def report(cases: Sequence[dict[str, Any]]) -> str:
    """Return the tables of all cases."""
    return "\n\n".join([shown(TABLE, [row for case in cases for row in rows(case)]), shown(CLAIMS, list(map(claims_row, cases)))])


def _case_cells(case: dict[str, Any]) -> dict[str, Any]:
    return {"network": f"{NETWORKS[case['network']].title}, batch {case['batch']}", "cluster": case["cluster"]}


@click.command(help=__doc__)
@click.option("--model", "models", multiple=True, type=click.Choice(list(NETWORKS)), help="A network, several times for more.")
@click.option("--cluster", "clusters", multiple=True, help="Shares of a core, such as 0.8,0.4; several times for more.")
@click.option("--batch", type=int, help="Samples per step.  [default: 64, 16 for volumes]")
@pace_options(5, 3, None)
@output_options(after="case", resumes=True)
def main(models: tuple[str, ...], clusters: tuple[str, ...], batch: int | None, pace: Pace, output: Output) -> None:
    """Run the cases, print their tables."""
    pairs = itertools.product(models or DEEP, clusters or CLUSTERS)
    cases = [PredictionCase(network, cluster, batch or (16 if network == "resattnet18" else 64)) for network, cluster in pairs]
    measured = Cases(output)
    for case in cases:
        if measured.find(**dataclasses.asdict(case)):
            continue
        figures = measured.measure(f"{case.network} on {case.cluster}", functools.partial(run, case, pace))
        output.publish(TABLE, rows(figures))
        output.publish(CLAIMS, [claims_row(figures)])
        print(report([figures]), flush=True)
    print(report(measured.done))


if __name__ == "__main__":
    main()
