"""Outputs that carry masks, inputs of single numbers, and nested models of open extents train as in Keras."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program.oracle import worst_error

L = keras.layers
BATCH = 6
PLANS = ["single", "batch", "filters", "pipeline"]


def _tagger() -> tuple[keras.Model, str, np.ndarray, np.ndarray]:
    """Words to a class of each, the last of some padded; classes so certain that only a loss from the logits has their gradients."""
    rng, i = np.random.default_rng(1), keras.Input((7,), dtype="int32")
    x = L.LSTM(5, return_sequences=True)(L.Embedding(9, 6, mask_zero=True)(i))
    words = rng.integers(1, 9, (12, 7))
    words[::2, 4:] = 0
    return (
        keras.Model(i, L.Dense(4, activation="softmax", kernel_initializer=keras.initializers.RandomNormal(stddev=60.0))(L.Dense(6)(x))),
        "sparse_categorical_crossentropy",
        words,
        rng.integers(0, 4, (12, 7)),
    )


def _filter() -> tuple[keras.Model, str, np.ndarray, np.ndarray]:
    """Masked steps to numbers."""
    rng, i = np.random.default_rng(2), keras.Input((7, 3))
    x = L.Dense(6)(L.GRU(5, return_sequences=True)(L.Masking(0.0)(i)))
    steps = rng.normal(size=(12, 7, 3))
    steps[1::3, 3:] = 0
    return keras.Model(i, L.Dense(4)(x)), "mse", steps, rng.normal(size=(12, 7, 4))


def _plan(name: str, model: keras.Model, cluster: Any) -> hm.Plan:
    if name == "single":
        return hm.Plan.single(model, 0, cluster, BATCH)
    if name == "pipeline":
        half = len(layer_graph(model).layers) // 2
        return hm.Plan.pipeline(model, cluster, BATCH, stages=[half, len(layer_graph(model).layers) - half], microbatches=1)
    return (hm.Plan.batch if name == "batch" else hm.Plan.filters)(model, (3, 1, 2), cluster, BATCH)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS[:3])
@pytest.mark.parametrize("make", [_tagger, _filter], ids=["tagger", "filter"])
def test_an_output_with_a_mask_weighs_as_in_keras(make: Any, name: str) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(3)
    model, loss, x, y = make()
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(
            model, _plan(name, model, cluster), cluster, optimizer=keras.optimizers.SGD(0.1), loss=loss, metrics=["accuracy"]
        ) as trainer:
            history = trainer.fit(x, y, epochs=3, batch_size=BATCH, shuffle=False, verbose=0)
            tested, weights, predicted = trainer.evaluate(x, y, batch_size=12), trainer.to_keras().get_weights(), trainer.predict(x)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    expected = model.fit(x, y, epochs=3, batch_size=BATCH, shuffle=False, verbose=0).history
    for key, values in expected.items():
        assert np.abs(np.subtract(values, history.history[key])).max() <= 1e-8
    assert worst_error(model.get_weights(), weights) <= 1e-8
    assert np.abs(model.predict(x, verbose=0) - predicted).max() <= 1e-8
    for key, value in model.evaluate(x, y, batch_size=12, verbose=0, return_dict=True).items():
        assert abs(value - tested[key]) <= 1e-8


def _mask_comes_out() -> keras.Model:
    i, o = keras.Input((7, 3)), keras.Input((7, 3))
    inner = keras.Model(i, L.GRU(5, return_sequences=True)(L.Masking(0.0)(i)), name="inner")
    return keras.Model(o, L.Dense(2)(L.LSTM(3)(inner(o))))


def _mask_goes_in() -> keras.Model:
    inner = keras.Sequential([keras.Input((7, 3)), L.LSTM(4)], name="inner")
    i = keras.Input((7, 3))
    return keras.Model(i, L.Dense(2)(inner(L.Masking(0.0)(i))))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Layer 'inner'")
@pytest.mark.parametrize("make", (_mask_comes_out, _mask_goes_in))
def test_a_mask_of_a_nested_model_weighs_as_in_keras(make: Any) -> None:
    keras.config.set_floatx("float64")
    model, rng = make(), np.random.default_rng(5)
    x, y = rng.normal(size=(BATCH, 7, 3)), rng.normal(size=(BATCH, 2))
    x[::2, 3:] = 0
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(model, _plan("batch", model, cluster), cluster, optimizer=keras.optimizers.SGD(0.1), loss="mse") as trainer:
            losses = [trainer.train_on_batch(x, y) for _ in range(3)]
    model.compile(keras.optimizers.SGD(0.1), "mse")
    expected = [float(np.ravel(model.train_on_batch(x, y))[0]) for _ in range(3)]
    assert np.abs(np.subtract(expected, losses)).max() <= 1e-8


@pytest.mark.slow
def test_inputs_of_single_numbers_train_as_in_keras() -> None:
    keras.config.set_floatx("float64")
    rng = np.random.default_rng(4)
    user, age = keras.Input((), dtype="int32", name="user"), keras.Input((), name="age")
    x = L.Concatenate()([L.Embedding(9, 6)(user), keras.ops.expand_dims(age * 2.0, -1)])
    model = keras.Model([user, age], L.Dense(1)(L.Dense(4, activation="relu")(x)))
    data, y = [rng.integers(0, 9, 12), rng.normal(size=12)], rng.normal(size=(12, 1))
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        for name in ("batch", "filters"):
            with hm.Trainer(model, _plan(name, model, cluster), cluster, optimizer=keras.optimizers.SGD(0.1), loss="mse") as trainer:
                trainer.fit(data, y, epochs=2, batch_size=BATCH, shuffle=False, verbose=0)
                weights = trainer.to_keras().get_weights()
                predicted = trainer.predict({"user": data[0], "age": data[1]})
            twin = keras.models.clone_model(model)
            twin.set_weights(model.get_weights())
            twin.compile(keras.optimizers.SGD(0.1), "mse")
            twin.fit(data, y, epochs=2, batch_size=BATCH, shuffle=False, verbose=0)
            assert worst_error(twin.get_weights(), weights) <= 1e-8
            assert np.abs(twin.predict(data, verbose=0) - predicted).max() <= 1e-8


class Block(L.Layer):
    """A block of one's own, with a token before its positions."""

    def build(self, shape: Any) -> None:
        self.token = self.add_weight(shape=(1, 1, shape[-1]), name="token")
        self.heads = L.MultiHeadAttention(2, 3)
        self.heads.build(shape, shape)

    def call(self, x: Any) -> Any:
        y = keras.ops.concatenate([keras.ops.broadcast_to(self.token, (keras.ops.shape(x)[0], 1, x.shape[-1])), x], axis=1)
        return self.heads(y, y, use_causal_mask=True)[:, 1:] + x


