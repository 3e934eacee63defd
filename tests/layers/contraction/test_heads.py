"""Multi-head attention in parts: what is opened up, how it is laid out, and that its numbers are Keras's."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers import kind_of
from tests.program import drawing
from tools.conformance.compare import BATCH, Batches, apart, of_keras, sgd, trained

L = keras.layers


def _model(options: dict[str, Any], called: dict[str, Any], twice: bool = False) -> keras.Model:
    i = keras.Input((6, 8))
    heads = L.MultiHeadAttention(4, 3, name="heads", **options)
    x = heads(i, L.Dense(8)(i), **called)
    x = heads(x, x, **called) if twice else x
    return keras.Model(i, L.Dense(2)(x + i))


def test_heads_are_the_channels_between_projections_and_output() -> None:
    graph = layer_graph(_model({}, {}))
    named = {layer.name: layer for layer in graph.layers}
    query, attention, output = (named[f"heads/{part}"] for part in ("query", "attention", "attention_output"))
    assert (query.output_shape, attention.output_shape, output.output_shape) == ((6, 3, 4), (6, 3, 4), (6, 8))
    assert [(v.name, v.shape) for v in query.variables] == [("kernel", (8, 4, 3)), ("bias", (4, 3))]
    assert kind_of(query).layouts(query) == {"replicated", "column"} and kind_of(output).layouts(output) == {"replicated", "row"}
    assert kind_of(attention).layouts(attention) == {"replicated", "split"}
    assert query.flops == 2 * 8 * 72 and output.flops == 2 * 12 * 48 and attention.flops == 6 * 6 * 4 * (2 * 3 + 2 * 3 + 4)
    assert kind_of(attention).inner(attention) == 2 * 6 / 3


@pytest.mark.fast("{'dropout': 0.1}-{}", "{}-{'return_attention_scores': True}")
@pytest.mark.parametrize(
    ("options", "called"),
    [({"dropout": 0.1}, {}), ({"kernel_regularizer": "l2"}, {}), ({}, {"return_attention_scores": True}), ({"use_gate": True}, {})],
    ids=str,
)
def test_what_cannot_be_opened_up_is_computed_by_its_own_call(options: dict[str, Any], called: dict[str, Any]) -> None:
    i = keras.Input((6, 8))
    found = L.MultiHeadAttention(4, 3, name="heads", **options)(i, i, **called)
    graph = layer_graph(keras.Model(i, found))
    assert any(layer.kind == "keras.layers.MultiHeadAttention" for layer in graph.layers)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "called", "twice"),
    [({}, {}, False), ({"value_dim": 5, "use_bias": False, "output_shape": 8}, {"use_causal_mask": True}, False), ({}, {}, True)],
    ids=["plain", "causal", "called twice"],
)
def test_split_heads_have_the_numbers_of_keras(options: dict[str, Any], called: dict[str, Any], twice: bool) -> None:
    keras.config.set_floatx("float64")
    model, rng = _model(options, called, twice), np.random.default_rng(1)
    x = [rng.normal(size=(BATCH, 6, 8)) for _ in range(3)]
    batches = Batches(x, [rng.normal(size=(BATCH, 6, 2)) for _ in x], lambda: "mse", sgd)
    with hm.Cluster.local(["cpu:0"] * 6) as cluster:
        plan = hm.Plan.filters(model, (2, 1, 1, 0, 0, 0), cluster, BATCH)
        with hm.Trainer(model, plan, cluster, loss="mse") as trainer:
            trainer.train_on_batch(x[0], batches.y[0])
            placed = trainer.placement()["heads/query"]["kernel"]
        grid = drawing.plan(rng, layer_graph(model), (("batch", 2), ("filters", 3)), BATCH)
        runs = [trained(model, each, cluster, batches) for each in (plan, grid)]
    split = [(8, 2, 3), (8, 1, 3), (8, 1, 3)]
    assert [shape for _, shape in placed] == (split if not twice else [(8, 4, 3)] * len(placed))  # a layer called twice stays unsplit
    expected = of_keras(model, batches)
    assert all(apart(expected, run) <= 1e-8 for run in runs)


def test_grouped_queries_are_split_by_the_heads_that_they_read() -> None:
    keras.config.set_floatx("float64")
    i, rng = keras.Input((6, 8)), np.random.default_rng(2)
    grouped = L.GroupQueryAttention(3, 8, 4, name="heads")
    model = keras.Model(i, L.Dense(2)(grouped(i, L.Dense(8)(i), use_causal_mask=True) + i))
    x = [rng.normal(size=(BATCH, 6, 8)) for _ in range(3)]
    batches = Batches(x, [rng.normal(size=(BATCH, 6, 2)) for _ in x], lambda: "mse", sgd)
    named = {layer.name: layer for layer in layer_graph(model).layers}
    assert named["heads/query"].output_shape == (6, 2 * 3, 4) and named["heads/key"].output_shape == (6, 3, 4)
    assert named["heads/attention"].flops == 6 * 6 * 8 * (2 * 3 + 2 * 3 + 4)
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = hm.Plan.filters(model, (2, 1, 1), cluster, BATCH)
        with hm.Trainer(model, plan, cluster, loss="mse") as trainer:
            trainer.train_on_batch(x[0], batches.y[0])
            placed = trainer.placement()
        run = trained(model, plan, cluster, batches)
    assert [shape for _, shape in placed["heads/query"]["kernel"]] == [(8, 4, 3), (8, 2, 3), (8, 2, 3)]
    assert [shape for _, shape in placed["heads/key"]["kernel"]] == [(8, 2, 3), (8, 1, 3), (8, 1, 3)]
    assert [shape for _, shape in placed["heads/attention_output"]["kernel"]] == [(4, 3, 8), (2, 3, 8), (2, 3, 8)]
    assert apart(of_keras(model, batches), run) <= 1e-8
