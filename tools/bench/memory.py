"""Claim: the predicted peak memory of a device is within 20 % of the measured one, on networks where it exceeds 500 MB.

Every network trains a few steps on emulated devices, in workers of its own for each strategy. Measured is the high-water mark of a worker's
resident memory (VmHWM) after them, less what it was when the worker had connected, before there was a graph. Predicted is what
`planning.memory` computes from the network's structure and the plan. The shares of most strategies are those of the devices; those of
"planned" strategies come from a short calibration, in workers that are closed before. A "pipeline" has two halves of the network as stages
and 4 microbatches, and keeps its activations or, "recomputed", computes them again. All train by SGD with momentum, but those that name an
optimizer, which updates full variables and so gathers them. A strategy that a network does not allow is left out.

    python -m tools.bench.memory [--shares 1.0,0.5] [--network vgg11 --network ...] [--strategy single ...] [--steps 4] [--budget 20]

Memory of the machine: some 5 GB for the largest network with its workers.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.runtime.process_memory import peak_bytes
from tools.bench.comparison.options import shares_option
from tools.bench.comparison.plan_memory import half_pipeline, predicted_bytes
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

MB = 1e6
CLAIMED_FROM = 500 * MB
OFF = 0.2  # at most, of the claim
MICROBATCHES = 4
MANUAL = ("single", "filters", "batch", "hybrid")
PLANNED = {f"planned {name}": name for name in ("batch", "filters", "hybrid", "layers", "auto")}
PIPELINES = {
    f"pipeline {schedule}{', recomputed' if recompute else ''}": (schedule, recompute)
    for schedule in ("1f1b", "fill_drain")
    for recompute in (False, True)
}
GATHERING = {f"{strategy}, {name}": (strategy, name) for strategy in ("single", "filters") for name in ("lamb", "adafactor")}
STRATEGIES = (*MANUAL, *PLANNED, *PIPELINES, *GATHERING)


@dataclasses.dataclass(frozen=True)
class MemoryCase:
    """A network that fills memory.

    Parameters
    ----------
    make : returns the keras.Model.
    batch : samples per step.
    """

    make: Callable[[], Any]
    batch: int


def networks() -> Mapping[str, MemoryCase]:
    """Return the networks by name."""
    from models.alexnet import alexnet
    from models.resattnet3d import resattnet18
    from models.residual import resnet18
    from models.vgg import vgg11
    from models.volume import resnet10_3d

    return {
        "vgg11 64x64, batch 64": MemoryCase(lambda: vgg11(size=64), 64),
        "vgg11 with batch norm 64x64, batch 64": MemoryCase(lambda: vgg11(True, size=64), 64),
        "resnet18 32x32, batch 128": MemoryCase(resnet18, 128),
        "resnet10 3-D 64x64x64, batch 16": MemoryCase(lambda: resnet10_3d(64), 16),
        "resattnet18 64x64x64, attention over 4096 positions, batch 4": MemoryCase(lambda: resattnet18(64, 8, attention=(2,)), 4),
        "alexnet 64x64, hidden 4096, batch 128": MemoryCase(lambda: alexnet(64, hidden=4096), 128),
        "dense 4 x 4096, batch 64": MemoryCase(_dense, 64),
    }


def _dense() -> Any:
    import keras

    inputs = x = keras.Input((1024,))
    for _ in range(4):
        x = keras.layers.Dense(4096, activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(10)(x))


@dataclasses.dataclass(frozen=True)
class MemoryRun:
    """How every network is measured.

    Parameters
    ----------
    shares : (devices,) share of a core of each device, and its share of the network where it is not planned.
    steps : before the peak is read.
    budget_s : seconds of a calibration.
    open_cluster : returns a new cluster, for a with-statement; None for emulated devices of the shares.
    """

    shares: tuple[float, ...]
    steps: int = 4
    budget_s: float = 20.0
    open_cluster: Callable[[], Any] | None = None

    def opened(self) -> Any:
        """Return a new cluster."""
        import hetero_mtf as hm

        return self.open_cluster() if self.open_cluster is not None else hm.Cluster.emulate(self.shares)


def optimizer(strategy: str = "") -> Any:
    """Return the optimizer that a strategy trains by.

    Parameters
    ----------
    strategy : of `STRATEGIES`; "" for a calibration.
    """
    import keras

    match GATHERING.get(strategy):
        case _, "lamb":
            return keras.optimizers.Lamb(1e-4)
        case _, "adafactor":
            return keras.optimizers.Adafactor(1e-4, epsilon_1=1e-16)
    return keras.optimizers.SGD(1e-4, momentum=0.9)


def profile_of(network: MemoryCase, run: MemoryRun) -> Any:
    """Return a profile of a network, measured on a cluster that is closed then."""
    import hetero_mtf as hm

    with run.opened() as cluster:
        return hm.calibrate(cluster, network.make(), batch_size=network.batch, optimizer=optimizer(), budget_s=run.budget_s)


def measure(network: MemoryCase, strategy: str, run: MemoryRun, profile: Callable[[], Any]) -> list[dict[str, Any]]:
    """Return predicted and measured bytes of each device that a plan uses.

    Parameters
    ----------
    strategy : of `STRATEGIES`.
    profile : returns the network's profile; called where the strategy is planned.

    Raises
    ------
    PlanError
        If the network does not allow the strategy.
    """
    import keras

    import hetero_mtf as hm
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from hetero_mtf.program.optimizer_reading import optimizer_spec

    model, batch = network.make(), network.batch
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(batch, *model.input_shape[1:])).astype("float32"), rng.integers(0, model.output_shape[-1], batch)
    chosen = optimizer(strategy)
    settings = {"optimizer": chosen, "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    planned = hm.plan(profile(), strategy=PLANNED[strategy]) if strategy in PLANNED else None
    with run.opened() as cluster:
        connect(cluster)
        before = peaks(cluster)
        plan = planned if planned is not None else manual_plan(model, strategy, run.shares, cluster, batch)
        with hm.Trainer(model, plan, cluster, **settings) as trainer:
            for _ in range(run.steps):
                trainer.train_on_batch(x, y)
            trainer.wait()
            after = peaks(cluster)
        predicted = predicted_bytes(layer_graph(model), plan, cluster.record, optimizer_spec(chosen))
    return [
        {"device": f"worker:{device}", "predicted_bytes": guess, "measured_bytes": after[device] - before[device]}
        for device, guess in sorted(predicted.items())
    ]


def peaks(cluster: Any) -> list[int]:
    """Return the (devices,) high-water marks of the workers' resident memory."""
    return [peak_bytes(process) for process in cluster.process_ids()]


