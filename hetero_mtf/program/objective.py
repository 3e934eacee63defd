"""Objective: the loss of each output, with its weight and name.

A step minimises the sum of weight * loss over the outputs, plus the losses that layers and regularizers add.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import keras

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.structure import Structure, leaves_of
from hetero_mtf.layers.elementwise.masked import MASKED
from hetero_mtf.program.losses import OF_MASKED, is_samplewise, read_loss


@dataclasses.dataclass(frozen=True)
class OutputLoss:
    """The loss of one output.

    Parameters
    ----------
    loss : keras.losses.Loss.
    weight : factor in the sum over outputs.
    name : its name in logs, such as "left_loss".
    """

    loss: Any
    weight: float
    name: str


Objective = tuple[OutputLoss | None, ...]


def read_objective(loss: Any, loss_weights: Any, outputs: Structure, added: bool = False) -> Objective:
    """Return the loss of each output, None for one without.

    Parameters
    ----------
    loss : one loss for all outputs, or losses packed as the outputs or as a dict by their names; None for an output without.
    loss_weights : None for 1.0 each, one number, or numbers packed likewise.
    outputs : structure of the model's outputs.
    added : whether layers of the model add to the loss, so that there need be no other.

    Raises
    ------
    UnsupportedError
        For a loss that is not supported, names or a packing that are not the model's, a weight that is no number, or no loss at all.
    """
    losses = _of_outputs(loss, "loss", outputs)
    weights = _of_outputs(loss_weights, "loss_weights", outputs)
    if isinstance(loss, (list, tuple)) and isinstance(loss_weights, Mapping) and list(outputs.names) != sorted(outputs.names):
        raise UnsupportedError(
            f"loss is a {type(loss).__name__} and loss_weights a dict, which Keras matches by the sorted names and not by the names",
            "give both as dicts"
        )
    if all(each is None for each in losses) and not added:
        raise UnsupportedError(f"the loss {loss!r} is not supported", "give a loss for at least one output")
    names = [_name(path, name) for path, name in zip(outputs.paths(), outputs.names)]
    return tuple(
        None if each is None else OutputLoss(read_loss(each), _weight(weight, name), f"{name}_loss")
        for each, weight, name in zip(losses, weights, names)
    )


def with_masks(objective: Objective, graph: LayerGraph) -> Objective:
    """Return an objective in which the losses of outputs that carry masks are marked, which are Keras's own value of whole outputs.

    Parameters
    ----------
    objective : the loss of each output of the network.
    graph : the network.
    """
    return tuple(
        dataclasses.replace(part, loss=_of_masked(part.loss)) if part and graph.layers[index].kind == MASKED else part
        for part, index in zip(objective, graph.outputs)
    )


def _of_masked(loss: Any) -> Any:
    copied = copy.copy(loss)
    setattr(copied, OF_MASKED, True)
    return copied


def timed_objective(objective: Objective) -> Objective:
    """Return an objective to time steps with, on targets drawn at random: a loss that may want others is a mean squared error.

    Parameters
    ----------
    objective : what is trained by.
    """
    return tuple(
        part if part is None or is_samplewise(part.loss) else dataclasses.replace(part, loss=keras.losses.MeanSquaredError())
        for part in objective
    )


def _of_outputs(value: Any, what: str, outputs: Structure) -> tuple[Any, ...]:
    """Return one value for each output, in the flat order."""
    if not isinstance(value, (Mapping, list, tuple)):
        return (value,) * outputs.count
    if isinstance(value, (list, tuple)) and outputs.count == 1 and len(leaves_of(value)) == 1:
        return tuple(leaves_of(value))
    if isinstance(value, Mapping) and isinstance(outputs.form, Mapping) and set(value) < set(outputs.names):
        value = {name: value.get(name) for name in outputs.names}  # as Keras: outputs packed as a dict may go without
    return outputs.flatten(value, what, UnsupportedError)


def _name(path: tuple[str | int, ...], name: str) -> str:
    """Return Keras's name of an output: the keys of its path, and its layer's name where a list holds it."""
    keys = path if path and isinstance(path[-1], str) else (*path[:-1], name)
    return "/".join(map(str, keys))


def _weight(weight: Any, name: str) -> float:
    if weight is None:
        return 1.0
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not math.isfinite(weight):
        raise UnsupportedError(f"the loss weight of output {name} is {weight!r}", "give a finite number")
    return float(weight)
