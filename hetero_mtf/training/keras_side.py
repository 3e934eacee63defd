"""The Keras side of training: the model whose metrics, callbacks and learning rate are Keras's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.structure import Structure, leaves_of
from hetero_mtf.graph.variable_keys import slot_key, variable_key
from hetero_mtf.keras_reading.keras_call import weights_of
from hetero_mtf.keras_reading.live_call import LiveCall
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.keras_reading.private_names import added_gradients, rate_of, set_mask, steps_of, updated_variables
from hetero_mtf.layers.elementwise.masked import MASKED
from hetero_mtf.planning.memory.optimizer_slots import AVERAGE
from hetero_mtf.program.keras_rule import slot_lists
from hetero_mtf.program.loss_scale import LossScale
from hetero_mtf.program.optimizers import Rates, UpdateRule
from hetero_mtf.training.copying import clone


class Settings(NamedTuple):
    """What a model is trained by, as for `keras.Model.compile`."""

    optimizer: Any
    loss: Any
    loss_weights: Any = None
    metrics: Any = ()
    weighted_metrics: Any = ()


def copied(model: Any, settings: Settings, outputs: Structure) -> Any:
    """Return a copy of a model, compiled.

    Parameters
    ----------
    model : the user's model; it is not changed.
    settings : what the copy is compiled with; its optimizer is one of its own, which gives the learning rate.
    outputs : how the model packs its outputs.

    Raises
    ------
    UnsupportedError
        If metrics are not what Keras takes.
    """
    optimizer, loss, loss_weights, *both = settings
    for what, metrics in zip(("metrics", "weighted_metrics"), both):
        _check_metrics(metrics, what, outputs)
    copy = clone(model)
    metrics, weighted_metrics = (each or None for each in both)
    options = {"loss": loss, "loss_weights": loss_weights, "metrics": metrics, "weighted_metrics": weighted_metrics}
    copy.compile(optimizer=optimizer, **options, auto_scale_loss=False)  # the optimizer scales it already, where it is to
    return copy


class KerasSide:
    """A Keras model whose metrics, callbacks and learning rate are Keras's own, while it trains elsewhere.

    Parameters
    ----------
    model : keras.Model, compiled, that `graph` was read from, or a clone.
    graph : its LayerGraph.
    outputs : how the model packs its outputs.
    metrics : those that it is compiled with, as given.
    function : what `graph` was read from, where that is not the model itself: a keras.Functional of its layers.

    Attributes
    ----------
    model, graph : as above.
    has_metrics : whether there are any.
    """

    def __init__(self, model: Any, graph: LayerGraph, outputs: Structure, metrics: Any = (), function: Any = None) -> None:
        self.model = model
        self.graph, self._outputs = graph, outputs
        self._live = _variables(model if function is None else function, graph)
        self._trained = _trained_among(model, self._live)
        flat = [metric for each in metrics for metric in leaves_of(each)]
        self.has_metrics = any(metric is not None for metric in flat)
        self._metrics = [metric for metric in flat if isinstance(metric, keras.metrics.Metric)]

    def learning_rate(self, step: int) -> Rates:
        """Return the learning rate of step `step`, from the optimizer's number or schedule; of several optimizers that of each."""
        optimizers = self._optimizers
        schedules = keras.optimizers.schedules.LearningRateSchedule
        if any(isinstance(rate_of(optimizer), schedules) for optimizer in optimizers):
            self._set_step(step)  # which they look at
        rates = tuple(float(np.asarray(optimizer.learning_rate)) for optimizer in optimizers)
        return rates if len(optimizers) > 1 else rates[0]

    @property
    def _optimizers(self) -> list[Any]:
        """The model's optimizer, or those that it gives variables to."""
        return _single(self.model.optimizer)

    def _set_step(self, step: int) -> None:
        for optimizer in (self.model.optimizer, *self._optimizers):
            steps_of(optimizer).assign(step)

    def reset_metrics(self) -> None:
        """Reset all metrics, also those that were updated elsewhere before and that are not yet part of the Keras model."""
        self.model.reset_metrics()
        for metric in self._metrics:
            metric.reset_state()

    def update_metrics(
        self, y: Sequence[np.ndarray | None], outputs: Sequence[np.ndarray], weights: Sequence[np.ndarray | None] = ()
    ) -> dict[str, float]:
        """Count a batch and return all metrics so far, without the loss.

        Parameters
        ----------
        y : (outputs,) targets.
        outputs : (outputs,) predictions, and behind them the masks of those that carry one.
        weights : (outputs,) sample weights for weighted metrics, None for an output without; empty where there are none.
        """
        predictions = masked_predictions(self.graph, outputs)
        given = None if all(weight is None for weight in weights) else self._outputs.pack(weights)
        metrics = self.model.compute_metrics(None, self._outputs.pack(y), self._outputs.pack(predictions), given)
        return {name: float(np.asarray(value)) for name, value in metrics.items() if name != "loss"}

    @property
    def step(self) -> int:
        """Number of steps that the model's optimizer has taken."""
        return int(np.asarray(self.model.optimizer.iterations))

    @property
    def loss_scale(self) -> LossScale | None:
        """The state of the loss scale that the model's optimizer has, of which it does not count the steps that updated nothing."""
        return _loss_scale_of(self.model.optimizer)

    def write(self, values: Mapping[str, np.ndarray], step: int, loss_scale: LossScale | None = None) -> None:
        """Put whole values into the model and its optimizer.

        Parameters
        ----------
        values : variable or slot key -> whole array; a slot that is missing is zero.
        step : number of steps taken.
        loss_scale : where losses are scaled.
        """
        _assign(self._live, values)
        _finalize(self.model)
        for key, slot in self._slots().items():
            slot.assign(values.get(key, np.zeros(slot.shape, slot.dtype)))
        self._set_step(step)
        if loss_scale is not None:
            self.model.optimizer.dynamic_scale.assign(loss_scale.scale)
            self.model.optimizer.step_counter.assign(loss_scale.finite_steps)

    def read(self) -> dict[str, np.ndarray]:
        """Return the model's values by variable key, and its optimizer's by slot key: read-only, and they stay as they are.

        They are not copied: TensorFlow gives a variable other memory where it is assigned to and its present value is in use elsewhere.
        """
        return {key: np.asarray(tf.convert_to_tensor(variable.value)) for key, variable in {**self._live, **self._slots()}.items()}

    def _slots(self) -> dict[str, Any]:
        """Return the Keras variables of the optimizer's slots by key; Keras makes them now if it has not yet."""
        optimizer, trained = self.model.optimizer, self.model.trainable_variables
        if not optimizer.built:
            optimizer.build(trained)
        return _slots_of(self._optimizers, self._trained)


