"""Dtype policies of layers are read as Keras resolves them, kept in files, and count in bytes."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import keras
import pytest

from hetero_mtf.errors import HeteroError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.keras_reading.configured_graph import configured_graph
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers.half_precision import casts_weights, gradient_bytes, sums_in, widens
from tests.older_keras import needs_keras

L = keras.layers
without_casts = needs_keras("3.10", "what a mixed policy casts is a layer of the network")


def small_net(policy: str) -> keras.Model:
    """Return a network whose layers have a policy, but for a last one in float32."""
    i = keras.Input((6, 6, 2))
    x = L.BatchNormalization(dtype=policy, name="norm")(L.Conv2D(4, 3, dtype=policy, name="conv")(i))
    x = L.Lambda(lambda value: value * 2, dtype=policy, name="own")(L.Flatten(dtype=policy)(x))
    return keras.Model(i, L.Dense(3, dtype="float32", name="last")(x))


def named(graph: LayerGraph) -> dict[str, Any]:
    return {layer.name: layer for layer in graph.layers}


@pytest.mark.fast("mixed_float16-float16-None")
@pytest.mark.parametrize(
    "policy, compute, variable",
    [
        ("float32", None, None),
        ("mixed_bfloat16", "bfloat16", None),
        ("mixed_float16", "float16", None),
        ("bfloat16", "bfloat16", "bfloat16"),
        ("float16", "float16", "float16"),
        ("float64", None, None),
    ],
)
def test_a_layer_has_the_dtypes_of_its_policy_where_they_are_not_the_networks(
    policy: str, compute: str | None, variable: str | None
) -> None:
    graph = layer_graph(small_net(policy))
    layers, network = named(graph), "float64" if policy == "float64" else "float32"
    assert graph.dtype == network
    for name in ("conv", "norm"):
        assert (layers[name].compute_dtype, layers[name].variable_dtype) == (compute, variable)
    assert layers["own"].dtype(network) == (compute or network) and layers["own"].compute_dtype is None
    own = "float32" if policy == "float64" else None
    assert (layers["last"].compute_dtype, layers["last"].variable_dtype) == (own, own)


@without_casts
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float16"])
def test_a_configuration_gives_the_same_network_as_the_model(policy: str) -> None:
    i = keras.Input((4,))
    model = keras.Model(i, L.Dense(2, dtype="float32")(L.LayerNormalization(dtype=policy)(L.Dense(3, dtype=policy)(i))))
    assert configured_graph(model.get_config()).digest == layer_graph(model).digest


def test_files_keep_the_dtypes_and_those_without_them_read_as_before() -> None:
    graph, plain = layer_graph(small_net("mixed_bfloat16")), layer_graph(small_net("float32"))
    again = LayerGraph.from_json(json.loads(json.dumps(graph.to_json())))
    assert again == graph and again.digest == graph.digest != plain.digest
    assert "compute_dtype" not in json.dumps(plain.to_json())
    document = json.loads(json.dumps(graph.to_json()))
    document["layers"][1]["compute_dtype"], document["layers"][2]["variable_dtype"] = "float8", ["float32"]
    with pytest.raises(HeteroError, match=r"layers\[1\]\.compute_dtype is .*float8.*layers\[2\]\.variable_dtype is"):
        LayerGraph.from_json(document)


def test_bytes_are_those_of_what_is_sent_and_kept() -> None:
    layers = named(layer_graph(small_net("mixed_float16")))
    conv, norm, last = layers["conv"], layers["norm"], layers["last"]
    assert (conv.output_item_bytes("float32"), conv.variable_item_bytes("float32")) == (2, 4)
    assert gradient_bytes(conv, "float32") == 2 * (3 * 3 * 2 * 4 + 4) and sums_in(conv) == "float16" and casts_weights(conv)
    assert gradient_bytes(norm, "float32") == 4 * 8 and widens(norm) and not casts_weights(norm)  # it computes in float32
    assert last.output_item_bytes("float32") == 4 and not widens(last) and sums_in(last) is None
    pure = named(layer_graph(small_net("bfloat16")))["conv"]
    assert gradient_bytes(pure, "float32") == 2 * (3 * 3 * 2 * 4 + 4) and not casts_weights(pure)


@without_casts
def test_the_dtypes_are_said_for_people() -> None:
    assert layer_graph(small_net("mixed_bfloat16")).dtype_text == "float32, bfloat16 in 3 of 5 layers"
    assert layer_graph(small_net("float64")).dtype_text == "float64, float32 in 1 of 5 layers"


def test_layers_that_do_not_cast_their_inputs_are_computed_by_keras_where_the_dtypes_differ() -> None:
    i = keras.Input((4,))
    x = L.Dense(3, dtype="mixed_bfloat16", name="half")(i)
    graph = layer_graph(keras.Model(i, L.ReLU(dtype="float32", autocast=False, name="uncast")(x)))
    assert named(graph)["uncast"].kind == "keras.layers.ReLU"


@without_casts
def test_a_layer_of_whole_numbers_has_no_policy_of_its_own() -> None:
    i = keras.Input((5,), dtype="int32")
    graph = layer_graph(keras.Model(i, L.Dense(2)(L.Flatten()(L.Embedding(7, 3, dtype="mixed_bfloat16")(i)))))
    assert [layer.dtype(graph.dtype) for layer in graph.layers] == ["int32", "bfloat16", "float32", "float32"]
    assert dataclasses.replace(graph.layers[0]).output_item_bytes("float32") == 4
