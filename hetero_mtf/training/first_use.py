"""What a trainer is given by default: the settings of a compiled model, and a plan that is made for the first batch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hetero_mtf.data.factory import is_array
from hetero_mtf.data.source import BatchSource, checked_steps
from hetero_mtf.errors import DataError, UnsupportedError
from hetero_mtf.graph.structure import leaves_of
from hetero_mtf.keras_reading.private_names import compiled_with
from hetero_mtf.training.keras_side import Settings
from hetero_mtf.training.run.run import Run

BATCH_SIZE = 32  # of arrays, where none is given, as in Keras


def settings_of(model: Any, given: Settings, added: bool = False) -> Settings:
    """Return what is given, and for the rest what the model was compiled with.

    Parameters
    ----------
    model : keras.Model.
    given : None for what is not given.
    added : whether layers add to the loss, so that there need be no other.

    Raises
    ------
    UnsupportedError
        If there is no loss.
    """
    optimizer, loss, loss_weights, metrics, weighted_metrics = given
    compiled = bool(getattr(model, "compiled", False))
    if compiled and loss is None:
        loss = getattr(model, "loss", None)
        loss_weights = (
            compiled_with(model)[0] if loss_weights is None and loss is not None else loss_weights
        )
    if loss is None and not added:
        raise UnsupportedError("there is no loss to train by", "compile the model with one, or give loss")
    if compiled and optimizer is None:
        optimizer = model.optimizer
    if compiled:
        _, own, own_weighted = compiled_with(model)
        metrics = own if metrics is None else metrics
        weighted_metrics = own_weighted if weighted_metrics is None else weighted_metrics
    optimizer = "sgd" if optimizer is None else optimizer
    return Settings(optimizer, loss, loss_weights, () if metrics is None else metrics, () if weighted_metrics is None else weighted_metrics)


def first_size(x: Any, batch_size: int | None, are_arrays: bool) -> tuple[Any, int]:
    """Return data of the same samples, and the samples of their first batch.

    Parameters
    ----------
    x : arrays, or a stream of batches, of which the first is looked at.
    batch_size : samples a batch of arrays; None for those of the stream, or 32 of arrays.
    are_arrays : whether it is arrays.

    Raises
    ------
    DataError
        If a stream is empty, or gives no arrays.
    """
    if batch_size is not None:
        return x, batch_size
    if isinstance(x, BatchSource):
        size = getattr(x, "batch_size", None)
        if size is None:
            raise DataError("there is no plan yet, and the source of batches does not tell their size", "give batch_size")
        return x, int(size)
    if are_arrays:
        return x, BATCH_SIZE
    if hasattr(x, "__next__"):
        first = next(x, None)
        return _followed(first, x), _samples(first)
    item = x[0] if hasattr(x, "__getitem__") and hasattr(x, "__len__") else next(iter(x), None)
    return x, _samples(item)


def _followed(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield from itertools.chain([first], rest)


def _samples(item: Any) -> int:
    leaves = leaves_of(item[0] if isinstance(item, (list, tuple)) else item)
    shape: Any = getattr(leaves[0], "shape", None) if item is not None and leaves else None
    if not shape:
        raise DataError("the stream gives no batch of arrays", "make it give (x, y) with the samples along the first dimension")
    return int(shape[0])


def sized(
    run: Run, x: Any, y: Any, batch_size: int | None, steps: int | None = None, labels: bool = True, verbose: str | int = 0
) -> tuple[Any, int]:
    """Return the data, and the samples of a batch of arrays, after a plan was made for their batches where there is none.

    Parameters
    ----------
    run : the run.
    x, y : arrays, several packed as the model's inputs and outputs, or a stream of batches as x.
    batch_size : samples a batch of arrays; None for the plan's, or with `steps` as many as let these take all samples.
    steps : batches at most; None for all.
    labels : whether there are any.
    verbose : 0 for no line that says which plan was chosen.

    Raises
    ------
    HeteroError
        If there is no plan and there can be none.
    """
    are_arrays = is_array(x) or run.network.form.holds_arrays(x, y, labels)
    steps = checked_steps(steps)
    if are_arrays and batch_size is None and steps is not None:
        batch_size = -(-len(leaves_of(x)[0]) // steps)  # as in Keras: the steps take all samples
    if not run.plans.has_plan:
        x, size = first_size(x, batch_size, are_arrays)
        run.prepare(size, verbose)
    return x, run.plans.plan.batch_size if batch_size is None else batch_size
