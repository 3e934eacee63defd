"""Batches as programs take them: checked, in the model's dtype, with weights and the loss's scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from hetero_mtf.data.batch import Batch
from hetero_mtf.errors import DataError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.losses import WITH_CLASS_NUMBERS, is_samplewise, loss_elements
from hetero_mtf.program.objective import Objective


def samples(graph: LayerGraph, x: Any) -> tuple[np.ndarray, ...]:
    """Return samples in the model's dtype, one array for each input.

    Parameters
    ----------
    x : (batch, ...) array, or a tuple of them in the order of the inputs.

    Raises
    ------
    DataError
        If a shape is not its input's.
    """
    given = x if isinstance(x, tuple) else (x,)
    _check_count("x", given, len(graph.inputs))
    arrays = tuple(_of_layer(graph.layers[index], graph.dtype, array) for index, array in zip(graph.inputs, given))
    for index, array in zip(graph.inputs, arrays):
        layer = graph.layers[index]
        if array.shape[1:] != layer.output_shape:
            called = "x" if len(arrays) == 1 else f"x of {layer.name}"
            raise DataError(f"{called} has samples of shape {array.shape[1:]}, the network's input is {layer.output_shape}; reshape x")
    return arrays


def _of_layer(layer: Layer, dtype: str, array: Any) -> np.ndarray:
    """Return the samples of an input; single numbers get a last dimension, as in Keras."""
    own = np.asarray(array, layer.dtype(dtype))
    return own[:, np.newaxis] if own.ndim == 1 and layer.output_shape == (1,) else own


def feed(graph: LayerGraph, objective: Objective, batch: Batch) -> BatchArrays:
    """Return a batch ready to train on or to test.

    Parameters
    ----------
    objective : the loss of each output.
    batch : what `check_batch` gives.

    Raises
    ------
    DataError
        If shapes or labels do not fit the network and its losses.
    """
    x = samples(graph, batch.x)
    count = len(graph.outputs)
    if batch.y is None:
        raise DataError("y is missing; pass the targets")
    targets = batch.y if isinstance(batch.y, tuple) else (batch.y,)
    _check_count("y", targets, count)
    given = batch.sample_weight if isinstance(batch.sample_weight, tuple) else (batch.sample_weight,) * count
    weights = [np.ones(batch.size) if weight is None else weight for weight in given]
    shapes = [graph.layers[index].output_shape for index in graph.outputs]
    called = ["y"] if count == 1 else [f"y of {graph.layers[index].name}" for index in graph.outputs]
    y = [
        target if part is None or target is None else _targets(graph.dtype, part.loss, target, shape, name)
        for part, target, shape, name in zip(objective, targets, shapes, called)
    ]
    scale = [
        0.0 if part is None else _scale(part.loss, w, batch.size * loss_elements(part.loss, shape), known is not None)
        for part, w, shape, known in zip(objective, weights, shapes, given)
    ]
    return BatchArrays(x, tuple(y), tuple(weight.astype(graph.dtype) for weight in weights), tuple(scale))


def _check_count(what: str, arrays: tuple[Any, ...], count: int) -> None:
    if len(arrays) != count:
        raise DataError(f"{what} of a batch has {len(arrays)} arrays and the network takes {count}; hand over a tuple of {count}")


def _scale(loss: Any, weights: np.ndarray, elements: int, weighted: bool) -> float:
    """Return the factor of a loss; where Keras itself computes its value, whether there are weights."""
    if not is_samplewise(loss):
        return float(weighted)
    reduction = loss.reduction
    if reduction == "sum":
        return 1.0
    divisor = float(weights.sum()) if reduction == "mean_with_sample_weight" and weighted else float(elements)
    return 1.0 / divisor if divisor else 0.0


def _targets(dtype: str, loss: Any, y: np.ndarray, output: tuple[int, ...], called: str) -> np.ndarray:
    if not is_samplewise(loss):
        return y.astype(dtype)  # Keras, too, hands all losses targets of its own dtype
    if type(loss).__name__ != WITH_CLASS_NUMBERS:
        shape = y.shape[1:] or (1,)
        if shape != output:
            raise DataError(
                f"{called} has targets of shape {y.shape[1:]}, the network's output is {output}; give targets of the output's shape"
            )
        return y.astype(dtype).reshape(len(y), *output)
    if y.shape[1:] not in (output[:-1], (*output[:-1], 1)):
        raise DataError(f"{called} has labels of shape {y.shape[1:]}, the network's output is {output}; give one class number a sample")
    if y.size and (y.min() < 0 or y.max() >= output[-1]):
        classes = f"the network has the {output[-1]} classes 0 to {output[-1] - 1}"
        raise DataError(f"{called} has class numbers from {y.min()} to {y.max()}, {classes}; relabel y")
    labels = y.astype(np.int32).reshape(len(y), *output[:-1])
    if y.dtype.kind == "f" and not np.array_equal(labels.reshape(y.shape), y):
        raise DataError(
            f"{called} has values such as {y[labels.reshape(y.shape) != y][0]:g}, this loss needs class numbers; give whole numbers"
        )
    return labels


def checked_seed(seed: Any) -> int:
    """Return the seed of dropout and shuffling.

    Raises
    ------
    DataError
        If it is no whole number from 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise DataError(f"seed is {seed!r}; use a whole number from 0")
    return int(seed)
