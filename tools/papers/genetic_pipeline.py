"""Paper B by its own experiment: 3D-ResAttNet on four devices, its layers placed by a genetic algorithm, data parallel on top.

Akintoye, Han, Zhang, Chen, Zhang, IEEE Access 10 (2022) 77950-77961, doi 10.1109/ACCESS.2022.3193690. Its cost function, operators and
baselines are not known; the chain problem and the genetic algorithm are this project's reading. On two faster and two slower emulated
devices, from one calibration, open side by side and taking turns:

- each device alone (one of each share);
- pipelines of single devices, placed by the genetic algorithm, exactly, in equal and in proportional parts, and by GPipe's fill_drain;
- pipelines whose stages may have groups of devices and replicas, placed by the genetic algorithm;
- equal batches here, by MultiWorkerMirroredStrategy and by DistributedDataParallel, and unequal ones by the latter, weighted by hand;
- what `auto` takes.

Then 3D-ResAttNet-34 once; the speed-up on 1, 2 and 4 equal devices; and the ROC AUC on a drawn cohort of a pipeline, a split and one
device over seeds. Pipelines of a network with batch norm take the statistics of microbatches.

    python -m tools.papers.genetic_pipeline [--quick] [--torch-python ~/torch-env/bin/python] [--json b.json [--resume]]
"""

from __future__ import annotations

import contextlib
import functools
import pathlib
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import click

from tools.bench.baselines.equal_batches import DDP, MIRRORED, NO_TORCH, UNEQUAL_DDP, Baselines
from tools.bench.baselines.tasks import Trained
from tools.bench.comparison.measured import cluster_text
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.options import torch_option
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure
from tools.mri import Demonstration, run_command, run_module, trained
from tools.papers.experiment import Experiment, claim, claims_form, experiment_options, step_rows, steps_form
from tools.papers.speedup import SPEEDUP, curve, curve_rows, speed_text
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

QUICK, FULL = Pace(2, 1, 15.0, 0), Pace(5, 1, 90.0, 0)
SHARES = (0.56, 0.56, 0.24, 0.24)
EQUAL_SHARE = 0.4
GENETIC, GROUPED, EXACT, GPIPE = "pipeline, genetic", "pipeline, genetic, groups and replicas", "pipeline, exact", "pipeline, fill_drain"
HALVES, PROPORTIONAL, EQUAL_BATCHES, AUTO = "pipeline, equal parts", "pipeline, proportional parts", "our equal batches", "auto"
OTHERS = (HALVES, PROPORTIONAL, GPIPE, EQUAL_BATCHES, MIRRORED, DDP, UNEQUAL_DDP)
SCANS = 800  # of an epoch: about as many as the cohorts of such studies have
SPLIT, PIPELINE, SINGLE = "layers", "pipeline", "single"


def options(microbatches: int | None, brief: bool = False) -> dict[str, Any]:
    """Return the options of each pipeline.

    Parameters
    ----------
    microbatches : M; None for the best number.
    brief : whether only the genetic and the exact one are wanted.
    """
    import hetero_mtf as hm

    alone: dict[str, Any] = {"microbatches": microbatches, "groups": False}
    wanted = {GENETIC: hm.PipelineOptions("genetic", **alone), EXACT: hm.PipelineOptions("exact", **alone)}
    if brief:
        return wanted
    wanted[GROUPED] = hm.PipelineOptions("genetic", microbatches)
    wanted |= {name: hm.PipelineOptions(allocator, **alone) for name, allocator in ((HALVES, "equal"), (PROPORTIONAL, "proportional"))}
    wanted[GPIPE] = hm.PipelineOptions("exact", schedule="fill_drain", **alone)
    return wanted


