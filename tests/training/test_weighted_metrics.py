"""Weighted metrics have Keras's names and values in fit, evaluate, and on single batches."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import UnsupportedError
from tests.training.setting import cluster, data, net

__all__ = ["cluster"]

COUNT, BATCH = 21, 8
RNG = np.random.default_rng(3)
WEIGHT = RNG.uniform(0, 2, COUNT)


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _compiled(model: keras.Model, **options: Any) -> keras.Model:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    copy.compile(**{"optimizer": keras.optimizers.SGD(0.05), "loss": loss, **options}, run_eagerly=True)
    return copy


def _same(expected: Any, found: Any) -> None:
    assert set(expected) == set(found)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, err_msg=name)


WEIGHTS: dict[str, dict[str, Any]] = {"samples": {"sample_weight": WEIGHT}, "classes": {"class_weight": {0: 0.5, 2: 3.0}}, "none": {}}


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("plan", ["batch", "filters", "hybrid"])
def test_weighted_metrics_of_a_compiled_model_are_those_of_keras(plan: str, weights: str, cluster: Any) -> None:
    model, (x, y) = net(), data(COUNT)
    metrics = {"metrics": ["accuracy"], "weighted_metrics": ["accuracy", keras.metrics.SparseCategoricalCrossentropy(from_logits=True)]}
    oracle = _compiled(model, **metrics)
    metrics["weighted_metrics"] = ["accuracy", keras.metrics.SparseCategoricalCrossentropy(from_logits=True)]
    given = {"validation_data": (*data(11, 4), np.linspace(0, 1, 11)), "epochs": 2, "batch_size": BATCH, "shuffle": False, "verbose": 0}
    made = {"batch": hm.Plan.batch, "filters": hm.Plan.filters, "hybrid": hm.Plan.hybrid}[plan](model, (3, 2, 1), cluster, BATCH)
    with hm.Trainer(_compiled(model, **metrics), made, cluster) as trainer:
        expected = oracle.fit(x, y, **given, **WEIGHTS[weights])
        _same(expected.history, trainer.fit(x, y, **given, **WEIGHTS[weights]).history)
        tested = oracle.evaluate(x, y, sample_weight=WEIGHT, batch_size=BATCH, verbose=0, return_dict=True)
        _same(tested, trainer.evaluate(x, y, sample_weight=WEIGHT, batch_size=BATCH))
        assert "weighted_accuracy" in tested
        for at in (0, 8):
            part = slice(at, at + 8)
            on_batch = {"sample_weight": WEIGHT[part], "return_dict": True}
            _same(oracle.test_on_batch(x[part], y[part], **on_batch), trainer.test_on_batch(x[part], y[part], **on_batch))
            _same(oracle.train_on_batch(x[part], y[part], **on_batch), trainer.train_on_batch(x[part], y[part], **on_batch))
            by_class = {"class_weight": {1: 2.5}, "return_dict": True}
            _same(oracle.train_on_batch(x[part], y[part], **by_class), trainer.train_on_batch(x[part], y[part], **by_class))
        np.testing.assert_allclose(trainer.predict_on_batch(x[:5]), oracle.predict_on_batch(x[:5]), rtol=1e-8)


def _two(packing: str) -> keras.Model:
    L = keras.layers
    i = keras.Input((4,))
    x = L.Dense(6, activation="tanh", name="wide")(i)
    ends = {"v": L.Dense(3, name="v")(x), "u": L.Reshape((3, 1), name="u")(L.Dense(3)(x))}
    return keras.Model(i, ends if packing == "dict" else list(ends.values()))


X = RNG.normal(size=(COUNT, 4))
Y = {"v": RNG.integers(0, 3, COUNT), "u": RNG.normal(size=(COUNT, 3, 1))}
OF_TWO = {"v": RNG.uniform(0, 2, COUNT), "u": RNG.uniform(0, 2, (COUNT, 3))}


def _packed(values: dict[str, Any], packing: str) -> Any:
    return values if packing == "dict" else list(values.values())


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["each", "one for all", "none"])
@pytest.mark.parametrize("packing, form", [("dict", "dict"), ("list", "dict"), ("list", "list")])
def test_outputs_have_weighted_metrics_of_their_own(packing: str, form: str, weights: str, cluster: Any) -> None:
    model = _two(packing)

    def options() -> dict[str, Any]:
        weighted = {"v": ["accuracy"], "u": ["mae", keras.metrics.MeanSquaredError(name="squared")]}
        loss = {"v": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "u": "mse"}
        return {
            "loss": _packed(loss, packing),
            "weighted_metrics": _packed(weighted, form),
            "metrics": _packed({"v": ["accuracy"], "u": None}, form),
        }

    y = _packed(Y, packing)
    weight = None if weights == "none" else WEIGHT if weights == "one for all" else _packed(OF_TWO, packing)
    of_keras = _packed({"v": WEIGHT, "u": WEIGHT[:, np.newaxis]}, packing) if weights == "one for all" else weight
    given = {"epochs": 2, "batch_size": BATCH, "shuffle": False, "verbose": 0}
    oracle = _compiled(model, **options())
    plan = hm.Plan.filters(model, (3, 2, 1), cluster, BATCH)
    with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.05), **options()) as trainer:
        _same(oracle.fit(X, y, sample_weight=of_keras, **given).history, trainer.fit(X, y, sample_weight=weight, **given).history)
        tested = oracle.evaluate(X, y, sample_weight=of_keras, batch_size=BATCH, verbose=0, return_dict=True)
        _same(tested, trainer.evaluate(X, y, sample_weight=weight, batch_size=BATCH))


def test_weighted_metrics_that_keras_would_refuse_later_are_refused_at_once(cluster: Any) -> None:
    model = net()
    plan = hm.Plan.batch(model, (3, 2, 1), cluster, BATCH)
    with pytest.raises(UnsupportedError, match=r"weighted_metrics is 'accuracy'; give a list, such as \['accuracy'\]"):
        hm.Trainer(model, plan, cluster, loss="mse", weighted_metrics="accuracy")
    with pytest.raises(UnsupportedError, match="the metric 'nonsense' is unknown to Keras"):
        hm.Trainer(model, plan, cluster, loss="mse", weighted_metrics=["nonsense"])
