"""Functional graphs drawn at random train as in Keras, under plans drawn at random."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.cases import first_fast
from tests.program import drawing
from tools.conformance import graphs
from tools.conformance.compare import BATCH, apart, of_keras, trained


@pytest.mark.fast("1")
@pytest.mark.parametrize("seed", first_fast(range(30), 3))
def test_graphs_drawn_at_random_train_as_in_keras(seed: int) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    model = graphs.network(rng)
    batches = graphs.batches(model, rng)
    plan = drawing.plan(rng, layer_graph(model), (("devices", 3),), BATCH)
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        ours = trained(model, plan, cluster, batches)
    assert apart(of_keras(model, batches), ours) <= 1e-8
