"""Fitting networks with several inputs and outputs: Keras's fit is the oracle, in every packing and form of data that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import DataError, UnsupportedError
from tests.training.setting import cluster

__all__ = ["cluster"]


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _net(packing: str = "list") -> keras.Model:
    """Two inputs and two outputs, packed in lists or in dicts by the same names."""
    L = keras.layers
    b, a = keras.Input((3,), name="b"), keras.Input((2,), name="a")
    x = L.Concatenate()([L.Dense(6, activation="tanh", name="wide")(b), a])
    ends = {"v": L.Dense(3, name="v")(x), "u": L.Dense(1, name="u")(x)}
    if packing == "dict":
        return keras.Model({"b": b, "a": a}, ends)
    return keras.Model([b, a], list(ends.values()))


COUNT = 21
RNG = np.random.default_rng(1)
X = {"a": RNG.normal(size=(COUNT, 2)), "b": RNG.normal(size=(COUNT, 3))}
Y = {"u": RNG.normal(size=(COUNT, 1)), "v": RNG.integers(0, 3, COUNT)}
WEIGHT = {"u": RNG.uniform(0, 2, COUNT), "v": RNG.uniform(0, 2, COUNT)}


def _packed(values: dict[str, Any], names: tuple[str, ...], packing: str) -> Any:
    return {name: values[name] for name in names} if packing == "dict" else [values[name] for name in names]


def _options(**changes: Any) -> dict[str, Any]:
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    given = {
        "optimizer": optimizer,
        "loss": {"u": "mse", "v": entropy},
        "loss_weights": {"u": 0.3, "v": 2.0},
        "metrics": {"v": ["accuracy"]},
    }
    return {**given, **changes}


def _keras(model: keras.Model, **changes: Any) -> keras.Model:
    """Return the oracle, eager: compiled, Keras forgets the sizes of batches in the means of the outputs' losses."""
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile(**_options(**changes), run_eagerly=True, jit_compile=False)
    return copy


def _trainer(model: keras.Model, cluster: Any, **changes: Any) -> hm.Trainer:
    return hm.Trainer(model, hm.Plan.filters(model, (3, 2, 1), cluster, 8), cluster, **_options(**changes))


def _assert_same(oracle: keras.Model, expected: Any, trainer: hm.Trainer, found: Any) -> None:
    assert set(expected.history) == set(found.history)
    for name in expected.history:
        np.testing.assert_allclose(expected.history[name], found.history[name], rtol=1e-6, err_msg=name)
    for p, q in zip(oracle.get_weights(), trainer.to_keras().get_weights(), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("packing", ["list", "dict"])
def test_fit_evaluate_and_predict_agree_with_keras(packing: str, weights: bool, cluster: Any) -> None:
    model = _net(packing)
    x, y = _packed(X, ("b", "a"), packing), _packed(Y, ("v", "u"), packing)
    weight = _packed(WEIGHT, ("v", "u"), packing) if weights else None
    given = {"epochs": 2, "batch_size": 8, "shuffle": False, "verbose": 0, "sample_weight": weight}
    oracle = _keras(model)
    expected = oracle.fit(x, y, validation_data=(x, y), **given)
    with _trainer(model, cluster) as trainer:
        _assert_same(oracle, expected, trainer, trainer.fit(x, y, validation_data=(x, y), **given))
        found, wanted = trainer.evaluate(x, y), oracle.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
        assert found == pytest.approx(wanted, rel=1e-6)
        for p, q in zip(keras.tree.flatten(oracle.predict(x, verbose=0)), keras.tree.flatten(trainer.predict(x)), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-8)
        by_name = trainer.test_on_batch({**X, "spare": 1} if packing == "list" else X, Y)
        assert by_name == pytest.approx(wanted["loss"], rel=1e-6)


def _batches(packing: str) -> Iterator[Any]:
    for k in range(0, COUNT, 8):
        x, y = ({name: array[k : k + 8] for name, array in part.items()} for part in (X, Y))
        yield (x, y) if packing == "dict" else ((x["b"], x["a"]), (y["v"], y["u"]))


class _Batches(keras.utils.PyDataset):
    def __init__(self, packing: str) -> None:
        super().__init__()
        self._all = list(_batches(packing))

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, index: int) -> Any:
        return self._all[index]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["tf.data", "PyDataset", "generator"])
