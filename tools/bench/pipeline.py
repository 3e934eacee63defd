"""Claim: on unequal devices a planned pipeline is at least 1.25 times as fast as the equal partition, its step within 1/0.90 of J.

Two stages on emulated devices: (planned) the optimal partition for 8 microbatches, (equal) equal numbers of blocks, (partition, one
batch) the planned partition without microbatches, (naive) the optimal partition without microbatches, and every device alone are open
side by side and take turns; a figure is the median over rounds. The planned pipeline is also to be at least 1.2 times as fast as naive
model parallelism, and predicted steps within 15 % of the measured ones (median over all pipelines).
J = sum of stages and transfers + (M - 1) * the largest of them: from the profile, and from the stages' seconds in traced steps, with the
profile's transfers. The bubble is the idle part of the passes: predicted, measured in traced steps, and the ideal (S - 1) / (M + S - 1).

    python -m tools.bench.pipeline [--json pipeline.json [--resume]]
    python -m tools.bench.pipeline --model vgg11 --cluster 1.0,0.5
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import statistics
from collections.abc import Sequence
from typing import Any

import click

from tools.bench.comparison.accuracy import error
from tools.bench.comparison.measured import arrangement_text
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import pace_options
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure, parts_text
from tools.bench.comparison.task_times import bubble, measured_j, stage_passes_s
from tools.bench.prediction import PredictionCase
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

TIMES_EQUAL, TIMES_NAIVE, PART_OF_J, MEDIAN_ERROR = 1.25, 1.2, 0.90, 0.15  # of the claim
PLANNED, EQUAL, SAME_PARTITION, NAIVE = "planned", "equal", "partition, one batch", "naive"
PIPELINES = (PLANNED, EQUAL, SAME_PARTITION, NAIVE)
DEEP = ("vgg11", "resnet50")
UNEQUAL = "1.0,0.5"
CLUSTERS = ("1.0,1.0", UNEQUAL)


@dataclasses.dataclass(frozen=True)
class PipelineCase(PredictionCase):
    """A network on a cluster, and M microbatches of its pipelines."""

    microbatches: int


def run(case: PipelineCase, pace: Pace, folder: pathlib.Path | None) -> dict[str, Any]:
    """Return what was predicted and measured of one case; the profile and the plans are left in the folder, if there is one."""
    import hetero_mtf as hm

    task = TrainingTask(NETWORKS[case.network].make(), case.batch)
    with hm.Cluster.parse(f"emulate:{case.cluster}") as cluster:
        profile = hm.calibrate(cluster, task.model, case.batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        plans = pipelines(profile, case.microbatches)
        predicted = {name: prediction(profile, plan) for name, plan in plans.items()}
        _leave(folder, case, profile, plans)
        alone = {f"alone {d}": hm.Plan.single(task.model, d, cluster, case.batch) for d in range(len(cluster.devices))}
        times = measure(task, {**plans, **alone}, cluster, pace, {})
        method = cluster.method
    arrangements = {name: {**predicted.get(name, {}), **entry} for name, entry in times.items()}
    for name in plans:
        steps = arrangements[name].pop("traced_tasks")
        arrangements[name]["measured_bubble"] = statistics.median(map(bubble, steps))
        arrangements[name]["measured_passes_s"] = stage_passes_s(steps[0])
        arrangements[name]["measured_j_s"] = measured_j(steps, arrangements[name]["transfer_s"], plans[name].microbatches)
        arrangements[name]["tasks"] = steps[0]
    return {**dataclasses.asdict(case), "limited_by": method, "arrangements": arrangements, "conclusions": conclusions(arrangements)}


def pipelines(profile: Any, microbatches: int) -> dict[str, Any]:
    """Return the four pipelines of two stages that are compared.

    Parameters
    ----------
    microbatches : M.
    """
    import hetero_mtf as hm

    def best(allocator: str, parts: int) -> Any:
        return hm.plan(profile, strategy="pipeline", pipeline=hm.PipelineOptions(allocator=allocator, microbatches=parts, stages=2))

    planned = best("exact", microbatches)
    unsplit = dataclasses.replace(planned, microbatches=1, depths=(), predicted=None, proof=None)
    return {PLANNED: planned, EQUAL: best("equal", microbatches), SAME_PARTITION: unsplit, NAIVE: best("exact", 1)}


def prediction(profile: Any, plan: Any) -> dict[str, Any]:
    """Return what is known of a pipeline from a profile: seconds of the step, of stages and transfers, J, bubbles.

    Parameters
    ----------
    plan : Plan of strategy pipeline.
    """
    from hetero_mtf.planning.cost.step_cost import stage_cost
    from hetero_mtf.planning.pipeline.group_stages import with_samples
    from hetero_mtf.planning.pipeline.plan_prediction import time_line
    from hetero_mtf.planning.pipeline.prediction import MicrobatchCosts, boundaries_s
    from hetero_mtf.planning.schedule.simulator import chain_s, ideal_bubble

    costs, parts = MicrobatchCosts(profile), plan.microbatches
    simulated = time_line(costs.full_batch, plan)
    assert simulated is not None
    predicted, line = simulated
    at, stages = costs.at(-(-plan.batch_size // parts)), [with_samples(stage, -(-plan.batch_size // parts)) for stage in plan.stages]
    each, sent = [stage_cost(at, stage) for stage in stages], 2 * boundaries_s(at, stages)
    return {
        "layers": [[profile.cluster.devices[stage.devices[0]].name, len(stage.layers)] for stage in plan.stages],
        "predicted_s": predicted.step_s,
        "j_s": float(chain_s([cost.microbatch_s + cost.finish.seconds / parts for cost in each], sent, parts)),
        "transfer_s": sent.tolist(),
        "predicted_passes_s": [{"forward": cost.forward.seconds, "backward": cost.backward.seconds} for cost in each],
        "predicted_bubble": line.bubble,
        "ideal_bubble": ideal_bubble(len(stages), parts),
        "predicted_parts": [dataclasses.asdict(part) for part in predicted.parts],
    }


def conclusions(arrangements: dict[str, Any]) -> dict[str, float]:
    """Return how many times as fast the planned pipeline is, and how near to J.

    Parameters
    ----------
    arrangements : arrangement -> what was predicted and measured.
    """
    step_s = arrangements[PLANNED]["measured_s"]
    return {
        "times_equal": arrangements[EQUAL]["measured_s"] / step_s,
        "times_same_partition": arrangements[SAME_PARTITION]["measured_s"] / step_s,
        "times_naive": arrangements[NAIVE]["measured_s"] / step_s,
        "part_of_j": arrangements[PLANNED]["j_s"] / step_s,
        "part_of_measured_j": arrangements[PLANNED]["measured_j_s"] / step_s,
    }


def summary(cases: list[dict[str, Any]]) -> dict[str, float]:
    """Return how many pipelines were measured, and the median and worst error of their predictions.

    Parameters
    ----------
    cases : what `run` returns.
    """
    errors = [error(case["arrangements"][name]) for case in cases for name in PIPELINES]
    return {"pipelines": len(errors), "median_error": statistics.median(map(abs, errors)), "worst_error": max(errors, key=abs)}


def rows(case: dict[str, Any]) -> list[Row]:
    """Return a row an arrangement of a case."""
    lines = []
    for name, entry in case["arrangements"].items():
        cells = {**_case_cells(case), "arrangement": arrangement_text(name), "measured_ms": 1e3 * entry["measured_s"]}
        if name in PIPELINES:
            cells["layers"] = ", ".join(f"{device}: {count}" for device, count in entry["layers"])
            cells |= {f"{key}_ms": 1e3 * entry[f"{key}_s"] for key in ("predicted", "j", "measured_j")}
            cells |= {"error": error(entry), "bubble": _bubbles(entry)}
            cells |= {f"{which}_passes": _passes_text(entry[f"{which}_passes_s"]) for which in ("predicted", "measured")}
        lines.append(table_row({**cells, "parts": parts_text(entry["measured_parts"])}))
    return lines


def claims_row(case: dict[str, Any]) -> Row:
    """Return the row of a case: the planned pipeline beside the others and beside J."""
    planned = case["arrangements"][PLANNED]
    times = {f"{key}_ms": 1e3 * planned[f"{key}_s"] for key in ("predicted", "measured", "j")}
    wanted = {"times_equal": TIMES_EQUAL if case["cluster"] == UNEQUAL else None}
    return table_row({**_case_cells(case), **times, **case["conclusions"], "bubble": _bubbles(planned)}, wanted)


def summarise(table: Sequence[Row]) -> list[str]:
    """Return the median and the worst error of the predictions of all pipelines."""
    errors = [entry.numbers["error"] for entry in table if "error" in entry]
    median, worst = statistics.median(map(abs, errors)), max(errors, key=abs)
    return [f"{len(errors)} pipelines: median error {median:.1%} (at most {MEDIAN_ERROR:.0%} wanted), worst {worst:+.1%}."]


_CASE = (Column("network", "network"), Column("cluster", "cluster"), Column("microbatches", "microbatches"))
TABLE = TableForm(
    "pipeline_arrangements",
    "Pipelines of two stages, arrangement by arrangement",
    (
        *_CASE,
        Column("arrangement", "arrangement"),
        Column("layers", "layers"),
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("measured_ms", "measured ms", ".0f"),
        Column("error", "error", "+.1%"),
        Column("j_ms", "J ms", ".0f"),
        Column("measured_j_ms", "J of measured stages ms", ".0f"),
        Column("bubble", "bubble: predicted / measured / ideal", ".0%"),
        Column("predicted_passes", "predicted passes ms"),
        Column("measured_passes", "measured passes ms"),
        Column("parts", "compute+communication+idle ms"),
    ),
    case=("network", "cluster", "microbatches"),
    summarise=summarise,
)
CLAIMS = TableForm(
    "pipeline",
    "Planned pipelines of two stages",
    (
        *_CASE,
        Column("predicted_ms", "predicted ms", ".0f"),
        Column("measured_ms", "measured ms", ".0f"),
        Column("j_ms", "J ms", ".0f"),
        Column("times_equal", "x equal partition", ".2f", "at_least"),
        Column("times_same_partition", "x same partition without microbatches", ".2f", "at_least", TIMES_NAIVE),
        Column("times_naive", "x best partition without microbatches", ".2f", "at_least", TIMES_NAIVE),
        Column("part_of_j", "J / measured", ".2f", "at_least", PART_OF_J),
        Column("part_of_measured_j", "J of measured stages / measured", ".2f", "at_least", PART_OF_J),
        Column("bubble", "bubble: predicted / measured / ideal", ".0%"),
    ),
    case=("network", "cluster", "microbatches"),
)


def report(cases: list[dict[str, Any]]) -> str:
    """Return the tables of all cases and the summary."""
    tables = [shown(TABLE, [row for case in cases for row in rows(case)]), shown(CLAIMS, [claims_row(case) for case in cases])]
    return "\n\n".join([*tables, "Passes are forward+backward of a microbatch in each stage."])


def _case_cells(case: dict[str, Any]) -> dict[str, Any]:
    title = f"{NETWORKS[case['network']].title}, batch {case['batch']}"
    return {"network": title, "cluster": case["cluster"], "microbatches": case["microbatches"]}


def _bubbles(entry: dict[str, Any]) -> list[float]:
    return [entry[f"{which}_bubble"] for which in ("predicted", "measured", "ideal")]


def _passes_text(passes: list[dict[str, float]]) -> str:
    return "; ".join("+".join(f"{1e3 * seconds:.0f}" for seconds in each.values()) for each in passes)


def _leave(folder: pathlib.Path | None, case: PipelineCase, profile: Any, plans: dict[str, Any]) -> None:
    if folder is None:
        return
    here = folder / case.name
    here.mkdir(parents=True, exist_ok=True)
    profile.save(here / "profile.json")
    for name, plan in plans.items():
        plan.save(here / f"{name.replace(', ', '-').replace(' ', '-')}.json")


@click.command(help=__doc__)
@click.option("--model", "models", multiple=True, type=click.Choice(list(NETWORKS)), help="A network, several times for more.")
@click.option("--cluster", "clusters", multiple=True, help="Shares of a core, such as 1.0,0.5; several times for more.")
@click.option("--batch", type=int, help="Samples per step.  [default: as each network is usually trained]")
@click.option("--microbatches", default=8, show_default=True, help="Microbatches of the pipelines.")
@pace_options(5, 1, 90.0)
@click.option("--folder", type=click.Path(path_type=pathlib.Path), help="Where profiles and plans are left.")
@output_options(after="case", resumes=True)
def main(
    models: tuple[str, ...],
    clusters: tuple[str, ...],
    batch: int | None,
    microbatches: int,
    pace: Pace,
    folder: pathlib.Path | None,
    output: Output,
) -> None:
    """Run the cases, print their tables and the summary."""
    pairs = itertools.product(models or DEEP, clusters or CLUSTERS)
    cases = [PipelineCase(network, cluster, batch or NETWORKS[network].usual, microbatches) for network, cluster in pairs]
    measured = Cases(output, further=summary)
    for case in cases:
        if measured.find(**dataclasses.asdict(case)):
            continue
        figures = measured.measure(f"{case.network} on {case.cluster}", functools.partial(run, case, pace, folder))
        output.publish(TABLE, rows(figures))
        output.publish(CLAIMS, [claims_row(figures)])
    print(report(measured.done))


if __name__ == "__main__":
    main()
