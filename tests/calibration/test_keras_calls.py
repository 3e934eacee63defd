"""Layers that Keras's own call computes are measured like any others, in whole and in parts."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.calibration.calibrate import calibrate
from hetero_mtf.keras_reading.layer_graph import layer_graph

L = keras.layers


class _Scale(L.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.supports_masking = True

    def build(self, shape: Any) -> None:
        self.factor = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x: Any) -> Any:
        return x * self.factor


def _model() -> keras.Model:
    i = keras.Input((6,), dtype="int32")
    x = L.LSTM(8, return_sequences=True)(L.Embedding(9, 8, mask_zero=True)(i))
    x = _Scale()(L.Dense(8)(x)) * 2.0
    x = x + L.MultiHeadAttention(2, 4)(x, x)
    x = L.Dense(8, activity_regularizer="l2")(L.GaussianNoise(0.1)(x))
    return keras.Model(i, L.Dense(2)(L.GlobalAveragePooling1D()(L.TimeDistributed(L.BatchNormalization())(x))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of measurements that scatter
def test_every_part_of_a_network_of_keras_calls_is_measured_and_planned() -> None:
    model = _model()
    graph = layer_graph(model)
    assert {"keras.layers.LSTM", "keras.ops.NotEqual"} <= {layer.kind for layer in graph.layers}
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        profile = calibrate(cluster, model, batch_size=4, optimizer="rmsprop", budget_s=0.01)
        assert profile.graph.digest == graph.digest and all(curve.units for curve in profile.curves)
        for strategy in ("filters", "batch", "layers", "auto"):
            plan = hm.plan(profile, strategy=strategy)
            with hm.Trainer(model, plan, cluster, optimizer="rmsprop", loss="mae") as trainer:
                assert np.isfinite(trainer.train_on_batch(np.ones((4, 6), int), np.zeros((4, 2))))
