"""Paper C by its own experiment: layer-wise partitioning and merging, forward and backward passes in parallel.

Akintoye, Han, Lloyd, Zhang, Dancey, Chen, Zhang, FGCS 149 (2023) 432-444, arXiv 2207.11019. Its algorithm, baselines and figures are not
known. This project's reading is two methods: the exact choice of a layout for each layer, in which neighbours of one layout send nothing
(`layers`); and stages that work on different batches at a time, whose gradients are late (`decoupled`; Huo, Gu, Huang 2018). Beside them
are splits by samples and by filters, and a pipeline with a flush. All come from one calibration, are open side by side and take turns.
Peak memory is that of workers that train by one plan alone, less what they take when connected. Accuracy is over seeds on a generated
task, with the best linear model beside it; late gradients are not equal to synchronous training.

    python -m tools.papers.layerwise [--quick] [--json layerwise.json [--resume]]
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Mapping
from typing import Any

import click

from tools.bench.comparison.measured import arrangement_text
from tools.bench.comparison.networks import NETWORKS
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure
from tools.bench.late.speed import by_itself
from tools.papers.experiment import MB, Experiment, claim, claims_form, experiment_options, step_rows, steps_form
from tools.papers.learning import ACCURACY_COLUMNS, BRIEF, Learning, accuracy_rows, learnt, scores_of, settings, small_network
from tools.papers.speedup import SPEEDUP, curve, curve_rows, speed_text
from tools.papers.tasks import subject_of
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

QUICK, FULL = Pace(2, 1, 15.0, 0), Pace(5, 1, 60.0, 0)
CLUSTER = "0.8,0.4"
ONE, BATCH = "one device", "batch"
LAYERS, PIPELINE = "layers", "pipeline, 1f1b"
REPLAY, STORED, TWO_VERSIONS = "decoupled, replay", "decoupled, stored", "1f1b_2bw, stored"
SPLITS = ("batch", "filters", LAYERS)
LEARNING, QUICK_LEARNING = Learning(2000, 500, 50, 30), BRIEF
SEEDS, QUICK_SEEDS = 5, 1
IMAGES = 50000
STAGES, QUICK_BATCH = 2, 16


def networks(quick: bool) -> tuple[str, ...]:
    """Return the keys of the networks whose steps are measured."""
    return ("vgg8",) if quick else ("vgg8", "resnet18", "resattnet18")


def plans(profile: Any) -> dict[str, Any]:
    """Return every plan that a profile has for the arrangements, and why the others have none as text."""
    import hetero_mtf as hm
    from hetero_mtf.errors import PlanError

    def pipeline(schedule: str, **more: Any) -> dict[str, Any]:
        return {"strategy": "pipeline", "pipeline": hm.PipelineOptions(schedule=schedule, groups=False, **more)}

    wanted: dict[str, dict[str, Any]] = {name: {"strategy": name} for name in SPLITS}
    wanted[PIPELINE] = pipeline("1f1b")
    wanted |= {name: pipeline("decoupled", stale=hm.StaleOptions(name.partition(", ")[2])) for name in (REPLAY, STORED)}
    wanted[TWO_VERSIONS] = pipeline("1f1b_2bw", stale=hm.StaleOptions("stored"))
    chosen: dict[str, Any] = {}
    for name, options in wanted.items():
        try:
            chosen[name] = hm.plan(profile, **options)
        except PlanError as fault:
            chosen[name] = str(fault)
    return chosen


def steps(network: str, batch: int, pace: Pace) -> dict[str, Any]:
    """Return the seconds, bytes and peak memory of every arrangement.

    Parameters
    ----------
    network : key in `NETWORKS`.
    """
    import hetero_mtf as hm

    task = TrainingTask(NETWORKS[network].make(), batch)
    with hm.Cluster.parse(f"emulate:{CLUSTER}") as cluster:
        profile = hm.calibrate(cluster, task.model, batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        answers = plans(profile)
        chosen = {name: plan for name, plan in answers.items() if not isinstance(plan, str)}
        alone = {f"alone {d}": hm.Plan.single(task.model, d, cluster, batch) for d in range(len(cluster.devices))}
        times = measure(task, {**alone, **chosen}, cluster, pace, {}, sent=True)
    for name, plan in {**alone, **chosen}.items():
        times[name].pop("traced_tasks", None)
        times[name]["peak_bytes"] = by_itself(task, plan, CLUSTER)["peak_bytes"]
        times[name]["predicted_s"] = plan.predicted.step_s if plan.predicted is not None else None
    left_out = {name: plan for name, plan in answers.items() if isinstance(plan, str)}
    return {"network": network, "batch": batch, "left_out": left_out, "times": times}


def accuracies(experiment: Experiment, subject: Any, learning: Learning, seeds: int) -> dict[str, Any]:
    """Return the accuracy of one device, of a split of every layer and of late gradients, for each seed."""
    import hetero_mtf as hm

    def trained(name: str, seed: int) -> Mapping[str, Any]:
        import keras

        keras.utils.set_random_seed(seed)
        model = small_network()
        with hm.Cluster.local(["cpu:0"] * STAGES) as cluster:
            head = model, ["conv1", "conv3"], [[device] for device in range(STAGES)], [[1]] * STAGES, cluster, learning.batch
            stale = hm.StaleOptions(name.partition(", ")[2]) if name in (REPLAY, STORED) else None
            if name == ONE:
                plan = hm.Plan.single(model, 0, cluster, learning.batch)
            elif name == BATCH:
                plan = hm.Plan.batch(model, (2, 1), cluster, learning.batch)
            elif stale is None:
                plan = hm.Plan.pipeline(*head, microbatches=4, schedule="1f1b")
            else:
                plan = hm.Plan.pipeline(*head, microbatches=1, schedule="decoupled", stale=stale)
            made = settings(learning.epochs * learning.train // learning.batch)
            return learnt(model, plan, cluster, made, subject.dataset, learning, seed)

    names, exact = (ONE, BATCH, PIPELINE, REPLAY, STORED), () if experiment.is_quick else (ONE, BATCH, PIPELINE)
    scored = scores_of(experiment.case, f"accuracy, {subject.name}", names, exact, seeds, trained)
    return {"linear": subject.linear, **scored}


STEPS = steps_form("paper_layerwise", "Paper C's methods beside splits and a pipeline", without=("split", "rounds"))
MEMORY = TableForm(
    "paper_layerwise_memory",
    "Peak memory of each worker",
    (Column("network", "network"), Column("arrangement", "arrangement"), Column("peak_mb", "peak memory by device MB", ".0f")),
    ("network", "arrangement"),
)
ACCURACY = TableForm("paper_layerwise_accuracy", "Accuracy of paper C's methods", ACCURACY_COLUMNS, ("task", "arrangement"))
CLAIMS = claims_form("layerwise", "Paper C, claim by claim")


def claims(cases: Mapping[str, Mapping[str, Any]], points: Mapping[str, Any], extent: str) -> list[Row]:
    """Return the claims about steps.

    Parameters
    ----------
    cases : title of a network -> figures of its steps.
    points : figures of the speed-up.
    """
    rows = []
    for network, case in cases.items():
        times = case["times"]
        arranged = {name: entry for name, entry in times.items() if not name.startswith("alone")}
        text = "; ".join(f"{name} {_figures(entry)}" for name, entry in arranged.items())
        rows.append(
            claim(
                f"Partition and merge minimise communication without the memory cost of existing strategies ({network})",
                f"{extent}, {CLUSTER}, batch {case['batch']}; step, sent, peak memory of the fuller worker: {text}",
                "the strategies that the paper compares with are not known; `layers` minimises the predicted step, not bytes, and takes "
                "the layout that sends more where it computes sooner",
            )
        )
    speeds = "; ".join(speed_text(point) for point in points["points"])
    return [
        *rows,
        claim(
            "Forward and backward passes in parallel: almost linear speed-up",
            f"{extent}, equal devices: {speeds}",
            "a stage cannot be cut finer than a layer, and devices are shares of one CPU",
        ),
    ]


def accuracy_claim(scored: Mapping[str, Any], steps: int, extent: str) -> Row:
    """Return the claim about accuracies.

    Parameters
    ----------
    scored : figures of the accuracies.
    steps : of each training.
    """
    score = {name: statistics.fmean(run["accuracy"] for run in runs) for name, runs in scored["scores"].items()}
    shown, seeds = ", ".join(f"{value:.1%} ({name})" for name, value in score.items()), len(scored["scores"][ONE])
    return claim(
        "The accuracy is not compromised",
        f"{extent}, {steps} steps, seeds {seeds}: mean test accuracy {shown}",
        "the synchronous plans are equal to one device in float64; late gradients are another algorithm than synchronous SGD; on a "
        "longer task two variants came within 0.5 points ([pipelines](pipelines.md#without-a-flush))",
    )


def _figures(entry: Mapping[str, Any]) -> str:
    step_ms = 1e3 * statistics.median(entry["rounds_s"])
    return f"{step_ms:.0f} ms, {entry['sent_bytes'] / MB:.1f} MB, {max(entry['peak_bytes']) / MB:.0f} MB"


def late_and_layers(batch: int, pace: Pace, model: Any, count: int, cluster: Any) -> dict[str, Any]:
    """Return the plan of `layers` and the decoupled schedule of equal devices, from a calibration."""
    import hetero_mtf as hm

    profile = hm.calibrate(cluster, model, batch, optimizer=TrainingTask(model, batch).settings["optimizer"], budget_s=pace.budget_s)
    chosen = plans(profile)
    return {name: chosen[name] for name in (LAYERS, STORED) if not isinstance(chosen[name], str)}


@click.command(help=__doc__)
@click.option("--data", "named", multiple=True, help="cifar10:DIR.  [default: a generated task]")
@click.option("--only-accuracy", is_flag=True, help="Measure no steps.")
@experiment_options
def main(named: tuple[str, ...], only_accuracy: bool, **options: Any) -> None:
    """Run the experiment, print its tables."""
    experiment = Experiment.of(options, QUICK, FULL)
    quick, pace = experiment.is_quick, experiment.pace
    learning, seeds = (QUICK_LEARNING, QUICK_SEEDS) if quick else (LEARNING, SEEDS)
    subject = subject_of("cifar10", named, learning)
    scored = accuracies(experiment, subject, learning, seeds)
    experiment.publish(ACCURACY, accuracy_rows(subject, learning, scored), [subject.note])
    experiment.publish(CLAIMS, [accuracy_claim(scored, learning.epochs * learning.train // learning.batch, experiment.extent)])
    if only_accuracy:
        return experiment.print()
    cases: dict[str, dict[str, Any]] = {}
    for network in networks(quick):
        title, batch = NETWORKS[network].title, QUICK_BATCH if quick else NETWORKS[network].batch
        cases[title] = experiment.case(f"{network} steps", functools.partial(steps, network, batch, pace))
        notes = [f"{title}: {name} has no plan: {why}" for name, why in cases[title]["left_out"].items()]
        cells = {"network": title, "cluster": CLUSTER, "batch": batch}
        experiment.publish(STEPS, step_rows(cells, cases[title]["times"], IMAGES), notes)
        peaks = {name: [held / MB for held in entry["peak_bytes"]] for name, entry in cases[title]["times"].items()}
        experiment.publish(
            MEMORY, [table_row({"network": title, "arrangement": arrangement_text(name), "peak_mb": held}) for name, held in peaks.items()]
        )
    first, batch = networks(quick)[0], QUICK_BATCH if quick else NETWORKS[networks(quick)[0]].batch
    chooser = functools.partial(late_and_layers, batch, pace)
    counts = (1, 2) if quick else (1, 2, 4)
    points = experiment.case("speed-up", functools.partial(curve, NETWORKS[first].make, batch, 0.4, counts, chooser, pace))
    experiment.publish(SPEEDUP, curve_rows(f"C, {NETWORKS[first].title}", 0.4, batch, points))
    experiment.publish(CLAIMS, claims(cases, points, experiment.extent))
    experiment.print()


if __name__ == "__main__":
    main()
