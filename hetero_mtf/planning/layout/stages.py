"""Stages of a pipeline: a run of layers laid out on the mesh of its group by the rules that lay out a whole network."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.layers import make_layer
from hetero_mtf.planning.layout.arrangement import arrange
from hetero_mtf.planning.layout.manual import batch_stage, filter_stage, grid_stage
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.solvers.apportionment import proportional

SPLITS = ("filters", "batch")


@dataclasses.dataclass(frozen=True)
class Part:
    """A run of layers as a network of its own, with an input layer for each tensor that it reads from outside.

    Parameters
    ----------
    graph : the network.
    layers : indices in the full network of its layers, without these input layers.
    boundary_inputs : number of these input layers; they come first.
    """

    graph: LayerGraph
    layers: tuple[int, ...]
    boundary_inputs: int

    def in_network(self, stage: Stage) -> Stage:
        """Return a stage of this network as a stage of the full network.

        Parameters
        ----------
        stage : Stage of all layers of `graph`.
        """
        layouts = [self._entry_in_network(entry) for entry in stage.layouts if entry.layer >= self.boundary_inputs]
        return dataclasses.replace(stage, layers=self.layers, layouts=tuple(layouts))

    def _entry_in_network(self, entry: LayerLayout) -> LayerLayout:
        return dataclasses.replace(entry, layer=self.layers[entry.layer - self.boundary_inputs])


def part_of(graph: LayerGraph, first: int, end: int) -> Part:
    """Return layers `first` to `end` - 1 of a network.

    Layers that others read are outputs. A layer that shares its variables with one outside holds them itself.

    Parameters
    ----------
    first, end : indices of its first layer and of the first behind it.

    Notes
    -----
    O(layers of the network).
    """
    outside = sorted({source for layer in graph.layers[first:end] for source in layer.inputs if source < first})
    place = {source: at for at, source in enumerate(itertools.chain(outside, range(first, end)))}
    inputs = [make_layer(graph.layers[s].name, "InputLayer", _input_of(graph.layers[s], graph.dtype), (), []) for s in outside]
    layers = [_renumbered(layer, place, len(outside)) for layer in graph.layers[first:end]]
    read = {source for layer in graph.layers[end:] for source in layer.inputs} | set(graph.outputs)
    outputs = tuple(place[index] for index in range(first, end) if index in read)
    return Part(LayerGraph((*inputs, *layers), graph.dtype, outputs), tuple(range(first, end)), len(inputs))


def _input_of(source: Layer, network: str) -> dict[str, Any]:
    """Return the attributes of an input layer that stands for another layer's output."""
    dtype = source.dtype(network)
    return {"shape": list(source.output_shape), **({"dtype": dtype} if dtype != network else {})}


def _renumbered(layer: Layer, place: dict[int, int], inputs: int) -> Layer:
    """Return a layer with the new indices of its inputs; the first `inputs` layers hold no variables."""
    owner = -1 if layer.shared_with is None else place.get(layer.shared_with, -1)
    return dataclasses.replace(
        layer, inputs=tuple(place[source] for source in layer.inputs), shared_with=owner if owner >= inputs else None
    )


@dataclasses.dataclass(frozen=True)
class Group:
    """The devices of a stage and the split among them.

    Parameters
    ----------
    devices : (replicas, members) indices in the cluster.
    shares : (members,) relative shares inside each replica; zero leaves a member out.
    split : "filters" or "batch": what is split among the members of a replica.
    """

    devices: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    split: str = "filters"


def group_stage(graph: LayerGraph, first: int, end: int, group: Group, replicas: Sequence[int]) -> Stage:
    """Return the stage that computes layers `first` to `end` - 1 on a group.

    Members of a replica share filters or samples in proportion to their shares, as in a network of these layers alone: what the
    stage reads from others arrives with all its channels.

    Parameters
    ----------
    first, end : indices of its first layer and of the first behind it.
    replicas : (replicas,) samples of each replica; they sum to the batch size.
    """
    part = part_of(graph, first, end)
    if group.split == "batch":
        samples = [count for batch in replicas for count in proportional(batch, group.shares).sizes]
        return part.in_network(batch_stage(part.graph, samples, list(itertools.chain(*group.devices))))
    if len(replicas) < 2:
        stage = filter_stage(part.graph, group.shares, "pairs")
        return part.in_network(dataclasses.replace(stage, devices=tuple(group.devices[0][at] for at in stage.devices)))
    arrangement = arrange(part.graph)
    sizes = [proportional(segment.units, group.shares).sizes for segment in arrangement.segments]
    largest = max(range(len(group.shares)), key=lambda at: (group.shares[at], -at))
    rows = group.devices if sizes else [(row[largest],) for row in group.devices]
    return part.in_network(grid_stage(part.graph, replicas, arrangement, sizes, rows))


def transfers(graph: LayerGraph, stages: Sequence[Stage]) -> tuple[tuple[int, int, int], ...]:
    """Return the transfers between stages, as (layer whose output is sent, its stage, the stage that reads it), sorted.

    Parameters
    ----------
    stages : the stages of a plan for it.

    Notes
    -----
    An output is sent once from its stage to each stage that reads it. O(reads).
    """
    where = {layer: at for at, stage in enumerate(stages) for layer in stage.layers}
    reads = {(source, where[source], where[index]) for index, layer in enumerate(graph.layers) for source in layer.inputs}
    return tuple(sorted(read for read in reads if read[1] != read[2]))
