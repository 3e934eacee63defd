"""BatchArrays: one batch in the form that programs take, with the factors of its losses."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from hetero_mtf.graph.records import LayerGraph

Target = tuple[tuple[int, ...], str, tuple[int, ...]]  # shape of one sample's target, its dtype, and the shape of one sample's weights


@dataclasses.dataclass(frozen=True)
class BatchArrays:
    """One batch ready for a program.

    Parameters
    ----------
    x : (inputs,) arrays (batch, ...) in the model's dtype.
    y : (outputs,) arrays (batch, ...) of targets, None for an output that has none.
    weight : (outputs,) arrays (batch,) or (batch, ...) of sample weights in the model's dtype; the latter have the rank of the loss's
        values, and its size or 1 in each dimension.
    scale : (outputs,) factors; the weighted sum of losses times the factor is the output's loss.
    metric_weight : (outputs,) sample weights as they were given, for weighted metrics; None where there are none. Empty for none at all.
    graph : the network with the extents of this batch, where its inputs leave them open; None for that of the engine.
    """

    x: tuple[np.ndarray, ...]
    y: tuple[np.ndarray | None, ...]
    weight: tuple[np.ndarray, ...]
    scale: tuple[float, ...]
    metric_weight: tuple[np.ndarray | None, ...] = ()
    graph: LayerGraph | None = None

    @property
    def size(self) -> int:
        """Number of samples."""
        return len(self.x[0])

    @property
    def targets(self) -> tuple[Target | None, ...]:
        """(outputs,) form of each output's targets and weights."""
        return tuple(
            None if y is None else (tuple(y.shape[1:]), str(y.dtype), tuple(weight.shape[1:])) for y, weight in zip(self.y, self.weight)
        )


class Result(NamedTuple):
    """The losses and predictions of a step or a test.

    Parameters
    ----------
    loss : weighted sum of the outputs' losses, regularization included.
    parts : the loss of each output that has one, unweighted.
    outputs : (outputs,) predictions and behind them the masks of those that carry one; None where they were not asked for.
    finite : whether a training step updated anything: not where losses are scaled and a gradient was NaN or infinite.
    """

    loss: float
    parts: tuple[float, ...]
    outputs: tuple[np.ndarray, ...] | None
    finite: bool = True
