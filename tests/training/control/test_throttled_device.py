"""A worker process that is throttled in mid-training gets less work, and the weights are those of a training that nothing disturbs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.program.oracle import worst_error

pytestmark = [
    pytest.mark.slow,
    pytest.mark.serial,
    pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibration_budget.CalibrationWarning"),
]

BATCH, STEPS, THROTTLED_AT = 16, 600, 40
COMPARED_AT = 300  # long before the epoch ends, so that a move pays


class _Throttle(keras.callbacks.Callback):
    """Leaves the second worker of a cluster a fifth of its share after some steps, and stops long before the epoch ends."""

    def __init__(self, cluster: Any) -> None:
        super().__init__()
        self._cluster = cluster

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch + 1 == THROTTLED_AT and self._cluster is not None:
            self._cluster.set_share(1, 0.16)
        if batch + 1 == COMPARED_AT:
            self.model.stop_training = True


def _network() -> keras.Model:
    keras.utils.set_random_seed(1)
    image = keras.Input((8, 8, 32))
    x = keras.layers.Conv2D(96, 3, padding="same", activation="relu")(image)
    x = keras.layers.Dropout(0.2)(keras.layers.Conv2D(96, 3, padding="same", activation="relu")(x))
    return keras.Model(image, keras.layers.Dense(4)(keras.layers.GlobalAveragePooling2D()(x)))


def _part_of_second(plan: hm.Plan) -> float:
    """Return the part of the second convolution that the second worker computes."""
    (stage,) = plan.stages
    workers = [plan.devices[index] for index in stage.devices]
    if "worker:1" not in workers:
        return 0.0
    (entry,) = (each for each in stage.layouts if each.name == "conv2d_1")
    sizes = entry.samples or entry.sizes
    return sizes[workers.index("worker:1")] / sum(sizes)


def test_a_throttled_worker_gets_less_work_and_no_number_changes() -> None:
    keras.config.set_floatx("float64")
    model, rng = _network(), np.random.default_rng(2)
    x, y = rng.normal(size=(BATCH * STEPS, 8, 8, 32)), rng.integers(0, 4, BATCH * STEPS)
    loss, weights = keras.losses.SparseCategoricalCrossentropy(from_logits=True), []
    with hm.Cluster.emulate([0.8, 0.8]) as cluster:
        profile = hm.calibrate(cluster, model, BATCH, budget_s=10.0, optimizer="adam", verbose=0)
        plan = hm.plan(profile, strategy="batch")
        for throttled in (False, True):
            options: dict[str, Any] = {"optimizer": keras.optimizers.Adam(0.001), "loss": loss, "profile": profile, "rebalance": throttled}
            with hm.Trainer(model, plan, cluster, **options) as trainer:
                trainer.fit(x, y, batch_size=BATCH, verbose=0, callbacks=[_Throttle(cluster if throttled else None)])
                weights.append(trainer.to_keras().get_weights())
                moves = trainer.moves
    assert worst_error(*weights) <= 1e-8
    answers = [move for move in moves if move.step >= THROTTLED_AT]  # a busy machine may have made others before
    first, *_ = [move for move in answers if "worker:1 became" in move.reason and "times as slow" in move.reason]
    assert first.expected_s < first.before_s
    assert _part_of_second(answers[-1].after) < 0.4
