"""Losses and metrics that go with data and models."""

import keras
import numpy as np
import pytest

from hetero_mtf.commands.options.loss_options import ObjectiveChoice
from hetero_mtf.commands.workload.chosen_loss import check_targets, loss_of, loss_text, metrics_of, probabilities_of
from hetero_mtf.data import Dataset
from hetero_mtf.errors import DataError, UnsupportedError
from hetero_mtf.keras_reading.layer_graph import layer_graph


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


def _pixels(labels, activation, units=1, classes=0):
    inputs = keras.Input((4, 4, 1))
    model = keras.Model(inputs, keras.layers.Conv2D(units, 1, activation=activation)(inputs))
    x = np.zeros((len(labels), 4, 4, 1))
    return Dataset("d", x, labels, x, labels, classes), model, layer_graph(model)


def _named(found):
    return type(found).__name__, found.get_config().get("from_logits")


MASKS = np.arange(2 * 16).reshape(2, 4, 4, 1) % 2


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32"])
def test_masks_of_0_and_1_under_a_sigmoid_are_trained_with_binary_cross_entropy_and_the_guess_is_named(dtype):
    data, model, graph = _pixels(MASKS.astype(dtype), "sigmoid")
    assert _named(loss_of(data, graph)) == ("BinaryCrossentropy", False)
    assert [type(metric).__name__ for metric in metrics_of(data, graph)] == ["BinaryAccuracy"]
    text = loss_text(data, graph)
    assert text == "loss: binary cross-entropy, guessed from targets of 0 and 1 and an output that ends in sigmoid; set it with --loss"
    check_targets(data, model, graph)


@pytest.mark.parametrize(
    "labels, activation, units",
    [(MASKS * 0.5, "sigmoid", 1), (MASKS * 2, "sigmoid", 1), (MASKS, None, 1), (MASKS, "relu", 1), (MASKS[..., 0], "sigmoid", 1)],
)
def test_other_targets_and_outputs_of_pictures_are_trained_with_the_squared_error_and_that_is_named_too(labels, activation, units):
    data, _, graph = _pixels(labels, activation, units)
    assert _named(loss_of(data, graph)) == ("MeanSquaredError", None)
    assert loss_text(data, graph).startswith("loss: mean squared error, guessed from targets") and "--loss" in loss_text(data, graph)


def test_several_labels_at_once_and_numbers_of_one_column_are_binary_too_under_a_sigmoid():
    several = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0]])
    assert _named(_both(several, 0, 3, "sigmoid")[0]) == ("BinaryCrossentropy", False)
    assert type(_both(several, 0, 3, "sigmoid")[1][0]).__name__ == "BinaryAccuracy"
    for column in (np.array([0.0, 1.0]), np.array([[0.0], [1.0]])):
        assert _named(_both(column, 0, 1, "sigmoid")[0]) == ("BinaryCrossentropy", False)
    assert _named(_both(np.eye(3), 3, 3, "sigmoid")[0]) == ("BinaryCrossentropy", False)
    assert _both(np.eye(3), 3, 3, "sigmoid")[1] == ["accuracy"]
    assert _named(_both(np.eye(3), 3, 3, "softmax")[0]) == ("CategoricalCrossentropy", False)


def test_the_one_chosen_takes_the_place_of_the_guess_and_logits_are_still_logits():
    data, _, graph = _pixels(MASKS, "sigmoid")
    assert _named(loss_of(data, graph, ObjectiveChoice("MeanSquaredError"))) == ("MeanSquaredError", None)
    assert loss_text(data, graph, ObjectiveChoice("MeanSquaredError")) == "loss: mean squared error, set by --loss"
    data, _, graph = _pixels(MASKS, None)
    chosen = ObjectiveChoice("BinaryCrossentropy")
    assert _named(loss_of(data, graph, chosen)) == ("BinaryCrossentropy", True)
    assert loss_text(data, graph, chosen) == "loss: binary cross-entropy of logits, set by --loss"
    assert metrics_of(data, graph, chosen)[0].get_config()["threshold"] == 0.0


