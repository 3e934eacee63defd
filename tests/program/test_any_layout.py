"""Any plan that is legal for a network gives one device's numbers, not only the plans that strategies make."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of, layer_graph
from hetero_mtf.planning.layout import channels, split_units
from hetero_mtf.planning.records import AXIS, LayerLayout, Stage
from tests.program import small_nets as nets
from tests.program.oracle import Steps, our_run, worst_error

BUILDS = [nets.pools, nets.norms, nets.residual, nets.branches, nets.rows_into_dense, nets.sequential, nets.one_flatten_two_readers]


def _sizes(rng: np.random.Generator, units: int, devices: int) -> tuple[int, ...]:
    """Return sizes drawn at random, about a quarter of the devices without any."""
    weights = rng.random(devices) * (rng.random(devices) < 0.75)
    weights[rng.integers(devices)] += 0.1
    return tuple(int(n) for n in rng.multinomial(units, weights / weights.sum()))


def _layouts(rng: np.random.Generator, graph: LayerGraph, devices: int) -> tuple[LayerLayout, ...]:
    """Return a legal layout of every layer; a layer that reads a split keeps its sizes, whether or not a strategy would."""
    counts, split, found = channels(graph), dict[int, tuple[int, ...]](), []
    for index, layer in enumerate(graph.layers):
        layout = str(rng.choice(sorted(kind_of(layer).layouts(layer))))
        units = split_units(graph, index, layout, counts) if layer.inputs else 0
        arriving = {split[i] for i in layer.inputs if i in split} if layout != "column" else set()
        fits = len(arriving) <= 1 and all(sum(sizes) == units for sizes in arriving)
        if layout == "replicated" or not fits:
            found.append(LayerLayout(index, layer.name, "replicated"))
            continue
        sizes = arriving.pop() if arriving else _sizes(rng, units, devices)
        found.append(LayerLayout(index, layer.name, layout, sizes))
        if layout != "row":
            split[index] = sizes
    return tuple(found)


@pytest.mark.parametrize("seed", range(14))
def test_layouts_drawn_at_random_give_the_numbers_of_one_device(seed: int) -> None:
    keras.config.set_floatx("float64")
    rng = np.random.default_rng(seed)
    model = BUILDS[seed % len(BUILDS)]()
    graph, devices = layer_graph(model), 2 + seed % 2
    stage = Stage(tuple(range(len(graph.layers))), tuple(range(devices)), ((AXIS, devices),), _layouts(rng, graph, devices))
    x = [rng.normal(size=(5, *model.input_shape[1:])) for _ in range(2)]
    steps = Steps(x, [rng.integers(0, model.output_shape[-1], 5) for _ in x], [None, None])

    def run(plan: hm.Plan, cluster: Any) -> tuple[list[float], list[np.ndarray]]:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return our_run(model, plan, cluster, keras.optimizers.SGD(0.01, momentum=0.9), loss, steps)[:2]

    with hm.Cluster.local(["cpu:0"] * devices) as cluster:
        plan = hm.Plan(graph.digest, graph.dtype, 5, "typed", ("cpu:0",) * devices, (stage,))
        losses, weights = run(plan, cluster)
        expected_losses, expected = run(hm.Plan.single(model, 0, cluster, 5), cluster)
    assert np.abs(np.subtract(expected_losses, losses)).max() <= 1e-8, plan
    assert worst_error(expected, weights) <= 1e-8, plan
