"""What steps and tests give: losses and metrics by name."""

from __future__ import annotations

from typing import NamedTuple

from hetero_mtf.program.batch_arrays import BatchArrays, Result
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
    losses = {"loss": step_result.loss, **(dict(zip(names, step_result.parts)) if len(names) > 1 else {})}
    metrics = {} if step_result.outputs is None else keras_side.update_metrics(batch.y, step_result.outputs, batch.metric_weight)
    return Trained(batch.size, losses, metrics)
