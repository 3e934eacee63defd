"""Trains one network under a plan and in Keras on one device, and compares all they leave behind."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

import hetero_mtf as hm
from hetero_mtf.graph.records import LayerGraph, Variable
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.planning.layout.arrangement import arrange
from hetero_mtf.planning.layout.manual import sized_stage
from hetero_mtf.planning.layout.records import LayerLayout

Placement = dict[str, dict[str, list[tuple[str, tuple[int, ...]]]]]


@dataclasses.dataclass(frozen=True)
class Steps:
    """The batches of a run: lists of x, y and, or None, sample weights."""

    x: Sequence[np.ndarray]
    y: Sequence[np.ndarray]
    weight: Sequence[np.ndarray | None]


def clone(model: keras.Model) -> keras.Model:
    """Return a copy of a model with its weights."""
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    for layer in copy.layers:
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()  # a Normalization computes with what its weights were when this was last called
    return copy


def planned(model: Any, cluster: Any, sizes: Sequence[Sequence[int]], batch_size: int = 8, pairing: str = "pairs") -> hm.Plan:
    """Return a filter plan whose segments have the sizes given in turn, scaled to nothing: each row must fit its segment."""
    graph = layer_graph(model)
    arrangement = arrange(graph, pairing)
    rows = [sizes[0]] * len(arrangement.segments)
    filled = iter(sizes)
    for at, segment in enumerate(arrangement.segments):
        if segment.layers:
            rows[at] = next(filled)
    stage = sized_stage(graph, arrangement, rows, range(len(cluster.devices)), 0)
    return dataclasses.replace(hm.Plan.single(model, 0, cluster, batch_size), strategy="filters", stages=(stage,))


def expected_placement(graph: LayerGraph, plan: hm.Plan) -> Placement:
    """Return what a plan says about every variable: a slice a device, none for a device that holds nothing of it."""
    found: Placement = {}
    for stage in plan.stages:
        names = [plan.devices[index] for index in stage.devices]
        places = list(itertools.product(*(range(size) for _, size in stage.axes)))
        at = {axis: [place[number] for place in places] for number, (axis, _) in enumerate(stage.axes)}
        for layout in stage.layouts:
            layer = graph.layers[layout.layer]
            if layer.shared_with is not None:
                continue
            for variable in layer.variables:
                shapes = [_slice_shape(variable, layout, position) for position in at.get(layout.axis, [0] * len(names))]
                found.setdefault(layer.name, {})[variable.name] = [(name, shape) for name, shape in zip(names, shapes) if 0 not in shape]
    return found


def _slice_shape(variable: Variable, layout: LayerLayout, at: int) -> tuple[int, ...]:
    shape = list(variable.shape)
    if layout.layout == "row":
        if variable.name == "kernel":
            shape[-2] = shape[-2] * layout.sizes[at] // sum(layout.sizes)
    elif layout.layout in ("column", "split") and shape:
        shape[-1] = shape[-1] * layout.sizes[at] // sum(layout.sizes)
    return tuple(shape)


def keras_run(model: keras.Model, optimizer: Any, loss: Any, steps: Steps, eager: bool = True) -> tuple[list[float], list[np.ndarray]]:
    """Return Keras's losses and final weights."""
    copy = clone(model)
    copy.compile(optimizer, loss, run_eagerly=eager, jit_compile=False)
    one_each = (-1, *(1 for _ in copy.output_shape[1:-1]))  # Keras wants the weights' rank to be the loss values'
    weights = [None if w is None else w.reshape(one_each) for w in steps.weight]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The model does not have any trainable weights")
        losses = [float(copy.train_on_batch(x, y, sample_weight=w)) for x, y, w in zip(steps.x, steps.y, weights)]
    return losses, copy.get_weights()


def our_run(
    model: keras.Model, plan: hm.Plan, cluster: Any, optimizer: Any, loss: Any, steps: Steps
) -> tuple[list[float], list[np.ndarray], Placement]:
    """Return the trainer's losses, final weights and placement."""
    with hm.Trainer(model, plan, cluster, optimizer=optimizer, loss=loss, seed=0) as trainer:
        losses = [trainer.train_on_batch(x, y, w) for x, y, w in zip(steps.x, steps.y, steps.weight)]
        return losses, trainer.to_keras().get_weights(), trainer.placement()


def worst_error(expected: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> float:
    """Return the largest of max|a-b| / (max|a| + 1e-3) over tensors."""
    assert [a.shape for a in expected] == [b.shape for b in found]
    return max((float(np.abs(a - b).max() / (np.abs(a).max() + 1e-3)) for a, b in zip(expected, found)), default=0.0)


def assert_transparent(
    model: keras.Model, plan: hm.Plan, cluster: Any, optimizer: Callable[[], Any], loss: Callable[[], Any], steps: Steps, eager: bool = True
) -> None:
    """Check losses, weights and placement of a plan against Keras on one device, in float64."""
    losses, weights = keras_run(model, optimizer(), loss(), steps, eager)
    ours, trained, placement = our_run(model, plan, cluster, optimizer(), loss(), steps)
    assert placement == expected_placement(layer_graph(model), plan)
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (losses, ours)
    assert worst_error(weights, trained) <= 1e-8
