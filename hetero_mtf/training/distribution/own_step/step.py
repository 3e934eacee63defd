"""OwnStep: a training step of the user's own as a functional model, with what its metrics are updated with."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.operations import is_symbol
from hetero_mtf.keras_reading.private_names import calls_of, source_of
from hetero_mtf.training.distribution.own_step.recorder import MetricValue, Recorder, Update, holds_metrics
from hetero_mtf.training.distribution.own_step.wrappers import wrappers

STEPS = ("train_step", "compute_loss")
"""Methods by which a class trains in its own way."""


def has_own_step(model: Any) -> bool:
    """Return whether a model's class has a training step or loss of its own, or layers of it update metrics.

    Parameters
    ----------
    model : keras.Model.
    """
    return holds_metrics(model) or any(not getattr(type(model), name).__module__.startswith("keras.") for name in STEPS)


class _Read:
    """Stands for a tensor that is known with each batch.

    Parameters
    ----------
    source, at : "batch" or "outputs", of the step's model, and which of these.
    shape : of an output that has no batch, which is given once for each sample; None of another one.
    """

    def __init__(self, source: str, at: int, shape: tuple[int, ...] | None = None) -> None:
        self.source, self.at, self.shape = source, at, shape


@dataclasses.dataclass(frozen=True)
class OwnStep:
    """A training step that was followed on symbolic tensors.

    Parameters
    ----------
    function : keras.Functional from the arrays of a batch that are read to the values that metrics are updated with; the loss is added.
    read : positions, among all arrays of a batch, of those that it reads.
    updates : of metrics, in order, with `_Read` for tensors.
    logs : what the step returns, with `MetricValue` for results of metrics and `_Read` for tensors.
    untouched : trainable variables that it does not train.
    """

    function: Any
    read: tuple[int, ...]
    updates: tuple[Update, ...]
    logs: Mapping[str, Any]
    untouched: tuple[Any, ...] = ()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Let the weights that the step does not train pass for frozen ones while the context is open."""
        for variable in self.untouched:
            variable.trainable = False
        try:
            yield
        finally:
            for variable in self.untouched:
                variable.trainable = True

    def values(self, part: Any, arrays: Sequence[Any], outputs: Sequence[Any]) -> Any:
        """Return arguments or logs with the values of a batch.

        Parameters
        ----------
        part : nested structure with `_Read` for tensors.
        arrays : all arrays of the batch.
        outputs : of the step's model.
        """
        def value(leaf: Any) -> Any:
            if not isinstance(leaf, _Read):
                return leaf
            tensor = (arrays if leaf.source == "batch" else outputs)[leaf.at]
            return tensor if leaf.shape is None else keras.ops.reshape(tensor[0], leaf.shape)

        return keras.tree.map_structure(value, part)


def leaves_in(data: Any) -> list[Any]:
    """Return the arrays of a batch in a fixed order, without what is missing.

    Parameters
    ----------
    data : a batch as Keras hands it to a step.
    """
    return [leaf for leaf in keras.tree.flatten(data) if leaf is not None]


def followed_step(model: Any, data: Any) -> OwnStep:
    """Return the training step of a model as it acts on batches of this form.

    Parameters
    ----------
    model : compiled keras.Model with a step of its own.
    data : a batch as Keras hands it to a step, with NumPy arrays.

    Raises
    ------
    UnsupportedError
        If the step cannot be followed, or does more than a forward pass, one loss, its gradients, and one update.
    """
    symbols = keras.tree.map_structure(lambda array: None if array is None else _symbol(array), data)
    recorder = Recorder(model)
    step = type(model).train_step
    step = getattr(step, "python_function", step)  # of a tf.function
    try:
        with recorder.recording():
            logs = step(model, symbols)
        _check(model, recorder, logs)
        applied = {id(variable) for variable in recorder.applied}
        untouched = tuple(variable for variable in model.trainable_variables if id(variable) not in applied)
        return dataclasses.replace(_own_step(recorder, leaves_in(symbols), logs), untouched=untouched)
    except UnsupportedError as fault:
        raise refused(model, str(fault)) from fault
    except Exception as fault:  # the step may raise anything on symbolic tensors
        raise refused(model, f"{type(fault).__name__}: {_said(fault)}".rstrip(": ")) from fault


