"""The metrics of a model in Keras's loops: Keras's own objects, updated with what a step gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.structure import Structure
from hetero_mtf.keras_reading.private_names import build_with, compile_loss, compile_metrics, loss_tracker
from hetero_mtf.program.batch_arrays import Result
from hetero_mtf.program.objective import Objective
from hetero_mtf.training.keras_side import masked_predictions
from hetero_mtf.training.trained import shown_losses

EAGER_UPDATES = 8
"""Batches of a form that are counted before a function is traced for them."""


def symbolic_batch(data: Any) -> Any:
    """Return the form of a batch, of any number of samples, for Keras to build with.

    Parameters
    ----------
    data : nested structure of arrays, and None.
    """
    def form(array: Any) -> Any:
        return None if array is None else tf.TensorSpec((None, *array.shape[1:]), array.dtype)

    return keras.tree.map_structure(form, data)


class ModelMetrics:
    """Updates a compiled model's loss trackers and metrics, in one TensorFlow function.

    The mean of every loss is one over samples. Metrics get the targets and weights that the user gave, not those shaped for the loss.

    Parameters
    ----------
    model : compiled keras.Model.
    graph : its LayerGraph.
    outputs : how it packs its outputs.
    objective : the loss of each output.

    Attributes
    ----------
    needs_outputs : whether the model has metrics besides its losses, which need its predictions.
    """

    def __init__(self, model: Any, graph: LayerGraph, outputs: Structure, objective: Objective) -> None:
        self._model, self._graph, self._outputs, self._objective = model, graph, outputs, objective
        self._own = type(model).compute_metrics is not keras.Model.compute_metrics
        self.needs_outputs = self._own or compile_metrics(model) is not None
        self._updating = False
        self._functions: dict[Any, Any] = {}  # by the form of what is counted, and whether its samples have the first shapes
        self._updates: dict[Any, int] = {}  # number of those that were counted without a function, by the same
        self._shapes: dict[Any, Any] = {}  # of the first samples of each form

    def build(self, data: Any) -> None:
        """Make the trackers of the outputs' losses and the metrics, as Keras does with the first batch.

        Parameters
        ----------
        data : (x, y, sample_weight) of a batch.
        """
        parts = (compile_metrics(self._model), compile_loss(self._model))
        if any(part is not None and not part.built for part in parts):
            build_with(self._model, symbolic_batch(data))

    def update(self, data: Any, size: int, step_result: Result, graph: LayerGraph | None = None) -> dict[str, Any]:
        """Count a batch and return the logs so far: name -> tensor, or what else the result of a metric is.

        Parameters
        ----------
        data : (x, y, sample_weight) as Keras handed them over.
        size : samples of the batch.
        step_result : of a step or a test of it; with outputs, where they are needed.
        graph : the network with the extents of this batch; None for that of the trainer.
        """
        x, y, sample_weight = data if self.needs_outputs else (None, None, None)
        x = x if self._own else None  # Keras's own does not look at it
        outputs = step_result.outputs if self.needs_outputs else ()
        loss, parts = shown_losses(self._objective, graph or self._graph, size, step_result)
        numbers = np.array([loss, *parts])
        values = (x, y, sample_weight, tuple(outputs or ()), numbers, np.float32(size))
        flat = [None if leaf is None else np.asarray(leaf) for leaf in keras.tree.flatten(values)]
        leaves = [leaf for leaf in flat if leaf is not None]
        form = tuple(None if leaf is None else (leaf.ndim, leaf.dtype) for leaf in flat)
        shapes = tuple(leaf.shape[1:] for leaf in leaves)
        fixed = self._shapes.setdefault(form, shapes) == shapes
        self._updating = True
        try:
            return self._update(values, leaves, fixed, form)
        finally:
            self._updating = False

    def _update(self, values: Any, leaves: Sequence[np.ndarray], fixed: bool, form: Any) -> dict[str, Any]:
        """Count values; by a function only where there are several of their form, as tracing one takes as long as dozens of updates."""
        function = self._functions.get((form, fixed))
        if function is None:
            count = self._updates[form, fixed] = self._updates.get((form, fixed), 0) + 1
            if count <= EAGER_UPDATES or self._model.run_eagerly:
                return self._counted(*values)
            function = self._functions[form, fixed] = self._function(values, leaves, fixed)
        logs: dict[str, Any] = function(*leaves)
        return logs

    def _function(self, values: Any, leaves: Sequence[np.ndarray], fixed: bool) -> Any:
        """Return a function of the leaves of values of one form, whatever their number of samples, that counts them.

        Parameters
        ----------
        values, leaves : of a batch.
        fixed : whether it takes samples of these shapes alone; else of all.
        """
        shapes = [(None, *(leaf.shape[1:] if fixed else (None,) * (leaf.ndim - 1))) if leaf.ndim else () for leaf in leaves]
        specs = [tf.TensorSpec(shape, leaf.dtype) for shape, leaf in zip(shapes, leaves, strict=True)]

        def counted(*leaves: Any) -> dict[str, Any]:
            left = iter(leaves)
            return self._counted(*keras.tree.map_structure(lambda leaf: None if leaf is None else next(left), values))

        return tf.function(counted, input_signature=specs)

    def _counted(self, x: Any, y: Any, sample_weight: Any, outputs: Sequence[Any], numbers: Any, size: Any) -> dict[str, Any]:
        model = self._model
        shown = loss_tracker(model)
        shown.update_state(tf.cast(numbers[0], shown.dtype), sample_weight=size)
        trackers = _trackers(model)
        for at, tracker in zip(self._places(trackers), trackers, strict=True):
            tracker.update_state(tf.cast(numbers[1 + at], tracker.dtype), sample_weight=size)
        if not self.needs_outputs:
            return dict(type(model).get_metrics_result(model))
        predictions = self._outputs.pack(masked_predictions(self._graph, outputs))
        return dict(model.compute_metrics(x, y, predictions, sample_weight))

    def _places(self, trackers: Sequence[Any]) -> Sequence[int]:
        """Return which of the losses of the outputs each tracker has; Keras orders outputs that are packed in a dict by their names."""
        names = [part.name for part in self._objective if part is not None]
        known = sorted(tracker.name for tracker in trackers) == sorted(set(names))
        return [names.index(tracker.name) for tracker in trackers] if known else range(len(trackers))

    @property
    def updating(self) -> bool:
        """Whether a batch is being counted now."""
        return self._updating


def _trackers(model: Any) -> list[Any]:
    """Return the trackers of the losses of a model's outputs."""
    loss = compile_loss(model)
    return [] if loss is None else list(loss.metrics)