def test_metrics_have_keras_s_names_and_know_logits():
    wanted = ObjectiveChoice("BinaryCrossentropy", ("binary_accuracy", "AUC", "mae"))
    for _ in range(2):  # Keras numbers the metrics of a process
        found = metrics_of(*_pixels(MASKS, None)[::2], wanted)
        assert [metric.name for metric in found] == ["binary_accuracy", "auc", "mean_absolute_error"]
    assert found[0].get_config()["threshold"] == 0.0 and found[1].get_config()["from_logits"]
    sure = metrics_of(*_pixels(MASKS, "sigmoid")[::2], ObjectiveChoice(None, ("auc", "precision", "accuracy")))
    assert not sure[0].get_config()["from_logits"] and sure[1].name == "precision" and sure[2].get_config()["threshold"] == 0.5
    with pytest.raises(UnsupportedError, match="the metric precision needs probabilities and the model ends in logits; end it in sigmoid"):
        metrics_of(*_pixels(MASKS, None)[::2], ObjectiveChoice("BinaryCrossentropy", ("precision",)))
    with pytest.raises(UnsupportedError, match="there is no metric 'nonsense' in Keras; write one of its names"):
        metrics_of(*_pixels(MASKS, None)[::2], ObjectiveChoice(None, ("nonsense",)))


def test_targets_that_do_not_fit_a_loss_are_refused():
    data, model, graph = _pixels(MASKS[..., 0], "softmax", 3)
    check_targets(data, model, graph, ObjectiveChoice("SparseCategoricalCrossentropy"))
    with pytest.raises(DataError, match=r"d does not fit the model \(loss: binary cross-entropy, set by --loss\): y has targets of shape"):
        check_targets(data, model, graph, ObjectiveChoice("BinaryCrossentropy"))
    data, model, graph = _pixels(MASKS[..., 0] * 3, "softmax", 3)
    with pytest.raises(DataError, match="class numbers from 0 to 3, the network has the 3 classes 0 to 2; .* another loss with --loss"):
        check_targets(data, model, graph, ObjectiveChoice("SparseCategoricalCrossentropy"))


def test_losses_and_metrics_know_what_the_data_and_the_model_say_and_their_names_do_not():
    data, _, graph = _pixels(MASKS[..., 0], None, 3, classes=3)
    loss = loss_of(data, graph, ObjectiveChoice("categorical_focal_crossentropy"))
    assert loss.get_config()["from_logits"] and not hasattr(loss_of(data, graph, ObjectiveChoice("hinge")), "from_logits")
    iou, entropy = metrics_of(data, graph, ObjectiveChoice("SparseCategoricalCrossentropy", ("mean_io_u", "crossentropy")))
    assert iou.get_config()["num_classes"] == 3 and not iou.get_config()["sparse_y_pred"]
    assert type(entropy) is keras.metrics.SparseCategoricalCrossentropy and entropy.get_config()["from_logits"]
    with pytest.raises(UnsupportedError, match="the metric recall_at_precision needs precision, which its name does not say"):
        metrics_of(data, graph, ObjectiveChoice(None, ("recall_at_precision",)))


def test_a_configuration_is_taken_as_it_is():
    data, _, graph = _pixels(MASKS, None)
    smoothed = {"class_name": "BinaryCrossentropy", "config": {"label_smoothing": 0.25}}
    config = loss_of(data, graph, ObjectiveChoice(smoothed, (), "as m.keras was compiled with")).get_config()
    assert (config["label_smoothing"], config["from_logits"]) == (0.25, False)
    said = loss_text(data, graph, ObjectiveChoice(smoothed, (), "as m.keras was compiled with"))
    assert said == "loss: binary cross-entropy, as m.keras was compiled with"
