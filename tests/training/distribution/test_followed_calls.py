"""What Keras finds only as it computes, masks of nested models and extents of layers: trained as under Keras alone."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from tests.program.oracle import worst_error

L = keras.layers
pytestmark = pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")


def _words(size: int = 5) -> Any:
    return keras.Input((size,), dtype="int32")


def _comes_out() -> keras.Model:
    i, words = _words(), _words()
    inner = keras.Model(words, L.Embedding(4, 3, mask_zero=True)(words), name="inner")
    return keras.Model(i, L.Dense(1)(L.LSTM(3)(inner(i))))


def _reaches_the_loss() -> keras.Model:
    i = _words()
    inner = keras.Sequential([_words(), L.Embedding(4, 3, mask_zero=True), L.Dense(4)], name="inner")
    return keras.Model(i, L.Dense(1)(inner(i)))


def _goes_in() -> keras.Model:
    i = _words()
    inner = keras.Sequential([keras.Input((5, 3)), L.LSTM(4, return_sequences=True), L.LSTM(2)], name="inner")
    return keras.Model(i, L.Dense(1)(inner(L.Embedding(4, 3, mask_zero=True)(i))))


def _twice_and_deeper() -> keras.Model:
    i, j = _words(), keras.Input((5, 3))
    deep = keras.Sequential([keras.Input((5, 3)), L.Dense(3), L.LSTM(3, return_sequences=True)], name="deep")
    inner = keras.Sequential([keras.Input((5, 3)), deep, L.Dense(3, activation="tanh")], name="inner")
    masked = inner(L.Embedding(4, 3, mask_zero=True)(i))
    return keras.Model([i, j], L.Dense(1)(L.Add()([L.LSTM(3)(masked), L.LSTM(3)(inner(j))])))


def _two_inputs() -> keras.Model:
    i, j = _words(), _words(4)
    left, right = keras.Input((5, 3), name="one"), keras.Input((4, 3), name="two")
    inner = keras.Model({"one": left, "two": right}, [L.Dense(3)(right), L.LSTM(3)(left)], name="inner")
    sequence, state = inner({"two": L.Embedding(4, 3, mask_zero=True)(j), "one": L.Embedding(4, 3)(i)})
    return keras.Model([i, j], L.Dense(1)(L.Add()([L.LSTM(3)(sequence), state])))


def _open_extent() -> keras.Model:
    i, words = _words(), keras.Input((None,), dtype="int32")
    inner = keras.Model(words, L.Embedding(4, 3, mask_zero=True)(words), name="inner")
    outer = keras.Sequential([keras.Input((None, 3)), L.LSTM(4, return_sequences=True)], name="outer")
    return keras.Model(i, L.Dense(1)(outer(inner(i))))


class _Patches(L.Layer):
    """Computes an extent from the number of samples, so that Keras leaves it open."""

    def call(self, images: Any) -> Any:
        patches = tf.image.extract_patches(images, [1, 3, 3, 1], [1, 3, 3, 1], [1, 1, 1, 1], "VALID")
        return tf.reshape(patches, [tf.shape(images)[0], -1, patches.shape[-1]])


def _open_output() -> keras.Model:
    i = keras.Input((6, 9, 2))
    x = L.Dense(4)(_Patches()(i))
    return keras.Model(i, L.Dense(1)(L.GlobalAveragePooling1D()(L.MultiHeadAttention(2, 2)(x, x))))


MODELS = (_open_output, _comes_out, _reaches_the_loss, _goes_in, _twice_and_deeper, _two_inputs, _open_extent)
PLANS = {
    "batch": lambda model, cluster: hm.Plan.batch(model, [3, 1], cluster, 4),
    "single": lambda model, cluster: hm.Plan.single(model, 1, cluster, 4),
}


def _data(model: keras.Model) -> tuple[Any, np.ndarray]:
    rng = np.random.default_rng(0)
    x = [rng.integers(0, 4, (8, *i.shape[1:])) if "int" in i.dtype else rng.normal(size=(8, *i.shape[1:])) for i in model.inputs]
    for array in x:
        array[:, 3:] = 0
    return x[0] if len(x) == 1 else x, rng.normal(size=(8, *model.compute_output_shape([i.shape for i in model.inputs])[1:]))


@pytest.mark.fast("batch-_reaches_the_loss", "batch-_open_output")  # recurrent layers take up to 24 s to build
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("kind", PLANS)
def test_what_keras_finds_as_it_computes_is_followed(make: Any, kind: str) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(1)
    model = make()
    x, y = _data(model)
    weights = model.get_weights()
    expected = _fitted(model, x, y)
    trained = model.get_weights()
    model.set_weights(weights)
    model.compile("adam", "mse", weighted_metrics=["mae"])
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        hm.distribute(model, cluster, plan=PLANS[kind](model, cluster))
        seen = _fitted(model, x, y, compiled=True)
    for one, other in zip(expected, seen, strict=True):
        assert np.allclose(one, other, rtol=1e-10, atol=1e-12), make.__name__
    assert worst_error(trained, model.get_weights()) <= 1e-10


def _fitted(model: keras.Model, x: Any, y: np.ndarray, compiled: bool = False) -> list[Any]:
    """Return the history, the evaluation and predictions."""
    if not compiled:
        model.compile("adam", "mse", weighted_metrics=["mae"])
    history = model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0).history
    return [*history.values(), model.evaluate(x, y, batch_size=4, verbose=0), model.predict(x, batch_size=4, verbose=0)]


def test_a_nested_model_without_masks_is_read_as_it_is() -> None:
    i = keras.Input((4,))
    inner = keras.Sequential([keras.Input((4,)), L.Dense(4)], name="inner")
    model = keras.Model(i, inner(inner(i)))
    assert [node.name for node in read_wiring(model).nodes][1:] == ["inner/dense", "inner/dense:2"]


def test_extents_are_known_where_batches_of_any_size_have_them() -> None:
    model = _open_output()
    assert model.layers[1].output.shape == (None, None, 18)
    assert [node.call.symbol.shape for node in read_wiring(model).nodes if node.name.startswith("__patches")] == [(None, 6, 18)]


@pytest.mark.parametrize("make", (_open_output, _twice_and_deeper))
def test_what_is_followed_is_neither_saved_nor_loaded(make: Any, tmp_path: Any) -> None:
    keras.utils.set_random_seed(1)
    model, other = make(), make()
    model.save_weights(tmp_path / "before.weights.h5")
    read_wiring(model)
    model.save_weights(tmp_path / "after.weights.h5")
    model.load_weights(tmp_path / "before.weights.h5")
    other.load_weights(tmp_path / "after.weights.h5")
    assert worst_error(model.get_weights(), other.get_weights()) == 0.0
