"""What the layout program chooses trains as one device does, whatever layouts it mixes."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program import small_nets as nets
from tests.program.oracle import Steps, expected_placement, our_run, worst_error
from tools.generated.profiles import Figures, Interconnect, generated_profile

BATCH = 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bytes_per_s", "mixed"), [(1e7, {"replicated", "batch", "split", "row"}), (1e8, {"replicated", "column", "split", "row"})]
)
def test_a_plan_that_mixes_layouts_gives_the_numbers_of_one_device(bytes_per_s: float, mixed: set[str]) -> None:
    keras.config.set_floatx("float64")
    model = nets.residual()
    figures = [Figures(1e8 / slower, 1e9 / slower, start_s=0.0, tile=1) for slower in (1, 2, 2.5)]
    network = Interconnect(near_latency_s=1e-7, near_bytes_per_s=bytes_per_s)
    made = hm.plan(generated_profile(layer_graph(model), figures, BATCH, network), strategy="layers")
    assert {entry.layout for entry in made.stages[0].layouts} == mixed and len(made.stages[0].devices) == 3
    rng = np.random.default_rng(3)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in (BATCH, 5)]
    steps = Steps(x, [rng.integers(0, model.output_shape[-1], len(batch)) for batch in x], [None, None])

    def run(plan: hm.Plan, cluster: Any) -> tuple[list[float], list[np.ndarray], Any]:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return our_run(model, plan, cluster, keras.optimizers.SGD(0.01, momentum=0.9), loss, steps)

    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        alone = hm.Plan.single(model, 0, cluster, BATCH)
        plan = dataclasses.replace(alone, strategy="layers", stages=made.stages)
        losses, weights, placement = run(plan, cluster)
        expected_losses, expected, _ = run(alone, cluster)
    assert placement == expected_placement(layer_graph(model), plan)
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8
    assert worst_error(expected, weights) <= 1e-8
