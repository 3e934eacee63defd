"""The Keras side of training: the model whose metrics, callbacks and learning rate are Keras's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.program.builder import variable_key


class KerasSide:
    """A copy of the user's model that never trains, but holds what Keras does beside training.

    Parameters
    ----------
    model : the user's model; it is copied, not changed.
    graph : its LayerGraph.
    optimizer : a Keras optimizer of its own, which tells the learning rate.
    loss, metrics : as for `keras.Model.compile`.
    """

    def __init__(self, model: Any, graph: LayerGraph, optimizer: Any, loss: Any, metrics: Sequence[Any]) -> None:
        import keras

        _check_metrics(metrics)
        self._graph = graph
        self.model = keras.models.clone_model(model)
        self.model.compile(optimizer=optimizer, loss=loss, metrics=list(metrics) or None)
        self.has_metrics = bool(list(metrics))
        self._metrics = [metric for metric in metrics if isinstance(metric, keras.metrics.Metric)]

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of step `step`, from the optimizer's number or schedule."""
        optimizer = self.model.optimizer
        optimizer.iterations.assign(step)
        return float(np.asarray(optimizer.learning_rate))

    def reset_metrics(self) -> None:
        """Start counting metrics anew, those too that counted elsewhere before and that Keras has not yet met."""
        self.model.reset_metrics()
        for metric in self._metrics:
            metric.reset_state()

    def update_metrics(self, y: np.ndarray, output: np.ndarray, weight: np.ndarray | None) -> dict[str, float]:
        """Count a batch and return all metrics so far, without the loss."""
        found = self.model.compute_metrics(None, y, output, weight)
        return {name: float(np.asarray(value)) for name, value in found.items() if name != "loss"}

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Put whole values, by variable key, into the model."""
        write_weights(self.model, self._graph, values)

    def read(self) -> dict[str, np.ndarray]:
        """Return the model's values by variable key."""
        return read_weights(self.model, self._graph)


def _check_metrics(metrics: Sequence[Any]) -> None:
    """Raise unless `metrics` is a list of what Keras takes for metrics; Keras itself would say so at the first batch only."""
    import keras

    if not isinstance(metrics, (list, tuple)):
        raise UnsupportedError(f"metrics is {metrics!r}; give a list, such as ['accuracy']")
    for metric in metrics:
        if metric in ("accuracy", "acc", "crossentropy", "ce") or callable(metric):
            continue
        try:
            keras.metrics.get(metric)
        except (ValueError, TypeError) as fault:
            raise UnsupportedError(f"the metric {metric!r} is unknown to Keras; give names or objects of keras.metrics") from fault


def read_weights(model: Any, graph: LayerGraph) -> dict[str, np.ndarray]:
    """Return a Keras model's whole weights by variable key.

    Parameters
    ----------
    model : keras.Model that `graph` was read from, or a clone.
    """
    return {key: np.array(variable) for key, variable in _variables(model, graph).items()}


def write_weights(model: Any, graph: LayerGraph, values: Mapping[str, np.ndarray]) -> None:
    """Assign whole values, by variable key, to a Keras model's weights."""
    for key, variable in _variables(model, graph).items():
        variable.assign(values[key])
    _finalize(model)


def _finalize(model: Any) -> None:
    """Let layers that compute with copies of their weights (Normalization) take the new ones."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            _finalize(layer)
        elif hasattr(layer, "finalize_state"):
            layer.finalize_state()


def _variables(model: Any, graph: LayerGraph) -> dict[str, Any]:
    layers = {layer.name: layer for layer in model.layers}
    found = {}
    for index, layer in enumerate(graph.layers):
        live = {variable.name: variable for variable in layers[layer.name].weights} if layer.variables else {}
        found.update({variable_key(index, variable.name): live[variable.name] for variable in layer.variables})
    return found
