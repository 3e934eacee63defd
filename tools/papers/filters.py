"""Paper A by its own experiment: convolutions split by filters over a fast, a middle and a slow device.

Moreno-Alvarez, Haut, Paoletti, Rico-Gallego, "Heterogeneous model parallelism for deep neural networks", Neurocomputing 441 (2021) 1-12,
doi 10.1016/j.neucom.2021.01.125. Both of its networks as released: MNIST with batches of 1000 on devices of 40:40:20, CIFAR-10 with
batches of 200 on devices of 70:25:5, trained by Adafactor. Here the devices are emulated, with those shares of a core, and take turns:

- each device alone;
- an equal split of the filters of all convolutions;
- the paper's rule with the speeds that it types by hand: floor(F s) filters, at least 1, what remains to the fastest, convolutions alone;
- this project's plan by filters, and the plan that `auto` takes, each from one calibration.

Then the accuracy after some epochs from the same weights on the same batches, and the largest difference of weights from one device after
two steps in float64. Without --data both tasks are generated, of the same shapes, and the best linear model is beside them. A quick run
trains the CIFAR-10 network for 4 steps, which says nothing of its accuracy.

    python -m tools.papers.filters [--quick] [--data mnist:DIR] [--data cifar10:DIR] [--json filters.json [--resume]]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from tools.bench.comparison.measured import cluster_text
from tools.bench.comparison.side_by_side import Pace, TrainingTask, measure
from tools.papers.experiment import Experiment, claim, claims_form, differences, experiment_options, float64, step_rows, steps_form
from tools.papers.learning import ACCURACY_COLUMNS, Learning, accuracy_rows, learnt, scores_of
from tools.papers.tasks import Subject, subject_of
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

QUICK, FULL = Pace(2, 1, 10.0, 0), Pace(3, 1, 120.0, 0)
EQUAL, TYPED, PLANNED, AUTO = "equal split", "paper's rule, typed speeds", "our filters", "auto"
SEEDS = 5
NARROW = 5  # filters of the paper's network for each of the one whose accuracy is measured
NARROWER = f"One filter is kept of {NARROW}, so that several seeds can be trained until nothing changes any more."
CLOSE = 1e-8  # largest difference in float64, of the claim
# Added to squared gradients. With Keras's 1e-30 the product of a row's and a column's mean is 0 in float32 where both have no gradient, and
# the weights become NaN in the first step of the MNIST network, in Keras too.
EPSILON = 1e-16


@dataclasses.dataclass(frozen=True)
class PaperNetwork:
    """A network of the paper and what it was run on.

    Parameters
    ----------
    name : of its data, "mnist" or "cifar10".
    title : what tables call it.
    make : returns the Keras model.
    filters : of its convolutions.
    speeds : (devices,) typed by hand in the released code, in percent.
    shares : (devices,) of a core, in the same proportion.
    batch, quick_batch : samples per step, full and quick.
    epoch : samples of an epoch.
    learning, quick_learning : how accuracy is measured.
    """

    name: str
    title: str
    make: Callable[..., Any]
    filters: tuple[int, ...]
    speeds: tuple[int, ...]
    shares: tuple[float, ...]
    batch: int
    quick_batch: int
    epoch: int
    learning: Learning
    quick_learning: Learning


def networks() -> tuple[PaperNetwork, ...]:
    """Return both networks."""
    from models import paper_a

    return (
        PaperNetwork(
            "mnist", "MNIST network", paper_a.mnist, paper_a.MNIST_FILTERS, (40, 40, 20), (0.64, 0.64, 0.32), 1000, 20, 60000,
            Learning(1000, 500, 50, 16), Learning(600, 200, 20, 2),
        ),
        PaperNetwork(
            "cifar10", "CIFAR-10 network", paper_a.cifar, paper_a.CIFAR_FILTERS, (70, 25, 5), (1.0, 0.357, 0.071), 200, 5, 50000,
            Learning(1000, 500, 50, 16), Learning(80, 80, 20, 1),
        ),
    )  # fmt: skip


def typed_sizes(filters: int, speeds: Sequence[float]) -> tuple[int, ...]:
    """Return the paper's split of filters: floor(F s), zeros raised to 1, what remains to the fastest device.

    Parameters
    ----------
    filters : F, of a layer.
    speeds : (devices,) in percent.

    Examples
    --------
    >>> typed_sizes(60, (70, 25, 5)), typed_sizes(60, (40, 40, 20))
    ((42, 15, 3), (24, 24, 12))
    """
    sizes = [max(1, int(filters * speed // sum(speeds))) for speed in speeds]
    fastest = max(range(len(speeds)), key=lambda device: (speeds[device], -device))
    sizes[fastest] += filters - sum(sizes)
    return tuple(sizes)


def typed_plan(model: Any, speeds: Sequence[float], cluster: Any, batch: int) -> Any:
    """Return the plan that splits the convolutions in pairs of columns and rows by the paper's rule; dense layers are replicated.

    Parameters
    ----------
    speeds : (devices,) in percent.
    """
    import hetero_mtf as hm
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from hetero_mtf.planning.layout.arrangement import arrange
    from hetero_mtf.planning.layout.manual import device_names, sized_stage

    graph = layer_graph(model)
    dense = frozenset(index for index, layer in enumerate(graph.layers) if layer.kind == "Dense")
    arrangement = arrange(graph, "pairs", dense)
    sizes = [typed_sizes(segment.units, speeds) for segment in arrangement.segments]
    stage = sized_stage(graph, arrangement, sizes, range(len(speeds)), 0)
    return hm.Plan(graph.digest, graph.dtype, batch, "filters", device_names(cluster), (stage,))


class AdafactorTask(TrainingTask):
    """A model that is trained by Adafactor, with the learning rate of Mesh-TensorFlow: at most 0.01, and 1 over the root of the step."""

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """The optimizer and the loss."""
        return settings()


def settings(steps: int = 0) -> dict[str, Any]:
    """Return the optimizer and the loss of the paper's networks.

    Parameters
    ----------
    steps : of the training; with them the learning rate falls to 0 by a cosine, so that the last epochs change little.
    """
    import keras

    rate = keras.optimizers.schedules.CosineDecay(0.01, steps) if steps else 0.01
    optimizer = keras.optimizers.Adafactor(rate, epsilon_1=EPSILON)
    return {"optimizer": optimizer, "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}


def plans(model: Any, network: PaperNetwork, cluster: Any, batch: int) -> dict[str, Any]:
    """Return the plans that need no calibration."""
    import hetero_mtf as hm

    alone = {f"alone {d}": hm.Plan.single(model, d, cluster, batch) for d in range(len(network.shares))}
    return {**alone, EQUAL: hm.Plan.equal(model, cluster, batch), TYPED: typed_plan(model, network.speeds, cluster, batch)}


def steps(network: PaperNetwork, batch: int, pace: Pace) -> dict[str, Any]:
    """Return the seconds of every arrangement, and the plans.

    Parameters
    ----------
    batch : samples per step.
    """
    import hetero_mtf as hm

    task = AdafactorTask(network.make(), batch)
    with hm.Cluster.emulate(network.shares) as cluster:
        chosen = plans(task.model, network, cluster, batch)
        profile = hm.calibrate(cluster, task.model, batch, optimizer=task.settings["optimizer"], budget_s=pace.budget_s)
        chosen |= {PLANNED: hm.plan(profile, strategy="filters"), AUTO: hm.plan(profile)}
        times = measure(task, chosen, cluster, pace, {}, sent=True)
    for name, plan in chosen.items():
        times[name]["split"] = first_split(plan)
        times[name]["predicted_s"] = plan.predicted.step_s if plan.predicted is not None else None
    return {
        "network": network.name,
        "batch": batch,
        "convolution_weights": sum(int(np.prod(w.shape)) for w in task.model.trainable_weights if len(w.shape) == 4),
        "weights": task.model.count_params(),
        "automatic": chosen[AUTO].strategy,
        "times": times,
    }


def first_split(plan: Any) -> str | None:
    """Return the layout and sizes of the first layer of a plan that is split, such as "column 42:15:3"."""
    for stage in plan.stages:
        for entry in stage.layouts:
            if entry.sizes or entry.samples:
                return f"{entry.layout} {':'.join(map(str, entry.sizes or entry.samples))}"
    return None


def equivalence(network: PaperNetwork) -> dict[str, Any]:
    """Return the largest difference of weights from one device, relative to each tensor's largest, after two steps in float64."""
    import keras

    import hetero_mtf as hm

    batch = 4
    with float64():
        keras.utils.set_random_seed(0)
        model = network.make()
        with hm.Cluster.local(["cpu:0"] * len(network.speeds)) as cluster:
            arranged = {
                EQUAL: hm.Plan.equal(model, cluster, batch),
                TYPED: typed_plan(model, network.speeds, cluster, batch),
                PLANNED: hm.Plan.filters(model, network.speeds, cluster, batch),
            }
            return {"differences": differences(model, arranged, cluster, settings(), batch)}


