"""Batches as programs take them: checked, in the model's dtype, with weights and the loss's scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.data.form import Form
from hetero_mtf.errors import DataError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.keras_reading.wiring import Wiring
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.losses import WITH_CLASS_NUMBERS, is_samplewise, loss_elements
from hetero_mtf.program.objective import Objective


def form_of(wiring: Wiring, graph: LayerGraph, objective: Objective) -> Form:
    """Return how users pack a model's samples, targets and weights.

    Parameters
    ----------
    wiring : the model's wiring.
    objective : the loss of each output.
    """
    ranks = tuple(len(graph.layers[index].output_shape) + 1 for index in graph.inputs)
    number_ranks = tuple(
        len(graph.layers[index].output_shape) if part and type(part.loss).__name__ == WITH_CLASS_NUMBERS else 0
        for index, part in zip(graph.outputs, objective)
    )
    return Form(wiring.input_structure, wiring.output_structure, tuple(part is not None for part in objective), ranks, number_ranks)


def samples(graph: LayerGraph, x: Any, short: bool = False) -> tuple[np.ndarray, ...]:
    """Return samples in the model's dtype, one array for each input.

    Parameters
    ----------
    x : (batch, ...) array, or a tuple of them in the order of the inputs.
    short : whether to leave arrays of a shorter dtype, such as images of uint8, that casts exactly to the model's.

    Raises
    ------
    DataError
        If a shape is not its input's.
    """
    given = x if isinstance(x, tuple) else (x,)
    _check_count("x", given, len(graph.inputs))
    arrays = tuple(_of_layer(graph.layers[index], graph.dtype, array, short) for index, array in zip(graph.inputs, given))
    for index, array in zip(graph.inputs, arrays):
        layer = graph.layers[index]
        if array.shape[1:] != layer.output_shape:
            called = "x" if len(arrays) == 1 else f"x of {layer.name}"
            raise DataError(f"{called} has samples of shape {array.shape[1:]}, the network's input is {layer.output_shape}", "reshape x")
    return arrays


def _of_layer(layer: Layer, dtype: str, array: Any, short: bool) -> np.ndarray:
    """Return the samples of an input; where they lack a last dimension of 1, or have it in addition, it is adapted, as in Keras."""
    given, wanted = np.asarray(array), np.dtype(layer.dtype(dtype))
    own = given if short and _is_exact(given.dtype, wanted) else np.asarray(given, wanted)
    rank = len(layer.output_shape) + 1
    if own.ndim == rank - 1 and layer.output_shape[-1:] == (1,):
        return own[..., np.newaxis]
    return own[..., 0] if own.ndim == rank + 1 and own.shape[-1] == 1 else own


def _is_exact(given: np.dtype, wanted: np.dtype) -> bool:
    """Return whether a cast to a wider dtype loses nothing."""
    return given.kind in "biuf" and given.itemsize < wanted.itemsize and bool(np.can_cast(given, wanted, "safe"))


def feed(graph: LayerGraph, objective: Objective, batch: Batch, short: bool = False) -> BatchArrays:
    """Return a batch ready to train on or to test.

    Parameters
    ----------
    objective : the loss of each output.
    batch : what `check_batch` gives.
    short : as for `samples`.

    Raises
    ------
    DataError
        If shapes or labels do not fit the network and its losses.
    """
    x = samples(graph, batch.x, short)
    count = len(graph.outputs)
    if batch.y is None and any(objective):
        raise DataError("y is missing", "pass the targets")
    targets = (None,) * count if batch.y is None else batch.y if isinstance(batch.y, tuple) else (batch.y,)
    _check_count("y", targets, count)
    given = batch.sample_weight if isinstance(batch.sample_weight, tuple) else (batch.sample_weight,) * count
    shapes = [graph.layers[index].output_shape for index in graph.outputs]
    places = [""] if count == 1 else [f" of {graph.layers[index].name}" for index in graph.outputs]
    called = [f"y{place}" for place in places]
    weights = [
        np.ones(batch.size) if weight is None else weight if part is None else _weights(part.loss, weight, shape, f"sample_weight{place}")
        for part, weight, shape, place in zip(objective, given, shapes, places)
    ]
    y = [
        target if part is None or target is None else _targets(graph.dtype, part.loss, target, shape, name)
        for part, target, shape, name in zip(objective, targets, shapes, called)
    ]
    scale = [
        0.0 if part is None else _scale(part.loss, w, batch.size * loss_elements(part.loss, shape), known is not None)
        for part, w, shape, known in zip(objective, weights, shapes, given)
    ]
    return BatchArrays(x, tuple(y), tuple(weight.astype(graph.dtype) for weight in weights), tuple(scale), given)


def _check_count(what: str, arrays: tuple[Any, ...], count: int) -> None:
    if len(arrays) != count:
        raise DataError(f"{what} of a batch has {len(arrays)} arrays and the network takes {count}", f"hand over a tuple of {count}")


def _scale(loss: Any, weights: np.ndarray, elements: int, weighted: bool) -> float:
    """Return the factor of a loss; where Keras itself computes its value, whether there are weights."""
    if not is_samplewise(loss):
        return float(weighted)
    reduction = loss.reduction
    if reduction == "sum":
        return 1.0
    divisor = float(weights.sum()) if reduction == "mean_with_sample_weight" and weighted else float(elements)
    return 1.0 / divisor if divisor else 0.0


def _weights(loss: Any, weights: np.ndarray, output: tuple[int, ...], called: str) -> np.ndarray:
    """Return weights of one dimension, or of those of the loss's values, by Keras's rules for ranks that differ by a dimension of 1.

    A loss whose value Keras itself computes is given them as they are.
    """
    values, own = output[:-1], weights.shape[1:]
    if not is_samplewise(loss) or weights.ndim == 1:
        return weights
    if len(own) == len(values) + 1 and own[-1] == 1:
        own = own[:-1]
    elif len(own) == len(values) - 1 and values[-1] == 1:
        own = (*own, 1)
    if len(own) != len(values) or any(extent not in (1, full) for extent, full in zip(own, values)):
        wrong = f"{called} has shape {weights.shape} and the loss gives ({', '.join(map(str, ('batch', *values)))}) values"
        raise DataError(wrong, "give one weight a sample, or one a value")
    return weights.reshape(len(weights), *own)


def _targets(dtype: str, loss: Any, y: np.ndarray, output: tuple[int, ...], called: str) -> np.ndarray:
    if not is_samplewise(loss):
        return y.astype(dtype)  # Keras, too, hands all losses targets of its own dtype
    if type(loss).__name__ != WITH_CLASS_NUMBERS:
        shape = of_rank(y.shape[1:], output)
        if shape != output:
            raise DataError(
                f"{called} has targets of shape {y.shape[1:]}, the network's output is {output}", "give targets of the output's shape"
            )
        return y.astype(dtype).reshape(len(y), *output)
    if y.shape[1:] not in (output[:-1], (*output[:-1], 1)):
        raise DataError(f"{called} has labels of shape {y.shape[1:]}, the network's output is {output}", "give one class number a sample")
    if y.size and (y.min() < 0 or y.max() >= output[-1]):
        classes = f"the network has the {output[-1]} classes 0 to {output[-1] - 1}"
        raise DataError(f"{called} has class numbers from {y.min()} to {y.max()}, {classes}", "relabel y")
    labels = y.astype(np.int32).reshape(len(y), *output[:-1])
    if y.dtype.kind == "f" and not np.array_equal(labels.reshape(y.shape), y):
        raise DataError(
            f"{called} has values such as {y[labels.reshape(y.shape) != y][0]:g}, this loss needs class numbers", "give whole numbers"
        )
    return labels


def of_rank(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> tuple[int, ...]:
    """Return a shape with a last dimension of 1 added or dropped, as Keras does, where that gives it the rank that is wanted.

    Parameters
    ----------
    shape : of a sample or its target.
    wanted : shape of the network's input or output, None for an open extent.
    """
    if len(shape) == len(wanted) - 1 and wanted[-1:] == (1,):
        return (*shape, 1)
    return shape[:-1] if len(shape) == len(wanted) + 1 and shape[-1] == 1 else shape


def checked_seed(seed: Any) -> int:
    """Return the seed of dropout and shuffling.

    Raises
    ------
    DataError
        If it is no whole number from 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise DataError(f"seed is {seed!r}", "use a whole number from 0")
    return int(seed)
