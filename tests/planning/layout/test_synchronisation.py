"""Batch norms that do not wait for each other share a synchronisation, and layers can be built in an order that allows it."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.synchronisation import building_order, synchronisation_groups
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import Net, cluster_of, frozen, residual_net

TWO = cluster_of(2)


def block(trainable: bool = True) -> LayerGraph:
    """A residual block with a shortcut of its own; the shortcut is built first."""
    net = Net()
    start = net.conv("start", 6)
    net.conv("shortcut", 6, [start])
    shortcut = net.add("BatchNormalization", "shortcut_norm", trainable=trainable)
    net.conv("conv1", 6, [start])
    net.add("BatchNormalization", "norm1", trainable=trainable)
    net.conv("conv2", 6)
    main = net.add("BatchNormalization", "norm2", trainable=trainable)
    net.add("Add", "add", [shortcut, main])
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5)
    return net.graph()


def names(graph: LayerGraph, plan: Plan) -> list[list[str]]:
    return [[graph.layers[i].name for i in group] for group in synchronisation_groups(graph, plan.stages[0].layouts)]


def test_a_shortcut_shares_with_the_norm_of_the_main_branch_that_waits_for_as_many() -> None:
    graph = block()
    assert names(graph, Plan.batch(graph, [2, 1], TWO, 8)) == [["shortcut_norm", "norm1"]]


def test_nothing_is_merged_on_one_device_where_channels_are_split_or_where_norms_are_frozen() -> None:
    graph = block()
    for plan in (Plan.single(graph, 0, TWO, 8), Plan.filters(graph, [2, 1], TWO, 8), Plan.batch(graph, [1, 0], TWO, 8)):
        assert names(graph, plan) == []
    graph = block(trainable=False)
    assert names(graph, Plan.batch(graph, [2, 1], TWO, 8)) == []
    graph = frozen(residual_net())
    assert building_order(graph, range(len(graph.layers)), ()) == tuple((i,) for i in range(len(graph.layers)))


def test_a_layer_is_built_behind_those_it_reads_and_a_group_at_once() -> None:
    graph = block()
    groups = synchronisation_groups(graph, Plan.batch(graph, [2, 1], TWO, 8).stages[0].layouts)
    ordered = [[graph.layers[i].name for i in entry] for entry in building_order(graph, range(len(graph.layers)), groups)]
    expected = ["input", "start", "shortcut", "conv1", "shortcut_norm norm1", "conv2", "norm2", "add", "pool", "head"]
    assert [" ".join(entry) for entry in ordered] == expected


@st.composite
def networks(draw: st.DrawFn) -> LayerGraph:
    net, kept = Net(), []
    kept.append(net.conv("start", 4))
    for number in range(draw(st.integers(1, 14))):
        source = draw(st.sampled_from(kept))
        kind = draw(st.sampled_from(["conv", "norm", "relu", "add"]))
        if kind == "conv":
            kept.append(net.conv(f"conv{number}", 4, [source]))
        elif kind == "add":
            kept.append(net.add("Add", f"add{number}", [source, draw(st.sampled_from(kept))]))
        else:
            kept.append(net.add("BatchNormalization" if kind == "norm" else "ReLU", f"{kind}{number}", [source]))
    return net.graph()


def ancestors(graph: LayerGraph, layer: int) -> set[int]:
    before = set(graph.layers[layer].inputs)
    return before.union(*(ancestors(graph, source) for source in before))


@given(networks())
def test_no_norm_of_a_group_depends_on_another_and_the_order_is_one_of_all_layers(graph: LayerGraph) -> None:
    groups = synchronisation_groups(graph, Plan.batch(graph, [2, 1], TWO, 8).stages[0].layouts)
    for first, second in itertools.chain(*(itertools.permutations(group, 2) for group in groups)):
        assert first not in ancestors(graph, second)
    order = building_order(graph, range(len(graph.layers)), groups)
    assert sorted(itertools.chain(*order)) == list(range(len(graph.layers)))
    assert {entry for entry in order if len(entry) > 1} == set(groups)
    built: set[int] = set()
    for entry in order:
        assert all(set(graph.layers[layer].inputs) <= built for layer in entry)
        built |= set(entry)


@given(networks())
def test_merged_synchronisations_are_no_more_than_the_longest_path_needs(graph: LayerGraph) -> None:
    groups = synchronisation_groups(graph, Plan.batch(graph, [2, 1], TWO, 8).stages[0].layouts)
    norms = {i for i, layer in enumerate(graph.layers) if layer.kind == "BatchNormalization"}
    longest = max((1 + len([j for j in path if j in norms]) for i in norms for path in paths(graph, i)), default=0)
    assert len(norms) - sum(len(group) - 1 for group in groups) == longest


def paths(graph: LayerGraph, layer: int) -> list[tuple[int, ...]]:
    sources = graph.layers[layer].inputs
    return [(*path, source) for source in set(sources) for path in paths(graph, source)] or [()]
