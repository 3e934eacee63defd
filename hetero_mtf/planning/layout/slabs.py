"""Layouts of layers in slabs of one spatial dimension: the slabs of outputs follow from those of inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hetero_mtf.errors import NothingToSplitError, PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.arrangement import reach_of
from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.layout.resharding import TensorLayout, input_of
from hetero_mtf.planning.solvers.apportionment import proportional


def slab_dimension(graph: LayerGraph) -> int:
    """Return the spatial dimension to cut: the longest one of the largest input that has any, the first of equally long ones.

    Raises
    ------
    NothingToSplitError
        If no input has a spatial dimension.
    """
    spaces = [graph.layers[index].output_shape[:-1] for index in graph.inputs]
    largest = max(spaces, key=lambda space: (len(space), max(space, default=0)))
    if not largest:
        raise NothingToSplitError("no input of the network has spatial dimensions", "use strategy filters or batch")
    return largest.index(max(largest))


def slab_layouts(graph: LayerGraph, shares: Sequence[float], dimension: int) -> list[LayerLayout]:
    """Return the layouts in which every layer that can be lies in slabs, in proportion to shares.

    Inputs are cut in proportion. The slabs of a layer follow from those of its first input in slabs through windows and strides. A layer
    that mixes space otherwise is replicated; one behind it that has space, such as a decoder behind a dense layer, is cut in proportion
    where it has a position for each device.

    Parameters
    ----------
    shares : (devices,) relative shares, zero for none.
    dimension : number of the spatial dimension.

    Raises
    ------
    PlanError
        If no layer has that dimension.
    """
    layouts: list[LayerLayout] = []
    for index, layer in enumerate(graph.layers):
        slabs: tuple[int, ...] = ()
        if dimension < len(reach := reach_of(graph, index)):
            extent = layer.output_shape[dimension]
            before = [layouts[i].slabs for i in layer.inputs if layouts[i].slabs and _reaches(graph, i, index, dimension)]
            if before:
                slabs = reach[dimension].slabs(before[0], extent)
            elif not layer.inputs or extent >= len(shares):
                slabs = tuple(proportional(extent, shares).sizes)
        unsplit = LayerLayout(index, layer.name, "replicated")
        layouts.append(LayerLayout(index, layer.name, "space", slabs=slabs, dimension=dimension) if slabs else unsplit)
    if not any(layout.slabs for layout in layouts):
        raise PlanError(f"no layer can lie in slabs of dimension {dimension}", "use a spatial dimension of the network's input, from 0")
    return layouts


def _reaches(graph: LayerGraph, source: int, index: int, dimension: int) -> bool:
    """Return whether a layer reads slabs of an input, not one position that is added to all of another input."""
    extents = [graph.layers[i].output_shape[dimension] for i in graph.layers[index].inputs if len(graph.layers[i].output_shape) > dimension]
    return graph.layers[source].output_shape[dimension] == max(extents)


def wanted_of(graph: LayerGraph, entry: LayerLayout, source: int) -> TensorLayout:
    """Return the layout in which a layer needs an input, with what its windows read of other slabs.

    Parameters
    ----------
    entry : the layer's layout.
    source : index of its input.
    """
    plain = input_of(entry)
    if not entry.slabs:
        return plain
    inputs = graph.layers[entry.layer].inputs
    extent = graph.layers[source].output_shape[entry.dimension]
    if len(inputs) > 1 and extent < graph.layers[entry.layer].output_shape[entry.dimension]:
        return dataclasses.replace(plain, slabs=(), slab_axis="", dimension=0, extent=0)  # one position that is added to all others
    reach = reach_of(graph, entry.layer)[entry.dimension]
    ranges = (reach.reads(begin, end) for begin, end in plain.slabs)
    read = tuple((min(max(begin, 0), extent), min(max(end, 0), extent)) for begin, end in ranges)
    return dataclasses.replace(plain, slabs=read, extent=extent)
