"""The names under which losses and metrics are logged, known before anything is measured, as Keras computes them of one sample."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from hetero_mtf.data.labelled import LabelledData
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import LayerGraph

_OUTPUT = 0.5  # a number that every metric takes, a probability included
_SAMPLES = 3  # at least: of one, or of as many as there are outputs, targets and outputs of other shapes would be broadcast


def logged_names(data: LabelledData, graph: LayerGraph, loss: Any, metrics: Sequence[Any]) -> tuple[str, ...]:
    """Return the names in Keras's logs of an epoch of training, without those of validation.

    Parameters
    ----------
    data : the data, the targets of whose first sample are looked at.
    graph : LayerGraph of the model.
    loss, metrics : as for `keras.Model.compile`.

    Raises
    ------
    UnsupportedError
        If a metric does not fit the targets and outputs.
    """
    names = ["loss"]
    for metric in metrics:
        names += [name for name in _logs(data, graph, loss, [metric])[1] if name not in names]
    return tuple(names)


def check_monitored(name: str, option: str, names: Sequence[str], data: LabelledData, graph: LayerGraph, loss: Any, metrics: Any) -> None:
    """Refuse the name of what is to be watched where it is not logged, or where Keras cannot tell which direction is better.

    Parameters
    ----------
    name : the metric, such as "val_loss".
    option : the option that names it, for the message.
    names : those in the logs, those of validation included.
    data, graph, loss, metrics : as for `logged_names`.

    Raises
    ------
    UnsupportedError
        If it cannot be watched.
    """
    if name not in names:
        near = difflib.get_close_matches(name, names, n=2, cutoff=0.8)
        meant = f"did you mean {' or '.join(near)}? There are" if near else "there are"
        missing = "; samples to validate on come with --validation-split or, of volumes, --validation-fraction"
        remedy = missing if name.startswith("val_") and not any(each.startswith("val_") for each in names) else ""
        raise UnsupportedError(f"{option} is {name}, which is not logged", f"{meant} {', '.join(names)}{remedy}")
    model, _ = _logs(data, graph, loss, metrics)
    watch = keras.callbacks.EarlyStopping(monitor=name, patience=1)
    watch.set_model(model)
    watch.on_train_begin()
    try:
        watch.on_epoch_end(0, {name: 0.0})
    except ValueError as fault:
        raise UnsupportedError(f"{option} is {name}, of which Keras does not say whether more or less is better", "name another") from fault


def _logs(data: LabelledData, graph: LayerGraph, loss: Any, metrics: Sequence[Any]) -> tuple[Any, tuple[str, ...]]:
    """Return a compiled model that returns what it is given, and the names of the metrics that it computes of one sample."""
    y, outputs = _sample(data, graph)
    inputs = keras.Input(outputs.shape[1:], dtype=keras.config.floatx())
    model = keras.Model(inputs, keras.layers.Identity(dtype=keras.config.floatx())(inputs))
    model.compile(loss=loss, metrics=list(metrics))
    try:
        logs = model.compute_metrics(None, y, outputs, None)
    except Exception as fault:  # a metric raises whatever shapes lead to
        names = ", ".join(getattr(metric, "name", None) or str(getattr(metric, "__name__", metric)) for metric in metrics)
        said = " ".join(str(fault).split())[:200]
        wrong = f"the metric {names} cannot be computed of targets of shape {y.shape[1:]} and outputs of shape {outputs.shape[1:]}"
        raise UnsupportedError(f"{wrong} ({type(fault).__name__}: {said})", "name another with --metrics") from fault
    return model, tuple(name for name in logs if name != "loss")


def check_loss(data: LabelledData, graph: LayerGraph, loss: Any) -> None:
    """Refuse a loss that cannot be computed of the data's targets and the model's outputs.

    Parameters
    ----------
    data, graph, loss : as for `logged_names`.

    Raises
    ------
    UnsupportedError
        If it cannot be.
    """
    y, outputs = _sample(data, graph)
    try:
        loss(y, outputs)
    except Exception as fault:  # a loss raises whatever shapes lead to
        name = getattr(loss, "name", None) or getattr(loss, "__name__", type(loss).__name__)
        said = " ".join(str(fault).split())[:200]
        wrong = f"the loss {name} cannot be computed of targets of shape {y.shape[1:]} and outputs of shape {outputs.shape[1:]}"
        raise UnsupportedError(f"{wrong} ({type(fault).__name__}: {said})", "name another with --loss") from fault


def _sample(data: LabelledData, graph: LayerGraph) -> tuple[Any, Any]:
    """Return the first target and an output for it, some of each."""
    shape = graph.layers[graph.outputs[0]].output_shape
    count = next(count for count in range(_SAMPLES, _SAMPLES + len(shape) + 1) if count not in shape)
    y = np.repeat(np.asarray(data.first(1)[1]), count, axis=0)
    return y, np.full((len(y), *shape), _OUTPUT, keras.config.floatx())
