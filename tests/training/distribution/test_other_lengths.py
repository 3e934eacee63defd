"""Models whose inputs have open extents take them from each batch, and train as under Keras alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import DataError, UnsupportedError
from hetero_mtf.keras_reading.following import traced_with
from hetero_mtf.training.distribution.extents import GRAPHS, Extents
from tests.training.distribution.comparison import compare, made, state
from tests.training.setting import cluster

__all__ = ["cluster"]
L = keras.layers
SIZE = 9


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _tokens() -> keras.Model:
    i = keras.Input((None,), dtype="int32")
    x = L.Bidirectional(L.LSTM(3, return_sequences=True))(L.Embedding(20, 4)(i))
    model = keras.Model(i, L.Dense(3, activation="softmax")(L.GlobalMaxPooling1D()(x)))
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _pixels() -> keras.Model:
    layers = [L.Conv2D(6, 3, padding="same", activation="relu"), L.Conv2D(1, 3, padding="same")]
    model = keras.Sequential([keras.Input((None, None, 1)), *layers])
    model.compile("adam", keras.losses.MeanSquaredError(reduction=None), metrics=["mae"])
    return model


class Pooled(keras.Model):
    """A subclassed model that takes any length."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.pool, self.last = L.Dense(5, activation="relu"), L.GlobalAveragePooling1D(), L.Dense(3, activation="softmax")

    def call(self, x: Any) -> Any:
        return self.last(self.pool(self.inner(x)))


def _subclassed() -> keras.Model:
    model = Pooled()
    model(np.zeros((1, 6, 4)))
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _batch(name: str, length: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(length)
    if name == "tokens":
        return rng.integers(0, 20, (SIZE, length)), rng.integers(0, 3, SIZE)
    if name == "pixels":
        x = rng.random((SIZE, length, length + 2, 1))
        return x, x * 0.5
    return rng.random((SIZE, length, 4)), rng.integers(0, 3, SIZE)


NETWORKS: dict[str, Callable[[], keras.Model]] = {"tokens": _tokens, "pixels": _pixels, "subclassed": _subclassed}


def _distributed(name: str, cluster: Any, plan: Callable[..., hm.Plan]) -> keras.Model:
    model = made(NETWORKS[name])
    x, _ = _batch(name, 6)
    return hm.distribute(model, cluster, plan=plan(traced_with(model, [x.shape[1:]]), cluster))


PLANS: dict[str, Callable[..., hm.Plan]] = {
    "batch": lambda function, cluster: hm.Plan.batch(function, [3, 1, 2], cluster, SIZE),
    "filters": lambda function, cluster: hm.Plan.filters(function, [3, 1, 2], cluster, SIZE),
}


@pytest.mark.fast("tokens-batch")
@pytest.mark.parametrize(("name", "plan"), [(name, plan) for name in NETWORKS for plan in PLANS])
def test_every_length_gives_what_keras_gives(name: str, plan: str, cluster: Any) -> None:
    def seen(model: keras.Model) -> Any:
        values = []
        for length in (6, 8, 6, 5):
            x, y = _batch(name, length)
            values.append((model.train_on_batch(x, y), model.test_on_batch(x, y), model.predict_on_batch(x)))
        x, y = _batch(name, 7)
        history = model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False).history
        return values, history, model.evaluate(x, y, verbose=0), model.predict(x, verbose=0), state(model)

    compare(seen(_distributed(name, cluster, PLANS[plan])), seen(made(NETWORKS[name])))


@pytest.mark.slow
def test_graphs_of_lengths_are_bounded() -> None:
    extents = Extents(made(_tokens))
    graphs = [extents.graph(((length,),)) for length in range(3, 3 + GRAPHS)]
    assert extents.graph(((3,),)) is graphs[0]
    extents.graph(((100,),))
    assert extents.graph(((3,),)) is graphs[0] and extents.graph(((4,),)) is not graphs[1]


def test_other_ranks_are_refused_before_anything_is_measured(cluster: Any) -> None:
    model = hm.distribute(made(_pixels), cluster)
    with pytest.raises(DataError, match=r"x has samples of shape \(5,\), the network's input is \(None, None, 1\); reshape x"):
        model.train_on_batch(np.zeros((2, 5)), np.zeros((2, 5)))


@pytest.mark.slow
def test_batches_in_flight_have_one_shape(cluster: Any) -> None:
    model = made(_tokens)
    x, y = _batch("tokens", 6)
    function = traced_with(model, [x.shape[1:]])
    plan = hm.Plan.pipeline(function, [0, 3], [[0], [1]], [[1], [1]], cluster, SIZE, microbatches=3, schedule="1f1b_2bw")
    hm.distribute(model, cluster, plan=plan).train_on_batch(x, y)
    with pytest.raises(UnsupportedError, match="which must have samples of one shape"):
        model.train_on_batch(*_batch("tokens", 8))
