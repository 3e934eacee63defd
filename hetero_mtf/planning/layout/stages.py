"""Stages of a pipeline: a run of layers laid out on the mesh of its group by the rules that lay out a whole network."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.layers import make_layer
from hetero_mtf.planning.layout.arrangement import arrange
from hetero_mtf.planning.layout.manual import batch_stage, filter_stage, grid_stage
from hetero_mtf.planning.layout.records import LayerLayout, Stage
from hetero_mtf.planning.solvers.apportionment import proportional

SPLITS = ("filters", "batch")


@dataclasses.dataclass(frozen=True)
class Part:
    """A run of layers as a network of its own: what it reads from outside are inputs in front.

    Parameters
    ----------
    graph : the network.
    layers : indices in the whole network of its layers, those in front left out.
    doors : how many inputs stand in front.
    """

    graph: LayerGraph
    layers: tuple[int, ...]
    doors: int

    def whole(self, stage: Stage) -> Stage:
        """Return a stage that lays out this network as a stage of the whole one.

        Parameters
        ----------
        stage : Stage of all layers of `graph`.
        """
        layouts = [self._whole(entry) for entry in stage.layouts if entry.layer >= self.doors]
        return dataclasses.replace(stage, layers=self.layers, layouts=tuple(layouts))

    def _whole(self, entry: LayerLayout) -> LayerLayout:
        return dataclasses.replace(entry, layer=self.layers[entry.layer - self.doors])


def part_of(graph: LayerGraph, first: int, end: int) -> Part:
    """Return layers `first` to `end` - 1 of a network.

    What other layers read of them is an output. A layer that shares its variables with one outside holds them itself.

    Parameters
    ----------
    graph : LayerGraph.
    first, end : indices of its first layer and of the first behind it.

    Notes
    -----
    O(layers of the network).
    """
    outside = sorted({source for layer in graph.layers[first:end] for source in layer.inputs if source < first})
    place = {source: at for at, source in enumerate(itertools.chain(outside, range(first, end)))}
    doors = [make_layer(graph.layers[s].name, "InputLayer", {"shape": list(graph.layers[s].output_shape)}, (), []) for s in outside]
    layers = [_moved(layer, place, len(outside)) for layer in graph.layers[first:end]]
    read = {source for layer in graph.layers[end:] for source in layer.inputs} | set(graph.outputs)
    outputs = tuple(place[index] for index in range(first, end) if index in read)
    return Part(LayerGraph((*doors, *layers), graph.dtype, outputs), tuple(range(first, end)), len(doors))


def _moved(layer: Layer, place: dict[int, int], doors: int) -> Layer:
    """Return a layer with its inputs' new indices; the first `doors` of them hold no variables."""
    owner = -1 if layer.shared_with is None else place.get(layer.shared_with, -1)
    return dataclasses.replace(layer, inputs=tuple(place[source] for source in layer.inputs), shared_with=owner if owner >= doors else None)


@dataclasses.dataclass(frozen=True)
class Group:
    """The devices of a stage and how they share it.

    Parameters
    ----------
    devices : (replicas, members) indices in the cluster.
    shares : (members,) relative shares inside each replica; zero leaves a member out.
    split : "filters" or "batch": what the members of a replica share.
    """

    devices: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    split: str = "filters"


def group_stage(graph: LayerGraph, first: int, end: int, group: Group, replicas: Sequence[int]) -> Stage:
    """Return the stage that computes layers `first` to `end` - 1 on a group.

    Members of a replica share filters or samples in proportion to their shares, as in a network of these layers alone: what the
    stage reads from others arrives whole in channels.

    Parameters
    ----------
    graph : LayerGraph.
    first, end : indices of its first layer and of the first behind it.
    group : Group.
    replicas : (replicas,) samples of each replica; they sum to the batch size.
    """
    part = part_of(graph, first, end)
    if group.split == "batch":
        samples = [count for batch in replicas for count in proportional(batch, group.shares).sizes]
        return part.whole(batch_stage(part.graph, samples, list(itertools.chain(*group.devices))))
    if len(replicas) < 2:
        stage = filter_stage(part.graph, group.shares, "pairs")
        return part.whole(dataclasses.replace(stage, devices=tuple(group.devices[0][at] for at in stage.devices)))
    arrangement = arrange(part.graph)
    sizes = [proportional(segment.units, group.shares).sizes for segment in arrangement.segments]
    largest = max(range(len(group.shares)), key=lambda at: (group.shares[at], -at))
    rows = group.devices if sizes else [(row[largest],) for row in group.devices]
    return part.whole(grid_stage(part.graph, replicas, arrangement, sizes, rows))


def transfers(graph: LayerGraph, stages: Sequence[Stage]) -> tuple[tuple[int, int, int], ...]:
    """Return what goes from stage to stage, as (layer whose output is sent, its stage, the stage that reads it), in this order.

    Parameters
    ----------
    graph : LayerGraph.
    stages : the stages of a plan for it.

    Notes
    -----
    An output goes straight from the stage that makes it to each stage that reads it, once. O(reads).
    """
    where = {layer: at for at, stage in enumerate(stages) for layer in stage.layers}
    reads = {(source, where[source], where[index]) for index, layer in enumerate(graph.layers) for source in layer.inputs}
    return tuple(sorted(read for read in reads if read[1] != read[2]))
