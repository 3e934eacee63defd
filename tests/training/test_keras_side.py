"""The Keras side: metrics are checked at the door, weights go to and fro by key."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.structure import Structure
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.training.keras_side import KerasSide, Settings, clone, copied, read_weights, write_weights
from tests.older_keras import needs_keras
from tests.training.setting import cross_entropy, net


def _side(metrics: Any = (), optimizer: Any = None) -> KerasSide:
    model = net()
    settings = Settings(optimizer or keras.optimizers.SGD(0.5), cross_entropy(), None, metrics)
    return KerasSide(copied(model, settings, Structure.of("head")), layer_graph(model), Structure.of("head"), (metrics,))


@pytest.mark.fast("metrics2-the metric 'nonsense' is unknown to Keras; give names or objects of keras.metrics")
@pytest.mark.parametrize(
    "metrics, words",
    [
        ("accuracy", r"metrics is 'accuracy'; give a list, such as \['accuracy'\]"),
        ({"a": "mse"}, "metrics is {'a': 'mse'}; give a list"),
        (["accuracy", "nonsense"], "the metric 'nonsense' is unknown to Keras; give names or objects of keras.metrics"),
        ([3], "the metric 3 is unknown to Keras"),
    ],
)
def test_metrics_that_keras_would_refuse_later_are_refused_at_once(metrics: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        _side(metrics)


@pytest.mark.fast("metric3")
@pytest.mark.parametrize(
    "metric", ["accuracy", "acc", keras.metrics.sparse_categorical_accuracy, keras.metrics.SparseTopKCategoricalAccuracy(2)]
)
def test_metrics_may_be_names_functions_and_objects(metric: Any) -> None:
    side = _side([metric])
    found = side.update_metrics([np.array([0, 1])], [np.eye(3, dtype="float32")[:2]])
    assert side.has_metrics and len(found) == 1


def test_the_learning_rate_follows_the_schedule_and_the_step() -> None:
    side = _side(optimizer=keras.optimizers.SGD(keras.optimizers.schedules.PiecewiseConstantDecay([2], [0.5, 0.125])))
    assert [side.learning_rate(step) for step in (0, 2, 3, 0)] == [0.5, 0.5, 0.125, 0.5]


def test_weights_are_read_and_written_by_key() -> None:
    model = net()
    graph = layer_graph(model)
    values = read_weights(model, graph)
    assert set(values) >= {"001/kernel", "001/bias"} and len(values) == len(model.weights)
    clone = keras.models.clone_model(model)
    write_weights(clone, graph, {key: value + 1 for key, value in values.items()})
    for a, b in zip(model.get_weights(), clone.get_weights(), strict=True):
        np.testing.assert_allclose(a + 1, b)


def _heads(packing: type = list) -> keras.Model:
    i = keras.Input((3,))
    ends = {"a": keras.layers.Dense(1, name="left")(i), "b": keras.layers.Dense(1, name="right")(i)}
    return keras.Model(i, ends if packing is dict else list(ends.values()))


def _two_headed(metrics: Any, packing: type = list) -> KerasSide:
    model = _heads(packing)
    structure = Structure.of({"a": "left", "b": "right"} if packing is dict else ["left", "right"])
    settings = Settings(keras.optimizers.SGD(), "mse", None, metrics)
    return KerasSide(copied(model, settings, structure), layer_graph(model), structure, (metrics,))


@pytest.mark.fast("metrics2-metrics is .*middle.*, the model has 2 values left, right")
@pytest.mark.parametrize(
    "metrics, words",
    [
        ("mae", r"metrics is 'mae'; give a list with one entry an output, or a dict by their names"),
        (["mae"], r"metrics is \['mae'\], the model has 2 values left, right; give a list with one entry an output"),
        ({"middle": "mae"}, "metrics is .*middle.*, the model has 2 values left, right"),
        ([["mae", "nonsense"], None], "the metric 'nonsense' is unknown to Keras"),
    ],
)
def test_metrics_that_do_not_fit_several_outputs_are_refused(metrics: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        _two_headed(metrics)


@pytest.mark.fast("dict-dict")
@pytest.mark.parametrize("packing", [list, pytest.param(dict, marks=needs_keras("3.13", "metrics by the keys of outputs are refused"))])
@pytest.mark.parametrize("form", [list, dict])
def test_metrics_of_several_outputs_are_named_as_in_keras(packing: type, form: type) -> None:
    names = ["a", "b"] if packing is dict else ["left", "right"]
    metrics: Any = [["mae", "mse"], None] if form is list else {names[0]: ["mae", "mse"]}
    side = _two_headed(metrics, packing)
    found = side.update_metrics([np.zeros((4, 1)), None], [np.ones((4, 1)), np.ones((4, 1))])
    assert found == {f"{names[0]}_mae": 1.0, f"{names[0]}_mse": 1.0} and side.has_metrics


def test_a_frozen_nested_model_is_frozen_in_the_copy() -> None:
    i, j = keras.Input((3,)), keras.Input((3,))
    inner = keras.Model(j, keras.layers.Dense(3)(j), name="inner")
    inner.trainable = False
    assert not clone(keras.Model(i, keras.layers.Dense(1)(inner(i)))).get_layer("inner").trainable


def test_layers_that_are_shared_are_one_in_the_copy() -> None:
    i, j = keras.Input((3,)), keras.Input((3,))
    dense = keras.layers.Dense(3, name="both")
    model = keras.Model(i, keras.Model(j, dense(j), name="inner")(dense(i)))
    copy = clone(model)
    assert len(copy.weights) == len(model.weights) == 2
    assert layer_graph(copy).digest == layer_graph(model).digest
    assert set(read_weights(copy, layer_graph(model))) == {"001/kernel", "001/bias"}
