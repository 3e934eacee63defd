"""Claim: butterfly mixing learns scikit-learn's digits about as well as synchronous training does.

The same network, batches and epochs, from three seeds: gradients all-reduced (synchronous, so the number of devices does not
matter), and weights mixed in pairs on 2, 4 and 5 unequal processors. Accuracy, not speed, is compared: the processors are of one process.

    python tools/bench/mixing.py [--epochs 6]

Zhao and Canny ("Butterfly mixing", SDM 2013) report convergence almost as fast as with all-reduce.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import click
import numpy as np

BATCH = 64
SHARES = {2: (2, 1), 4: (4, 3, 2, 1), 5: (4, 3, 2, 2, 1)}
COLUMNS = ["devices", "gradient sync", "train loss, last epoch", "test accuracy", "of each seed"]


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
@click.option("--epochs", default=6, show_default=True)
@click.option("--json", "path", help="File to write the figures to.")
def main(epochs: int, path: str | None) -> None:
    """Train each way from each seed and print the accuracies."""
    from sklearn.datasets import load_digits

    from tools.bench.comparison.measured import markdown, record

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    x, y = (images[order].reshape(-1, 8, 8, 1) / 16.0).astype("float32"), labels[order]
    data = (x[:1437], y[:1437], x[1437:], y[1437:])
    rows, results = [], []
    for devices, gradient_sync in ((2, "all_reduce"), *((count, "butterfly_mixing") for count in SHARES)):
        scores = [trained(devices, gradient_sync, epochs, seed, data) for seed in range(3)]
        losses, accuracies = zip(*scores)
        results.append({"devices": devices, "gradient_sync": gradient_sync, "losses": losses, "accuracies": accuracies})
        each = ", ".join(f"{accuracy:.4f}" for accuracy in accuracies)
        rows.append([devices, gradient_sync, float(np.mean(losses)), f"{np.mean(accuracies):.4f}", each])
    print(markdown(COLUMNS, rows))
    record(path, " ".join(["python", *sys.argv]), {"epochs": epochs, "batch": BATCH, "runs": results})


if __name__ == "__main__":
    main()
