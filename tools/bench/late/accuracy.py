"""Claim: without a flush, test accuracy is within 0.5 points of synchronous training, after as many epochs, in 2 and 3 stages.

Two tasks: the 8x8 digits, and the same digits at random places of a 16x16 image, on which no linear model comes within 15 points of the
network (logistic regression, the best of several penalties by test accuracy, is there for comparison). Each
variant trains from the same weights and on the same batches as the synchronous run of its seed, with momentum 0.9 and a learning rate that
rises over the first epoch and then falls along a cosine. A figure is the mean over seeds of the paired difference; its standard error is
beside it. Reproducible up to float32's order of summation.

    python -m tools.bench.late.accuracy [--json accuracy.json [--resume]]
    python -m tools.bench.late.accuracy --task digits --seeds 2
    python -m tools.bench.late.accuracy --task "shifted digits" --variant "decoupled, replay" --late-epochs 28 --results -
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import click
import numpy as np

from tools.bench.late.paired import paired
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

LEAST_DIFFERENCE, LINEAR_BELOW = -0.5, 15.0  # points, of the claim
BATCH = 32
STARTS = {2: ["conv1", "conv3"], 3: ["conv1", "conv2", "conv4"]}
SYNCHRONOUS = "synchronous"


@dataclasses.dataclass(frozen=True)
class Task:
    """What is learnt: images and labels to train and to test, epochs and learning rate."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    epochs: int
    rate: float


@dataclasses.dataclass(frozen=True)
class Variant:
    """A schedule with its options; 1f1b_2bw takes the fewest microbatches that it can."""

    schedule: str
    backward: str = "replay"
    accumulate: int = 1
    predict: bool = False

    @property
    def name(self) -> str:
        """What tables call it."""
        words = [self.schedule, self.backward]
        words += [f"{self.accumulate} batches an update"] if self.accumulate > 1 else []
        return ", ".join(words + (["weights predicted"] if self.predict else []))


VARIANTS = (
    *(Variant("decoupled", backward, predict=predict) for backward in ("replay", "stored") for predict in (False, True)),
    *(Variant("decoupled", backward, 2) for backward in ("replay", "stored")),
    *(Variant("1f1b_2bw", "stored", predict=predict) for predict in (False, True)),
)


def digits() -> Task:
    """Return the 8x8 digits, a quarter of them to test."""
    from hetero_mtf.data.digits import load_digits

    data = load_digits("float32")
    return Task(data.x_train, data.y_train, data.x_test, data.y_test, epochs=16, rate=0.01)


def shifted(seed: int = 0, copies: int = 2) -> Task:
    """Return digits at random places of 16x16 images; test digits are in no training image.

    Parameters
    ----------
    copies : images of each training digit.
    """
    plain = digits()
    rng = np.random.default_rng(seed)

    def placed(x: np.ndarray, y: np.ndarray, times: int) -> tuple[np.ndarray, np.ndarray]:
        images = np.zeros((times * len(x), 16, 16, 1), np.float32)
        for number, (i, j) in enumerate(rng.integers(0, 9, (len(images), 2))):
            images[number, i : i + 8, j : j + 8] = x[number % len(x)]
        return images, np.tile(y, times)

    return Task(*placed(plain.x, plain.y, copies), *placed(plain.test_x, plain.test_y, 4), epochs=24, rate=0.005)


TASKS = {"digits": digits, "shifted digits": shifted}


def network(task: Task) -> Any:
    """Return four convolutions and two dense layers."""
    import keras

    layers = keras.layers
    x = inputs = keras.Input(task.x.shape[1:])
    for number, width in enumerate((16, 32, 32, 64), 1):
        x = layers.Conv2D(width, 3, padding="same", activation="relu", kernel_initializer="he_normal", name=f"conv{number}")(x)
        x = layers.MaxPooling2D(name=f"pool{number}")(x) if number % 2 == 0 else x
    x = layers.Dense(64, activation="relu", kernel_initializer="he_normal", name="hidden")(layers.Flatten(name="flatten")(x))
    return keras.Model(inputs, layers.Dense(10, name="logits")(x))


