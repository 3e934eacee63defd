"""NaN and infinity: where they are in a state, and which files a state with them may not replace."""

from __future__ import annotations

import os
from collections.abc import Mapping

import numpy as np

from hetero_mtf.data.array import check_finite
from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.errors import DataError, NotFiniteError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.training.array_archive import DAMAGED, read_archive

_REMEDY = "use a smaller learning rate or clip the gradients, or let training go on with keep_going=True (--keep-going)"


def is_finite(values: Mapping[str, np.ndarray]) -> bool:
    """Return whether all arrays are free of NaN and infinity."""
    return all(bool(np.isfinite(value).all()) for value in values.values())


def first_not_finite(graph: LayerGraph, values: Mapping[str, np.ndarray]) -> str | None:
    """Return the name of the first layer, in the order of the graph, that has NaN or infinity in its weights or their slots.

    Parameters
    ----------
    values : variable or slot key -> whole array.
    """
    layers = [int(key.split("/")[0]) for key, value in values.items() if not np.isfinite(value).all()]
    return graph.layers[min(layers)].name if layers else None


def loss_fault(graph: LayerGraph, values: Mapping[str, np.ndarray], step: int, loss: float, batch: Batch) -> NotFiniteError:
    """Return the error for a step whose loss is NaN or infinite.

    It names the first layer, in the order of the graph, that has such numbers in its weights or slots after the step, and the samples
    of the batch that have them.

    Parameters
    ----------
    values : variable or slot key -> whole array, after the step.
    step : number of the step, from 1.
    loss : its loss.
    batch : what it was trained on.
    """
    layer = first_not_finite(graph, values)
    where = "all weights are still finite" if layer is None else f"{layer} is the first layer whose weights are not finite after it"
    for part in batch.x if isinstance(batch.x, tuple) else (batch.x,):
        try:
            check_finite(part, "x of its batch")
        except DataError as fault:
            return NotFiniteError(f"the loss of step {step} is {loss:g} and {where}: {fault}")
    return NotFiniteError(f"the loss of step {step} is {loss:g} and {where}", _REMEDY)


def check_replacement(
    path: str | os.PathLike[str], graph: LayerGraph, values: Mapping[str, np.ndarray], step: int, only_finite: bool
) -> None:
    """Raise if a state has NaN or infinity and a finite one is in the file that it would replace.

    Parameters
    ----------
    path : path of the file.
    values : variable or slot key -> whole array.
    step : steps taken.
    only_finite : whether to raise too where there is no finite state to lose.

    Raises
    ------
    NotFiniteError
        Naming the first layer concerned; nothing is written.
    """
    layer = first_not_finite(graph, values)
    if layer is not None and (only_finite or holds_finite(path)):
        wrong = f"the state after step {step} is not saved to {path}, as it is not finite from layer {layer} on"
        raise NotFiniteError(wrong, _REMEDY)


def holds_finite(path: str | os.PathLike[str]) -> bool:
    """Return whether a file exists and is no state saved as not finite; older states have no such entry and count as finite."""
    if not os.path.exists(path):
        return False
    try:
        meta, _ = read_archive(path, names=())
        return not isinstance(meta, dict) or meta.get("finite", True) is not False
    except (OSError, *DAMAGED):
        return True
