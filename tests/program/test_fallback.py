"""Layers without a description are computed by Keras's own call, under every plan with Keras's numbers on one device."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.graph_of_calls import traced
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.layers.fallback.keras_call_kind import OPTION, is_keras_call
from tests.program import drawing
from tests.program.fallback_nets import NETS, RANDOM, SLICED
from tests.program.oracle import expected_placement, worst_error

BATCH = 5


def data(model: keras.Model, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return a batch of samples and targets that fit a model."""

    def samples(tensor: Any) -> np.ndarray:
        shape = (BATCH, *tensor.shape[1:])
        return rng.integers(0, 9, shape) if "int" in str(tensor.dtype) else rng.normal(size=shape)

    graph = traced(model)
    x, y = [samples(tensor) for tensor in graph.inputs], [rng.random((BATCH, *tensor.shape[1:])) for tensor in graph.outputs]
    return (x[0] if len(x) == 1 else x), (y[0] if len(y) == 1 else y)


def trained(model: keras.Model, plan: hm.Plan, cluster: Any, batches: Sequence[Any]) -> tuple[list[float], list[np.ndarray], float, Any]:
    """Return losses, weights, the loss of a test and the placement."""
    with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss="mse", seed=3) as trainer:
        losses = [trainer.train_on_batch(x, y) for x, y in batches]
        return losses, trainer.to_keras().get_weights(), trainer.test_on_batch(*batches[0]), trainer.placement()


def of_keras(model: keras.Model, batches: Sequence[Any]) -> tuple[list[float], list[np.ndarray], float]:
    """Train the model itself, and return losses, weights and the loss of a test."""
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", run_eagerly=True)

    def loss(value: Any) -> float:
        return float(np.ravel(value)[0])

    losses = [loss(model.train_on_batch(x, y)) for x, y in batches]
    weights = model.get_weights()
    return losses, weights, loss(model.test_on_batch(*batches[0]))


@pytest.mark.slow
@pytest.mark.fast("lambda")
@pytest.mark.parametrize("name", NETS)
def test_what_has_no_description_trains_as_in_keras(name: str) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(zlib.crc32(name.encode()) & 0xFFFF)
    model, rng = NETS[name](), np.random.default_rng(7)
    graph = layer_graph(model)
    plan = drawing.plan(rng, graph, (("devices", 3),), BATCH)
    batches = [data(model, rng) for _ in range(5)]
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plans = (hm.Plan.single(model, 0, cluster, BATCH), plan)
        runs = [trained(model, each, cluster, batches) for each in plans]
        losses, weights, tested = of_keras(model, batches)
        for each, (ours, found, test, placement) in zip(plans, runs):
            assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (losses, ours)
            assert worst_error(weights, found) <= 1e-8
            assert abs(tested - test) <= 1e-8
            assert placement == expected_placement(graph, each)


@pytest.mark.fast("activity")
@pytest.mark.parametrize("name", NETS)
def test_stages_of_pipelines_compute_what_has_no_description_too(name: str) -> None:
    keras.config.set_floatx("float64")
    model, rng = NETS[name](), np.random.default_rng(9)
    plan = drawing.pipeline(rng, layer_graph(model), [(("devices", 2),), (("devices", 1),), (("devices", 2),)], BATCH)
    plan = dataclasses.replace(plan, microbatches=1, schedule="1f1b" if len(plan.stages) > 1 else plan.schedule)
    batches = [data(model, rng) for _ in range(3)]
    with hm.Cluster.local(["cpu:0"] * len(plan.devices)) as cluster:
        losses, weights, tested, _ = trained(model, hm.Plan.single(model, 0, cluster, BATCH), cluster, batches)
        ours, found, test, _ = trained(model, plan, cluster, batches)
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8 and worst_error(weights, found) <= 1e-8 and abs(tested - test) <= 1e-8


@pytest.mark.fast("rmsprop")
@pytest.mark.parametrize("optimizer", ["adamw", "rmsprop", "muon"])
def test_what_a_call_writes_to_trained_weights_is_where_their_update_starts(optimizer: str) -> None:
    keras.config.set_floatx("float64")
    model, rng = NETS["spectral norm of a layer called twice"](), np.random.default_rng(4)
    batches = [data(model, rng) for _ in range(4)]
    options = {"adamw": {"weight_decay": 0.1}, "rmsprop": {"clipnorm": 0.1}, "muon": {}}[optimizer]
    kind = {"adamw": keras.optimizers.AdamW, "rmsprop": keras.optimizers.RMSprop, "muon": keras.optimizers.Muon}[optimizer]
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        plan = hm.Plan.filters(model, (2, 1, 1), cluster, BATCH)
        with hm.Trainer(model, plan, cluster, optimizer=kind(0.01, **options), loss="mse") as trainer:
            losses = [trainer.train_on_batch(x, y) for x, y in batches]
            found = trainer.to_keras().get_weights()
    model.compile(kind(0.01, **options), "mse")
    expected = [float(np.ravel(model.train_on_batch(x, y))[0]) for x, y in batches]
    assert np.abs(np.subtract(expected, losses)).max() <= 1e-8 and worst_error(model.get_weights(), found) <= 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", RANDOM)
def test_what_draws_at_random_draws_the_same_under_every_plan(name: str) -> None:
    keras.config.set_floatx("float64")
    model, rng = RANDOM[name](), np.random.default_rng(8)
    batches = [data(model, rng) for _ in range(3)]
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        drawn = drawing.plan(rng, layer_graph(model), (("devices", 3),), BATCH)
        plan = hm.Plan.batch(model, (2, 0, 3), cluster, BATCH) if name in SLICED else drawn
        losses, weights, tested, _ = trained(model, hm.Plan.single(model, 0, cluster, BATCH), cluster, batches)
        ours, found, test, _ = trained(model, plan, cluster, batches)
        one_batch = [batches[0]] * 3
        still = trained(model, plan, cluster, one_batch)[0]
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8 and worst_error(weights, found) <= 1e-8 and abs(tested - test) <= 1e-8
    assert len(set(still)) == 3


@pytest.mark.fast("jitter of one's own")
@pytest.mark.parametrize("name", SLICED)
def test_what_draws_for_each_sample_is_split_over_samples(name: str) -> None:
    options = [layer.attributes[OPTION] for layer in layer_graph(RANDOM[name]()).layers if is_keras_call(layer)]
    assert [option["split"] for option in options if "draws" in option] == ["samples"]


@pytest.mark.slow
def test_most_networks_here_have_a_layer_that_is_taken_as_it_is() -> None:
    graphs = {name: layer_graph(build()) for name, build in {**NETS, **RANDOM}.items()}
    taken = [name for name, graph in graphs.items() if any(map(is_keras_call, graph.layers))]
    assert len(taken) > 45 and not any(map(is_keras_call, graphs["heads with a causal mask"].layers))
