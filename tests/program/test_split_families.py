"""What networks of today are made of is split by channels, heads or columns, and not by samples alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.layout.resharding import input_of, output_of, reshardings

L = keras.layers
BATCH = 6
SHARES = (3, 1, 2)


class Scaled(L.Layer):
    """A learnt factor for each channel."""

    def build(self, shape: Any) -> None:
        self.gamma = self.add_weight(shape=(shape[-1],), initializer="ones", name="gamma")

    def call(self, x: Any) -> Any:
        return x * self.gamma


# A layer behind a Dense layer of 12 channels, with the shape of its input; those that start a split themselves read the input.
BEHIND: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "MaxPooling1D": (lambda: L.MaxPooling1D(2), (6, 4)),
    "AveragePooling1D": (lambda: L.AveragePooling1D(2), (6, 4)),
    "Cropping1D": (lambda: L.Cropping1D(1), (6, 4)),
    "Cropping2D": (lambda: L.Cropping2D(1), (6, 6, 4)),
    "SpatialDropout1D": (lambda: L.SpatialDropout1D(0.2), (6, 4)),
    "SpatialDropout2D": (lambda: L.SpatialDropout2D(0.2), (6, 6, 4)),
    "UnitNormalization": (lambda: L.UnitNormalization(), (6, 4)),
    "RMSNormalization": (lambda: L.RMSNormalization(), (6, 4)),
    "LayerNormalization": (lambda: L.LayerNormalization(), (6, 6, 4)),
    "GroupNormalization(1)": (lambda: L.GroupNormalization(1), (6, 6, 4)),
    "GroupNormalization(4)": (lambda: L.GroupNormalization(4), (6, 6, 4)),
    "GroupNormalization(-1)": (lambda: L.GroupNormalization(-1), (6, 6, 4)),
    "scale": (Scaled, (6, 6, 4)),
    "DepthwiseConv1D": (lambda: L.DepthwiseConv1D(3), (6, 4)),
    "a group a channel": (lambda: L.Conv2D(12, 3, groups=12), (6, 6, 4)),
    "hard_silu": (lambda: L.Activation("hard_silu"), (6, 4)),
}
STARTING: dict[str, tuple[Callable[[], Any], tuple[int, ...], str]] = {
    "Conv1D": (lambda: L.Conv1D(12, 3), (6, 4), "column"),
    "Conv1DTranspose": (lambda: L.Conv1DTranspose(12, 3), (6, 4), "column"),
    "EinsumDense": (lambda: L.EinsumDense("abc,cd->abd", (6, 12), bias_axes="d"), (6, 4), "column"),
    "Embedding": (lambda: L.Embedding(20, 12), (6,), "column"),
    "MultiHeadAttention": (lambda: L.MultiHeadAttention(6, 2), (6, 4), "split"),
    "GroupQueryAttention": (lambda: L.GroupQueryAttention(2, 12, 6), (6, 4), "split"),
}


def _stage(model: keras.Model, cluster: Any) -> Stage:
    return hm.Plan.filters(model, SHARES, cluster, BATCH).stages[0]


@pytest.mark.fast("Cropping2D", "GroupNormalization(-1)", "a group a channel", "scale")
@pytest.mark.parametrize("make, shape", BEHIND.values(), ids=BEHIND)
def test_a_layer_behind_split_channels_stays_split(make: Callable[[], Any], shape: tuple[int, ...]) -> None:
    i = keras.Input(shape)
    x = make()(L.Dense(12)(i))
    model = keras.Model(i, L.Dense(2)(x))
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = hm.Plan.filters(model, SHARES, cluster, BATCH)
        layouts = [entry.layout for entry in plan.stages[0].layouts]
        with hm.Trainer(model, plan, cluster, loss="mse") as trainer:
            rng = np.random.default_rng(0)
            trainer.train_on_batch(rng.normal(size=(BATCH, *shape)), rng.normal(size=(BATCH, *model.output_shape[1:])))
            placed = trainer.placement()
    assert layouts == ["replicated", "column", "split", "row"]
    layer = layer_graph(model).layers[2]
    assert is_keras_call(layer) == (type(layer.live.operation) is Scaled)
    for pieces in placed.get(layer.name, {}).values():
        assert (6, 2, 4) in zip(*(piece for _, piece in pieces))


@pytest.mark.fast("Conv1DTranspose", "EinsumDense", "Embedding")
@pytest.mark.parametrize("make, shape, layout", STARTING.values(), ids=STARTING)
def test_a_layer_that_mixes_channels_is_split_by_its_own(make: Callable[[], Any], shape: tuple[int, ...], layout: str) -> None:
    i = keras.Input(shape, dtype="int32" if len(shape) == 1 else None)
    layer = make()
    x = layer(i, i) if layout == "split" else layer(i)
    model = keras.Model(i, L.Dense(2)(x))
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        stage = _stage(model, cluster)
    own = [(entry.layout, entry.sizes) for entry in stage.layouts if entry.name.startswith(layer.name)]
    assert (layout, (3, 1, 2) if layout == "split" else (6, 2, 4)) in own
    assert not any(is_keras_call(each) for each in layer_graph(model).layers)


def _squeeze_and_excitation(x: Any) -> Any:
    y = L.Activation("relu")(L.BatchNormalization()(L.Conv2D(24, 3, padding="same")(x)))
    s = L.Reshape((1, 1, 24))(L.GlobalAveragePooling2D()(y))
    s = L.Dense(24, activation="hard_sigmoid")(L.Dense(6, activation="relu")(s))
    return L.Conv2D(12, 1)(L.Multiply()([y, s]))


def _inverted_residual(x: Any) -> Any:
    y = L.ReLU(6.0)(L.BatchNormalization()(L.Conv2D(48, 1)(x)))
    y = L.DepthwiseConv2D(3, padding="same")(y)
    y = y * (keras.ops.relu6(y + 3.0) * (1 / 6))
    return x + L.Conv2D(12, 1)(L.GroupNormalization(4)(y))


def _convnext(x: Any) -> Any:
    y = L.LayerNormalization()(L.Conv2D(12, 7, groups=12, padding="same")(x))
    return x + Scaled()(L.Dense(12)(L.Activation("gelu")(L.Dense(48)(y))))


@pytest.mark.fast("inverted_residual")
@pytest.mark.parametrize("block", [_squeeze_and_excitation, _inverted_residual, _convnext], ids=lambda block: block.__name__.strip("_"))
def test_blocks_of_today_are_split_without_gathering_in_between(block: Callable[[Any], Any]) -> None:
    i = keras.Input((8, 8, 12))
    model = keras.Model(i, block(i))
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        entries = _stage(model, cluster).layouts
    graph = layer_graph(model)
    gathered = [(entries[source].name, entry.name) for entry, source in _edges(graph, entries) if _gathers(entries[source], entry)]
    assert not gathered and {"column", "row"} <= {entry.layout for entry in entries}


def _edges(graph: Any, entries: Sequence[Any]) -> list[tuple[Any, int]]:
    return [(entry, source) for entry, layer in zip(entries, graph.layers) for source in layer.inputs]


def _gathers(source: Any, entry: Any) -> bool:
    return any(step.kind != "slice" for step in reshardings(output_of(source), input_of(entry)))
