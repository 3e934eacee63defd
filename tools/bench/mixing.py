"""Claim: butterfly mixing learns scikit-learn's digits about as well as synchronous training does.

The same network, batches and epochs, from three seeds: gradients all-reduced (synchronous, so the number of devices does not
matter), and weights mixed in pairs on 2, 4 and 5 unequal processors. Accuracy, not speed, is compared: the processors are of one process.

    python -m tools.bench.mixing [--epochs 6]

Zhao and Canny ("Butterfly mixing", SDM 2013) report convergence almost as fast as with all-reduce.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from tools.results.output import Output, output_options
from tools.results.publication import TableForm, table_row
from tools.results.records import Column

BATCH = 64
SHARES = {2: (2, 1), 4: (4, 3, 2, 1), 5: (4, 3, 2, 2, 1)}
TABLE = TableForm(
    "mixing",
    "Butterfly mixing against all-reduce on scikit-learn's digits",
    (
        Column("devices", "devices"),
        Column("gradient_sync", "gradient sync"),
        Column("loss", "training loss, last epoch", "#.3g"),
        Column("accuracy", "test accuracy", ".4f"),
        Column("accuracies", "of each seed", ".4f"),
    ),
)


def trained(devices: int, gradient_sync: str, epochs: int, seed: int, data: tuple[Any, ...]) -> tuple[float, float]:
    """Return the last epoch's training loss and the test accuracy."""
    import keras

    import hetero_mtf as hm
    from models.digits import wide_digits

    keras.utils.set_random_seed(seed)
    model = wide_digits((16, 32, 32), kernel_size=3)
    x, y, test_x, test_y = data
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Cluster.local(["cpu:0"] * devices) as cluster:
        plan = hm.Plan.batch(model, SHARES[devices], cluster, BATCH, gradient_sync=gradient_sync)
        settings = {"optimizer": keras.optimizers.SGD(0.05, momentum=0.9), "loss": loss, "metrics": ["accuracy"], "seed": seed}
        with hm.Trainer(model, plan, cluster, **settings) as trainer:
            history = trainer.fit(x, y, epochs=epochs, verbose=0)
            return history.history["loss"][-1], trainer.evaluate(test_x, test_y)["accuracy"]


@click.command(help=__doc__)
@click.option("--epochs", default=6, show_default=True, help="Epochs of each training.")
@output_options()
def main(epochs: int, output: Output) -> None:
    """Train each way from each seed and print the accuracies."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x, y = (images[order].reshape(-1, 8, 8, 1) / 16.0).astype("float32"), labels[order]
    data = (x[:1437], y[:1437], x[1437:], y[1437:])
    rows, runs = [], []
    for devices, gradient_sync in ((2, "all_reduce"), *((count, "butterfly_mixing") for count in SHARES)):
        scores = [trained(devices, gradient_sync, epochs, seed, data) for seed in range(3)]
        losses, accuracies = zip(*scores)
        runs.append({"devices": devices, "gradient_sync": gradient_sync, "losses": losses, "accuracies": accuracies})
        figures = {"loss": float(np.mean(losses)), "accuracy": float(np.mean(accuracies)), "accuracies": accuracies}
        counted = devices if gradient_sync != "all_reduce" else "any number"
        rows.append(table_row({"devices": counted, "gradient_sync": gradient_sync, **figures}))
    output.report(TABLE, rows)
    output.record({"epochs": epochs, "batch": BATCH, "runs": runs})


if __name__ == "__main__":
    main()