def accuracies(experiment: Experiment, network: PaperNetwork, subject: Subject, learning: Learning) -> dict[str, Any]:
    """Return the test accuracy of one device, and of both splits, after some epochs from the same weights on the same batches.

    The network has fewer filters than the paper's, so that it can be trained to its end for several seeds.
    """
    import hetero_mtf as hm

    names = ("alone 0", TYPED, PLANNED)

    def trained(name: str, seed: int) -> Mapping[str, Any]:
        import keras

        keras.utils.set_random_seed(seed)
        model = network.make(filters=[count // NARROW for count in network.filters])
        made = settings(learning.epochs * learning.train // learning.batch)
        with hm.Cluster.local(["cpu:0"] * len(network.shares)) as cluster:
            arranged = {
                **plans(model, network, cluster, learning.batch),
                PLANNED: hm.Plan.filters(model, network.speeds, cluster, learning.batch),
            }
            return learnt(model, arranged[name], cluster, made, subject.dataset, learning, seed)

    seeds, exact = (1, ()) if experiment.is_quick else (SEEDS, names)
    return {"linear": subject.linear, **scores_of(experiment.case, f"{subject.name} accuracy", names, exact, seeds, trained)}


STEPS = steps_form("paper_filters", "Both networks of paper A", without=("rounds",))
ACCURACY = TableForm("paper_filters_accuracy", "Accuracy of both networks of paper A", ACCURACY_COLUMNS, ("task", "arrangement"))
EQUIVALENCE = TableForm(
    "paper_filters_equivalence",
    "Both networks of paper A against one device, two steps of Adafactor in float64",
    (
        Column("network", "network"),
        Column("arrangement", "arrangement"),
        Column("difference", "largest difference", ".1e", "at_most", CLOSE),
    ),
    ("network", "arrangement"),
)
CLAIMS = claims_form("filters", "Paper A, claim by claim")


def claims(cases: Mapping[str, Mapping[str, Any]], extent: str) -> list[Row]:
    """Return the table of claims.

    Parameters
    ----------
    cases : name of a network -> figures of its steps, and its differences in float64.
    """
    return [row for network in networks() for row in _claims_of(network, cases[network.name], extent)]


def _claims_of(network: PaperNetwork, case: Mapping[str, Any], extent: str) -> list[Row]:
    median = {name: 1e3 * float(np.median(entry["rounds_s"])) for name, entry in case["times"].items()}
    alone = min(step for name, step in median.items() if name.startswith("alone"))
    sizes = ", ".join(f"{case['times'][name]['split']} ({name})" for name in (TYPED, PLANNED))
    speeds = ":".join(map(str, network.speeds))
    return [
        claim(
            f"{network.title}: {known_weights(network.name)}",
            f"{case['convolution_weights']:,} weights in convolutions, {case['weights']:,} in all",
            "the same network",
        ),
        claim(
            f"{network.title}: speeds are typed by hand, {speeds}, and filters split by floor(F s)",
            f"{extent}, batch {case['batch']}: a step takes {median[TYPED]:.0f} ms by the rule, {median[PLANNED]:.0f} by our filters, "
            f"{median[AUTO]:.0f} by auto ({case['automatic']}), {median[EQUAL]:.0f} by equal filters, {alone:.0f} on the fastest device; "
            f"first split: {sizes}",
            "our sizes follow from measured seconds of each layer and number of filters, and from links; a layer or a device may be left "
            "out. The devices are shares of one CPU, not two GPUs and a CPU",
        ),
        claim(
            f"{network.title}: the parts compute the network of one device",
            f"largest difference from one device in float64: {max(case['differences'].values()):.0e}",
            "every pair of layers shares one axis of devices, and partial sums are added up",
        ),
    ]


def known_weights(name: str) -> str:
    """Return what is known of the number of weights of a network."""
    return {"mnist": "about 6.46 million weights", "cifar10": "4,116,420 weights in convolutions, 4.61 million in all"}[name]


ADAFACTOR = (
    "Adafactor is Keras's with a learning rate of 0.01, at most 1 over the root of the step and scaled by each weight's RMS, as in "
    "Mesh-TensorFlow. It factors the second moments of the last two dimensions of every kernel, Mesh-TensorFlow's those of the two "
    "largest and only where both have at least 128 entries. epsilon_1 is 1e-16: with its default of 1e-30 Keras's own first step gives "
    "NaN in float32 where a row and a column of a kernel have no gradient."
)


@click.command(help=__doc__)
@click.option("--data", "named", multiple=True, help="mnist:DIR or cifar10:DIR, several times for both.  [default: generated tasks]")
@click.option("--network", "chosen", multiple=True, type=click.Choice(["mnist", "cifar10"]), help="One of both.  [default: both]")
@click.option("--only-accuracy", is_flag=True, help="Measure no steps.")
@experiment_options
def main(named: tuple[str, ...], chosen: tuple[str, ...], only_accuracy: bool, **options: Any) -> None:
    """Run the experiment, print its tables."""
    experiment = Experiment.of(options, QUICK, FULL)
    measured: dict[str, dict[str, Any]] = {}
    for network in networks():
        if chosen and network.name not in chosen:
            continue
        batch = network.quick_batch if experiment.is_quick else network.batch
        learning = network.quick_learning if experiment.is_quick else network.learning
        subject = subject_of(network.name, named, learning)
        scored = accuracies(experiment, network, subject, learning)
        experiment.publish(ACCURACY, accuracy_rows(subject, learning, scored), [subject.note, NARROWER])
        if only_accuracy:
            continue
        timed = experiment.case(f"{network.name} steps", lambda: steps(network, batch, experiment.pace))  # noqa: B023
        cells = {"network": network.title, "cluster": cluster_text(network.shares), "batch": batch}
        experiment.publish(STEPS, step_rows(cells, timed["times"], network.epoch), [ADAFACTOR])
        exact = experiment.case(f"{network.name} float64", lambda: equivalence(network))  # noqa: B023
        rows = [{"network": network.title, "arrangement": name, "difference": value} for name, value in exact["differences"].items()]
        experiment.publish(EQUIVALENCE, [table_row(row) for row in rows])
        measured[network.name] = {**timed, **exact}
    if len(measured) == len(networks()):
        experiment.publish(CLAIMS, claims(measured, experiment.extent))
    experiment.print()


if __name__ == "__main__":
    main()
