"""Any plan that is legal for a network gives one device's numbers, not only the plans that strategies make."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.cases import first_fast
from tests.program import drawing
from tests.program import small_nets as nets
from tests.program.oracle import Steps, expected_placement, our_run, worst_error

BUILDS = [nets.pools, nets.norms, nets.residual, nets.branches, nets.rows_into_dense, nets.sequential, nets.one_flatten_two_readers]
MESHES: list[drawing.Axes] = [
    (("devices", 2),),
    (("devices", 3),),
    (("batch", 2), ("filters", 2)),
    (("devices", 5),),
    (("batch", 3), ("filters", 2)),
]


@pytest.mark.parametrize("seed", first_fast(range(25), 1))
def test_layouts_drawn_at_random_give_the_numbers_of_one_device(seed: int) -> None:
    keras.config.set_floatx("float64")
    rng = np.random.default_rng(seed)
    model, axes = BUILDS[seed % len(BUILDS)](), MESHES[seed % len(MESHES)]
    graph = layer_graph(model)
    plan = drawing.plan(rng, graph, axes, 5)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in (5, 2)]
    steps = Steps(x, [rng.integers(0, model.output_shape[-1], len(batch)) for batch in x], [None, None])

    def run(plan: hm.Plan, cluster: Any) -> tuple[list[float], list[np.ndarray], Any]:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return our_run(model, plan, cluster, keras.optimizers.SGD(0.01, momentum=0.9), loss, steps)

    with hm.Cluster.local(["cpu:0"] * len(plan.devices)) as cluster:
        losses, weights, placement = run(plan, cluster)
        expected_losses, expected, _ = run(hm.Plan.single(model, 0, cluster, 5), cluster)
    assert placement == expected_placement(graph, plan)
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8, plan
    assert worst_error(expected, weights) <= 1e-8, plan
