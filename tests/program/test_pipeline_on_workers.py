"""Pipelines over worker processes: what stages send each other goes through TensorFlow's servers, and changes no result either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from tests.program import small_nets as nets
from tests.program.oracle import expected_placement, our_run, worst_error
from tests.program.pipelines import Pipe, accumulated_run, steps_for

SPEEDS = [0.4, 0.2, 0.2, 0.4, 0.3, 0.2, 0.3]  # of seven worker processes
GROUPS = ((0, 1, 2), (3,), (4, 5), (6,))
SHARES = ((3, 2, 1), (1,), (2, 1), (1,))
SPLITS = ("filters", "filters", "batch", "filters")
BATCHES = (8, 8, 3, 7, 8)  # a short one, of fewer samples than there are microbatches
NETS = {nets.residual: ("left", "right", "inner", "around"), nets.branches: ("left", "right", "mix", "features")}
TWO = {nets.residual: ("left", "last"), nets.branches: ("left", "mix")}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.emulate(SPEEDS) as made:
        yield made


def _check(build: nets.Build, pipe: Pipe, cluster: Any, weighted: bool = False) -> None:
    keras.config.set_floatx("float64")
    model = build()
    steps = steps_for(model, BATCHES, weighted)
    sgd = [keras.optimizers.SGD(0.02, momentum=0.9) for _ in range(2)]
    losses, weights = accumulated_run(model, sgd[0], steps, pipe.microbatches)
    plan = pipe.plan(model, cluster)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    ours, trained, placement = our_run(model, plan, cluster, sgd[1], loss, steps)
    assert placement == expected_placement(layer_graph(model), plan)
    held = {device for variables in placement.values() for slices in variables.values() for device, _ in slices}
    assert held == {cluster.devices[device].name for group in pipe.devices for device in group}
    assert np.abs(np.subtract(losses, ours)).max() <= 1e-8, (losses, ours)
    assert worst_error(weights, trained) <= 1e-8


@pytest.mark.parametrize("schedule", ["1f1b", "fill_drain"])
@pytest.mark.parametrize("build", list(NETS))
def test_four_stages_of_one_to_three_processes_give_the_numbers_of_one_device(build: nets.Build, schedule: str, cluster: Any) -> None:
    _check(build, Pipe(NETS[build], GROUPS, SHARES, SPLITS, 4, schedule), cluster, weighted=schedule == "1f1b")


@pytest.mark.parametrize("build", list(TWO))
def test_replicas_of_processes_with_uneven_batches_give_the_numbers_of_one_device(build: nets.Build, cluster: Any) -> None:
    pipe = Pipe(TWO[build], ((0, 1, 2, 4), (3, 6)), ((3, 2), (1,)), ("filters",), 3, replicas=(5, 3))
    _check(build, pipe, cluster)


def test_processes_in_two_stages_each_that_compute_activations_again_give_the_numbers_of_one_device(cluster: Any) -> None:
    pipe = Pipe(NETS[nets.residual], ((0, 1), (3,), (0, 1), (3,)), ((2, 1), (1,)) * 2, ("filters",), 4, "interleaved", True)
    _check(nets.residual, pipe, cluster)
