"""Slabs of layers follow from those of their inputs, and what a halo exchange sends is what readers lack."""

from __future__ import annotations

import dataclasses
import random

import pytest

from hetero_mtf.devices import ClusterRecord
from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import make_layer
from hetero_mtf.planning.cost.device_ring import Ring
from hetero_mtf.planning.layout.arrangement import reach_of
from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.layout.resharding import Resharding, TensorLayout, output_of, reshardings
from hetero_mtf.planning.layout.slabs import slab_dimension, slab_layouts, wanted_of
from hetero_mtf.planning.plan.plan import Plan
from tests.cases import each
from tests.planning.networks import cluster_of, residual_net


def chain(*layers: tuple[str, dict[str, object]], shape: tuple[int, ...] = (12, 9, 2)) -> LayerGraph:
    """Return a chain of layers behind an input of a shape."""
    made = [make_layer("input", "InputLayer", {"shape": list(shape)}, (), [])]
    for at, (kind, attributes) in enumerate(layers):
        made.append(make_layer(f"layer{at}", kind, attributes, (at,), [made[-1].output_shape]))
    return LayerGraph(tuple(made), "float32")


POOL = ("MaxPooling2D", {"pool_size": [2, 2], "strides": [2, 2], "padding": "valid"})
WIDE = ("AveragePooling2D", {"pool_size": [3, 3], "strides": [1, 1], "padding": "same"})


def test_slabs_follow_through_windows_and_strides() -> None:
    graph = chain(WIDE, POOL, ("Flatten", {}))
    assert [entry.slabs for entry in slab_layouts(graph, [3, 1], 0)] == [(9, 3), (9, 3), (5, 1), ()]
    assert [entry.layout for entry in slab_layouts(graph, [3, 1], 0)] == ["space", "space", "space", "replicated"]
    assert [entry.slabs for entry in slab_layouts(graph, [2, 1], 1)] == [(6, 3), (6, 3), (3, 1), ()]


def test_the_longest_dimension_of_the_largest_input_is_cut() -> None:
    assert slab_dimension(chain(shape=(5, 9, 9, 1))) == 1
    with pytest.raises(NothingToSplitError, match="no input of the network has spatial dimensions"):
        slab_dimension(chain(shape=(4,)))


def test_a_window_reads_what_lies_around_its_slab_inside_the_input() -> None:
    graph = chain(WIDE, POOL)
    wide, pool = (LayerLayout(at, "", "space", slabs=slabs) for at, slabs in ((1, (9, 3)), (2, (5, 1))))
    assert wanted_of(graph, wide, 0).slabs == ((0, 10), (8, 12))
    assert wanted_of(graph, pool, 1).slabs == ((0, 10), (10, 12))
    (exchange,) = reshardings(output_of(LayerLayout(0, "", "space", slabs=(9, 3))), wanted_of(graph, wide, 0))
    assert exchange.kind == exchange.reverse.kind == "halo" and exchange.reverse.before == ((0, 10), (8, 12))


@each("seed", range(200))
def test_an_exchange_is_as_long_as_what_the_busiest_processor_sends_or_receives(seed: int) -> None:
    generator = random.Random(seed)
    count, extent = generator.randint(2, 5), generator.randint(3, 20)
    ends = sorted(generator.choices(range(extent + 1), k=count - 1))
    held = list(zip([0, *ends], [*ends, extent]))
    read = [tuple(sorted(generator.choices(range(extent + 1), k=2))) for _ in held]
    sets = [[set(range(*each)) for each in ranges] for ranges in (held, read)]
    received = [len(needs - has) for has, needs in zip(*sets)]
    sent = [sum(len(has & needs) for at, needs in enumerate(sets[1]) if at != own) for own, has in enumerate(sets[0])]
    ring = Ring(count, 0.0, 1.0)
    move = Resharding("halo", "devices", TensorLayout(), tuple(held), tuple(read))  # type: ignore[arg-type]
    assert ring.reshard_s(move, 1.0) == pytest.approx(max(*received, *sent) / extent)
    assert ring.reshard_s(move.reverse, 1.0) == pytest.approx(ring.reshard_s(move, 1.0))


def test_from_space_to_other_layouts_a_tensor_is_gathered_or_exchanged() -> None:
    slabs = output_of(LayerLayout(0, "", "space", slabs=(3, 1)))
    batch = TensorLayout((), "", (2, 2), "devices")
    assert [move.kind for move in reshardings(slabs, batch)] == ["all_to_all"]
    assert [move.kind for move in reshardings(slabs, TensorLayout())] == ["all_gather"]
    assert [move.kind for move in reshardings(TensorLayout(), slabs)] == ["slice"]
    assert reshardings(slabs, output_of(LayerLayout(1, "", "space", slabs=(3, 1)))) == []


CLUSTER: ClusterRecord = cluster_of(2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slabs": (1, 1)}, "sums to 2, layer {name} has {extent} positions there"),
        ({"dimension": 7}, r"is 7, layer {name} \(InputLayer\) has 2 spatial dimensions, from 0"),
        ({"slabs": (1,)}, "are 1, axis devices has 2 positions"),
        ({"slab_axis": "none"}, "is 'none', the stage has devices"),
        ({"dimension": -1}, "is -1, must be zero or more"),
        ({"layout": "replicated"}, "must be empty for a replicated layer"),
        ({"samples": (4, 4)}, "is 'devices', which is the axis of the samples too"),
    ],
)
def test_faults_of_slabs_are_named(changes: dict[str, object], message: str) -> None:
    graph = residual_net()
    plan = Plan.space(graph, [1, 1], CLUSTER, 8)
    stage = plan.stages[0]
    entry = dataclasses.replace(stage.layouts[0], **changes)  # type: ignore[arg-type]
    name, extent = entry.name, graph.layers[0].output_shape[0]
    with pytest.raises(PlanError, match=message.format(name=name, extent=extent)):
        changed = dataclasses.replace(stage, layouts=(entry, *stage.layouts[1:]))
        dataclasses.replace(plan, stages=(changed,)).check(graph)


def test_a_layer_that_mixes_space_cannot_lie_in_slabs() -> None:
    graph = chain(POOL, ("Flatten", {}))
    assert reach_of(graph, 1) and not reach_of(graph, 2)
    with pytest.raises(PlanError, match="no layer can lie in slabs of dimension 3"):
        slab_layouts(graph, [1, 1], 3)
