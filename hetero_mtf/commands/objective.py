"""The loss and metrics that go with a data set and a model."""

from __future__ import annotations

from typing import Any

from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.graph.records import Layer, LayerGraph

_SQUASHING = ("softmax", "sigmoid")


def loss_of(data: LabelledData, graph: LayerGraph) -> Any:
    """Return the Keras loss to train with.

    Class numbers are trained with sparse categorical cross-entropy, one-hot labels with categorical cross-entropy, two classes
    on a single output with binary cross-entropy, and anything else with the mean squared error. The output is taken as logits
    unless the last layer ends in softmax or sigmoid.

    Parameters
    ----------
    data : the data set.
    graph : LayerGraph of the model.
    """
    import keras

    losses, logits = keras.losses, last_activation(graph) not in _SQUASHING
    if not data.classes:
        return losses.MeanSquaredError()
    if data.label_shape and data.label_shape[0] > 1:
        return losses.CategoricalCrossentropy(from_logits=logits)
    if _end(graph).output_shape == (1,) and data.classes == 2:
        return losses.BinaryCrossentropy(from_logits=logits)
    return losses.SparseCategoricalCrossentropy(from_logits=logits)


def metrics_of(data: LabelledData, graph: LayerGraph) -> list[Any]:
    """Return the metrics to count: accuracy where there are classes, else the mean absolute error.

    Parameters
    ----------
    data, graph : as for `loss_of`.
    """
    import keras

    if not data.classes:
        return [keras.metrics.MeanAbsoluteError(name="mean_absolute_error")]
    if _end(graph).output_shape == (1,) and data.classes == 2:
        threshold = 0.5 if last_activation(graph) in _SQUASHING else 0.0
        return [keras.metrics.BinaryAccuracy(name="accuracy", threshold=threshold)]
    return ["accuracy"]


def probabilities_of(outputs: Any, classes: int, graph: LayerGraph) -> Any:
    """Return what the outputs of a classifier say as probabilities, in float64.

    Parameters
    ----------
    outputs : (samples, classes) array as it leaves the network, or (samples, 1) of the second of two classes.
    classes : number of classes.
    graph : LayerGraph of the model.

    Returns
    -------
    (samples, classes) array of float64.
    """
    import numpy as np
    from scipy import special

    values, squashed = np.asarray(outputs, np.float64), last_activation(graph) in _SQUASHING
    if values.shape[1] == 1 and classes == 2:
        second = values if squashed else special.expit(values)
        return np.concatenate([1.0 - second, second], axis=1)
    return values / values.sum(axis=1, keepdims=True) if squashed else special.softmax(values, axis=1)


def _end(graph: LayerGraph) -> Layer:
    """Return the layer whose value the model returns."""
    return graph.layers[graph.outputs[0]]


def last_activation(graph: LayerGraph) -> str:
    """Return what the output goes through: the name of the last layer's activation, or "softmax" for a Softmax layer."""
    layer = _end(graph)
    return "softmax" if layer.kind == "Softmax" else str(layer.attributes.get("activation", ""))
