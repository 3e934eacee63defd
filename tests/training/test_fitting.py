"""The loop of fit: what callbacks do to weights is trained on with, as in Keras, or refused."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import UnsupportedError
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]


class _Halve(keras.callbacks.Callback):
    """Halves all weights once, when it is told to."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self._moment = moment

    def _halve(self, moment: str) -> None:
        if moment == self._moment:
            self.model.set_weights([w / 2 for w in self.model.get_weights()])

    def on_train_begin(self, logs: Any = None) -> None:
        self._halve("training begins")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._halve(f"epoch {epoch} begins")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._halve(f"epoch {epoch} ends")


def _trainer(model: keras.Model, cluster: Any) -> hm.Trainer:
    plan = hm.Plan.filters(model, (3, 2, 1), cluster, 8)
    return hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=cross_entropy())


@pytest.mark.parametrize("moment", ["training begins", "epoch 0 begins", "epoch 1 begins", "epoch 0 ends"])
def test_weights_that_a_callback_changes_are_trained_on_with_as_in_keras(moment: str, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model, (x, y) = net(), data(16)
    oracle = keras.models.clone_model(model)
    oracle.set_weights(model.get_weights())
    oracle.compile(keras.optimizers.SGD(0.05, momentum=0.9), cross_entropy(), jit_compile=False)
    given = {"epochs": 2, "batch_size": 8, "shuffle": False, "verbose": 0}
    expected = oracle.fit(x, y, callbacks=[_Halve(moment)], **given).history["loss"]
    with _trainer(model, cluster) as trainer:
        assert trainer.fit(x, y, callbacks=[_Halve(moment)], **given).history["loss"] == pytest.approx(expected, rel=1e-8)
        for p, q in zip(oracle.get_weights(), trainer.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-10)


def test_weights_that_are_not_numbers_do_not_pass_for_changed_by_a_callback(cluster: Any) -> None:
    model, (x, y) = net(), data(8)
    model.set_weights([np.full_like(w, np.nan) for w in model.get_weights()])
    with _trainer(model, cluster) as trainer:
        engine = trainer._engine
        trainer.fit(x, y, callbacks=[keras.callbacks.Callback()])
        assert trainer._engine is engine


def test_a_metric_that_counted_elsewhere_before_starts_anew(cluster: Any) -> None:
    model, (x, y) = net(), data(8)
    used = keras.metrics.SparseCategoricalAccuracy(name="right")
    used.update_state(np.zeros(1000, "int32"), np.tile([0.0, 0.0, 1.0], (1000, 1)))
    found = []
    for metric in (keras.metrics.SparseCategoricalAccuracy(name="right"), used):
        plan = hm.Plan.single(model, 0, cluster, 8)
        with hm.Trainer(model, plan, cluster, loss=cross_entropy(), metrics=[metric]) as trainer:
            metric.update_state([0], [[0.0, 0.0, 1.0]])  # between two uses too
            found.append((trainer.fit(x, y, shuffle=False).history["right"], trainer.evaluate(x, y)["right"]))
    assert found[0] == found[1]


def test_a_callback_that_saves_weights_between_batches_is_refused(cluster: Any) -> None:
    callback = keras.callbacks.ModelCheckpoint("never.weights.h5", save_weights_only=True, save_freq=3)
    with _trainer(net(), cluster) as trainer:
        with pytest.raises(UnsupportedError, match="ModelCheckpoint has save_freq=3, .*; use save_freq='epoch'"):
            trainer.fit(*data(8), callbacks=[callback])
