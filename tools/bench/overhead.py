"""Claim: training on one device takes at most 1.05 times as long as Keras's own `fit`, 1.1 times for networks of today.

The same model, batches, optimizer and cores: an epoch of `fit` of a model that `hm.distribute` gave back, one of `Trainer.fit`, both under
`Plan.single`, and one of Keras's own `fit` take turns; a figure is the median over rounds. Keras is timed as it compiles by default and
with `jit_compile=False`. An epoch is timed from its begin to its end, as callbacks see them: where a `fit` by tf.data takes less than five
seconds, TensorFlow sometimes waits at its end until they are over.

With `--where` a step is looked into instead: single steps of Keras and of a Trainer take turns, and one of the latter is traced.

    python -m tools.bench.overhead [--rounds 7] [--network ViT] [--where]
"""

from __future__ import annotations

import collections
import functools
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import click
import numpy as np

from tools.bench.comparison.options import rounds_option
from tools.bench.comparison.side_by_side import TrainingTask
from tools.bench.today.networks import users_networks
from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column, Row

BATCH = 32
STEPS = 16
WARM_UP = 2
LIMIT = 1.05  # of the claim
LIMIT_TODAY = 1.1  # for networks of today
TABLE = TableForm(
    "overhead",
    "One device through hm.distribute and the Trainer against Keras's fit",
    (
        Column("network", "network"),
        Column("keras_ms", "Keras fit ms/step", ".1f"),
        Column("keras_no_jit_ms", "Keras fit without jit ms/step", ".1f"),
        Column("distributed_ms", "hm.distribute ms/step", ".1f"),
        Column("trainer_ms", "Trainer ms/step", ".1f"),
        Column("spread", "spread of hm.distribute / Keras", ""),
        Column("distributed_times_keras", "hm.distribute / Keras", ".2f", "at_most"),
        Column("distributed_times_keras_no_jit", "hm.distribute / Keras without jit", ".2f", "at_most"),
        Column("times_keras", "Trainer / Keras", ".2f", "at_most"),
        Column("times_keras_no_jit", "Trainer / Keras without jit", ".2f", "at_most"),
    ),
    case=("network",),
)


class Case(NamedTuple):
    """What is trained, and how many times Keras's seconds it may take."""

    task: Callable[[], TrainingTask]
    limit: float


def cases() -> Mapping[str, Case]:
    """Return network -> case."""
    from models.digits import wide_digits
    from models.residual import residual
    from models.vgg import vgg11

    own = {"MNIST convnet": _mnist, "digits CNN": wide_digits, "VGG-11": vgg11}
    own["residual, 20 convolutions"] = functools.partial(residual, 20)
    return {
        **{name: Case(functools.partial(_task, make), LIMIT) for name, make in own.items()},
        **{network.title: Case(network.task, LIMIT_TODAY) for network in users_networks().values()},
    }


def _mnist() -> Any:
    """Return the network of keras.io's first example of images."""
    import keras

    layers = [keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.MaxPooling2D(2), keras.layers.Conv2D(64, 3, activation="relu")]
    head = [keras.layers.MaxPooling2D(2), keras.layers.Flatten(), keras.layers.Dropout(0.5), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((28, 28, 1)), *layers, *head])


def _task(make: Callable[[], Any]) -> TrainingTask:
    return TrainingTask(make(), BATCH)


def compare(make: Callable[[], TrainingTask], rounds: int) -> dict[str, list[float]]:
    """Return the seconds per step, one a round, of Keras's fit, by default and without jit, of a distributed model's and the Trainer's."""
    import keras

    import hetero_mtf as hm
    from hetero_mtf.training.copying import clone

    keras.utils.clear_session()
    keras.utils.set_random_seed(0)
    task = make()
    model, batch = task.model, task.batch
    x, y = task.drawn(batch * STEPS)
    plain, distributed = clone(model), clone(model)
    model.compile(**_settings(task))
    plain.compile(**_settings(task), jit_compile=False)
    distributed.compile(**_settings(task))
    with hm.Cluster.local(["cpu:0"]) as cluster:
        plan = hm.Plan.single(model, device=0, cluster=cluster, batch_size=batch)
        hm.distribute(distributed, cluster, plan=plan)
        with hm.Trainer(model, plan, cluster, **_settings(task)) as trainer:
            fits = {"keras": model.fit, "keras, no jit": plain.fit, "distributed": distributed.fit, "trainer": trainer.fit}
            options = {"batch_size": batch, "epochs": 1, "shuffle": False, "verbose": 0}
            seconds: dict[str, list[float]] = {name: [] for name in fits}
            for _ in range(WARM_UP + rounds):
                for name, fit in fits.items():
                    seconds[name].append(_epoch_s(fit, x, y, **options) / STEPS)
    return {name: each[WARM_UP:] for name, each in seconds.items()}


