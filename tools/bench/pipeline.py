"""Claim: on unequal devices a planned pipeline is at least 1.25 times as fast as the equal partition, its step within 1/0.90 of J.

Two stages on emulated devices: (planned) the optimal partition for 8 microbatches, (equal) equal numbers of blocks, (partition, one
batch) the planned partition without microbatches, (naive) the optimal partition without microbatches, and every device alone are open
side by side and take turns; a figure is the median over rounds. The planned pipeline is also to be at least 1.2 times as fast as naive
model parallelism, and predicted steps within 15 % of the measured ones (median over all pipelines).
J = sum of stages and transfers + (M - 1) * the largest of them: from the profile, and from the stages' seconds in traced steps, with the
profile's transfers. The bubble is the idle part of the passes: predicted, measured in traced steps, and the ideal (S - 1) / (M + S - 1).

    python tools/bench/pipeline.py [--json pipeline.json [--resume]]
    python tools/bench/pipeline.py --model vgg11 --cluster 1.0,0.5
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import statistics
import sys
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import click

from tools.bench.comparison.accuracy import error
from tools.bench.comparison.measured import kept, markdown, record
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure, parts_text
from tools.bench.comparison.task_times import bubble, measured_j, stage_passes_s
from tools.bench.prediction import PredictionCase

TIMES_EQUAL, TIMES_NAIVE, PART_OF_J, MEDIAN_ERROR = 1.25, 1.2, 0.90, 0.15  # of the claim
PLANNED, EQUAL, SAME_PARTITION, NAIVE = "planned", "equal", "partition, one batch", "naive"
PIPELINES = (PLANNED, EQUAL, SAME_PARTITION, NAIVE)
DEEP = ("vgg11", "resnet50")
CLUSTERS = ("1.0,1.0", "1.0,0.5")
COLUMNS = ("network", "cluster", "arrangement", "layers", "predicted ms", "measured ms", "error", "J ms", "J of measured stages ms")
BUBBLES = ("bubble predicted / measured / ideal", "stages' passes predicted ms", "measured ms", "compute+communication+idle ms")


@dataclasses.dataclass(frozen=True)
class PipelineCase(PredictionCase):
    """A network on a cluster, and M microbatches of its pipelines."""

    microbatches: int


def run(case: PipelineCase, pace: Pace, folder: pathlib.Path | None) -> dict[str, Any]:
    """Return what was predicted and measured of one case; the profile and the plans are left in the folder, if there is one."""
    import hetero_mtf as hm

    task = TrainingTask(NETWORKS[case.network].make(), case.batch)
    with hm.Cluster.emulate([float(share) for share in case.cluster.split(",")]) as cluster:
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
    from hetero_mtf.planning.cost.stage_cost import stage_cost
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


def rows(case: dict[str, Any]) -> list[list[str]]:
    """Return a row an arrangement of a case."""
    head = [f"{NETWORKS[case['network']].title}, batch {case['batch']}", case["cluster"]]
    lines = []
    for name, entry in case["arrangements"].items():
        if name not in PIPELINES:
            lines.append([*head, name, "", "", f"{1e3 * entry['measured_s']:.0f}", *[""] * 6, parts_text(entry["measured_parts"])])
            continue
        bubbles = (entry[f"{which}_bubble"] for which in ("predicted", "measured", "ideal"))
        lines.append(
            [
                *head,
                name,
                ", ".join(f"{device}: {count}" for device, count in entry["layers"]),
                *(f"{1e3 * entry[key]:.0f}" for key in ("predicted_s", "measured_s")),
                f"{100 * error(entry):+.1f} %",
                *(f"{1e3 * entry[key]:.0f}" for key in ("j_s", "measured_j_s")),
                " / ".join(f"{100 * part:.0f} %" for part in bubbles),
                *(_passes_text(entry[f"{which}_passes_s"]) for which in ("predicted", "measured")),
                parts_text(entry["measured_parts"]),
            ]
        )
    return lines


def report(cases: list[dict[str, Any]]) -> str:
    """Return the tables of all cases and the summary."""
    names = ("times_equal", "times_naive", "times_same_partition", "part_of_j", "part_of_measured_j")
    wanted = [f"x equal ({TIMES_EQUAL} at 1.0,0.5)", f"x naive ({TIMES_NAIVE})", "x same partition, one batch"]
    wanted += [f"J / measured ({PART_OF_J:.2f})", "J of measured stages / measured"]
    claims = [[NETWORKS[c["network"]].title, c["cluster"], *(f"{c['conclusions'][name]:.2f}" for name in names)] for c in cases]
    total = summary(cases)
    lines = [
        markdown((*COLUMNS, *BUBBLES), [row for case in cases for row in rows(case)]),
        "",
        markdown(("network", "cluster", *wanted), claims),
        "",
        f"{total['pipelines']:.0f} pipelines measured: median error {100 * total['median_error']:.1f} % "
        f"(at most {100 * MEDIAN_ERROR:.0f}), worst {100 * total['worst_error']:+.1f} %. "
        "Passes are forward+backward of a microbatch in each stage.",
    ]
    return "\n".join(lines)


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
@click.option("--rounds", default=5, show_default=True, help="Rounds; a figure is their median.")
@click.option("--steps", default=1, show_default=True, help="Steps of each arrangement in one round.")
@click.option("--budget", default=90.0, show_default=True, help="Seconds that each calibration may take.")
@click.option("--folder", type=click.Path(path_type=pathlib.Path), help="Where profiles and plans are left.")
@click.option("--json", "path", help="File to write the figures to, after each case.")
@click.option("--resume", is_flag=True, help="Keep the cases that are in the file already, and report them too.")
def main(
    models: tuple[str, ...],
    clusters: tuple[str, ...],
    batch: int | None,
    microbatches: int,
    rounds: int,
    steps: int,
    budget: float,
    folder: pathlib.Path | None,
    path: str | None,
    resume: bool,
) -> None:
    """Run the cases, print their tables and the summary."""
    pairs = itertools.product(models or DEEP, clusters or CLUSTERS)
    cases = [PipelineCase(network, cluster, batch or NETWORKS[network].usual, microbatches) for network, cluster in pairs]
    done = kept(path) if resume else []
    known = [tuple(case[field.name] for field in dataclasses.fields(PipelineCase)) for case in done]
    command = " ".join(["python", *sys.argv])
    for case in cases:
        if dataclasses.astuple(case) in known:
            continue
        start_s = time.perf_counter()
        done.append(run(case, Pace(rounds, steps, budget), folder))
        record(path, command, {"cases": done, **summary(done)})
        click.echo(f"{case.network} on {case.cluster}: {time.perf_counter() - start_s:.0f} s", err=True)
    print(report(done))


if __name__ == "__main__":
    main()
