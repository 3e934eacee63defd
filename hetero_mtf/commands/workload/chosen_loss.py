"""The loss and metrics to train and test with: those of the command line, or a guess from data and model that is named as one."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from scipy import special

from hetero_mtf.commands.options.loss_options import Identified, ObjectiveChoice
from hetero_mtf.commands.workload.identifiers import loss_kind, metric_kind, title_of
from hetero_mtf.data.checked_batch import check_batch
from hetero_mtf.data.dataset import Dataset
from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.errors import DataError, UnsupportedError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.program.objective import read_objective
from hetero_mtf.training.batches import feed, samples

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
    identifier = choice.loss or guess_loss(data, graph)[0]
    kind = loss_kind(identifier)
    if isinstance(identifier, Mapping):
        return kind.from_config(dict(identifier["config"])) if identifier.get("config") is not None else kind
    if not inspect.isclass(kind):
        return kind
    make: Any = kind
    try:
        return make(from_logits=_gives_logits(graph)) if _takes_logits(kind) else make()
    except TypeError as fault:
        needs = ", ".join(_required(kind)) or str(fault)
        raise UnsupportedError(f"the loss {identifier} needs {needs}, which its name does not say", "train with it in Python") from fault


def loss_text(data: LabelledData, graph: LayerGraph, choice: ObjectiveChoice = _GUESSED) -> str:
    """Return a line on the loss, with the reason where it is guessed, and how to set it then.

    Parameters
    ----------
    data, graph, choice : as for `loss_of`.
    """
    return _loss_said(data, graph, choice) + ("" if choice.loss else "; set it with --loss")


def _loss_said(data: LabelledData, graph: LayerGraph, choice: ObjectiveChoice) -> str:
    """Return which loss there is, and why."""
    guessed, reason = guess_loss(data, graph)
    kind = loss_kind(choice.loss or guessed)
    title = _TITLES.get(kind.__name__) or title_of(kind)
    loss = loss_of(data, graph, choice)
    logits = " of logits" if _config(loss).get("from_logits") else ""
    return f"loss: {title}{logits}, {choice.loss_origin if choice.loss else f'guessed from {reason}'}"


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
    kind = loss_kind(choice.loss or guess_loss(data, graph)[0])
    name = kind.__name__
    single = _end(graph).output_shape == (1,)
    probabilities = _takes_logits(kind)  # what the loss compares, rather than numbers of any size
    numbers = not probabilities and (single or not data.classes)
    binary = name in (_BINARY, "BinaryFocalCrossentropy") and (single or not data.classes)
    wanted = choice.metrics or (("mean_absolute_error",) if numbers else ("accuracy",))
    of = _Outputs(data, binary, name == _SPARSE, _gives_logits(graph) and probabilities)
    return [_metric(metric, of) for metric in wanted]


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
    objective = read_objective(loss_of(data, graph, choice), None, read_wiring(model).output_structure)
    count = data.counts["train"] if isinstance(data, Dataset) else 1
    remedy = "or give a model for such samples"
    try:
        batch = check_batch(*data.first(count), None)
        samples(graph, batch.x)
        remedy = "or name another loss with --loss"
        feed(graph, objective, batch)
    except DataError as fault:
        said = _loss_said(data, graph, choice)
        raise DataError(f"{data.name} does not fit the model ({said}): {fault}, {remedy}") from fault


@dataclasses.dataclass(frozen=True)
class _Outputs:
    """What metrics compare: the data, whether targets are 0 and 1 or class numbers, and whether outputs are logits."""

    data: LabelledData
    binary: bool
    sparse: bool
    logits: bool


def _metric(identifier: Identified, of: _Outputs) -> Any:
    """Return a Keras metric, or its name where Keras is to choose by shapes, of outputs that may be logits."""
    if isinstance(identifier, Mapping):
        kind = metric_kind(identifier)
        return kind.from_config(dict(identifier["config"])) if identifier.get("config") is not None else kind
    if identifier in ("accuracy", "acc"):
        return keras.metrics.BinaryAccuracy(name="accuracy", threshold=0.0 if of.logits else 0.5) if of.binary else "accuracy"
    if identifier in ("crossentropy", "ce"):
        identifier = _BINARY if of.binary else _SPARSE if of.sparse else _DENSE
    kind = metric_kind(identifier)
    if not inspect.isclass(kind):
        return kind
    metric = _metric_of(kind, identifier, of)
    config = {**metric.get_config(), "name": re.sub(r"_\d+$", "", metric.name)}  # Keras numbers the metrics of a process
    if of.logits and "from_logits" in config:
        config["from_logits"] = True
    elif of.logits and kind is keras.metrics.BinaryAccuracy:
        config["threshold"] = 0.0
    elif of.logits and {"threshold", "thresholds"} & set(config) and kind is not keras.metrics.F1Score:
        raise UnsupportedError(f"the metric {identifier} needs probabilities and the model ends in logits", "end it in sigmoid or softmax")
    return type(metric).from_config(config)


def _metric_of(kind: Any, identifier: str, of: _Outputs) -> Any:
    """Return a metric of a class; the number of classes is that of the data."""
    needs = _required(kind)
    if needs == ["num_classes"] and of.data.classes:
        parameters = inspect.signature(kind).parameters
        sparse = {"sparse_y_true": of.sparse, "sparse_y_pred": False}
        return kind(num_classes=of.data.classes, **{name: value for name, value in sparse.items() if name in parameters})
    if needs:
        raise UnsupportedError(f"the metric {identifier} needs {', '.join(needs)}, which its name does not say", "compute it in Python")
    return kind()


def _required(kind: Any) -> list[str]:
    """Return the names of the arguments that a class cannot be made without."""
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(kind).parameters.values()
    return [each.name for each in parameters if each.default is inspect.Parameter.empty and each.kind in plain]


def _takes_logits(kind: Any) -> bool:
    return "from_logits" in inspect.signature(kind).parameters


def _config(loss: Any) -> Mapping[str, Any]:
    return loss.get_config() if hasattr(loss, "get_config") else {}


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
