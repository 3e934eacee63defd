"""A training in a process of its own, whose workers are lost meanwhile: what it saw, and the weights that it ended with.

    python -m tools.bench.faults.faulty_training ORDER

ORDER is a JSON object: network, by ("distribute", "trainer" or "one device"), hosts, timeout_s, epochs, measure, and the files figures
and weights.
"""

from __future__ import annotations

import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import hetero_mtf as hm
from hetero_mtf.training import plan_choice
from hetero_mtf.training.control.controller import Controller
from hetero_mtf.training.run.mirror import Mirror

BATCH, STEPS = 32, 40  # of an epoch
SAVED_EVERY = 25  # batches


def _images() -> tuple[Any, Any, Any]:
    x = image = keras.Input((12, 12, 3))
    for filters in (24, 32, 32):
        x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    x = keras.layers.Dropout(0.3, seed=3)(keras.layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, keras.layers.Dense(6)(x)), (12, 12, 3), 6


def _vectors() -> tuple[Any, Any, Any]:
    x = vector = keras.Input((64,))
    for units in (512, 384, 256):
        x = keras.layers.Dropout(0.2, seed=units)(keras.layers.Dense(units, activation="gelu")(x))
    return keras.Model(vector, keras.layers.Dense(9)(x)), (64,), 9


def _sequences() -> tuple[Any, Any, Any]:
    x = words = keras.Input((16, 12))
    x = keras.layers.LSTM(48, return_sequences=True)(x)
    x = keras.layers.Bidirectional(keras.layers.LSTM(24))(x)
    return keras.Model(words, keras.layers.Dense(5)(x)), (16, 12), 5


NETWORKS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {"images": _images, "vectors": _vectors, "sequences": _sequences}


class Seen(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes each batch with its loss and when it ended, says when the first one has, and saves the state on the way.

    Parameters
    ----------
    file : where it is saved.

    Attributes
    ----------
    save : saves it there.
    """

    def __init__(self, file: str) -> None:
        super().__init__()
        self._file, self.save = file, self._save_weights
        self.batches: list[tuple[int, int, float, float]] = []
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Note the epoch."""
        self._epoch = epoch

    def _save_weights(self, file: str) -> None:
        self.model.save_weights(f"{file}.weights.h5")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Note the batch, and save the state after some."""
        self.batches.append((self._epoch, batch, float(logs["loss"]), time.time()))
        if len(self.batches) == 1:
            print("begun", flush=True)
        if len(self.batches) % SAVED_EVERY == 0:
            print("saving", flush=True)
            self.save(self._file)


def task(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return the compiled model of a name, its samples and labels, in float64.

    Parameters
    ----------
    name : one of `NETWORKS`.
    """
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(7)
    model, shape, classes = NETWORKS[name]()
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    rng = np.random.default_rng(11)
    return model, rng.normal(size=(BATCH * STEPS, *shape)), rng.integers(0, classes, BATCH * STEPS)


def _tell(of: Any, name: str, moment: str) -> None:
    """Say each time that something is called.

    Parameters
    ----------
    of, name : what has it, and its name there.
    moment : what is said.
    """
    work = getattr(of, name)

    def told(*arguments: Any, **named: Any) -> Any:
        print(moment, flush=True)
        return work(*arguments, **named)

    setattr(of, name, told)


def main() -> None:
    """Train as ordered."""
    order = json.loads(sys.argv[1])
    sys.stderr = sys.stdout  # what is said of plans comes in order with the moments
    _tell(Mirror, "take", "mirroring")
    _tell(plan_choice, "calibrate", "calibrating")
    _tell(Controller, "_begin_build", "training; trying a plan")  # which a training without progress does not say
    _tell(Controller, "_move", "moved to a plan")
    model, x, y = task(order["network"])
    seen = Seen(f"{order['weights']}.state")
    options = {"batch_size": BATCH, "epochs": order["epochs"], "shuffle": False, "verbose": 0, "callbacks": [seen]}
    options["validation_data"] = (x[: 2 * BATCH], y[: 2 * BATCH])
    if order["by"] == "one device":
        cluster = hm.Cluster.local(["cpu:0"])
        with hm.Trainer(model, hm.Plan.single(model, 0, cluster, BATCH), cluster) as trainer:
            history = trainer.fit(x, y, **options).history
            model = trainer.to_keras()
    else:
        with hm.Cluster.hosts(order["hosts"], worker_timeout_s=order["timeout_s"]) as cluster:
            if order["by"] == "distribute":
                history = hm.distribute(model, cluster, elastic=True, measure=order["measure"]).fit(x, y, **options).history
                hm.undistribute(model)
            else:
                with hm.Trainer(model, cluster=cluster, elastic=True, measure=order["measure"]) as trainer:
                    seen.save = trainer.save
                    history = trainer.fit(x, y, **options).history
                    model = trainer.to_keras()
    np.savez(order["weights"], *model.get_weights())
    pathlib.Path(order["figures"]).write_text(json.dumps({"batches": seen.batches, "history": history}))


if __name__ == "__main__":
    main()