def refused(model: Any, reason: str) -> UnsupportedError:
    """Return the error for a step that is not followed.

    Parameters
    ----------
    model : its model.
    reason : why.
    """
    own = " and ".join(name for name in STEPS if not getattr(type(model), name).__module__.startswith("keras."))
    own = f"{own} of its own" if own else "layers that update metrics"
    wrong = f"{type(model).__name__} has {own}, which cannot be followed on symbolic tensors ({reason})"
    remedy = "write it as one forward pass, one loss, tape.gradient by all trainable weights and optimizer.apply_gradients"
    return UnsupportedError(wrong, f"{remedy}, or train this model by Keras alone")


def _said(fault: Exception) -> str:
    """Return what an exception says in one line; of one that Keras put a call around, the part that it prints in bold."""
    text = str(fault).strip()
    bold = text.partition("\x1b[1m")[2].partition("\x1b[0m")[0]
    lines = [line.strip() for line in (bold or text).splitlines() if line.strip()]
    return (lines[-1] if bold else lines[0]) if lines else ""


def _symbol(array: Any) -> Any:
    if array.dtype.kind not in "biuf":
        raise UnsupportedError(f"the batch has an array of {array.dtype}")
    return keras.Input(tuple(array.shape[1:]), dtype=str(array.dtype))


def _check(model: Any, recorder: Recorder, logs: Any) -> None:
    """Raise unless a step is one loss with one update of all weights."""
    if len(recorder.losses) != 1:
        raise UnsupportedError(f"it takes gradients {len(recorder.losses)} times")
    applied, trained = ({id(variable) for variable in variables} for variables in (recorder.applied, model.trainable_variables))
    if not applied or not applied <= trained or len(recorder.applied) != len(applied):
        raise UnsupportedError(f"the model's optimizer updates {len(recorder.applied)} weights, {len(applied & trained)} of them trainable")
    if not isinstance(logs, Mapping):
        raise UnsupportedError(f"it returns {type(logs).__name__}, no dict")
    penalties = any(getattr(variable, "regularizer", None) is not None for variable in model.trainable_variables)
    added = penalties or recorder.layers_add
    if recorder.asked_for_losses and added:
        raise UnsupportedError("it reads `losses`, which layers and regularizers add")
    if added and not any(recorder.losses[0] is value for value in recorder.default_losses):
        raise UnsupportedError("layers or regularizers add to the loss, and it is not that of Keras's own compute_loss")


def _own_step(recorder: Recorder, symbols: Sequence[Any], logs: Mapping[str, Any]) -> OwnStep:
    loss = recorder.losses[0]
    if len(loss.shape):
        loss = keras.ops.sum(loss)  # the gradient of a vector is that of its sum
    places = {id(symbol): at for at, symbol in enumerate(symbols)}
    outputs: list[Any] = [wrappers().loss(name="step_loss")(loss)]
    known = {id(loss): 0}

    def reading(leaf: Any) -> Any:
        if not is_symbol(leaf):
            return leaf
        if id(leaf) in places:
            return _Read("batch", places[id(leaf)])
        if id(leaf) not in known:
            known[id(leaf)] = len(outputs)
            outputs.append(leaf)
        has_batch = len(leaf.shape) > 0 and leaf.shape[0] is None
        return _Read("outputs", known[id(leaf)], None if has_batch else tuple(leaf.shape))

    updates = tuple(Update(each.metric, *keras.tree.map_structure(reading, (each.arguments, each.options))) for each in recorder.updates)
    shown = {name: value if isinstance(value, MetricValue) else keras.tree.map_structure(reading, value) for name, value in logs.items()}
    read = _read_by(outputs, symbols)
    function = keras.Model([symbols[at] for at in read], outputs)
    _check_inference(function, recorder)
    return OwnStep(function, read, updates, shown)


