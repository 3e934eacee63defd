"""Claim: graphs are built fast: ResNet-50 on 3 devices in at most 20 s, under every strategy.

A residual net with 50 convolutions, batch norm and momentum on 3 processors is built in at most 8 s, its first step takes at
most 5 s more; keras.applications.ResNet50 at 32x32, with momentum, is built in at most 20 s, split by filters, by samples, or both.
The net of 50 convolutions is built in at most 60 s as a pipeline of 3 stages for 8 microbatches, on a device a stage or on groups of
two, two and one that split the filters or the samples.

    python -m tools.bench.graph_size
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np

from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column

BATCH, PIPELINE_BATCH = 8, 32  # four samples a microbatch
STARTS = ["start1", "block2_1_conv1", "block3_1_conv1"]
TABLE = TableForm(
    "graph_size",
    "Building graphs",
    (
        Column("network", "network"),
        Column("plan", "plan"),
        Column("nodes", "nodes"),
        Column("build_s", "build s", ".1f", "at_most"),
        Column("first_step_s", "first step s", ".2f"),
        Column("second_step_s", "second step s", ".2f"),
    ),
)


def built(network: str, model: Any, devices: int, limit_s: float, strategy: str, make: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the nodes and seconds of building a trainer's graph and of two steps."""
    import keras

    import hetero_mtf as hm

    rng = np.random.default_rng(0)
    settings = {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9), "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    with hm.Cluster.local(["cpu:0"] * devices) as cluster, hm.Trainer(model, make(cluster), cluster, **settings) as trainer:
        batch = trainer.plan.batch_size
        x, y = rng.normal(size=(batch, *model.input_shape[1:])), rng.integers(0, 10, batch)
        times = [time.perf_counter()]
        trainer.build(x, y)
        times.append(time.perf_counter())
        for _ in range(2):
            trainer.train_on_batch(x, y)
            times.append(time.perf_counter())
        build, first, second = (float(seconds) for seconds in np.diff(times))
        figures = {"nodes": trainer.nodes, "build_s": build, "first_step_s": first, "second_step_s": second}
    return {"network": network, "plan": strategy, "limit_s": limit_s, **figures}


def pipelined(model: Any, name: str, groups: list[list[int]], split: str) -> dict[str, Any]:
    """Return the figures of `built` for the residual net in a stage for each of its widths, on groups of devices with shares 2:1."""
    import hetero_mtf as hm

    shares = [[2, 1][: len(group)] for group in groups]
    make = functools.partial(hm.Plan.pipeline, model, STARTS, groups, shares, batch_size=PIPELINE_BATCH, microbatches=8, split=split)
    return built("residual, 50 convolutions", model, 1 + max(map(max, groups)), 60.0, name, lambda cluster: make(cluster=cluster))


@click.command(help=__doc__)
@output_options()
def main(output: Output) -> None:
    """Build each network once under each plan, take two steps, and print what they took."""
    import keras

    import hetero_mtf as hm
    from models.residual import residual

    plain = residual(50)
    resnet = keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10, classifier_activation=None)
    builds = [
        built("residual, 50 convolutions", plain, 3, 8.0, "filters 3:2:1", lambda c: hm.Plan.filters(plain, [3, 2, 1], c, BATCH)),
        built("ResNet-50", resnet, 3, 20.0, "filters 3:2:1", lambda c: hm.Plan.filters(resnet, [3, 2, 1], c, BATCH)),
        built("ResNet-50", resnet, 3, 20.0, "batch 3:2:1", lambda c: hm.Plan.batch(resnet, [3, 2, 1], c, BATCH)),
        built("ResNet-50", resnet, 4, 20.0, "grid 3:1 x 2:1", lambda c: hm.Plan.grid(resnet, [3, 1], [2, 1], c, BATCH)),
        pipelined(plain, "3 stages, a device each", [[0], [1], [2]], "filters"),
        pipelined(plain, "3 stages, filters 2:1, 2:1, 1", [[0, 1], [2, 3], [4]], "filters"),
        pipelined(plain, "3 stages, batch 2:1, 2:1, 1", [[0, 1], [2, 3], [4]], "batch"),
    ]
    keys = ("network", "plan", "nodes", "build_s", "first_step_s", "second_step_s")
    rows = [table_row({key: entry[key] for key in keys}, {"build_s": entry["limit_s"]}) for entry in builds]
    output.report(TABLE, rows)
    output.record({"builds": builds})


if __name__ == "__main__":
    main()