def _trained_among(model: Any, live: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of {variable key: Keras variable} that a model trains."""
    trained = {id(variable) for variable in model.trainable_variables}
    return {key: variable for key, variable in live.items() if id(variable) in trained}


def masked_predictions(graph: LayerGraph, outputs: Sequence[Any]) -> list[Any]:
    """Return (outputs,) predictions; those of outputs that carry a mask are tensors with it, as Keras's metrics look for it.

    Parameters
    ----------
    graph : the network.
    outputs : (outputs,) predictions, and behind them the masks of those that carry one.
    """
    count = len(graph.outputs)
    predictions = list(outputs[:count])
    masked = [number for number, index in enumerate(graph.outputs) if graph.layers[index].kind == MASKED]
    for number, mask in zip(masked, outputs[count:], strict=True):
        predictions[number] = keras.ops.convert_to_tensor(predictions[number])
        set_mask(predictions[number], keras.ops.convert_to_tensor(mask))
    return predictions


def trained_state(model: Any, graph: LayerGraph, optimizer: Any, function: Any = None) -> tuple[dict[str, np.ndarray], int]:
    """Return the slots that a Keras optimizer keeps of what a model trains by slot key, and its steps: none of one that has taken none.

    It may have trained more before, which was frozen since.

    Parameters
    ----------
    model : keras.Model.
    graph : its LayerGraph.
    optimizer : keras.optimizers.Optimizer, or its name.
    function : as for `KerasSide`.
    """
    if optimizer is None or optimizer is not getattr(model, "optimizer", None):
        return {}, 0
    given: Any = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales the loss
    optimizers = list(getattr(given, "optimizers", [given]))
    live = _variables(model if function is None else function, graph)
    trained = {id(variable) for each in optimizers if each.built for variable in updated_variables(each)}
    steps = int(np.asarray(steps_of(given))) if given.built else 0
    if not steps or not trained >= {id(variable) for variable in model.trainable_variables}:
        return {}, 0
    return {key: np.array(slot) for key, slot in _slots_of(optimizers, _trained_among(model, live)).items()}, steps


def first_loss_scale(rule: UpdateRule, optimizer: Any) -> LossScale | None:
    """Return the loss scale that training begins with: that of an optimizer that has taken steps, else its initial one; None without.

    Parameters
    ----------
    rule : update rule of the optimizer.
    optimizer : keras.optimizers.Optimizer, or its name.
    """
    return None if rule.loss_scaling is None else _loss_scale_of(optimizer) or LossScale(rule.loss_scaling.initial)


def _loss_scale_of(optimizer: Any) -> LossScale | None:
    if not hasattr(optimizer, "inner_optimizer") or not optimizer.built:
        return None
    return LossScale(float(np.asarray(optimizer.dynamic_scale)), int(np.asarray(optimizer.step_counter)))


def _single(optimizer: Any) -> list[Any]:
    """Return an optimizer, or those that it gives variables to; of one that scales the loss, the inner one."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return list(getattr(inner, "optimizers", [inner]))


def _slots_of(optimizers: Sequence[Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Keras variables of the slots of built optimizers by slot key.

    Parameters
    ----------
    live : variable key -> Keras variable, of those whose slots are wanted.
    """
    keys, slots = {id(variable): key for key, variable in live.items()}, {}
    for each in optimizers:
        own = updated_variables(each) if each.built else []
        lists = slot_lists(each, len(own))
        if each.gradient_accumulation_steps and own:
            lists["accumulated"] = added_gradients(each)
        held = ((variable, name, slot) for name, of in lists.items() for variable, slot in zip(own, of) if id(variable) in keys)
        slots.update({slot_key(keys[id(variable)], name): slot for variable, name, slot in held if slot is not None})
    return slots


def _check_metrics(metrics: Any, what: str, outputs: Structure) -> None:
    """Raise unless `metrics` is what Keras takes for `what`; Keras itself raises at the first batch only."""
    several = outputs.count > 1
    if not isinstance(metrics, (list, tuple)) and not (several and isinstance(metrics, Mapping)):
        remedy = "give a list with one entry an output, or a dict by their names" if several else "give a list, such as ['accuracy']"
        raise UnsupportedError(f"{what} is {metrics!r}", remedy)
    if several and metrics and not any(len(path) > 1 for path in outputs.paths()):
        unknown = set(metrics) - set(outputs.names) if isinstance(metrics, Mapping) else ()
        if unknown or (not isinstance(metrics, Mapping) and len(metrics) != outputs.count):
            wrong = f"{what} is {metrics!r}, the model has {outputs.text()}"
            raise UnsupportedError(wrong, "give a list with one entry an output, or a dict by their names")
    for metric in leaves_of(metrics):
        if metric in ("accuracy", "acc", "crossentropy", "ce") or callable(metric) or (several and metric is None):
            continue
        try:
            keras.metrics.get(metric)
        except (ValueError, TypeError) as fault:
            raise UnsupportedError(f"the metric {metric!r} is unknown to Keras", "give names or objects of keras.metrics") from fault


def read_weights(model: Any, graph: LayerGraph) -> dict[str, np.ndarray]:
    """Return a Keras model's whole weights by variable key.

    Parameters
    ----------
    model : keras.Model that `graph` was read from, or a clone.
    """
    return {key: np.array(variable) for key, variable in _variables(model, graph).items()}


def with_initial_slots(graph: LayerGraph, rule: UpdateRule, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return values with the slots that are not zero before the first step, where they are missing.

    Parameters
    ----------
    graph : a graph that was read from a model in memory.
    rule : the optimizer's update rule.
    values : variable or slot key -> whole array.
    """
    full_values = dict(values)
    for index, layer in enumerate(graph.layers):
        for variable in layer.variables if layer.shared_with is None else ():
            key = variable_key(index, variable.name)
            if variable.trainable:
                slots = rule.initial_slots(values[key], weights_of(layer)[variable.name])
                full_values.update({slot_key(key, name): slot for name, slot in slots.items() if slot_key(key, name) not in values})
    return full_values


def with_averages(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return values in which variables are the averages that an optimizer keeps of them.

    Parameters
    ----------
    values : variable or slot key -> whole array.
    """
    end = f"/{AVERAGE}"
    return {**values, **{key.removesuffix(end): value for key, value in values.items() if key.endswith(end)}}


def write_weights(model: Any, graph: LayerGraph, values: Mapping[str, np.ndarray]) -> None:
    """Assign whole values, by variable key, to a Keras model's weights."""
    _assign(_variables(model, graph), values)
    _finalize(model)


def _finalize(model: Any) -> None:
    """Let layers that compute with copies of their weights (Normalization) take the new ones, in nested models too."""
    for layer in model.layers:
        if hasattr(layer, "layers"):
            _finalize(layer)
        elif hasattr(layer, "finalize_state"):
            layer.finalize_state()


def _assign(variables: Mapping[str, Any], values: Mapping[str, np.ndarray]) -> None:
    for key, variable in variables.items():
        variable.assign(values[key])


def _variables(model: Any, graph: LayerGraph) -> dict[str, Any]:
    """Return the Keras variables by key, those of a layer that is called more than once under its first call."""
    variables = {}
    for index, (layer, node) in enumerate(zip(graph.layers, read_wiring(model).nodes, strict=True)):
        if layer.shared_with is None:
            live = weights_of(dataclasses.replace(layer, live=node.call or LiveCall(node.live, None))) if layer.variables else {}
            variables.update({variable_key(index, variable.name): live[variable.name] for variable in layer.variables})
    return variables