@pytest.mark.slow
def test_a_nested_model_of_open_extents_is_read_with_those_that_it_is_called_with() -> None:
    keras.config.set_floatx("float64")
    words, weights = keras.Input((None,), dtype="int32", name="words"), keras.Input((None,), name="weights")
    x = L.Embedding(9, 6)(words) * keras.ops.expand_dims(weights, -1)
    inner = keras.Model({"words": words, "weights": weights}, Block()(Block()(x)), name="inner")
    own = {"words": keras.Input((7,), dtype="int32", name="words"), "weights": keras.Input((7,), name="weights")}
    model = keras.Model(own, L.Dense(2)(L.Flatten()(inner(own))))
    graph = layer_graph(model)
    assert [layer.attributes["keras"]["split"] for layer in graph.layers if "Block" in layer.kind] == ["samples"] * 2
    rng = np.random.default_rng(6)
    data = {"words": rng.integers(0, 9, (BATCH, 7)), "weights": rng.normal(size=(BATCH, 7))}
    y = rng.normal(size=(BATCH, 2))
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        with hm.Trainer(model, _plan("batch", model, cluster), cluster, optimizer=keras.optimizers.SGD(0.1), loss="mse") as trainer:
            losses = [trainer.train_on_batch(data, y) for _ in range(3)]
            own_weights = trainer.to_keras().get_weights()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    expected = [float(np.ravel(model.train_on_batch(data, y))[0]) for _ in range(3)]
    assert np.abs(np.subtract(expected, losses)).max() <= 1e-8 and worst_error(model.get_weights(), own_weights) <= 1e-8
