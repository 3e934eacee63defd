"""Synchronisations of batch norms that are merged: which ones, and the order of the layers in which they can be.

Batch norm over a split batch gathers statistics of all processors before its output exists. Norms that do not wait for each other, such as
those of a shortcut and of the main branch, or of parallel branches, can send theirs as one message.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.arrangement import shared, takes_statistics
from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.layout.resharding import input_of, output_of

Groups = tuple[tuple[int, ...], ...]


def synchronisation_groups(graph: LayerGraph, layouts: Sequence[LayerLayout]) -> Groups:
    """Return the batch norms of a stage whose statistics are sent together, two at least in each group.

    A group has the norms before which the longest path holds equally many synchronisations (of batch norms, sums of rows, reshardings): so
    none of them waits for another one, and none for more synchronisations than it does by itself. Their batch is split alike, their
    channels are whole, and none is called more than once.

    Parameters
    ----------
    layouts : the layouts of the stage's layers, in order.
    """
    here = {entry.layer: entry for entry in layouts}
    depths = _depths(graph, here)
    several = shared(graph)
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, entry in here.items():
        layer = graph.layers[index]
        if takes_statistics(layer) and len(entry.samples) > 1 and not entry.sizes and not entry.slabs and index not in several:
            alike = depths[index], entry.samples, entry.batch_axis, layer.compute_dtype
            groups.setdefault(alike, []).append(index)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _depths(graph: LayerGraph, here: Mapping[int, LayerLayout]) -> dict[int, int]:
    """Return for each layer of a stage the number of synchronisations on the longest path to its inputs."""
    depths: dict[int, int] = {}
    for index, entry in here.items():
        before = [0]
        for source in graph.layers[index].inputs:
            if source in here:
                sends = here[source].layout == "row" or (takes_statistics(graph.layers[source]) and len(here[source].samples) > 1)
                before.append(depths[source] + sends + (output_of(here[source]) != input_of(entry)))
        depths[index] = max(before)
    return depths


def building_order(graph: LayerGraph, layers: Sequence[int], groups: Groups) -> Groups:
    """Return layers in an order in which each is behind those it reads and those of a group are neighbours, which stand in one entry.

    Without groups it is the order given. A layer stands as early as its number and the groups allow.

    Parameters
    ----------
    layers : those of a stage, each behind those it reads.
    groups : disjoint; no layer of a group depends on another one of the same.

    Notes
    -----
    Kahn's algorithm on the graph in which each group is one node. O(layers log(layers) + reads).
    """
    node_of = {layer: (layer,) for layer in layers} | {layer: group for group in groups for layer in group}
    waits = {
        node: {node_of[source] for layer in node for source in graph.layers[layer].inputs if source in node_of} for node in node_of.values()
    }
    readers: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for node, sources in waits.items():
        for source in sources:
            readers.setdefault(source, []).append(node)
    ready = [(max(node), node) for node, sources in waits.items() if not sources]
    heapq.heapify(ready)
    ordered: list[tuple[int, ...]] = []
    while ready:
        _, node = heapq.heappop(ready)
        ordered.append(node)
        for reader in readers.get(node, ()):
            waits[reader].discard(node)
            if not waits[reader]:
                heapq.heappush(ready, (max(reader), reader))
    return tuple(ordered)