def _read_by(outputs: Sequence[Any], symbols: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the symbols that outputs depend on."""
    left, seen, reached = list(outputs), set(), set()
    while left:
        tensor = left.pop()
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        operation, index, _ = source_of(tensor)
        node = calls_of(operation)[index]
        if node.is_input:
            reached.add(id(tensor))
        left += node.arguments.keras_tensors
    return tuple(at for at, symbol in enumerate(symbols) if id(symbol) in reached)


def _check_inference(function: Any, recorder: Recorder) -> None:
    """Raise if a layer is called in training and outside of it, each of which would have weights of its own."""
    inside = {id(variable) for each in recorder.inference.values() for variable in each.weights}
    others = [layer for layer in function.layers if not any(layer is each for each in recorder.inference.values())]
    both = [layer.name for layer in others if any(id(variable) in inside for variable in layer.weights)]
    if both:
        raise UnsupportedError(f"{both[0]} is called in training and outside of it")


class StepExtents:
    """Reads the model of a step, whose batches have samples of one shape.

    Parameters
    ----------
    step : the step.
    """

    def __init__(self, step: OwnStep) -> None:
        self._step = step

    def first_shapes(self, data: Any) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of a batch's arrays that the step reads.

        Parameters
        ----------
        data : a batch as Keras hands it to a step, with NumPy arrays.
        """
        leaves = leaves_in(data)
        return tuple(tuple(leaves[at].shape[1:]) for at in self._step.read)

    def shapes_of(self, x: Sequence[Any]) -> None:
        """Return None: no other shapes are read."""

    def function(self, shapes: Any) -> Any:
        """Return the model of the step."""
        return self._step.function

    def graph(self, shapes: Any) -> None:
        """Return None: there is no other graph."""


class StepMetrics:
    """Updates the metrics of a step of the user's own with what the cluster gave, as the step does.

    Parameters
    ----------
    step : the step.
    model : its model.

    Attributes
    ----------
    needs_outputs : whether predictions are read.
    updating : whether a batch is being counted now.
    """

    needs_outputs = True
    updating = False

    def __init__(self, step: OwnStep, model: Any) -> None:
        self._step, self._model = step, model
        self._update: Callable[..., Any] | None = None

    def build(self, data: Any) -> None:
        """Do nothing: metrics are built with their first update."""

    def update(self, data: Any, size: int, step_result: Any, graph: Any = None) -> dict[str, Any]:
        """Count a batch and return the logs.

        Parameters
        ----------
        data : a batch as Keras hands it to a step, with NumPy arrays.
        size : its samples.
        step_result : of a step; with outputs.
        graph : not looked at.
        """
        arrays = [np.asarray(leaf) for leaf in leaves_in(data)]
        outputs = [np.full(1, step_result.loss, keras.config.floatx()), *step_result.outputs[1:]]  # with what layers and regularizers add
        self.updating = True
        try:
            if self._update is None:
                logs = self._counted(arrays, outputs)  # which makes the variables of metrics
                self._update = self._counted if self._model.run_eagerly else tf.function(self._counted, reduce_retracing=True)
            else:
                logs = self._update([keras.ops.convert_to_tensor(array) for array in arrays], list(map(tf.convert_to_tensor, outputs)))
        finally:
            self.updating = False
        return logs

    def _counted(self, arrays: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        for metric, arguments, options in self._step.updates:
            given, named = self._step.values((arguments, options), arrays, outputs)
            metric.update_state(*given, **named)
        logs: dict[str, Any] = {}
        for name, value in self._step.logs.items():
            shown = value.metric.result() if isinstance(value, MetricValue) else self._step.values(value, arrays, outputs)
            logs.update(shown if isinstance(value, MetricValue) and isinstance(shown, dict) else {name: shown})
        return logs
