"""The table: every network under every layout that applies, on one to five devices, judged by one property at a time.

The oracle is Keras on one device in float64. Each pair of network and layout trains once; the properties read what it left.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.training.checkpoint import load_state
from tests.program import small_nets as nets
from tests.program.oracle import clone, expected_placement, worst_error

BATCH = 8
BATCHES = (8, 8, 3, 8, 1)  # short ones among them, smaller than the number of devices
Planner = Callable[[Any, Any], hm.Plan]


@dataclasses.dataclass(frozen=True)
class Layout:
    """One column of the table: how a plan is made, on how many devices."""

    name: str
    devices: int
    plan: Planner


def _batch(*shares: int) -> Layout:
    return Layout(f"batch {shares}", len(shares), lambda model, cluster: hm.Plan.batch(model, shares, cluster, BATCH))


def _filters(*shares: int, pairing: str = "pairs") -> Layout:
    name = f"filters {shares} {pairing}"
    return Layout(name, len(shares), lambda model, cluster: hm.Plan.filters(model, shares, cluster, BATCH, pairing=pairing))


def _hybrid(*shares: int, border: str) -> Layout:
    make = lambda model, cluster: hm.Plan.hybrid(model, shares, cluster, BATCH, border=border)  # noqa: E731
    return Layout(f"hybrid {shares} {border}", len(shares), make)


def _grid(samples: tuple[int, ...], filters: tuple[int, ...], pairing: str = "pairs") -> Layout:
    name = f"grid {samples} x {filters} {pairing}"
    make = lambda model, cluster: hm.Plan.grid(model, samples, filters, cluster, BATCH, pairing=pairing)  # noqa: E731
    return Layout(name, len(samples) * len(filters), make)


LAYOUTS = [
    Layout("single", 1, lambda model, cluster: hm.Plan.single(model, 0, cluster, BATCH)),
    _batch(5, 2),
    _batch(4, 0, 3),
    _batch(1, 1, 1, 1),
    _batch(3, 1, 2, 1, 1),
    _filters(5, 2),
    _filters(7, 4, 1, pairing="gather"),
    _filters(4, 3, 2, 1),
    _filters(1, 2, 0, 2, 1),
    _hybrid(5, 2, border="all_gather"),
    _hybrid(4, 2, 1, border="all_to_all"),
    _hybrid(1, 3, 0, 2, border="all_to_all"),
    _grid((2, 1), (3, 1)),
    _grid((1, 3), (1, 2), pairing="gather"),
]
NETWORKS = [nets.convs, nets.pools, nets.norms, nets.residual, nets.branches, nets.rows_into_dense, nets.sequential, nets.partly_frozen]
_FAST = {(1, 2), (4, 8), (6, 12)}  # (network, layout): samples, filters and both, with a device that has none
TABLE = [
    pytest.param(network, layout, id=f"{network.__name__}, {layout.name}", marks=[] if (row, column) in _FAST else [pytest.mark.slow])
    for row, network in enumerate(NETWORKS)
    for column, layout in enumerate(LAYOUTS)
]
table = pytest.mark.parametrize(("network", "layout"), TABLE, scope="module")  # all properties of a pair in turn, so that it trains once


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run leaves: the loss of each step, final weights and slots, predictions."""

    losses: list[float]
    weights: list[np.ndarray]
    slots: list[np.ndarray]
    outputs: np.ndarray


def _optimizer() -> Any:
    return keras.optimizers.SGD(0.01, momentum=0.9)


def _loss() -> Any:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@functools.cache
def _serial(network: nets.Build) -> tuple[Any, list[np.ndarray], list[np.ndarray], Run]:
    """Return a network with its batches, and Keras's run of it."""
    keras.config.set_floatx("float64")
    model = network()
    rng = np.random.default_rng(5)
    x = [rng.normal(size=(n, *model.input_shape[1:])) for n in BATCHES]
    y = [rng.integers(0, model.output_shape[-1], n) for n in BATCHES]
    serial, optimizer = clone(model), _optimizer()
    serial.compile(optimizer, _loss(), run_eagerly=True)
    losses = [float(serial.train_on_batch(*batch)) for batch in zip(x, y)]
    slots = [np.array(variable) for variable in optimizer.variables if "momentum" in variable.name]
    return model, x, y, Run(losses, serial.get_weights(), slots, serial.predict(x[0], verbose=0))


@functools.cache
def _planned(network: nets.Build, layout: Layout) -> tuple[Run, Any, Any]:
    """Return the run of a network under a layout, its placement, and the one that the plan names."""
    model, x, y, _ = _serial(network)
    keras.config.set_floatx("float64")
    graph = layer_graph(model)
    with hm.Cluster.local(["cpu:0"] * layout.devices) as cluster:
        plan = layout.plan(model, cluster)
        with hm.Trainer(model, plan, cluster, optimizer=_optimizer(), loss=_loss()) as trainer, tempfile.TemporaryDirectory() as folder:
            losses = [trainer.train_on_batch(*batch) for batch in zip(x, y)]
            trainer.save(pathlib.Path(folder) / "state")
            values = load_state(pathlib.Path(folder) / "state").values
            trained = [f"{i:03d}/{v.name}" for i, layer in enumerate(graph.layers) for v in layer.variables if v.trainable]
            slots = [values[key] for name in trained for key in values if key.startswith(f"{name}/")]
            run = Run(losses, trainer.to_keras().get_weights(), slots, trainer.predict(x[0]))
            return run, trainer.placement(), expected_placement(graph, plan)


@table
def test_the_loss_of_each_step_is_that_of_one_device(network: nets.Build, layout: Layout) -> None:
    assert np.abs(np.subtract(_serial(network)[3].losses, _planned(network, layout)[0].losses)).max() <= 1e-8


@table
def test_the_weights_after_five_steps_are_those_of_one_device(network: nets.Build, layout: Layout) -> None:
    assert worst_error(_serial(network)[3].weights, _planned(network, layout)[0].weights) <= 1e-8


@table
def test_the_optimizers_slots_are_those_of_one_device(network: nets.Build, layout: Layout) -> None:
    assert worst_error(_serial(network)[3].slots, _planned(network, layout)[0].slots) <= 1e-8


@table
def test_the_predictions_are_those_of_one_device(network: nets.Build, layout: Layout) -> None:
    expected = _serial(network)[3].outputs
    assert np.abs(expected - _planned(network, layout)[0].outputs).max() / (np.abs(expected).max() + 1e-3) <= 1e-8


@table
def test_the_slices_lie_as_the_plan_says(network: nets.Build, layout: Layout) -> None:
    _, placement, expected = _planned(network, layout)
    assert placement == expected
