"""The Keras side: metrics are checked at the door, weights go to and fro by key."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.layers import layer_graph
from hetero_mtf.training.keras_side import KerasSide, read_weights, write_weights
from tests.training.setting import cross_entropy, net


def _side(metrics: Any = (), optimizer: Any = None) -> KerasSide:
    model = net()
    return KerasSide(model, layer_graph(model), optimizer or keras.optimizers.SGD(0.5), cross_entropy(), metrics)


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


@pytest.mark.parametrize(
    "metric", ["accuracy", "acc", keras.metrics.sparse_categorical_accuracy, keras.metrics.SparseTopKCategoricalAccuracy(2)]
)
def test_metrics_may_be_names_functions_and_objects(metric: Any) -> None:
    side = _side([metric])
    found = side.update_metrics(np.array([0, 1]), np.eye(3, dtype="float32")[:2], None)
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
