from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.layout.arrangement import Segment, arrange, channels, draws_at_random, lay_out, split_units, trains_before
from tests.planning.networks import Net, frozen, pair_net


def layouts_of(graph: LayerGraph, pairing: str = "pairs", unsplit: frozenset[int] = frozenset()) -> dict[str, str]:
    return {layer.name: layout for layer, layout in zip(graph.layers, arrange(graph, pairing, unsplit).layouts)}


@st.composite
def networks(draw: st.DrawFn) -> LayerGraph:
    """Draw a chain with side branches, flattened at a random place."""
    net = Net((8, 8, 3))
    kinds = ("conv", "BatchNormalization", "ReLU", "MaxPooling2D", "shortcut", "concat", "Dropout")
    for at, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=7))):
        last = len(net.layers) - 1
        if kind == "conv":
            net.conv(f"conv{at}", draw(st.integers(1, 6)))
        elif kind == "MaxPooling2D":
            net.add(kind, f"pool{at}", pool_size=[2, 2], strides=[1, 1], padding="same")
        elif kind == "shortcut":
            sides = [net.conv(f"a{at}", 4, [last]), net.conv(f"b{at}", 4, [draw(st.integers(0, last))])]
            net.add("Add", f"add{at}", sides)
        elif kind == "concat":
            net.add("Concatenate", f"concat{at}", [last, net.conv(f"c{at}", 2, [last])])
        else:
            net.add(kind, f"{kind}{at}")
    for at, kind in enumerate(draw(st.sampled_from([(), ("Flatten",), ("Flatten", "Dropout"), ("Flatten", "BatchNormalization")]))):
        net.add(kind, f"tail{at}")
    if draw(st.booleans()):
        net.dense("head", 5)
    return net.graph()


def test_a_pair_is_a_column_and_a_row_and_the_head_is_a_column_again() -> None:
    assert layouts_of(pair_net()) == {"input": "replicated", "first": "column", "second": "row", "flatten": "replicated", "head": "column"}


def test_gathering_makes_every_mixing_layer_a_column() -> None:
    assert list(layouts_of(pair_net(), "gather").values()) == ["replicated", "column", "column", "replicated", "column"]


def test_a_residual_block_on_a_whole_stream_pairs_inside() -> None:
    net = Net()
    start = net.conv("start", 4)
    net.conv("a", 6, [net.add("Concatenate", "whole", [start, start])])
    net.add("BatchNormalization", "norm")
    net.add("ReLU", "relu")
    main = net.conv("b", 8)
    net.add("Add", "sum", [main, main - 4])
    found = layouts_of(net.graph())
    assert [found[name] for name in ("a", "norm", "relu", "b", "sum")] == ["column", "split", "split", "row", "replicated"]


def test_an_add_of_a_split_and_a_whole_input_is_gathered() -> None:
    net = Net()
    whole = net.add("ReLU", "whole")
    side = net.conv("side", 3, [whole])
    net.add("Add", "sum", [side, whole])
    assert layouts_of(net.graph())["sum"] == "replicated"


def test_columns_that_meet_in_an_add_share_one_segment() -> None:
    net = Net()
    left, right = net.conv("left", 7, [0]), net.conv("right", 7, [0])
    net.add("Add", "sum", [left, right])
    net.conv("last", 4)
    arrangement = arrange(net.graph())
    assert arrangement.layouts == ("replicated", "column", "column", "split", "row")
    assert arrangement.segments == (Segment(7, (1, 2, 3, 4)),)


def test_a_concatenate_is_never_split() -> None:
    net = Net()
    left, right = net.conv("left", 7, [0]), net.conv("right", 7, [0])
    net.add("Concatenate", "joined", [left, right])
    net.conv("last", 4)
    assert arrange(net.graph()).layouts == ("replicated", "column", "column", "replicated", "column")


def test_a_flatten_hands_its_channels_to_the_row_behind_it() -> None:
    net = Net((4, 4, 3))
    net.conv("conv", 6)
    net.add("Flatten", "flatten")
    net.add("Dropout", "drop")
    net.dense("row", 5)
    graph = net.graph()
    assert arrange(graph).layouts == ("replicated", "column", "split", "split", "row")
    assert channels(graph) == (3, 6, 6, 6, 5)
    assert [split_units(graph, i, layout, channels(graph)) for i, layout in ((1, "column"), (2, "split"), (4, "row"))] == [6, 6, 6]


