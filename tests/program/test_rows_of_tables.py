"""Tables are updated by the squares that Keras's TensorFlow backend takes: of each occurrence of a row in a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.training.distribution.comparison import compare, made, state
from tests.training.setting import cluster

__all__ = ["cluster"]
L, rules = keras.layers, keras.optimizers
RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 9, (16, 6)), RNG.integers(0, 3, 16)

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: rules.Adam(0.01),
    "amsgrad": lambda: rules.Adam(0.01, amsgrad=True),
    "adamw": lambda: rules.AdamW(0.01, weight_decay=0.1),
    "average": lambda: rules.Adam(0.01, use_ema=True, ema_overwrite_frequency=2),
    "rmsprop": lambda: rules.RMSprop(0.01, centered=True),
    "adagrad": lambda: rules.Adagrad(0.1),
    "nadam": lambda: rules.Nadam(0.01),
    "ftrl": lambda: rules.Ftrl(0.1),
    "accumulated": lambda: rules.Adam(0.01, gradient_accumulation_steps=2),
    "scaled": lambda: rules.LossScaleOptimizer(rules.Adam(0.01)),
}


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


class Places(L.Layer):
    """A layer of one's own with two tables, as transformers have it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = L.Embedding(12, 4), L.Embedding(6, 4)

    def call(self, x: Any) -> Any:
        return self.words(x) + self.places(keras.ops.arange(6))


def _model(optimizer: Callable[[], Any], tables: str = "once") -> keras.Model:
    table = L.Embedding(12, 4, embeddings_regularizer="l2" if tables == "penalised" else None)
    i = keras.Input((6,), dtype="int32")
    if tables == "own":
        table = Places()
    x = L.GlobalMaxPooling1D()(table(i))  # by which rows of a batch may have no gradient at all
    if tables == "twice":
        x = L.Concatenate()([x, L.Flatten()(table(i))])
    model = keras.Model(i, L.Dense(3, activation="softmax")(x))
    model.compile(optimizer(), "sparse_categorical_crossentropy")
    return model


PLANS: dict[str, Callable[..., hm.Plan]] = {
    "batch": lambda model, cluster: hm.Plan.batch(model, [3, 1, 2], cluster, 8),
    "filters": lambda model, cluster: hm.Plan.filters(model, [3, 1, 2], cluster, 8),
    "pipeline": lambda model, cluster: hm.Plan.pipeline(model, [0, 3], [[0], [1]], [[1], [1]], cluster, 8, microbatches=2),
}
CASES = [
    *((name, "once", "batch") for name in OPTIMIZERS),
    *(("adam", tables, plan) for tables in ("once", "twice", "penalised", "own") for plan in PLANS if (tables, plan) != ("once", "batch")),
]


@pytest.mark.fast("adam-once-batch", "adam-own-batch")
@pytest.mark.parametrize(("optimizer", "tables", "plan"), CASES)
def test_rows_are_updated_as_keras_updates_them(optimizer: str, tables: str, plan: str, cluster: Any) -> None:
    def trained(model: keras.Model) -> Any:
        return model.fit(X, Y, batch_size=8, epochs=3, shuffle=False, verbose=0).history, state(model)

    def make() -> keras.Model:
        return _model(OPTIMIZERS[optimizer], tables)

    model = made(make)
    distributed = hm.distribute(model, cluster, plan=PLANS[plan](model, cluster))
    compare(trained(distributed), trained(made(make)))
