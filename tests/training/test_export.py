"""A trained network is written in every form of Keras in one call, and what is read from it predicts the same."""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import CheckpointError
from tests.program.oracle import worst_error


@pytest.fixture
def trainer() -> Iterator[hm.Trainer]:
    keras.utils.set_random_seed(3)
    i = keras.Input((5, 5, 2))
    x = keras.layers.BatchNormalization()(keras.layers.Conv2D(4, 3, activation="relu")(i))
    model = keras.Model(i, keras.layers.Dense(3)(keras.layers.Flatten()(x)))
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"])
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        with hm.Trainer(model, hm.Plan.filters(model, (2, 1), cluster, 6), cluster) as trainer:
            trainer.fit(*_data(), batch_size=6, epochs=2, verbose=0)
            yield trainer


def _data() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    return rng.normal(size=(12, 5, 5, 2)).astype("float32"), rng.normal(size=(12, 3)).astype("float32")


def test_a_whole_model_has_the_weights_and_the_optimizer_and_trains_on(trainer: hm.Trainer, tmp_path: pathlib.Path) -> None:
    (x, y), path = _data(), tmp_path / "model.keras"
    trainer.export(path)
    model = keras.models.load_model(path)
    assert np.abs(model.predict(x, verbose=0) - trainer.predict(x)).max() <= 1e-5
    assert int(model.optimizer.iterations) == 4 and model.compiled
    model.fit(x, y, batch_size=6, epochs=1, shuffle=False, verbose=0)
    trainer.fit(x, y, batch_size=6, epochs=1, shuffle=False, verbose=0)
    assert worst_error(model.get_weights(), trainer.to_keras().get_weights()) <= 1e-4


@pytest.mark.slow
def test_weights_and_a_saved_model_predict_the_same(trainer: hm.Trainer, tmp_path: pathlib.Path) -> None:
    x, _ = _data()
    trainer.export(str(tmp_path / "w.weights.h5"))
    trainer.export(tmp_path / "saved")
    model = keras.models.clone_model(trainer.to_keras())
    model.load_weights(tmp_path / "w.weights.h5")
    assert np.abs(model.predict(x, verbose=0) - trainer.predict(x)).max() <= 1e-5
    saved = tf.saved_model.load(str(tmp_path / "saved"))
    served = saved.serve(x)
    assert np.abs(np.asarray(served) - trainer.predict(x)).max() <= 1e-5


@pytest.mark.fast("no/such/folder/m.keras-cannot be written")
@pytest.mark.parametrize(
    "name, words", [("model.pb", r"ends in \.pb; give a name in \.keras"), ("no/such/folder/m.keras", "cannot be written")]
)
def test_what_cannot_be_written_is_named(name: str, words: str, trainer: hm.Trainer, tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match=words):
        trainer.export(tmp_path / name)


@pytest.mark.slow
def test_a_state_with_the_name_of_a_model_is_refused_with_the_call_that_writes_one(trainer: hm.Trainer, tmp_path: pathlib.Path) -> None:
    with pytest.raises(CheckpointError, match=re.escape("call trainer.export(")):
        trainer.save(tmp_path / "model.keras")


def _several() -> keras.Model:
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    x = keras.layers.Dropout(0.5)(keras.layers.Dense(4, activation="tanh")(keras.layers.Concatenate()([a, b])))
    return keras.Model([a, b], [keras.layers.Dense(2, name="u")(x), keras.layers.Dense(1, activation="sigmoid", name="v")(x)])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")  # tf2onnx's own
def test_onnx_predicts_the_same(trainer: hm.Trainer, tmp_path: pathlib.Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    x, _ = _data()
    trainer.export(tmp_path / "model.onnx")
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    (predicted,) = session.run(None, {session.get_inputs()[0].name: x})
    assert np.abs(predicted - trainer.predict(x)).max() <= 1e-5
    model = _several()
    rng = np.random.default_rng(5)
    given = [rng.normal(size=(7, 3)).astype("float32"), rng.normal(size=(7, 2)).astype("float32")]
    with (
        hm.Cluster.local(["cpu:0"] * 2) as cluster,
        hm.Trainer(model, hm.Plan.batch(model, (2, 1), cluster, 7), cluster, loss="mse") as other,
    ):
        other.export(tmp_path / "several.onnx")
        session = runtime.InferenceSession(str(tmp_path / "several.onnx"))
        found = session.run(None, dict(zip([each.name for each in session.get_inputs()], given)))
        for one, expected in zip(found, other.predict(given), strict=True):
            assert np.abs(one - expected).max() <= 1e-5


def test_what_onnx_needs_is_named_where_it_lacks(trainer: hm.Trainer, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tf2onnx", None)  # as if it were not installed
    monkeypatch.setattr("keras.src.utils.module_utils.tf2onnx._available", None)
    with pytest.raises(CheckpointError, match="cannot be written without a package .*onnx.*; install it: pip install tf2onnx onnx"):
        trainer.export(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
