"""Points: which layers are measured, with how many units, and what of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import pytest

from hetero_mtf.calibration.points import Point, extreme_points, point_of, points
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers.elementwise.activation import ReLU
from hetero_mtf.layers.normalization.norm import BatchNormalization
from tests.older_keras import needs_keras

L = keras.layers
BATCH = 8


def _chain() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            L.Conv2D(16, 3, padding="same", name="first"),
            L.Conv2D(16, 3, padding="same", name="second"),
            L.Conv2D(16, 3, padding="same", name="third"),
            L.BatchNormalization(name="norm"),
            L.ReLU(name="relu"),
            L.Flatten(name="flat"),
            L.Dense(10, name="head"),
        ]
    )


def _of(graph: LayerGraph, found: tuple[Point, ...], name: str, dimension: str) -> list[int]:
    return [p.units for p in found if graph.layers[p.layer].name == name and p.dimension == dimension]


def test_a_layer_that_mixes_channels_is_measured_over_both_at_three_numbers_of_units() -> None:
    graph = layer_graph(_chain())
    found = points(graph, BATCH)
    assert _of(graph, found, "first", "output") == [4, 8, 16] and _of(graph, found, "first", "input") == [1, 2, 3]
    assert _of(graph, found, "second", "output") == _of(graph, found, "second", "input") == [4, 8, 16]


def test_a_dense_layer_behind_a_flatten_is_measured_over_the_channels_before_it() -> None:
    graph = layer_graph(_chain())
    head = [p for p in points(graph, BATCH) if graph.layers[p.layer].name == "head" and p.dimension == "input"]
    assert [p.units for p in head] == [4, 8, 16] and [p.input_shapes for p in head] == [((64 * n,),) for n in (4, 8, 16)]


def test_half_and_all_of_the_units_do_for_a_coarse_calibration_and_for_minor_layers() -> None:
    graph = layer_graph(_chain())
    assert _of(graph, points(graph, BATCH, coarse=True), "second", "output") == [8, 16]
    assert {graph.layers[p.layer].name for p in points(graph, BATCH) if p.minor} == {"relu"}
    assert _of(graph, points(graph, BATCH), "relu", "output") == [8, 16]
    assert _of(graph, points(graph, BATCH), "norm", "output") == [4, 8, 16]


def test_first_are_the_extremes_of_each_curve_and_of_light_layers_the_upper_one() -> None:
    graph = layer_graph(_chain())
    fine = points(graph, BATCH)
    first, later = extreme_points(graph, fine)
    assert {p for p in map(id, (*first, *later))} <= {p for p in map(id, fine)} and not {*map(id, first)} & {*map(id, later)}
    assert _of(graph, first, "second", "output") == _of(graph, first, "second", "input") == [4, 16]
    assert _of(graph, first, "first", "input") == [1, 3] and _of(graph, first, "second", "batch") == [2, 8]
    for name, lower in (("relu", 8), ("norm", 4)):
        assert _of(graph, first, name, "output") == [16] and _of(graph, later, name, "output") == [lower]
    assert {(p.layer, p.dimension) for p in first} == {(p.layer, p.dimension) for p in fine}


@pytest.mark.slow
def test_many_layers_of_little_work_are_not_light_together() -> None:
    x = i = keras.Input((4, 4, 4))
    for _ in range(120):
        x = L.Conv2D(4, 3, padding="same")(x)
    for number in range(60):
        x = L.Conv2D(4 + number % 2 * 4 + number // 2, 1)(x)
    graph = layer_graph(keras.Model(i, x))
    fine = points(graph, BATCH)
    first, later = extreme_points(graph, fine)
    minor = {p.layer for p in fine if p.minor}
    assert len(minor) > 30 and len({p.layer for p in later}) < len(minor)
    assert {p.layer for p in first if not p.full} >= {p.layer for p in fine if not p.minor}


def test_layers_that_are_alike_are_measured_once_and_those_that_only_reshape_not_at_all() -> None:
    graph = layer_graph(_chain())
    assert {graph.layers[p.layer].name for p in points(graph, BATCH)} == {"first", "second", "norm", "relu", "head"}


def test_a_layer_that_cannot_be_split_is_measured_whole() -> None:
    graph = layer_graph(keras.Sequential([keras.Input((6,)), L.Dense(5), L.Softmax(name="end")]))
    found = [(p.dimension, p.units, p.full) for p in points(graph, BATCH) if graph.layers[p.layer].name == "end"]
    assert found == [("whole", 5, True), ("batch", 2, False), ("batch", 4, False), ("batch", 8, True)]


@pytest.mark.parametrize(
    ("layer", "dimensions"),
    [
        (L.Conv2D(6, 3), {"output", "input", "batch"}),
        (L.Conv2D(6, 3, activation="softmax"), {"input", "batch"}),
        (L.Conv2D(6, 3, groups=2), {"whole", "batch"}),
        (L.DepthwiseConv2D(3), {"output", "batch"}),
        (L.DepthwiseConv2D(3, depth_multiplier=2), {"whole", "batch"}),
        (L.Conv2DTranspose(6, 3), {"output", "input", "batch"}),
    ],
)
def test_a_layer_is_measured_over_what_it_may_be_split_over(layer: keras.layers.Layer, dimensions: set[str]) -> None:
    graph = layer_graph(keras.Sequential([keras.Input((6, 6, 4)), layer]))
    assert {p.dimension for p in points(graph, BATCH)} == dimensions


@pytest.mark.parametrize(
    "scaled",
    [
        L.Rescaling([1.0, 2.0, 3.0, 4.0], name="scaled"),
        L.Normalization(mean=[1.0, 2.0, 3.0, 4.0], variance=[1.0] * 4, name="scaled"),
    ],
)
def test_numbers_a_channel_are_measured_in_parts(scaled: keras.layers.Layer) -> None:
    graph = layer_graph(keras.Sequential([keras.Input((6, 6, 4)), scaled, L.Conv2D(2, 3)]))
    assert {p.dimension for p in points(graph, BATCH) if graph.layers[p.layer].name == "scaled"} == {"output", "batch"}


def test_a_layer_whose_options_go_with_its_own_shape_only_is_measured_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def output_shape(self: ReLU, attributes: Mapping[str, Any], inputs: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        if inputs[0][-1] != 16:
            raise UnsupportedError("made for 16 channels")
        return inputs[0]

    monkeypatch.setattr(ReLU, "output_shape", output_shape)
    graph = layer_graph(_chain())
    assert {p.dimension for p in points(graph, BATCH) if graph.layers[p.layer].name == "relu"} == {"whole", "batch"}


def test_a_squeeze_and_excitation_is_measured_and_its_reshape_is_free() -> None:
    i = keras.Input((6, 6, 4))
    x = L.Conv2D(6, 3)(i)
    s = L.Reshape((1, 1, 6), name="reshape")(L.GlobalAveragePooling2D()(x))
    graph = layer_graph(keras.Model(i, L.Multiply(name="scale")([x, L.Conv2D(6, 1, activation="sigmoid")(s)])))
    found = {graph.layers[p.layer].name for p in points(graph, BATCH)}
    assert "scale" in found and "reshape" not in found


def test_of_a_batch_that_microbatches_can_be_made_of_an_eighth_is_measured() -> None:
    graph = layer_graph(_chain())
    assert _of(graph, points(graph, 64), "second", "batch") == [8, 32, 64] and _of(graph, points(graph, 64), "relu", "batch") == [8, 64]
    assert _of(graph, points(graph, 64, coarse=True), "second", "batch") == [8, 64]
    assert _of(graph, points(graph, 31), "second", "batch") == [8, 16, 31]


def test_samples_are_measured_with_all_units_at_fractions_of_the_batch() -> None:
    graph = layer_graph(_chain())
    found = points(graph, BATCH)
    assert _of(graph, found, "second", "batch") == [2, 4, 8] and _of(graph, found, "relu", "batch") == [4, 8]
    assert _of(graph, points(graph, BATCH, coarse=True), "second", "batch") == [4, 8]
    assert _of(graph, points(graph, 1), "second", "batch") == [1] and _of(graph, points(graph, 3), "second", "batch") == [1, 2, 3]
    for point in found:
        assert point.samples == (point.units if point.dimension == "batch" else BATCH)
        if point.dimension == "batch":
            assert point.probe.output_shape == graph.layers[point.layer].output_shape
            assert point.full == (point.samples == BATCH and not point.shares_batch)


def test_a_kind_that_mixes_samples_is_not_measured_over_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchNormalization, "mixes_samples", True)
    graph = layer_graph(_chain())
    assert not _of(graph, points(graph, BATCH), "norm", "batch") and _of(graph, points(graph, BATCH), "relu", "batch")


def test_batch_norm_shares_its_batch_where_that_is_split_unless_it_is_frozen() -> None:
    model = _chain()
    for trainable in (True, False):
        model.get_layer("norm").trainable = trainable
        graph = layer_graph(model)
        found = points(graph, BATCH)
        assert {graph.layers[p.layer].name for p in found if p.shares_batch} == ({"norm"} if trainable else set())
        norm = [p for p in found if graph.layers[p.layer].name == "norm"]
        assert all(p.shares_batch == (trainable and p.dimension == "batch") for p in norm)
        assert [(p.dimension, p.units) for p in norm if p.full] == [("output", 16), *([] if trainable else [("batch", BATCH)])]
        assert not any(p.updates for p in norm if p.shares_batch)


def _frozen() -> keras.Model:
    model = _chain()
    model.layers[0].trainable = False
    return model


@pytest.mark.parametrize("build, names", [(_chain, {"second", "norm", "relu", "head"}), (_frozen, {"third", "norm", "relu", "head"})])
def test_the_gradient_of_an_input_is_measured_where_something_before_it_trains(build: Callable[[], keras.Model], names: set[str]) -> None:
    graph = layer_graph(build())
    assert {graph.layers[p.layer].name for p in points(graph, BATCH) if p.input_gradient} == names


def test_an_update_is_measured_with_all_units_where_weights_train() -> None:
    graph = layer_graph(_frozen())
    found = {(graph.layers[p.layer].name, p.dimension, p.units) for p in points(graph, BATCH) if p.updates}
    assert {name for name, _, _ in found} == {"second", "third", "norm", "head"}
    assert {(dimension, units) for name, dimension, units in found if name == "third"} == {("output", 16), ("input", 16), ("batch", 8)}


def test_a_probe_keeps_what_the_layer_is_and_changes_its_units_only() -> None:
    graph = layer_graph(_chain())
    most = {(p.layer, p.dimension): p.units for p in points(graph, BATCH)}  # the last of each is the largest
    for point in points(graph, BATCH):
        layer = graph.layers[point.layer]
        assert point.probe.kind == layer.kind and [v.name for v in point.probe.variables] == [v.name for v in layer.variables]
        assert point.full == (point.units == most[point.layer, point.dimension] and not point.shares_batch)
        if point.full:
            assert point.probe.output_shape == layer.output_shape and point.probe.variables == layer.variables


def test_an_add_has_all_its_inputs() -> None:
    i = keras.Input((4, 4, 2))
    x = L.Conv2D(6, 1)(i)
    graph = layer_graph(keras.Model(i, L.Add(name="sum")([x, L.Conv2D(6, 3, padding="same")(i)])))
    found = [p for p in points(graph, BATCH) if graph.layers[p.layer].name == "sum" and p.dimension == "output"]
    assert [p.input_shapes for p in found] == [((4, 4, n),) * 2 for n in (2, 3, 6)]


def test_a_point_can_be_made_for_any_number_of_units_or_samples() -> None:
    graph = layer_graph(_chain())
    for point in points(graph, BATCH):
        assert point_of(graph, point.layer, point.dimension, point.units, BATCH) == point
    between = point_of(graph, 2, "output", 13, BATCH)
    assert between.probe.output_shape == (8, 8, 13) and not between.full and point_of(graph, 2, "batch", 5, BATCH).samples == 5


@needs_keras("3.10", "casts are layers")
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16"])
def test_a_probe_computes_in_the_precision_of_its_layer(policy: str) -> None:
    i = keras.Input((6, 6, 2))
    x = keras.layers.BatchNormalization(dtype=policy)(keras.layers.Conv2D(8, 3, dtype=policy)(i))
    graph = layer_graph(keras.Model(i, keras.layers.Dense(4, dtype="float32")(keras.layers.Flatten(dtype=policy)(x))))
    measured = points(graph, 8)
    assert {point.layer for point in measured} >= {1, 2, 4}
    for point in measured:
        layer = graph.layers[point.layer]
        assert (point.probe.compute_dtype, point.probe.variable_dtype) == (layer.compute_dtype, layer.variable_dtype)


def test_slabs_are_measured_where_batches_are_too_small_to_be_split() -> None:
    x = i = keras.Input((16, 12, 2))
    x = L.Conv2D(4, 3, 2, padding="same", name="strided")(x)
    x = L.Conv2DTranspose(2, 2, 2, name="up")(x)
    x = L.Multiply(name="gate")([x, L.Dense(2)(L.GlobalAveragePooling2D(keepdims=True, name="mean")(x))])
    graph = layer_graph(keras.Model(i, L.Flatten(name="flat")(x)))
    found = points(graph, 2)
    assert _of(graph, found, "strided", "space") == [2, 4, 8] and _of(graph, found, "up", "space") == [4, 8, 16]
    assert not _of(graph, found, "mean", "space") and not _of(graph, found, "flat", "space")
    assert not any(point.dimension == "space" for point in points(graph, 3))
    assert _of(graph, points(graph, 3, devices=3), "strided", "space") == [2, 4, 8]
    strided = next(p for p in found if p.dimension == "space" and graph.layers[p.layer].name == "strided")
    assert strided.input_shapes == ((4, 12, 2),) and strided.probe.output_shape == (2, 6, 4) and strided.along == 0 and not strided.full
    gate = next(p for p in found if p.dimension == "space" and graph.layers[p.layer].name == "gate")
    assert gate.input_shapes[1] == (1, 1, 2)
    assert not any(point.dimension == "space" for point in points(layer_graph(keras.Sequential([keras.Input((9, 2)), L.Conv1D(3, 3)])), 1))


def test_a_slab_can_be_measured_at_any_thickness() -> None:
    graph = layer_graph(_chain())
    for units in range(1, 9):
        assert point_of(graph, 2, "space", units, 1).probe.output_shape[0] == units
