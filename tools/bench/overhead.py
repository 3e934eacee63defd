"""Claim: training on one device through the Trainer takes at most 1.05 times as long as Keras's own `fit`.

The same model, batches, optimizer and cores: an epoch of `Trainer.fit` under `Plan.single` and an
epoch of `keras.Model.fit` take turns; a figure is the median over rounds. Keras is timed as it
compiles by default and with `jit_compile=False`.

    python tools/bench/overhead.py [--rounds 7]
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import click
import numpy as np

from tools.bench.comparison.measured import record
from tools.results.publication import TableForm, publish, results_option, shown, table_row
from tools.results.records import Column, Row

BATCH = 32
STEPS = 8
LIMIT = 1.05  # of the claim
TABLE = TableForm(
    "overhead",
    "One device through the Trainer against Keras's fit",
    (
        Column("network", "network"),
        Column("keras_ms", "Keras fit ms/step", ".1f"),
        Column("keras_no_jit_ms", "Keras fit without jit ms/step", ".1f"),
        Column("trainer_ms", "Trainer ms/step", ".1f"),
        Column("times_keras", "Trainer / Keras", ".2f", "at_most", LIMIT),
        Column("times_keras_no_jit", "Trainer / Keras without jit", ".2f", "at_most", LIMIT),
    ),
)


def networks() -> dict[str, Any]:
    """Return name -> function that makes a network."""
    from models.digits import wide_digits
    from models.residual import residual
    from models.vgg import vgg11

    return {"digits CNN": wide_digits, "VGG-11": vgg11, "residual, 20 convolutions": functools.partial(residual, 20)}


def compare(make: Any, rounds: int) -> dict[str, float]:
    """Return the median seconds per step of Keras's fit, by default and without jit, and of the Trainer's."""
    import keras

    import hetero_mtf as hm
    from hetero_mtf.training.timing import interleaved

    keras.utils.set_random_seed(0)
    model = make()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(BATCH * STEPS, *model.input_shape[1:])).astype("float32")
    y = rng.integers(0, model.output_shape[-1], len(x))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    plain = keras.models.clone_model(model)
    model.compile(keras.optimizers.SGD(0.001, momentum=0.9), loss)
    plain.compile(keras.optimizers.SGD(0.001, momentum=0.9), loss, jit_compile=False)
    with hm.Cluster.local(["cpu:0"]) as cluster:
        plan = hm.Plan.single(model, device=0, cluster=cluster, batch_size=BATCH)
        with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.001, momentum=0.9), loss=loss) as trainer:
            runs = {
                "keras": functools.partial(model.fit, x, y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0),
                "keras, no jit": functools.partial(plain.fit, x, y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0),
                "trainer": functools.partial(trainer.fit, x, y, batch_size=BATCH, epochs=1, shuffle=False),
            }
            seconds = interleaved(runs, rounds=rounds, steps=1, warm_up=2)
    return {name: float(np.median(times)) / STEPS for name, times in seconds.items()}


def row(name: str, seconds: dict[str, float]) -> Row:
    """Return the row of a network."""
    by_default, plain, ours = seconds.values()
    times = {"keras_ms": 1e3 * by_default, "keras_no_jit_ms": 1e3 * plain, "trainer_ms": 1e3 * ours}
    return table_row({"network": name, **times, "times_keras": ours / by_default, "times_keras_no_jit": ours / plain})


@click.command(help=__doc__)
@click.option("--rounds", default=7, show_default=True, help="Rounds; a figure is their median.")
@click.option("--json", "path", help="File to write all figures to.")
@results_option
def main(rounds: int, path: str | None, results: pathlib.Path | None) -> None:
    """Compare on each network and print the table."""
    seconds_by_network = {name: compare(make, rounds) for name, make in networks().items()}
    rows = [row(name, seconds) for name, seconds in seconds_by_network.items()]
    click.echo(shown(TABLE, rows))
    publish(results, TABLE, rows)
    record(path, " ".join(["python", *sys.argv]), {"seconds": seconds_by_network})


if __name__ == "__main__":
    main()