def steps(network: str, batch: int, pace: Pace, torch_python: str | None, brief: bool = False) -> dict[str, Any]:
    """Return the seconds of every arrangement and its prediction.

    Parameters
    ----------
    network : key in `NETWORKS`.
    brief : whether only the devices alone, two pipelines and auto take part.
    """
    import hetero_mtf as hm
    from hetero_mtf.errors import PlanError

    task = TrainingTask(NETWORKS[network].make(), batch)
    alike = [SHARES.index(share) for share in SHARES]
    left_out: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(hm.Cluster.emulate(SHARES))
        profile = hm.calibrate(cluster, task.model, batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        plans = {f"alone {d}": hm.Plan.single(task.model, d, cluster, batch) for d in dict.fromkeys(alike)}
        for name, wanted in options(None, brief).items():
            try:
                plans[name] = hm.plan(profile, strategy="pipeline", pipeline=wanted)
            except PlanError as fault:
                left_out[name] = str(fault)
        plans |= (
            {AUTO: hm.plan(profile)}
            if brief
            else {EQUAL_BATCHES: hm.Plan.batch(task.model, [1] * 4, cluster, batch), AUTO: hm.plan(profile)}
        )
        trained_elsewhere = Trained.of(network, task.model)
        baselines = Baselines(trained_elsewhere, SHARES, batch, torch_python, method=cluster.method, unequal=SHARES)
        times = measure(task, plans, cluster, pace, {} if brief else baselines.start(stack), sent=True)
    for name, plan in plans.items():
        times[name].pop("traced_tasks", None)
        times[name]["predicted_s"] = plan.predicted.step_s if plan.predicted is not None else None
        times[name]["split"] = described(plan)
    return {"network": network, "batch": batch, "alike": alike, "automatic": plans[AUTO].strategy, "left_out": left_out, "times": times}


def described(plan: Any) -> str:
    """Return the layers and devices of each stage of a plan, such as "30 on 0; 41 on 1+2", or its strategy."""
    if not plan.pipelined:
        return str(plan.strategy)
    parts = [f"{len(stage.layers)} on {'+'.join(map(str, stage.devices))}" for stage in plan.stages]
    return f"{'; '.join(parts)}; {plan.microbatches} microbatches"


def split_and_pipeline(profile_of: Any, model: Any, count: int, cluster: Any) -> dict[str, Any]:
    """Return auto's plan and the exact pipeline of equal devices, from a calibration."""
    import hetero_mtf as hm

    profile = profile_of(cluster, model)
    piped = hm.plan(profile, strategy="pipeline", pipeline=hm.PipelineOptions("genetic"))
    return {"auto": hm.plan(profile), "pipeline, genetic": piped}


class SmallDemonstration(Demonstration):
    """A cohort that a network of two blocks learns."""

    @property
    def model(self) -> list[str]:
        """The model's options."""
        return [word.replace("resattnet18", "resattnet_small") for word in super().model]


def cohort_scores(folder: pathlib.Path, quick: bool) -> dict[str, Any]:
    """Return the ROC AUC on the participants held out, by arrangement and seed."""
    sizes = (
        {"subjects": 28, "size": 24, "width": 4, "seeds": 1, "epochs": 1}
        if quick
        else {"subjects": 120, "size": 40, "width": 8, "seeds": 3, "epochs": 10}
    )
    setting = (SmallDemonstration if quick else Demonstration)(
        folder, strength=1.0, batch=4, learning_rate=0.002, cluster="emulate:" + ",".join(map(str, SHARES)), **sizes
    )
    folder.mkdir(parents=True, exist_ok=True)
    run_module("tools.make_cohort", folder / "cohort", "--subjects", setting.subjects, "--size", setting.size, "--strength", 1.0)
    measuring = ["--cluster", setting.cluster, "--batch-size", setting.batch, "--optimizer", "adam", "--budget", 15, "-o", setting.profile]
    run_command("calibrate", *setting.model, *measuring)
    for strategy, more in ((SPLIT, ()), (SINGLE, ()), (PIPELINE, ("--allocator", "genetic"))):
        run_command("plan", setting.profile, "--strategy", strategy, *more, "-o", setting.plan(strategy))
    scores: dict[str, list[float]] = {}
    for seed in range(setting.seeds):
        for name in (PIPELINE, SPLIT, SINGLE):
            scores.setdefault(name, []).append(_auc(trained(setting, name, seed, setting.table)))
    return {**sizes, "auc": scores}


def _auc(run: Mapping[str, Any]) -> float:
    return float(next(score["value"] for name, score in run["scores"].items() if name.startswith("ROC AUC")))


STEPS = steps_form("paper_genetic_pipeline", "Paper B's network on four unequal devices", without=("rounds",))
COHORT = TableForm(
    "paper_genetic_pipeline_auc",
    "Paper B's network on a drawn cohort",
    (
        Column("arrangement", "trained as"),
        Column("subjects", "subjects", ".0f"),
        Column("epochs", "epochs", ".0f"),
        Column("auc", "ROC AUC by seed", ".3f"),
        Column("mean", "mean", ".3f"),
    ),
    ("arrangement",),
)
CLAIMS = claims_form("genetic_pipeline", "Paper B, claim by claim")


def claims(case: Mapping[str, Any], curve_points: Mapping[str, Any], cohort: Mapping[str, Any], extent: str) -> list[Row]:
    """Return the table of claims.

    Parameters
    ----------
    case : figures of the steps of 3D-ResAttNet-18.
    curve_points, cohort : figures of the speed-up, and of the cohort.
    """
    median = {name: statistics.median(entry["rounds_s"]) for name, entry in case["times"].items()}
    piped = min((name for name in (GENETIC, GROUPED) if name in median), key=median.__getitem__)
    ratios = {name: median[name] / median[piped] for name in OTHERS if name in median}
    listed = ", ".join(f"{ratio:.2f} x {name}" for name, ratio in ratios.items())
    mean = statistics.fmean(ratios.values()) - 1
    best = min((name for name in median if not name.startswith("alone")), key=median.__getitem__)
    single = min(step for name, step in median.items() if name.startswith("alone"))
    speeds = "; ".join(speed_text(point) for point in curve_points["points"])
    scores = ", ".join(f"{name} {statistics.fmean(values):.3f}" for name, values in cohort["auc"].items())
    return [
        claim(
            "20 % better in the mean than existing parallel methods in training time",
            f"{extent}, batch {case['batch']}: the faster genetic pipeline ({piped}) is {1 + mean:.2f} x as fast in the mean: "
            f"{listed}; it is "
            f"{single / median[piped]:.2f} x the fastest device alone and {median[AUTO] / median[piped]:.2f} x auto ({case['automatic']}); "
            f"fastest is {best}",
            "their baselines are not known. A batch of a few volumes has few microbatches, and four stages of two cores share their caches "
            "and memory; splitting the batch of every layer has no bubble. Other libraries normalise the samples of each device by "
            "themselves and exchange nothing within a step; equal batches and auto here exchange statistics at every batch norm, forward "
            "and backward, as the numbers of one device need them",
        ),
        claim(
            "almost linear speed-up",
            f"{extent}, devices of {EQUAL_SHARE} of a core: {speeds}",
            "devices are shares of one CPU, and tensors pass between processes by the same shares",
        ),
        claim(
            "little or no differences in accuracy",
            f"{extent}, drawn subjects {cohort['subjects']}, epochs {cohort['epochs']}, seeds {cohort['seeds']}: mean ROC AUC {scores}",
            "split and single are numerically equivalent but for float32's order of summation; a pipeline takes batch statistics of "
            "microbatches. The cohort is drawn, no patients' scans",
        ),
    ]


@click.command(help=__doc__)
@torch_option
@experiment_options
def main(torch_python: str | None, **chosen: Any) -> None:
    """Run the experiment, print its tables."""
    import hetero_mtf as hm

    experiment = Experiment.of(chosen, QUICK, FULL)
    quick, pace, notes = experiment.is_quick, experiment.pace, [] if torch_python else [NO_TORCH]
    name, batch = ("resattnet-small", 8) if quick else ("resattnet18", 16)
    case = experiment.case(f"{name} steps", functools.partial(steps, name, batch, pace, torch_python))
    _publish_steps(experiment, case, [*notes, *(f"{left} has no plan: {why}" for left, why in case["left_out"].items())])
    if not quick:
        deep = functools.partial(steps, "resattnet34", batch, Pace(2, 1, pace.budget_s, 0), None, True)
        _publish_steps(experiment, experiment.case("resattnet34 steps", deep), [])

    def profiled(cluster: Any, model: Any) -> Any:
        optimizer = TrainingTask(model, batch).settings["optimizer"]
        return hm.calibrate(cluster, model, batch, optimizer=optimizer, budget_s=pace.budget_s)

    counts: Sequence[int] = (1, 2) if quick else (1, 2, 4)
    chooser = functools.partial(split_and_pipeline, profiled)
    points = experiment.case("speed-up", functools.partial(curve, NETWORKS[name].make, batch, EQUAL_SHARE, counts, chooser, pace))
    experiment.publish(SPEEDUP, curve_rows(f"B, {NETWORKS[name].title}", EQUAL_SHARE, batch, points))
    with tempfile.TemporaryDirectory() as folder:
        cohort = experiment.case("cohort", functools.partial(cohort_scores, pathlib.Path(folder), quick))
    sizes = {key: cohort[key] for key in ("subjects", "epochs")}
    rows = [table_row({"arrangement": name, **sizes, "auc": auc, "mean": statistics.fmean(auc)}) for name, auc in cohort["auc"].items()]
    experiment.publish(COHORT, rows)
    experiment.publish(CLAIMS, claims(case, points, cohort, experiment.extent))
    experiment.print()


def _publish_steps(experiment: Experiment, case: Mapping[str, Any], notes: Sequence[str]) -> None:
    cells = {"network": NETWORKS[case["network"]].title, "cluster": cluster_text(SHARES), "batch": case["batch"]}
    experiment.publish(STEPS, step_rows(cells, case["times"], SCANS, case["alike"]), notes)


if __name__ == "__main__":
    main()
