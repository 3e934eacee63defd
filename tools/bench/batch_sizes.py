"""Claim: the memory of a trainer is bounded in the number of batch sizes: after 59 sizes it is at most 1.3 times that after 4.

A small convolutional net with batch norm and Adam is trained on, or predicts, batches of 4 sizes and then of 55 more, all different and
in random order, twice each, in a process of its own. Memory is what the process holds of the machine's (RSS), with what the workers of
an emulated cluster hold.

    python -m tools.bench.batch_sizes [--cluster local:cpu:0,cpu:0] [--mode train]
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import click
import numpy as np

from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column

LARGEST, FEW, MANY = 64, 4, 59
LIMIT = 1.3
CLUSTERS, MODES = ("local:cpu:0,cpu:0", "emulate:1.0,0.5"), ("train", "predict")
TABLE = TableForm(
    "batch_sizes",
    "Memory of a trainer that sees many batch sizes",
    (
        Column("cluster", "cluster"),
        Column("mode", "mode"),
        *(Column(f"nodes_{count}", f"nodes, {count} sizes") for count in (FEW, MANY)),
        *(Column(f"mb_{count}", f"MB, {count} sizes", ".0f") for count in (FEW, MANY)),
        Column("ratio", "ratio", ".2f", "at_most", LIMIT),
    ),
    case=("cluster",),
)


def resident_mb(cluster: Any) -> float:
    """Return the MB of memory that this process and the cluster's workers hold."""
    pages = [int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]) for process in (os.getpid(), *cluster.process_ids())]
    return sum(pages) * os.sysconf("SC_PAGESIZE") / 1e6


def small_net() -> Any:
    """Return the network."""
    import keras
    from keras import layers

    x = inputs = keras.Input((8, 8, 3))
    for filters in (16, 24, 32):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same")(x)))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def held(cluster_text: str, mode: str) -> dict[str, Any]:
    """Return the nodes and MB after few batch sizes and after many."""
    import keras

    import hetero_mtf as hm

    rng = np.random.default_rng(0)
    sizes = [int(size) for size in rng.permutation(np.arange(1, LARGEST + 1))[:MANY]]
    model = small_net()
    settings = {"optimizer": keras.optimizers.Adam(), "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    figures: dict[str, Any] = {"cluster": cluster_text, "mode": mode}
    with hm.Cluster.parse(cluster_text) as cluster:
        plan = hm.Plan.filters(model, [2, 1], cluster, LARGEST)
        with hm.Trainer(model, plan, cluster, **settings) as trainer:
            for number, size in enumerate(sizes, 1):
                x, y = rng.normal(size=(size, 8, 8, 3)), rng.integers(0, 10, size)
                for _ in range(2):
                    trainer.train_on_batch(x, y) if mode == "train" else trainer.predict(x, batch_size=size)
                if number in (FEW, MANY):
                    figures[f"nodes_{number}"], figures[f"mb_{number}"] = trainer.nodes, resident_mb(cluster)
    return {**figures, "ratio": figures[f"mb_{MANY}"] / figures[f"mb_{FEW}"]}


def held_apart(cluster_text: str, mode: str) -> dict[str, Any]:
    """Return what `held` returns, in a process of its own.

    Parameters
    ----------
    cluster_text : as for `hm.Cluster.parse`.
    mode : "train" or "predict".
    """
    import json

    program = "import json, sys; from tools.bench.batch_sizes import held; print(json.dumps(held(*sys.argv[1:])))"
    root = pathlib.Path(__file__).resolve().parents[2]
    ended = subprocess.run([sys.executable, "-c", program, cluster_text, mode], cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return figures


@click.command(help=__doc__)
@click.option("--cluster", "clusters", multiple=True, default=CLUSTERS, show_default=True, help="Cluster, as hetero-mtf takes it.")
@click.option(
    "--mode", "modes", multiple=True, type=click.Choice(MODES), default=MODES, show_default=True, help="What the batches are for."
)
@output_options()
def main(clusters: tuple[str, ...], modes: tuple[str, ...], output: Output) -> None:
    """Measure the memory of trainers that see many batch sizes."""
    cases = [held_apart(cluster, mode) for cluster in clusters for mode in modes]
    keys = ("cluster", "mode", f"nodes_{FEW}", f"nodes_{MANY}", f"mb_{FEW}", f"mb_{MANY}", "ratio")
    rows = [table_row({key: case[key] for key in keys}) for case in cases]
    output.report(TABLE, rows)
    output.record({"cases": cases})


if __name__ == "__main__":
    main()
