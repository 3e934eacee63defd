"""The loss and metrics to train and test with: those of the command line, or a guess from data and model that is named as one."""

from __future__ import annotations

import re
from typing import Any

from hetero_mtf.commands.options.shared import ObjectiveChoice
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.errors import DataError, UnsupportedError
from hetero_mtf.graph.records import Layer, LayerGraph

_SQUASHING = ("softmax", "sigmoid")
_SPARSE, _DENSE, _BINARY, _SQUARED = (
    "SparseCategoricalCrossentropy",
    "CategoricalCrossentropy",
    "BinaryCrossentropy",
    "MeanSquaredError",
)
_TITLES = {
    _SPARSE: "sparse categorical cross-entropy",
    _DENSE: "categorical cross-entropy",
    _BINARY: "binary cross-entropy",
    _SQUARED: "mean squared error",
}
_GUESSED = ObjectiveChoice()


def guess_loss(data: LabelledData, graph: LayerGraph) -> tuple[str, str]:
    """Return the class name of the Keras loss that goes with data and model, and what it is guessed from.

    Parameters
    ----------
    data : the data set.
    graph : LayerGraph of the model.
    """
    output = _end(graph).output_shape
    if last_activation(graph) == "sigmoid" and (data.label_shape or (1,)) == output and data.binary_targets:
        return _BINARY, "targets of 0 and 1 and an output that ends in sigmoid"
    if not data.classes:
        return _SQUARED, "targets that are neither classes nor, with a sigmoid at the output, all 0 or 1"
    if data.label_shape and data.label_shape[0] > 1:
        return _DENSE, "one-hot targets"
    if output == (1,) and data.classes == 2:
        return _BINARY, "two classes and a single output"
    return _SPARSE, "class numbers as targets"


def loss_of(data: LabelledData, graph: LayerGraph, choice: ObjectiveChoice = _GUESSED) -> Any:
    """Return the Keras loss to train with.

    The outputs are taken as logits unless the last layer ends in softmax or sigmoid, whoever chose the loss.

    Parameters
    ----------
    data : the data set.
    graph : LayerGraph of the model.
    choice : the options --loss and --metrics; without a loss it is guessed, see `guess_loss`.
    """
    import keras

    name = choice.loss or guess_loss(data, graph)[0]
    options = {} if name == _SQUARED else {"from_logits": _gives_logits(graph)}
    return getattr(keras.losses, name)(**options)


def loss_text(data: LabelledData, graph: LayerGraph, choice: ObjectiveChoice = _GUESSED) -> str:
    """Return a line on the loss, with the reason where it is guessed.

    Parameters
    ----------
    data, graph, choice : as for `loss_of`.
    """
    guessed, reason = guess_loss(data, graph)
    name = choice.loss or guessed
    title = _TITLES[name] + (" of logits" if name != _SQUARED and _gives_logits(graph) else "")
    return f"loss: {title}, {'set by --loss' if choice.loss else f'guessed from {reason}; set it with --loss'}"


def metrics_of(data: LabelledData, graph: LayerGraph, choice: ObjectiveChoice = _GUESSED) -> list[Any]:
    """Return the metrics to count; by default the accuracy where there are classes or targets of 0 and 1, else the mean absolute error.

    Parameters
    ----------
    data, graph, choice : as for `loss_of`.

    Raises
    ------
    UnsupportedError
        If Keras knows no metric of a name, or it needs probabilities and the model ends in logits.
    """
    name = choice.loss or guess_loss(data, graph)[0]
    single = _end(graph).output_shape == (1,)
    numbers = name == _SQUARED and (single or not data.classes)
    binary = name == _BINARY and (single or not data.classes)
    wanted = choice.metrics or (("mean_absolute_error",) if numbers else ("accuracy",))
    return [_metric(metric, binary, _gives_logits(graph) and name != _SQUARED) for metric in wanted]


def check_targets(data: LabelledData, model: Any, graph: LayerGraph, choice: ObjectiveChoice = _GUESSED) -> None:
    """Refuse samples or targets that do not fit the model and the loss, before anything is measured for them.

    Parameters
    ----------
    data, graph, choice : as for `loss_of`; all training samples are looked at where they are in memory, else the first one.
    model : Keras model.

    Raises
    ------
    DataError
        If shapes or labels do not fit.
    """
    from hetero_mtf.data.batch import check_batch
    from hetero_mtf.data.dataset import Dataset
    from hetero_mtf.graph.reader import read_wiring
    from hetero_mtf.program.objective import read_objective
    from hetero_mtf.training.batches import feed

    objective = read_objective(loss_of(data, graph, choice), None, read_wiring(model).output_structure)
    count = data.counts["train"] if isinstance(data, Dataset) else 1
    try:
        feed(graph, objective, check_batch(*data.first(count), None))
    except DataError as fault:
        said = loss_text(data, graph, choice).partition(";")[0]
        remedy = "or give a model for such samples" if str(fault).startswith("x ") else "or name another loss with --loss"
        raise DataError(f"{data.name} does not fit the model ({said}): {fault}, {remedy}") from fault


def _metric(name: str, binary: bool, logits: bool) -> Any:
    """Return a Keras metric, or its name where Keras is to choose by shapes, of outputs that may be logits."""
    import keras

    if name in ("accuracy", "acc"):
        return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0 if logits else 0.5) if binary else "accuracy"
    try:
        metric = keras.metrics.get(name)
    except (ValueError, TypeError) as fault:
        raise UnsupportedError(f"there is no metric {name!r} in Keras; write names such as accuracy, auc or mean_absolute_error") from fault
    config = {**metric.get_config(), "name": re.sub(r"_\d+$", "", metric.name)}  # Keras numbers the metrics of a process
    if logits and "from_logits" in config:
        config["from_logits"] = True
    elif logits and name in ("binary_accuracy", "BinaryAccuracy"):
        config["threshold"] = 0.0
    elif logits and {"threshold", "thresholds"} & set(config):
        raise UnsupportedError(f"the metric {name} needs probabilities and the model ends in logits; end it in sigmoid or softmax")
    return type(metric).from_config(config)


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


def _gives_logits(graph: LayerGraph) -> bool:
    return last_activation(graph) not in _SQUASHING


def last_activation(graph: LayerGraph) -> str:
    """Return what the output goes through: the name of the last layer's activation, or "softmax" for a Softmax layer."""
    layer = _end(graph)
    return "softmax" if layer.kind == "Softmax" else str(layer.attributes.get("activation", ""))