def connect(cluster: Any) -> None:
    """Compute something on every device, so that its runtime is there."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        sums = []
        for device in cluster.devices:
            with tf.device(device.tf_device):
                sums.append(tf.constant(1.0) + tf.constant(2.0))
    with cluster.session(graph) as session:
        session.run(sums)


def manual_plan(model: Any, strategy: str, shares: Sequence[float], cluster: Any, batch: int) -> Any:
    """Return the plan of a strategy that is not planned, with the devices' shares.

    Parameters
    ----------
    strategy : of `MANUAL`, `PIPELINES` or `GATHERING`.

    Raises
    ------
    PlanError
        If the network does not allow the strategy.
    """
    import hetero_mtf as hm
    from hetero_mtf.keras_reading.layer_graph import layer_graph
    from hetero_mtf.planning.schedule.execution import Execution

    if strategy in PIPELINES:
        schedule, recompute = PIPELINES[strategy]
        return half_pipeline(layer_graph(model), cluster, batch, Execution(schedule, MICROBATCHES, recompute))
    split, _ = GATHERING.get(strategy, (strategy, ""))
    if split == "single":
        return hm.Plan.single(model, 0, cluster, batch)
    return getattr(hm.Plan, split)(model, shares, cluster, batch)


def rows(cases: list[dict[str, Any]]) -> list[Row]:
    """Return a row a device: megabytes predicted and measured, and by how much the prediction is off."""
    table = []
    for case in cases:
        for part in case["devices"]:
            predicted, measured = part["predicted_bytes"], part["measured_bytes"]
            names = {"network": case["network"], "strategy": case["strategy"], "device": part["device"]}
            figures = {"predicted_mb": predicted / MB, "measured_mb": measured / MB, "off": predicted / measured - 1}
            table.append(table_row({**names, **figures}, {"off": OFF if measured >= CLAIMED_FROM else None}))
    return table


def summarise(table: Sequence[Row]) -> list[str]:
    """Return by how much predictions are off where the claim holds.

    Parameters
    ----------
    table : what `rows` returns.
    """
    errors = [abs(entry.numbers["off"]) for entry in table if "off" in entry.wanted]
    if not errors:
        return []
    return [f"{len(errors)} devices above 500 MB: off by {statistics.median(errors):.0%} in the median, {max(errors):.0%} at most."]


TABLE = TableForm(
    "memory",
    "Peak memory of a worker above what it took when connected",
    (
        Column("network", "network"),
        Column("strategy", "strategy"),
        Column("device", "device"),
        Column("predicted_mb", "predicted MB", ".0f"),
        Column("measured_mb", "measured MB", ".0f"),
        Column("off", "off by", "+.0%", "within"),
    ),
    case=("network", "strategy"),
    summarise=summarise,
)


@click.command(help=__doc__)
@shares_option
@click.option("--network", "chosen", multiple=True, help="Beginning of a network's name; all if none is given.")
@click.option("--strategy", "strategies", multiple=True, type=click.Choice(STRATEGIES), help="How to split; all if none is given.")
@click.option("--steps", default=4, show_default=True, help="Steps before the peak is read.")
@click.option("--budget", default=20.0, show_default=True, help="Seconds that a calibration for planned strategies may take.")
@output_options()
def main(
    shares: tuple[float, ...], chosen: tuple[str, ...], strategies: tuple[str, ...], steps: int, budget: float, output: Output
) -> None:
    """Run the comparison and print its table."""
    from hetero_mtf.errors import PlanError

    cases = Cases(output)
    run = MemoryRun(shares, steps, budget)
    for name, network in networks().items():
        if chosen and not name.startswith(chosen):
            continue
        profile = functools.cache(functools.partial(profile_of, network, run))
        for strategy in strategies or STRATEGIES:
            try:
                cases.add({"network": name, "strategy": strategy, "devices": measure(network, strategy, run, profile)})
            except PlanError as fault:
                click.echo(f"{name}, {strategy}: left out, {fault}", err=True)
                continue
            output.publish(TABLE, rows(cases.done))
    click.echo(shown(TABLE, rows(cases.done)))


if __name__ == "__main__":
    main()
