"""A seed gives the same network for ever, within the bounds, of layers that the program supports."""

from __future__ import annotations

import doctest
import math

import pytest

from hetero_mtf.keras_reading.layer_graph import layer_graph
from tools.bench.comparison import drawn
from tools.bench.comparison.drawn import BATCHES, DEPTH, ELEMENT_WORK, WORK, DrawnNetwork, drawn_network

DIGESTS = {0: "19ab26bf0636", 1: "24b1dce4133b", 2: "4f314f31ae86", 101: "ebfe402c21c1", 102: "e2a55d838167", 2**32 - 1: "11029ff0593e"}
SMALL = 40
SMALL_TEXT = """batch 40
input() -> 16x16x16x1
conv(0) 5/1 relu bias -> 16x16x16x16
conv(1) 1/1 relu bias -> 16x16x16x16
conv(2) 3/1 relu bias -> 16x16x16x16
conv(3) 1/1 relu bias -> 16x16x16x16
global_max(4) -> 16
dense(5) relu bias -> 64
dense(6) bias -> 2"""
SAMPLE = [drawn_network(seed) for seed in range(400)]


def test_the_examples_hold() -> None:
    examples = doctest.testmod(drawn)
    assert examples.attempted and not examples.failed


@pytest.mark.parametrize("seed", DIGESTS)
def test_a_seed_gives_the_same_network_for_ever(seed: int) -> None:
    assert drawn_network(seed).digest == DIGESTS[seed]


def test_the_structure_of_a_network_is_written_out() -> None:
    assert drawn_network(SMALL).text == SMALL_TEXT


def test_seeds_give_different_networks() -> None:
    assert len({network.digest for network in SAMPLE}) == len(SAMPLE)


def test_depth_work_and_batch_are_within_their_bounds() -> None:
    for network in SAMPLE:
        assert DEPTH[0] <= network.depth <= DEPTH[1] and WORK[0] <= network.work <= WORK[1] and network.batch in BATCHES


def test_every_layer_is_read_and_reads_earlier_ones() -> None:
    for network in SAMPLE:
        sources = {source for layer in network.layers for source in layer.reads}
        assert sources == set(range(len(network.layers) - 1))
        assert all(max(layer.reads, default=-1) < at for at, layer in enumerate(network.layers))


def test_all_that_can_be_drawn_is_drawn_often() -> None:
    kinds = [{layer.kind for layer in network.layers} for network in SAMPLE]
    wanted = "add concatenate batch_norm layer_norm relu elu max_pool average_pool global_average global_max flatten"
    assert [kind for kind in wanted.split() if sum(kind in each for each in kinds) < len(SAMPLE) // 20] == []
    ranks = [len(network.layers[0].shape) - 1 for network in SAMPLE]
    assert ranks.count(2) > ranks.count(3) > len(SAMPLE) // 5
    assert {layer.window for network in SAMPLE for layer in network.layers if layer.kind == "conv"} == {1, 3, 5}


def _first_of_each_kind() -> list[DrawnNetwork]:
    """Return networks that have all kinds of layers together, in two and in three dimensions."""
    chosen, seen = [], set[tuple[int, str]]()
    for network in SAMPLE:
        kinds = {(len(network.layers[0].shape), layer.kind) for layer in network.layers}
        if kinds - seen:
            chosen.append(network)
            seen |= kinds
    return chosen


@pytest.mark.fast("9")
@pytest.mark.parametrize("network", _first_of_each_kind(), ids=lambda network: str(network.seed))
def test_the_keras_model_has_the_layers_shapes_and_weights_of_the_drawn_one_and_is_supported(network: DrawnNetwork) -> None:
    model = network.build()
    read = {layer.name: layer for layer in layer_graph(model).layers}
    by_name = {"input" if at == 0 else f"{layer.kind}{at}": layer for at, layer in enumerate(network.layers)}
    assert {name: layer.output_shape for name, layer in read.items()} == {name: layer.shape for name, layer in by_name.items()}
    weights = {name: sum(v.size for v in layer.variables if v.trainable) for name, layer in read.items()}
    assert weights == {name: layer.weights for name, layer in by_name.items()}
    for name, layer in by_name.items():
        if layer.kind in ("conv", "dense"):
            assert read[name].flops == 2 * layer.work
        elif layer.kind in ("relu", "elu", "add", "batch_norm", "layer_norm", "concatenate"):
            assert layer.work == ELEMENT_WORK * math.prod(layer.shape)


def test_the_description_is_one_line() -> None:
    assert drawn_network(SMALL).description == "3-D 16x16x16x1, 6 layers, no norm, 11 k weights"
    assert all("\n" not in network.description for network in SAMPLE)
