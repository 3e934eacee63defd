"""Claim: predicted peak memory of pipelines is within 20 % of the measured one, without a flush as with one, where it exceeds 500 MB.

The same two stages, halves of the network by its layers, train by each schedule, in workers of their own. Measured is the high-water mark
of a worker's resident memory after some steps, less what it was when the worker had connected. Time does not matter.

    python -m tools.bench.late.memory [--network "vgg11 64x64, batch 64"]
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from hetero_mtf.runtime.process_memory import peak_bytes
from tools.bench.comparison.plan_memory import half_pipeline, predicted_bytes
from tools.bench.memory import CLAIMED_FROM, MB, OFF, MemoryCase, connect, networks
from tools.results.output import Cases, Output, output_options
from tools.results.publication import TableForm, shown, table_row
from tools.results.records import Column, Row

MICROBATCHES = 8
USUAL = ("vgg11 64x64, batch 64", "resnet18 32x32, batch 128", "resnet10 3-D 64x64x64, batch 16")


def executions() -> dict[str, Any]:
    """Return each schedule with its options, by name."""
    from hetero_mtf.planning.schedule.execution import Execution
    from hetero_mtf.planning.schedule.stale import StaleOptions

    stored = StaleOptions("stored")
    return {
        "fill_drain": Execution("fill_drain", MICROBATCHES),
        "1f1b": Execution("1f1b", MICROBATCHES),
        "one batch": Execution("1f1b", 1),
        "decoupled, replay": Execution("decoupled", stale=StaleOptions()),
        "decoupled, stored": Execution("decoupled", stale=stored),
        "1f1b_2bw, stored": Execution("1f1b_2bw", MICROBATCHES, stale=stored),
        "1f1b_2bw, replay": Execution("1f1b_2bw", MICROBATCHES, stale=StaleOptions()),
    }


def measure(network: MemoryCase, execution: Any, steps: int) -> list[dict[str, Any]]:
    """Return predicted and measured bytes of each device."""
    import keras

    import hetero_mtf as hm
    from hetero_mtf.keras_reading.layer_graph import layer_graph

    model, batch = network.make(), network.batch
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(batch, *model.input_shape[1:])).astype("float32"), rng.integers(0, model.output_shape[-1], batch)
    settings = {"optimizer": keras.optimizers.SGD(1e-4, momentum=0.9), "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    graph = layer_graph(model)
    with hm.Cluster.emulate([0.8, 0.8]) as cluster:
        connect(cluster)
        processes = cluster._backend.process_ids()
        before = [peak_bytes(process) for process in processes]
        plan = half_pipeline(graph, cluster, batch, execution)
        with hm.Trainer(model, plan, cluster, **settings) as trainer:
            for _ in range(steps):
                trainer.train_on_batch(x, y)
            trainer.wait()
            after = [peak_bytes(process) for process in processes]
        predicted = predicted_bytes(graph, plan, cluster.record)
    return [
        {"device": f"worker:{d}", "predicted_bytes": guess, "measured_bytes": after[d] - before[d]}
        for d, guess in sorted(predicted.items())
    ]


def rows(cases: Sequence[dict[str, Any]]) -> list[Row]:
    """Return a row a device of each case."""
    lines = []
    for case in cases:
        for entry in case["devices"]:
            cells = {"network": case["network"], "schedule": case["schedule"], "stage": entry["device"][-1]}
            off = entry["predicted_bytes"] / entry["measured_bytes"] - 1
            figures = {"predicted_mb": entry["predicted_bytes"] / MB, "measured_mb": entry["measured_bytes"] / MB}
            wanted = {"off": OFF if entry["measured_bytes"] >= CLAIMED_FROM else None}
            lines.append(table_row({**cells, **figures, "off": abs(off)}, wanted))
    return lines


def summarise(table: Sequence[Row]) -> list[str]:
    """Return the median and worst error."""
    errors = [row.numbers["off"] for row in table]
    return [f"{len(errors)} devices: off by {statistics.median(errors):.0%} in the median, {max(errors):.0%} at worst."]


TABLE = TableForm(
    "late_memory",
    "Memory of pipelines by schedule",
    (
        Column("network", "network"),
        Column("schedule", "schedule"),
        Column("stage", "stage"),
        Column("predicted_mb", "predicted MB", ".0f"),
        Column("measured_mb", "measured MB", ".0f"),
        Column("off", "off by", ".0%", "at_most"),
    ),
    case=("network", "schedule", "stage"),
    summarise=summarise,
)


@click.command(help=__doc__)
@click.option("--network", "names", multiple=True, default=USUAL, help="A network, several times for more.")
@click.option("--schedule", "schedules", multiple=True, help="A schedule, several times for more.  [default: all]")
@click.option("--steps", default=5, show_default=True, help="Steps of each.")
@output_options(after="case")
def main(names: tuple[str, ...], schedules: tuple[str, ...], steps: int, output: Output) -> None:
    """Train by each schedule, print the table."""
    cases = Cases(output)
    for name in names:
        for schedule, execution in executions().items():
            if schedules and schedule not in schedules:
                continue
            cases.add({"network": name, "schedule": schedule, "devices": measure(networks()[name], execution, steps)})
            print(shown(TABLE, rows(cases.done[-1:])), flush=True)
    output.report(TABLE, rows(cases.done))


if __name__ == "__main__":
    main()