def _epoch_s(fit: Callable[..., Any], x: Any, y: Any, **options: Any) -> float:
    """Return the seconds of an epoch."""
    import keras

    class Watch(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.begin_s = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.took_s = time.perf_counter() - self.begin_s

    watch = Watch()
    fit(x, y, callbacks=[watch], **options)
    return float(watch.took_s)


def where(make: Callable[[], TrainingTask], rounds: int) -> str:
    """Return what single steps take, and the compute of each kind of layer in a traced one, as text.

    Parameters
    ----------
    make : makes the network with its batches.
    rounds : steps of each side, after those that build it.
    """
    import keras

    import hetero_mtf as hm
    from hetero_mtf.training.copying import clone
    from hetero_mtf.training.timing import trace_median_step

    keras.utils.set_random_seed(0)
    task = make()
    x, y = task.drawn(task.batch)
    model, graph = clone(task.model), hm.layer_graph(task.model)
    model.compile(**_settings(task))
    with hm.Cluster.local(["cpu:0"]) as cluster, hm.Trainer(
        task.model, hm.Plan.single(graph, device=0, cluster=cluster, batch_size=task.batch), cluster, **_settings(task)
    ) as trainer:
        seconds = [(_call_s(model.train_on_batch, x, y), _call_s(trainer.train_on_batch, x, y)) for _ in range(WARM_UP + rounds)]
        trace = trace_median_step(trainer, x, y)
    by_keras, by_us = np.median(seconds[WARM_UP:], axis=0)
    kinds = collections.Counter[str]()
    for entry in trace.layers:
        kinds[graph.layers[entry.layer].kind] += entry.compute_s
    lines = [f"{kind:30} {1e3 * compute_s:8.1f} ms, {compute_s / trace.parts[0].compute_s:.0%}" for kind, compute_s in kinds.most_common()]
    return "\n".join([f"Keras {1e3 * by_keras:.0f} ms, Trainer {1e3 * by_us:.0f} ms; of a traced step:", *lines])


def _call_s(step: Callable[..., Any], x: Any, y: Any) -> float:
    """Return the seconds of a call."""
    begin_s = time.perf_counter()
    step(x, y)
    return time.perf_counter() - begin_s


def _settings(task: TrainingTask) -> dict[str, Any]:
    """Return the optimizer and the loss, an optimizer of its own for each model."""
    optimizer = task.settings["optimizer"]
    return {"optimizer": type(optimizer).from_config(optimizer.get_config()), "loss": task.settings["loss"]}


def row(name: str, seconds: Mapping[str, list[float]], limit: float) -> Row:
    """Return the row of a network, which may take `limit` times Keras's seconds."""
    by_default, plain, distributed, trainer = (float(np.median(each)) for each in seconds.values())
    times = {"keras_ms": by_default, "keras_no_jit_ms": plain, "distributed_ms": distributed, "trainer_ms": trainer}
    each = np.divide(seconds["distributed"], seconds["keras"])
    spread = {"spread": f"{each.min():.2f} to {each.max():.2f}"}
    ratios = {
        "distributed_times_keras": distributed / by_default,
        "distributed_times_keras_no_jit": distributed / plain,
        "times_keras": trainer / by_default,
        "times_keras_no_jit": trainer / plain,
    }
    shown_ms = {key: 1e3 * value for key, value in times.items()}
    return table_row({"network": name, **shown_ms, **spread, **ratios}, dict.fromkeys(ratios, limit))


@click.command(help=__doc__)
@rounds_option(7)
@click.option("--network", "names", multiple=True, help="A network by its name in the table, several times for more.  [default: all]")
@click.option("--where", "looks_into", is_flag=True, help="Print what a step spends its time on; no table is written.")
@output_options()
def main(rounds: int, names: tuple[str, ...], looks_into: bool, output: Output) -> None:
    """Compare on each network and print the table."""
    chosen = {name: case for name, case in cases().items() if not names or any(name.startswith(each) for each in names)}
    if looks_into:
        for name, case in chosen.items():
            click.echo(f"{name}: {where(case.task, rounds)}")
        return
    seconds_by_network = {name: compare(case.task, rounds) for name, case in chosen.items()}
    rows = [row(name, seconds, chosen[name].limit) for name, seconds in seconds_by_network.items()]
    output.report(TABLE, rows)
    output.record({"seconds": seconds_by_network})


if __name__ == "__main__":
    main()
