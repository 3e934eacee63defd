"""The metrics of a distributed model: Keras's own objects, updated with what a step gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.structure import Structure
from hetero_mtf.program.batch_arrays import Result
from hetero_mtf.program.objective import Objective
from hetero_mtf.training.keras_side import masked_predictions
from hetero_mtf.training.trained import shown_losses


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
        import keras

        self._model, self._graph, self._outputs, self._objective = model, graph, outputs, objective
        own = type(model).compute_metrics is not keras.Model.compute_metrics
        self.needs_outputs = own or model._compile_metrics is not None
        self._updating = False
        self._functions: dict[Any, Any] = {}  # by the form of what is counted

    def build(self, data: Any) -> None:
        """Make the trackers of the outputs' losses and the metrics, as Keras does with the first batch.

        Parameters
        ----------
        data : (x, y, sample_weight) of a batch.
        """
        parts = (self._model._compile_metrics, self._model._compile_loss)
        if any(part is not None and not part.built for part in parts):
            self._model._symbolic_build(data_batch=data)

    def update(self, data: Any, size: int, step_result: Result) -> dict[str, Any]:
        """Count a batch and return the logs so far: name -> tensor, or what else the result of a metric is.

        Parameters
        ----------
        data : (x, y, sample_weight) as Keras handed them over.
        size : samples of the batch.
        step_result : of a step or a test of it; with outputs, where they are needed.
        """
        import keras
        import tensorflow as tf

        x, y, sample_weight = data if self.needs_outputs else (None, None, None)
        outputs = step_result.outputs if self.needs_outputs else ()
        loss, parts = shown_losses(self._objective, self._graph, size, step_result)
        numbers = np.array([loss, *parts])
        values = (x, y, sample_weight, tuple(outputs or ()), numbers, np.float32(size))
        leaves = [np.asarray(leaf) for leaf in keras.tree.flatten(values) if leaf is not None]
        specs = tuple(tf.TensorSpec((None, *leaf.shape[1:]) if leaf.ndim else (), leaf.dtype) for leaf in leaves)
        form = str(keras.tree.map_structure(lambda leaf: leaf is None, values)), specs
        if form not in self._functions:
            self._functions[form] = self._function(values, specs)
        self._updating = True
        try:
            logs: dict[str, Any] = self._functions[form](*leaves)
        finally:
            self._updating = False
        return logs

    def _function(self, values: Any, specs: Sequence[Any]) -> Any:
        """Return a function of the leaves of values of one form, whatever their number of samples, that counts them."""
        import keras
        import tensorflow as tf

        def counted(*leaves: Any) -> dict[str, Any]:
            left = iter(leaves)
            return self._counted(*keras.tree.map_structure(lambda leaf: None if leaf is None else next(left), values))

        return counted if self._model.run_eagerly else tf.function(counted, input_signature=list(specs))

    def _counted(self, x: Any, y: Any, sample_weight: Any, outputs: Sequence[Any], numbers: Any, size: Any) -> dict[str, Any]:
        import tensorflow as tf

        model = self._model
        model._loss_tracker.update_state(tf.cast(numbers[0], model._loss_tracker.dtype), sample_weight=size)
        for at, tracker in enumerate(model._compile_loss.metrics if model._compile_loss is not None else ()):
            tracker.update_state(tf.cast(numbers[1 + at], tracker.dtype), sample_weight=size)
        if not self.needs_outputs:
            return dict(type(model).get_metrics_result(model))
        predictions = self._outputs.pack(masked_predictions(self._graph, outputs))
        return dict(model.compute_metrics(x, y, predictions, sample_weight))

    @property
    def updating(self) -> bool:
        """Whether a batch is being counted now."""
        return self._updating
