"""Networks drawn at random, in pipelines drawn at random, give the numbers of the same microbatches on one device."""

from __future__ import annotations

import dataclasses

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.layers import layer_graph
from tests.program import drawing
from tests.program.oracle import Steps, expected_placement, keras_run, our_run, worst_error
from tests.program.test_random_networks import NETWORKS, Network

BATCH = 5
MESHES: list[drawing.Axes] = [(("devices", 1),), (("devices", 2),), (("devices", 3),), (("b", 2), ("f", 2)), (("f", 2), ("b", 2))]
STAGES = st.lists(st.sampled_from(MESHES), min_size=2, max_size=4)


def _check(network: Network, meshes: list[drawing.Axes], seed: int) -> None:
    keras.utils.set_random_seed(seed)
    model = network.build()
    rng = np.random.default_rng(seed)
    graph = layer_graph(model)
    plan = drawing.pipeline(rng, graph, meshes, BATCH)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in (BATCH, 2)]
    steps = Steps(x, [rng.integers(0, 3, len(batch)) for batch in x], [None, None])
    sgd = lambda: keras.optimizers.SGD(0.01, momentum=0.9)  # noqa: E731
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with hm.Cluster.local(["cpu:0"] * len(plan.devices)) as cluster:
        losses, weights, placement = our_run(model, plan, cluster, sgd(), loss, steps)
        if any(layer.kind in ("Dropout", "BatchNormalization") for layer in graph.layers):  # masks and statistics are of microbatches
            one = dataclasses.replace(hm.Plan.single(model, 0, cluster, BATCH), microbatches=plan.microbatches)
            expected_losses, expected, _ = our_run(model, one, cluster, sgd(), loss, steps)
        else:
            expected_losses, expected = keras_run(model, sgd(), loss, steps)
    assert placement == expected_placement(graph, plan)
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8, plan
    assert worst_error(expected, weights) <= 1e-8, plan


@hypothesis.settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(NETWORKS, STAGES, st.integers(0, 2**16))
def test_a_random_network_in_a_random_pipeline_gives_the_numbers_of_one_device(
    network: Network, meshes: list[drawing.Axes], seed: int
) -> None:
    _check(network, meshes, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
@hypothesis.settings(max_examples=20, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(NETWORKS, STAGES, st.integers(0, 2**16))
def test_many_random_networks_in_random_pipelines_give_the_numbers_of_one_device(
    network: Network, meshes: list[drawing.Axes], seed: int
) -> None:
    _check(network, meshes, seed)
