"""The loss and metrics that go with a data set and a model."""

from __future__ import annotations

from typing import Any

from hetero_mtf.data.dataset import Dataset
from hetero_mtf.graph.records import LayerGraph

_SQUASHING = ("softmax", "sigmoid")


def loss_of(data: Dataset, model: Any, graph: LayerGraph) -> Any:
    """Return the Keras loss to train with.

    Class numbers are trained with sparse categorical cross-entropy, one-hot labels with categorical cross-entropy, two classes
    on a single output with binary cross-entropy, and anything else with the mean squared error. The output is taken as logits
    unless the last layer ends in softmax or sigmoid.

    Parameters
    ----------
    data : the data set.
    model : Keras model.
    graph : its LayerGraph.
    """
    import keras

    losses, logits = keras.losses, _last_activation(model) not in _SQUASHING
    if not data.classes:
        return losses.MeanSquaredError()
    if data.y_train.ndim > 1 and data.y_train.shape[1] > 1:
        return losses.CategoricalCrossentropy(from_logits=logits)
    if graph.layers[-1].output_shape == (1,) and data.classes == 2:
        return losses.BinaryCrossentropy(from_logits=logits)
    return losses.SparseCategoricalCrossentropy(from_logits=logits)


def metrics_of(data: Dataset, model: Any, graph: LayerGraph) -> list[Any]:
    """Return the metrics to count: accuracy where there are classes, else the mean absolute error.

    Parameters
    ----------
    data, model, graph : as for `loss_of`.
    """
    import keras

    if not data.classes:
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]
    if graph.layers[-1].output_shape == (1,) and data.classes == 2:
        threshold = 0.5 if _last_activation(model) in _SQUASHING else 0.0
        return [keras.metrics.BinaryAccuracy(name="accuracy", threshold=threshold)]
    return ["accuracy"]


def _last_activation(model: Any) -> str:
    """Return what the output goes through: the name of the last layer's activation, or "softmax" for a Softmax layer."""
    layer = model.layers[-1]
    if type(layer).__name__ == "Softmax":
        return "softmax"
    return str(getattr(getattr(layer, "activation", None), "__name__", ""))
