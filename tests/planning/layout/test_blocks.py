from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import make_layer
from hetero_mtf.planning.layout.arrangement import shared
from hetero_mtf.planning.layout.blocks import blocks, crossing, crossing_bytes, leading_inputs, output_bytes, shared_spans
from tests.planning.networks import Net, attention_net, pair_net, residual_net


def names(graph: LayerGraph) -> list[list[str]]:
    return [[graph.layers[index].name for index in block] for block in blocks(graph)]


def concatenating_net() -> LayerGraph:
    net = Net()
    stem = net.conv("stem", 4)
    left, right = net.conv("left", 3, [stem]), net.conv("right", 5, [stem])
    net.add("Concatenate", "join", [left, right])
    net.add("GlobalAveragePooling2D", "pool")
    net.dense("head", 5)
    return net.graph()


def two_input_net() -> LayerGraph:
    net = Net((6,))
    net.add("InputLayer", "second input", (), shape=[3])
    deep = net.dense("deep", 4, [0])
    join = net.add("Concatenate", "join", [deep, 1])
    hidden = net.dense("hidden", 4, [join])
    net.dense("head", 2, [hidden])
    return net.graph()


def two_output_net() -> LayerGraph:
    net = Net((6,))
    trunk = net.dense("trunk", 4)
    side = net.dense("side", 2, [trunk])
    hidden = net.dense("hidden", 4, [trunk])
    head = net.dense("head", 2, [hidden])
    return LayerGraph(tuple(net.layers), "float64", (side, head))


def shared_net() -> LayerGraph:
    net = Net((6,))
    net.dense("enter", 6)
    first = net.dense("both", 6)
    net.dense("between", 6)
    again = make_layer("both:2", "Dense", dict(net.layers[first].attributes), (3,), [(6,)])
    net.layers.append(type(again)(**{**vars(again), "shared_with": first}))
    net.dense("head", 2)
    return net.graph()


def test_a_chain_may_be_cut_behind_every_layer_but_the_input() -> None:
    assert names(pair_net()) == [["input", "first"], ["second"], ["flatten"], ["head"]]
    assert crossing_bytes(pair_net()) == (9 * 9 * 12 * 4, 9 * 9 * 10 * 4, 9 * 9 * 10 * 4)


def test_a_residual_block_is_one_block() -> None:
    graph = residual_net()
    assert names(graph) == [
        ["input", "stem"],
        ["block_a", "block_norm", "block_relu", "block_b", "shortcut", "sum"],
        ["pool"],
        ["head"],
    ]
    assert crossing(graph) == (1, 7, 8) and output_bytes(graph, 8) == 8 * 4


def test_branches_that_are_concatenated_are_one_block() -> None:
    assert names(concatenating_net()) == [["input", "stem"], ["left", "right", "join"], ["pool"], ["head"]]


def test_inputs_that_are_read_late_keep_what_is_before_together() -> None:
    assert names(two_input_net()) == [["input", "second input", "deep", "join"], ["hidden"], ["head"]]
    assert leading_inputs(two_input_net()) == 2


def test_an_output_on_the_way_stays_with_what_is_read_beside_it() -> None:
    graph = two_output_net()
    assert names(graph) == [["input", "trunk"], ["side", "hidden"], ["head"]]
    assert crossing_bytes(graph) == (4 * 8, 4 * 8)


def test_calls_of_one_layer_stay_together() -> None:
    graph = shared_net()
    assert shared_spans(graph) == ((2, 4),)
    assert names(graph) == [["input", "enter"], ["both", "between", "both:2"], ["head"]]


def test_a_network_that_is_only_an_input_is_one_block() -> None:
    graph = Net((3,)).graph()
    assert blocks(graph) == ((0,),) and crossing(graph) == () == crossing_bytes(graph)


@pytest.mark.parametrize("count", [2, 50, 3000])
def test_long_chains_are_cut_everywhere(count: int) -> None:
    net = Net((4,))
    for number in range(count):
        net.dense(f"dense {number}", 4)
    assert len(blocks(net.graph())) == count


def random_graph(reads: list[list[int]]) -> LayerGraph:
    net = Net((4,))
    for number, sources in enumerate(reads):
        sources = sorted({source % len(net.layers) for source in sources} | ({number} if number % 3 else set()))
        if len(sources) > 1:
            net.add("Add", f"add {number}", sources)
        else:
            net.dense(f"dense {number}", 4, sources)
    return net.graph()


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), min_size=1, max_size=12))
def test_blocks_are_what_their_words_say(reads: list[list[int]]) -> None:
    graph = random_graph(reads)
    found = blocks(graph)
    assert [index for block in found for index in block] == list(range(len(graph.layers)))
    cuts, start = [], 0
    for end in range(2, len(graph.layers)):
        through = {s for layer in graph.layers[end:] for s in layer.inputs if s < end}
        if len(through) == 1 and min(through) >= start:
            cuts.append((end, min(through)))
            start = end
    assert [block[0] for block in found] == [0, *(end for end, _ in cuts)]
    assert crossing(graph) == tuple(layer for _, layer in cuts)
    assert not shared(graph)


def test_a_branch_of_attention_is_a_block_with_the_sum_around_it() -> None:
    found = names(attention_net())
    assert [block[-1] for block in found] == ["first", "second", "sum", "pool", "head"]
    assert {"query", "value", "key", "attention", "weight"} < set(found[2])