@pytest.mark.parametrize("packing", ["list", "dict"])
def test_streams_of_packed_batches_are_taken_as_keras_takes_them(packing: str, form: str, cluster: Any) -> None:
    model = _net(packing)

    def endless() -> Iterator[Any]:
        while True:
            yield from _batches(packing)

    def stream() -> Any:
        if form == "generator":
            return endless()
        whole = (X, Y) if packing == "dict" else ((X["b"], X["a"]), (Y["v"], Y["u"]))
        return _Batches(packing) if form == "PyDataset" else tf.data.Dataset.from_tensor_slices(whole).batch(8)

    given = {"epochs": 2, "shuffle": False, "verbose": 0, "steps_per_epoch": 3}
    oracle = _keras(model)
    expected = oracle.fit(stream(), **given)
    with _trainer(model, cluster) as trainer:
        _assert_same(oracle, expected, trainer, trainer.fit(stream(), **given))


@pytest.mark.slow
def test_an_output_without_a_loss_needs_no_targets_and_no_gradient(cluster: Any) -> None:
    model = _net()
    with _trainer(model, cluster, loss=["mse", None], loss_weights=None, metrics=None or ()) as trainer:
        before = [w for w in trainer.to_keras().weights if w.path.startswith("u/")]
        found = trainer.fit([X["b"], X["a"]], RNG.normal(size=(COUNT, 3)), verbose=0)
        assert list(found.history) == ["loss"]
        after = [w for w in trainer.to_keras().weights if w.path.startswith("u/")]
        assert before and all(np.array_equal(np.asarray(p), np.asarray(q)) for p, q in zip(before, after, strict=True))


def test_building_before_the_first_batch_serves_that_batch(cluster: Any) -> None:
    with _trainer(_net(), cluster) as trainer:
        trainer.build(X, Y)
        nodes = trainer.nodes
        trainer.train_on_batch(X, Y)
        assert trainer.nodes == nodes


def test_what_does_not_fit_several_inputs_and_outputs_is_refused(cluster: Any) -> None:
    model = _net()
    x, y = [X["b"], X["a"]], [Y["v"], Y["u"]]
    with _trainer(model, cluster) as trainer:
        with pytest.raises(DataError, match="x is one ndarray, the model has 2 values b, a; give a list of 2, or a dict"):
            trainer.train_on_batch(X["a"], y)
        with pytest.raises(DataError, match=r"x of b has samples of shape \(2,\), the network's input is \(3,\)"):
            trainer.train_on_batch([X["a"], X["b"]], y)
        with pytest.raises(DataError, match="class_weight goes with one output and there are 2; pass sample_weight instead"):
            trainer.fit(x, y, class_weight={0: 1.0})
    with pytest.raises(UnsupportedError, match="loss is a dict of u, the model has 2 values v, u"):
        _trainer(model, cluster, loss={"u": "mse"})


@pytest.mark.slow
def test_an_input_that_no_output_needs_is_fed_and_ignored_as_in_keras(cluster: Any) -> None:
    b, a = keras.Input((3,), name="b"), keras.Input((2,), name="a")
    model = keras.Model([b, a], keras.layers.Dense(4, name="end")(a))
    for plan in (hm.Plan.filters(model, (3, 2, 1), cluster, 8), hm.Plan.batch(model, (3, 2, 1), cluster, 8)):
        with hm.Trainer(model, plan, cluster, loss="mse") as trainer:
            np.testing.assert_allclose(trainer.predict(X), model.predict([X["b"], X["a"]], verbose=0), rtol=1e-9)
            with pytest.raises(DataError, match="x is a dict of a, the model has 2 values b, a"):
                trainer.predict({"a": X["a"]})
