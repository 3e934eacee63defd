"""Attention and the weight of a residual branch, against Keras."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers import KINDS, kind_of, make_layer
from hetero_mtf.layers.kind import FREE_OPTIONS
from hetero_mtf.training.residual_weight import ResidualWeight

L = keras.layers


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def _attended(query: tuple[int, int], value: tuple[int, int], key: tuple[int, int] | None, **options: Any) -> keras.Model:
    """Return attention of dense layers of two inputs, with weights that are not what they were at first."""
    keras.config.set_floatx("float64")
    asked, offered = keras.Input((query[0], 3)), keras.Input((value[0], 3))
    parts = [L.Dense(query[1], name="query")(asked), L.Dense(value[1], name="value")(offered)]
    parts += [] if key is None else [L.Dense(key[1], name="key")(offered)]
    model = keras.Model([asked, offered], L.Attention(name="attention", **options)(parts))
    for variable in model.weights:
        variable.assign(np.random.default_rng(len(variable.shape)).normal(size=variable.shape) + 0.5)
    return model


CASES = {
    "query, value and key": ((5, 6), (7, 6), (7, 6), {}),
    "query and value": ((5, 6), (7, 6), None, {}),
    "fewer channels in query and key": ((5, 2), (7, 6), (7, 2), {}),
    "a scale": ((4, 6), (4, 6), (4, 6), {"use_scale": True, "seed": 3}),
    "a scale that does not train": ((4, 6), (4, 6), (4, 6), {"use_scale": True, "trainable": False}),
    "a scale and fewer channels": ((1, 3), (7, 5), (7, 3), {"use_scale": True}),
}


@pytest.mark.fast("a scale")
@pytest.mark.parametrize(("query", "value", "key", "options"), CASES.values(), ids=CASES)
def test_attention_has_keras_shape_variables_and_values(query: Any, value: Any, key: Any, options: Any, cluster: Any) -> None:
    model = _attended(query, value, key, **options)
    theirs, ours = model.layers[-1], layer_graph(model).layers[-1]
    assert ours.output_shape == tuple(theirs.output.shape[1:]) == (query[0], value[1])
    trains = options.get("trainable", True)
    assert [(v.name, v.shape, v.trainable) for v in ours.variables] == [(v.name, tuple(v.shape), trains) for v in theirs.weights]
    x = [np.random.default_rng(0).normal(size=(3, n, 3)) for n in (query[0], value[0])]
    expected = model.predict(x, verbose=0)
    for shares in ([1, 0, 0], [2, 1, 1], [0, 3, 1]):
        with hm.Trainer(model, hm.Plan.filters(model, shares, cluster, 3), cluster, loss="mse") as trainer:
            np.testing.assert_allclose(trainer.predict(x), expected, rtol=1e-9, atol=1e-11)


def _attention(*shapes: tuple[int, ...], use_scale: bool = False) -> Layer:
    return make_layer("a", "Attention", {"use_scale": use_scale}, range(len(shapes)), shapes)


def test_channels_may_be_split_where_query_key_and_value_have_as_many() -> None:
    alike, other = _attention((5, 6), (7, 6), (7, 6)), _attention((5, 2), (7, 6), (7, 2))
    assert kind_of(alike).layouts(alike) == {"replicated", "split"} and kind_of(other).layouts(other) == {"replicated"}
    part = make_layer("a", "Attention", alike.attributes, (0, 1, 2), [(5, 2), (7, 2), (7, 2)])
    assert part.output_shape == (5, 2) and part.attributes == alike.attributes


def test_operations_are_those_of_two_products_and_a_softmax_over_all_pairs_of_positions() -> None:
    assert _attention((5, 2), (7, 6), (7, 2)).flops == 5 * 7 * (2 * 2 + 2 * 6 + 4)


def test_the_scores_of_all_pairs_of_positions_are_kept_however_channels_are_split() -> None:
    plain, scaled = _attention((5, 6), (7, 6)), _attention((5, 6), (7, 6), use_scale=True)
    assert kind_of(plain).scores(plain) == 35 and kind_of(plain).needs(plain) == {"input"}
    assert kind_of(scaled).scores(scaled) == 35 and kind_of(scaled).needs(scaled) == {"input", "inner"}
    dense = make_layer("d", "Flatten", {}, (0,), [(5, 6)])
    assert kind_of(dense).scores(dense) == 0


@pytest.mark.parametrize("shapes", [((5, 6),), ((6,), (6,)), ((2, 3, 6), (2, 3, 6), (2, 3, 6)), ((5, 6), (7, 6), (7, 6), (7, 6))])
def test_inputs_that_are_no_positions_by_channels_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    words = "layer a: an Attention has inputs of shapes .*; give query, value and key as \\(positions, channels\\) each"
    with pytest.raises(UnsupportedError, match=words):
        _attention(*shapes)


@pytest.mark.parametrize("shapes", [((5, 6), (7, 5)), ((5, 6), (7, 6), (7, 5)), ((5, 6), (7, 6), (5, 6))])
def test_inputs_that_do_not_go_together_are_refused(shapes: tuple[tuple[int, ...], ...]) -> None:
    words = "query and key need as many channels, key and value as many positions"
    with pytest.raises(UnsupportedError, match=f"layer a: an Attention has a query of shape .*; {words}"):
        _attention(*shapes)


def test_a_residual_weight_is_one_number_that_is_0_at_first_and_splits_as_its_input() -> None:
    keras.config.set_floatx("float64")
    model = keras.Sequential([keras.Input((4, 3)), L.Dense(5), ResidualWeight(name="weight")])
    assert not np.any(model.predict(np.ones((2, 4, 3)), verbose=0))
    layer = layer_graph(model).layers[-1]
    assert (layer.kind, layer.output_shape, layer.flops) == ("hetero_mtf>ResidualWeight", (4, 5), 20)
    assert [(v.name, v.shape, v.trainable) for v in layer.variables] == [("weight", (), True)]
    assert kind_of(layer).layouts(layer) == {"replicated", "split"} and kind_of(layer).needs(layer) == {"input"}


def test_a_residual_weight_has_no_options_of_its_own() -> None:
    kind = KINDS["hetero_mtf>ResidualWeight"]
    assert keras.saving.get_registered_name(ResidualWeight) == kind.keras_class
    assert {name for name, value in ResidualWeight().get_config().items() if value is not None} <= FREE_OPTIONS
    assert not (kind.kept or kind.fixed or kind.free)
