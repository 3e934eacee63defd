"""Claim: a 50-convolution residual net with batch norm and momentum on 3 processors is built in at most 8 s.

Its first step takes at most 5 s more.

python tools/bench/graph_size.py
"""

from __future__ import annotations

import os
import pathlib
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import click
import numpy as np

BATCH = 8


@click.command(help=__doc__)
@click.option("--json", "path", help="File to write the figures to.")
def main(path: str | None) -> None:
    """Build the network once, take two steps, and print what they took."""
    import keras
    from measured import markdown, record

    import hetero_mtf as hm
    from models.residual import residual

    model = residual(50)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(BATCH, *model.input_shape[1:])), rng.integers(0, 10, BATCH)
    settings = {"optimizer": keras.optimizers.SGD(0.1, momentum=0.9), "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = hm.Plan.filters(model, shares=[3, 2, 1], cluster=cluster, batch_size=BATCH)
        with hm.Trainer(model, plan, cluster, **settings) as trainer:
            times = [time.perf_counter()]
            trainer.build(x, y)
            times.append(time.perf_counter())
            for _ in range(2):
                trainer.train_on_batch(x, y)
                times.append(time.perf_counter())
            nodes = trainer.nodes
    build, first, second = np.diff(times)
    print(
        markdown(
            ["nodes", "build s (at most 8)", "first step s (at most 5)", "second step s"],
            [[nodes, float(build), float(first), float(second)]],
        )
    )
    record(path, " ".join(["python", *sys.argv]), {"nodes": nodes, "build_s": build, "first_step_s": first, "second_step_s": second})


if __name__ == "__main__":
    main()