def accuracy(task: Task, seed: int, variant: Variant | None, stages: int) -> float:
    """Return the test accuracy after training, in percent.

    Parameters
    ----------
    variant : None for one device.
    stages : of the pipeline.
    """
    import keras

    import hetero_mtf as hm

    keras.utils.set_random_seed(seed)
    model = network(task)
    with hm.Cluster.local(["cpu:0"] * stages) as cluster:
        if variant is None:
            plan = hm.Plan.single(model, 0, cluster, BATCH)
        else:
            stale = hm.StaleOptions(variant.backward, variant.accumulate, variant.predict)
            parts = 2 * (stages - 1) if variant.schedule == "1f1b_2bw" else 1
            placed = [[device] for device in range(stages)], [[1]] * stages
            plan = hm.Plan.pipeline(model, STARTS[stages], *placed, cluster, BATCH, parts, variant.schedule, stale=stale)
        steps = -(-len(task.x) // BATCH)
        falling = keras.optimizers.schedules.CosineDecay(0.0, (task.epochs - 1) * steps, warmup_target=task.rate, warmup_steps=steps)
        optimizer = keras.optimizers.SGD(falling, momentum=0.9)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        with hm.Trainer(model, plan, cluster, optimizer=optimizer, loss=loss, metrics=["accuracy"], seed=seed) as trainer:
            trainer.fit(task.x, task.y, epochs=task.epochs, batch_size=BATCH, verbose=0)
            return 100 * float(trainer.evaluate(task.test_x, task.test_y, batch_size=256)["accuracy"])


def linear_accuracy(task: Task) -> float:
    """Return the best test accuracy of logistic regression over some penalties, in percent."""
    from sklearn.linear_model import LogisticRegression

    x, test_x = (images.reshape(len(images), -1) for images in (task.x, task.test_x))
    models = (LogisticRegression(C=strength, max_iter=300) for strength in (0.001, 0.01, 0.1, 1.0))
    return max(100 * float(model.fit(x, task.y).score(test_x, task.test_y)) for model in models)


def run(case: dict[str, Any], variants: Sequence[Variant], keep: Callable[[], None], late_epochs: int | None = None) -> None:
    """Add the accuracies of variants to a case, by their names and stages.

    Parameters
    ----------
    case : task, seed, and the scores that are known.
    keep : called after each training.
    late_epochs : epochs of the variants; None for those of the synchronous run.
    """
    task, scores = TASKS[case["task"]](), case["scores"]
    late = dataclasses.replace(task, epochs=late_epochs or task.epochs)
    for variant, stages in [(None, 1), *itertools.product(variants, STARTS)]:
        key = f"{stages}: {variant.name if variant else SYNCHRONOUS}"
        if key not in scores:
            scores[key] = accuracy(late if variant else task, case["seed"], variant, stages)
            keep()


def rows(cases: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row for each task, variant and number of stages that was trained; each is over the seeds that it was trained with."""
    lines = []
    for name in dict.fromkeys(case["task"] for case in cases):
        own = [case["scores"] for case in cases if case["task"] == name]
        linear = next(case["linear"] for case in cases if case["task"] == name)
        base = f"1: {SYNCHRONOUS}"
        plain = [scores[base] for scores in own if base in scores]
        lines.append(_row(name, SYNCHRONOUS, 1, plain, []))
        lines.append(table_row({"task": name, "seeds": "-", "variant": "logistic regression", "stages": "-", "accuracy": linear}))
        for variant, stages in itertools.product(VARIANTS, STARTS):
            key = f"{stages}: {variant.name}"
            pairs = [(scores[key], scores[base]) for scores in own if key in scores]
            if pairs:
                lines.append(_row(name, variant.name, stages, [score for score, _ in pairs], [one - other for one, other in pairs]))
    return lines


def _row(task: str, variant: str, stages: int, scores: Sequence[float], differences: Sequence[float]) -> Row:
    figures = {"accuracy": statistics.fmean(scores)}
    if differences:
        figures |= paired(differences)
    return table_row({"task": task, "seeds": str(len(scores)), "variant": variant, "stages": str(stages), **figures})


TABLE = TableForm(
    "late_accuracy",
    "Accuracy without a flush",
    (
        Column("task", "task"),
        Column("variant", "variant"),
        Column("stages", "stages"),
        Column("seeds", "seeds"),
        Column("accuracy", "test accuracy %", ".2f"),
        Column("difference", "less synchronous, points", "+.2f", "at_least", LEAST_DIFFERENCE),
        Column("error", "standard error", ".2f"),
    ),
    case=("task", "variant", "stages"),
)


@click.command(help=__doc__)
@click.option("--task", "tasks", multiple=True, type=click.Choice(list(TASKS)), help="A task, several times for more.")
@click.option("--seeds", default=5, show_default=True, help="Number of seeds.")
@click.option("--first", default=0, show_default=True, help="First seed.")
@click.option(
    "--variant", "names", multiple=True, type=click.Choice([each.name for each in VARIANTS]), help="A variant, several times for more."
)
@click.option("--late-epochs", type=int, help="Epochs of the variants.  [default: those of the synchronous run]")
@output_options(after="training", resumes=True)
def main(tasks: tuple[str, ...], seeds: int, first: int, names: tuple[str, ...], late_epochs: int | None, output: Output) -> None:
    """Train, print the table."""
    cases = Cases(output)
    variants = [each for each in VARIANTS if not names or each.name in names]
    for name, seed in itertools.product(tasks or TASKS, range(first, first + seeds)):
        start_s = time.perf_counter()
        case = cases.find(task=name, seed=seed)
        if case is None:
            case = {"task": name, "seed": seed, "linear": linear_accuracy(TASKS[name]()), "scores": {}}
            cases.done.append(case)
        run(case, variants, cases.record, late_epochs)
        click.echo(f"{name}, seed {seed}: {time.perf_counter() - start_s:.0f} s", err=True)
        print(shown(TABLE, rows(cases.done)), flush=True)
    output.report(TABLE, rows(cases.done))


if __name__ == "__main__":
    main()