@pytest.mark.parametrize("tail", ["BatchNormalization", "Softmax", None])
def test_a_flatten_without_a_row_behind_it_is_gathered_first(tail: str | None) -> None:
    net = Net((4, 4, 3))
    net.conv("conv", 6)
    net.add("Flatten", "flatten")
    if tail == "BatchNormalization":
        net.add(tail, "tail")
        net.dense("head", 2)
    elif tail:
        net.add(tail, "tail")
    assert arrange(net.graph()).layouts[2] == "replicated"


def test_a_layer_kept_whole_turns_the_next_one_into_a_column() -> None:
    assert list(layouts_of(pair_net(), unsplit=frozenset({1})).values()) == ["replicated", "replicated", "column", "split", "row"]


def test_a_dense_softmax_is_a_row_behind_a_split_and_whole_otherwise() -> None:
    net = Net((4,))
    net.dense("probabilities", 3, activation="softmax")
    assert arrange(net.graph()).layouts == ("replicated", "replicated")


def test_an_unknown_pairing_is_refused() -> None:
    with pytest.raises(PlanError, match="pairing 'triples' is unknown; use one of pairs, gather"):
        arrange(pair_net(), "triples")


@given(networks(), st.sampled_from(["pairs", "gather"]), st.data())
def test_every_arrangement_is_legal_and_consistent(graph: LayerGraph, pairing: str, data: st.DataObject) -> None:
    mixing = [i for i, layer in enumerate(graph.layers) if kind_of(layer).mixes]
    whole = data.draw(st.frozensets(st.sampled_from(mixing))) if mixing else frozenset()
    arrangement = arrange(graph, pairing, whole)
    counts, home = channels(graph), {}
    for number, segment in enumerate(arrangement.segments):
        for layer in segment.layers:
            assert home.setdefault(layer, number) == number
            assert split_units(graph, layer, arrangement.layouts[layer], counts) == segment.units
    for index, (layer, layout) in enumerate(zip(graph.layers, arrangement.layouts)):
        assert layout in kind_of(layer).layouts(layer)
        assert (index in home) == (layout != "replicated")
        if layout in ("row", "split"):
            assert all(arrangement.layouts[i] in ("column", "split") and home[i] == home[index] for i in layer.inputs)


@given(networks(), st.integers(2, 4))
def test_sizes_reach_every_layer_of_their_segment(graph: LayerGraph, devices: int) -> None:
    arrangement = arrange(graph)
    rows = [(segment.units - 1, 1, *(0,) * (devices - 2)) for segment in arrangement.segments]
    entries = lay_out(graph, arrangement, rows)
    assert [entry.layer for entry in entries] == list(range(len(graph.layers)))
    for segment, row in zip(arrangement.segments, rows):
        assert {entries[i].sizes for i in segment.layers} == {row}


def test_a_gradient_is_needed_behind_the_first_layer_that_trains() -> None:
    assert trains_before(pair_net()) == (False, True, True, True, True)
    assert not any(trains_before(frozen(pair_net())))


def test_a_flatten_that_the_network_returns_is_gathered_before_it() -> None:
    net = Net((3, 3, 2))
    net.conv("conv", 4)
    net.add("Flatten", "flatten")
    net.dense("head", 3)
    graph = net.graph()
    assert arrange(graph).layouts[2:] == ("split", "row")
    both = LayerGraph(graph.layers, graph.dtype, (2, 3))
    assert arrange(both).layouts[2:] == ("replicated", "column")


def test_several_inputs_are_replicated_and_their_branches_split() -> None:
    net = Net((4, 4, 2))
    net.conv("left", 6)
    other = net.add("InputLayer", "other", (), shape=[4, 4, 2])
    right = net.conv("right", 6, [other])
    net.add("Add", "sum", [1, right])
    assert arrange(net.graph()).layouts == ("replicated", "column", "replicated", "column", "split")


def test_layers_of_random_draws_are_known() -> None:
    net = Net((8, 8, 3))
    net.conv("conv", 4)
    net.add("Dropout", "dropout", rate=0.5, seed=None, noise_shape=None)
    assert [draws_at_random(layer) for layer in net.graph().layers] == [False, False, True]
