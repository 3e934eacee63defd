"""Batches as programs take them: checked, in the model's dtype, with weights and the loss's scale."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from hetero_mtf.data.batch import check_batch
from hetero_mtf.errors import DataError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.program.losses import loss_elements


@dataclasses.dataclass(frozen=True)
class Feed:
    """One batch ready for a program.

    Parameters
    ----------
    x : (batch, ...) samples in the model's dtype.
    y : (batch, ...) targets.
    weight : (batch,) sample weights in the model's dtype.
    scale : factor that makes the weighted sum of losses the loss.
    weighted : whether the user gave weights.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    scale: float
    weighted: bool


def samples(graph: LayerGraph, x: Any) -> np.ndarray:
    """Return samples in the model's dtype.

    Raises
    ------
    DataError
        If their shape is not the input's.
    """
    found = np.asarray(check_batch(x, None, None).x, dtype=graph.dtype)
    expected = graph.layers[0].output_shape
    if found.shape[1:] != expected:
        raise DataError(f"x has samples of shape {found.shape[1:]}, the network's input is {expected}; reshape x")
    return found


def feed(graph: LayerGraph, loss: Any, x: Any, y: Any, sample_weight: Any = None) -> Feed:
    """Return a batch ready to train on or to test.

    Parameters
    ----------
    graph : the network.
    loss : keras.losses.Loss.
    x, y, sample_weight : (batch, ...) arrays; weights may be None.

    Raises
    ------
    DataError
        If shapes, lengths or labels do not fit the network and its loss.
    """
    batch = check_batch(x, y, sample_weight)
    found = samples(graph, batch.x)
    if batch.y is None:
        raise DataError("y is missing; pass the targets")
    targets = _targets(graph, loss, batch.y)
    weights = np.ones(len(found)) if batch.sample_weight is None else batch.sample_weight
    scale = _scale(loss.reduction, weights, len(found) * loss_elements(loss, graph.layers[-1].output_shape), sample_weight is not None)
    return Feed(found, targets, weights.astype(graph.dtype), scale, sample_weight is not None)


def _scale(reduction: str, weights: np.ndarray, elements: int, weighted: bool) -> float:
    if reduction == "sum":
        return 1.0
    divisor = float(weights.sum()) if reduction == "mean_with_sample_weight" and weighted else float(elements)
    return 1.0 / divisor if divisor else 0.0


def _targets(graph: LayerGraph, loss: Any, y: np.ndarray) -> np.ndarray:
    output = graph.layers[-1].output_shape
    if type(loss).__name__ != "SparseCategoricalCrossentropy":
        shape = y.shape[1:] or (1,)
        if shape != output:
            raise DataError(f"y has targets of shape {y.shape[1:]}, the network's output is {output}; give targets of the output's shape")
        return y.astype(graph.dtype).reshape(len(y), *output)
    if y.shape[1:] not in (output[:-1], (*output[:-1], 1)):
        raise DataError(
            f"y has labels of shape {y.shape[1:]}, the network's output is {output}; give one class number a sample"
        )
    if y.size and (y.min() < 0 or y.max() >= output[-1]):
        raise DataError(
            f"y has class numbers from {y.min()} to {y.max()}, the network has the {output[-1]} classes 0 to {output[-1] - 1}; relabel y"
        )
    labels = y.astype(np.int32).reshape(len(y), *output[:-1])
    if y.dtype.kind == "f" and not np.array_equal(labels.reshape(y.shape), y):
        raise DataError(f"y has values such as {y[labels.reshape(y.shape) != y][0]:g}, this loss needs class numbers; give whole numbers")
    return labels
