"""Blocks: the chain of runs of layers that no stage of a pipeline may split.

A boundary lies between two neighbours in the order of the layers. A tensor crosses it if a layer in front computes it and one behind
reads it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.arrangement import shared


def blocks(graph: LayerGraph) -> tuple[tuple[int, ...], ...]:
    """Return the layers of each block, in order.

    A block ends where exactly one tensor crosses, one that the block itself computes, and no layer with variables is called on both
    sides. The inputs of the network belong to the first block, together with the first layer behind them.

    Notes
    -----
    A residual block is one block, as its shortcut crosses every boundary inside it. An output of the network in between does not
    cross: its loss is computed in the same stage. O(layers + reads).
    """
    return tuple(tuple(range(start, end)) for start, end, _ in _runs(graph))


def crossing(graph: LayerGraph) -> tuple[int, ...]:
    """Return, for each block but the last, the layer whose output crosses behind it."""
    return tuple(layer for _, _, layer in _runs(graph) if layer >= 0)


def crossing_bytes(graph: LayerGraph) -> tuple[int, ...]:
    """Return, for each block but the last, the bytes of one sample that cross behind it, one way."""
    return tuple(output_bytes(graph, layer) for layer in crossing(graph))


def output_bytes(graph: LayerGraph, layer: int) -> int:
    """Return the bytes of one sample of a layer's output."""
    return math.prod(graph.layers[layer].output_shape) * graph.layers[layer].output_item_bytes(graph.dtype)


def leading_inputs(graph: LayerGraph) -> int:
    """Return how many input layers stand in front of the first layer that reads something."""
    return next((index for index, layer in enumerate(graph.layers) if layer.inputs), len(graph.layers))


def shared_spans(graph: LayerGraph) -> tuple[tuple[int, int], ...]:
    """Return the first and the last call of each layer that has variables and is called more than once."""
    spans: dict[int, tuple[int, int]] = {}
    for index in sorted(shared(graph)):
        owner = graph.owner(index)
        spans[owner] = spans.get(owner, (owner, owner))[0], index
    return tuple(spans.values())


def _runs(graph: LayerGraph) -> Iterator[tuple[int, int, int]]:
    """Yield the first layer of each block, the first behind it, and the layer whose output crosses there; -1 behind the last."""
    count, start, inputs = len(graph.layers), 0, leading_inputs(graph)
    for end, crossed, source, held in zip(range(1, count), *_sums(graph, shared_spans(graph))):
        # source is a sum of indices: where one tensor crosses, its layer
        if end > inputs and crossed == 1 and source >= start and not held:
            yield start, end, source
            start = end
    yield start, count, -1


def _sums(graph: LayerGraph, spans: Sequence[tuple[int, int]]) -> Iterator[Iterator[int]]:
    """Yield three sums for the boundary in front of each layer but the first.

    They are the number of tensors that cross, the sum of the indices of the layers that compute them, and the number of layers called
    on both sides.
    """
    last = list(range(len(graph.layers)))
    for index, layer in enumerate(graph.layers):
        for source in layer.inputs:
            last[source] = index
    tensors = list(enumerate(last))  # (source, last reader): crosses the boundaries in front of source + 1, ..., last reader
    for weights, intervals in (((1,) * len(tensors), tensors), (range(len(tensors)), tensors), ((1,) * len(spans), spans)):
        steps = [0] * (len(last) + 1)
        for weight, (first, final) in zip(weights, intervals):
            steps[first + 1] += weight
            steps[final + 1] -= weight
        yield itertools.islice(itertools.accumulate(steps), 1, len(last))
