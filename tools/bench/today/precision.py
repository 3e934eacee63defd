"""Claim: in mixed precision, test accuracy under an unequal plan is within 0.5 points of float32, on digits and on a small ResNet.

Two tasks: the 8x8 digits with four convolutions, whose filters are split 3:1, and the same digits at random places of a 16x16 image with a
residual network, whose batches are split 3:1. Each policy trains from the same weights and on the same batches as float32 with its
seed. A figure is the mean over seeds of the paired difference; its standard error is beside it. `skipped` counts the steps that updated
nothing, as a gradient overflowed in float16, of all seeds together.

    python -m tools.bench.today.precision [--json precision.json [--resume]]
    python -m tools.bench.today.precision --task digits --seeds 2 --results -
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from typing import Any

import click

from tools.bench.late import accuracy as late
from tools.bench.late.paired import paired
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

LEAST_DIFFERENCE = -0.5  # points, of the claim
SHARES = (3, 1)
PLAIN = "float32"
POLICIES = (PLAIN, "mixed_bfloat16", "mixed_float16")
SPLIT = {"digits": "filters", "shifted digits, ResNet": "batch"}
EPOCHS = {"digits": 16, "shifted digits, ResNet": 8}


def residual_network(shape: Sequence[int]) -> Any:
    """Return a residual network of three stages, with batch normalisation; its last layer is in float32.

    Parameters
    ----------
    shape : of an image.
    """
    import keras

    layers = keras.layers

    def normed(x: Any, width: int, size: int, stride: int) -> Any:
        return layers.BatchNormalization()(layers.Conv2D(width, size, stride, "same", use_bias=False)(x))

    inputs = keras.Input(shape)
    x = layers.ReLU()(normed(inputs, 16, 3, 1))
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        shortcut = x if stride == 1 else normed(x, width, 1, stride)
        x = layers.ReLU()(normed(x, width, 3, stride))
        x = layers.ReLU()(layers.Add()([shortcut, normed(x, width, 3, 1)]))
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10, dtype="float32", name="logits")(x))


def trained(name: str, policy: str, seed: int) -> tuple[float, int]:
    """Return the test accuracy in percent after training under an unequal plan, and the steps that updated nothing.

    Parameters
    ----------
    name : of the task.
    """
    import keras

    import hetero_mtf as hm

    task = late.digits() if name == "digits" else late.shifted()
    keras.utils.set_random_seed(seed)
    keras.config.set_dtype_policy(policy)
    model = late.network(task) if name == "digits" else residual_network(task.x.shape[1:])
    keras.config.set_dtype_policy(PLAIN)
    with hm.Cluster.local(["cpu:0"] * len(SHARES)) as cluster:
        make = hm.Plan.filters if SPLIT[name] == "filters" else hm.Plan.batch
        plan = make(model, SHARES, cluster, late.BATCH)
        steps = -(-len(task.x) // late.BATCH)
        falling = keras.optimizers.schedules.CosineDecay(0.0, (EPOCHS[name] - 1) * steps, warmup_target=task.rate, warmup_steps=steps)
        optimizer = keras.optimizers.SGD(falling, momentum=0.9)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        with hm.Trainer(model, plan, cluster, optimizer=optimizer, loss=loss, metrics=["accuracy"], seed=seed) as trainer:
            trainer.fit(task.x, task.y, epochs=EPOCHS[name], batch_size=late.BATCH, verbose=0)
            score = 100 * float(trainer.evaluate(task.test_x, task.test_y, batch_size=256)["accuracy"])
            return score, trainer.loss_scale.skipped if trainer.loss_scale else 0


def rows(cases: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row for each task and policy that was trained, over its seeds."""
    lines = []
    for name, policy in itertools.product(SPLIT, POLICIES):
        own = [case for case in cases if case["task"] == name and policy in case["scores"] and PLAIN in case["scores"]]
        if not own:
            continue
        figures = {"accuracy": statistics.fmean(case["scores"][policy] for case in own)}
        if policy != PLAIN:
            figures |= paired([case["scores"][policy] - case["scores"][PLAIN] for case in own])
        skipped = str(sum(case["skipped"][policy] for case in own)) if policy == "mixed_float16" else "-"
        texts = {"task": name, "split": SPLIT[name], "policy": policy, "seeds": str(len(own)), "skipped": skipped}
        lines.append(table_row({**texts, **figures}))
    return lines


TABLE = TableForm(
    "precision",
    "Accuracy in mixed precision",
    (
        Column("task", "task"),
        Column("split", "split 3:1"),
        Column("policy", "policy"),
        Column("seeds", "seeds"),
        Column("accuracy", "test accuracy %", ".2f"),
        Column("difference", "less float32, points", "+.2f", "at_least", LEAST_DIFFERENCE),
        Column("error", "standard error", ".2f"),
        Column("skipped", "steps skipped"),
    ),
    case=("task", "policy"),
)


@click.command(help=__doc__)
@click.option("--task", "tasks", multiple=True, type=click.Choice(list(SPLIT)), help="A task, several times for more.")
@click.option("--seeds", default=5, show_default=True, help="Number of seeds.")
@output_options(after="training", resumes=True)
def main(tasks: tuple[str, ...], seeds: int, output: Output) -> None:
    """Train, print the table."""
    cases = Cases(output)
    for name, seed in itertools.product(tasks or SPLIT, range(seeds)):
        start_s = time.perf_counter()
        case = cases.find(task=name, seed=seed)
        if case is None:
            case = {"task": name, "seed": seed, "scores": {}, "skipped": {}}
            cases.done.append(case)
        for policy in POLICIES:
            if policy not in case["scores"]:
                case["scores"][policy], case["skipped"][policy] = trained(name, policy, seed)
                cases.record()
        click.echo(f"{name}, seed {seed}: {time.perf_counter() - start_s:.0f} s", err=True)
    output.report(TABLE, rows(cases.done))


if __name__ == "__main__":
    main()
