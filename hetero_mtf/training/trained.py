"""What steps and tests give: losses and metrics by name."""

from __future__ import annotations

from typing import NamedTuple

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.program.batch_arrays import BatchArrays, Result
from hetero_mtf.program.losses import loss_elements
from hetero_mtf.program.objective import Objective
from hetero_mtf.training.keras_side import KerasSide


class Trained(NamedTuple):
    """What a step gave of one batch.

    Parameters
    ----------
    size : its samples.
    losses, metrics : its losses, and the metrics so far, by name.
    """

    size: int
    losses: dict[str, float]
    metrics: dict[str, float]


def trained(objective: Objective, keras_side: KerasSide, batch: BatchArrays, step_result: Result) -> Trained:
    """Return the loss, with those of several outputs, and the metrics so far where the outputs were fetched.

    Parameters
    ----------
    objective : the loss of each output.
    keras_side : has the metrics.
    batch, step_result : of a step or a test.
    """
    names = [part.name for part in objective if part is not None]
    loss, parts = shown_losses(objective, batch.graph or keras_side.graph, batch.size, step_result)
    losses = {"loss": loss, **(dict(zip(names, parts, strict=True)) if len(names) > 1 else {})}
    metrics = {} if step_result.outputs is None else keras_side.update_metrics(batch.y, step_result.outputs, batch.metric_weight)
    return Trained(batch.size, losses, metrics)


def shown_losses(objective: Objective, graph: LayerGraph, size: int, step_result: Result) -> tuple[float, tuple[float, ...]]:
    """Return the loss of a batch and those of its outputs as Keras shows them.

    A loss without reduction trains by the sum of its values, and is shown as their mean.

    Parameters
    ----------
    objective : the loss of each output.
    graph : the network.
    size : samples of the batch.
    step_result : of a step or a test.
    """
    total, parts = step_result.loss, []
    losses = [(part, graph.layers[index].output_shape) for part, index in zip(objective, graph.outputs, strict=True) if part is not None]
    for (part, shape), value in zip(losses, step_result.parts, strict=True):
        if part.loss.reduction in (None, "none"):
            mean = value / (size * loss_elements(part.loss, shape))
            total, value = total + part.weight * (mean - value), mean
        parts.append(value)
    return total, tuple(parts)
