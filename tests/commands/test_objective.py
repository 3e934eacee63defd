"""Losses and metrics that go with data and models."""

import keras
import numpy as np
import pytest

from hetero_mtf.commands.objective import loss_of, metrics_of, probabilities_of
from hetero_mtf.data import Dataset
from hetero_mtf.layers import layer_graph


def _both(labels, classes, units, activation=None, softmax=False):
    inputs = keras.Input((4,))
    x = keras.layers.Dense(units, activation=activation)(inputs)
    model = keras.Model(inputs, keras.layers.Softmax()(x) if softmax else x)
    x = np.zeros((len(labels), 4))
    data = Dataset("d", x, labels, x, labels, classes)
    return loss_of(data, layer_graph(model)), metrics_of(data, layer_graph(model))


@pytest.mark.parametrize(
    "labels, classes, units, name",
    [
        (np.arange(3), 3, 3, "SparseCategoricalCrossentropy"),
        (np.eye(3), 3, 3, "CategoricalCrossentropy"),
        (np.array([0, 1]), 2, 1, "BinaryCrossentropy"),
        (np.array([0, 1]), 2, 2, "SparseCategoricalCrossentropy"),
        (np.array([[0.5], [1.5]]), 0, 1, "MeanSquaredError"),
    ],
)
def test_the_loss_follows_from_labels_and_outputs(labels, classes, units, name):
    assert type(_both(labels, classes, units)[0]).__name__ == name


def test_an_output_is_taken_as_logits_unless_it_ends_in_softmax_or_sigmoid():
    config = lambda **given: _both(np.arange(3), 3, 3, **given)[0].get_config()["from_logits"]  # noqa: E731
    assert config() and config(activation="relu")
    assert not config(activation="softmax") and not config(softmax=True)
    loss, (accuracy,) = _both(np.array([0, 1]), 2, 1, activation="sigmoid")
    assert not loss.get_config()["from_logits"] and accuracy.get_config()["threshold"] == 0.5
    assert _both(np.array([0, 1]), 2, 1)[1][0].get_config()["threshold"] == 0.0


def test_classes_are_counted_by_accuracy_and_numbers_by_their_error():
    assert _both(np.arange(3), 3, 3)[1] == ["accuracy"]
    assert _both(np.array([[0.5], [1.5]]), 0, 1)[1][0].name == "mean_absolute_error"


def test_an_output_may_be_that_of_a_nested_model():
    inputs = keras.Input((4,))
    head = keras.Sequential([keras.layers.Dense(3, activation="softmax")], name="head")
    model = keras.Model(inputs, head(inputs))
    labels = np.arange(3)
    loss = loss_of(Dataset("d", labels[:, None], labels, labels[:, None], labels, 3), layer_graph(model))
    assert not loss.get_config()["from_logits"]


def _probabilities(outputs, units, activation):
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(units, activation=activation)(inputs))
    return probabilities_of(np.array(outputs, np.float32), max(2, units), layer_graph(model)).round(4).tolist()


def test_outputs_become_probabilities_however_a_network_ends():
    assert _probabilities([[0.0, np.log(3)]], 2, None) == [[0.25, 0.75]]
    assert _probabilities([[0.25, 0.75]], 2, "softmax") == [[0.25, 0.75]]
    assert _probabilities([[np.log(3)]], 1, None) == [[0.25, 0.75]]
    assert _probabilities([[0.75]], 1, "sigmoid") == [[0.25, 0.75]]
