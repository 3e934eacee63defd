"""What to measure: each distinct layer of a network, at several numbers of local units and of local samples."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from hetero_mtf.errors import NothingToSplitError, UnsupportedError
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.layers import kind_of, make_layer
from hetero_mtf.planning.layout.arrangement import channels, reach_of, splits_batch, takes_statistics, trains_before
from hetero_mtf.planning.layout.slabs import slab_dimension
from hetero_mtf.planning.profile.profile import alike

# Fractions of a layer's units that are measured first: three for a curve that may bend, two for a layer of little work.
MIXING_FRACTIONS = (0.25, 0.5, 1.0)
PLAIN_FRACTIONS = (0.5, 1.0)
# Fractions of the batch. A pipeline's microbatches are small parts of it, which caches may hold where they do not hold the batch.
BATCH_FRACTIONS = (0.125, 0.5, 1.0)
MINOR_BATCH_FRACTIONS = (0.125, 1.0)
# The same of a batch of fewer samples than `SMALL_BATCH`: an eighth of it is too few samples for a kernel.
SMALL_BATCH = 32
SMALL_BATCH_FRACTIONS = (0.25, 0.5, 1.0)
MINOR_SMALL_BATCH_FRACTIONS = (0.5, 1.0)
# Slabs of space are measured for batches of at most so many samples, or as many as there are devices: larger ones are split by samples.
SPACE_UP_TO_SAMPLES = 2
_NEAR = 8  # extents of an input that are tried for a slab of the output
# A layer with less than this part of the network's operations is measured coarsely.
MINOR_PART = 0.01
# The layers of least work that have this part of the network's operations together are light: their curves matter least.
LIGHT_PART = 0.05
# Passes of a layer with any of its units; the optimizer's update is measured once, with all of them.
LAYER_PASSES = ("forward", "backward")
# Kinds that only name or reshape their inputs, and take no time of their own.
FREE_KINDS = frozenset({"InputLayer", "Flatten", "Reshape"})


@dataclasses.dataclass(frozen=True)
class Point:
    """One measurement: a layer with some of its units, or with all of them and some of the samples.

    Parameters
    ----------
    layer : index of the layer in the LayerGraph.
    dimension : "output", "input", "whole", "batch" or "space", as in a Curve.
    units : local units; local samples where the dimension is "batch", positions of the output where it is "space".
    samples : local samples.
    probe : the layer as it is with these units; its inputs are numbered from 0.
    input_shapes : (inputs,) shapes of its inputs, batch left out.
    input_gradient : whether training needs the gradient of its inputs: not if nothing before it trains.
    full : whether it has all units and all samples, in the form of an unsplit layer: the same measurement whatever the dimension.
    minor : whether the layer has a small part of the network's operations only.
    input_dtypes : (inputs,) dtypes of its inputs; empty where they are the network's.
    along : number of the spatial dimension that lies in slabs; None where space is whole.
    stands_for_whole : whether the update is measured with this part, as there is no room for the whole layer.
    """

    layer: int
    dimension: str
    units: int
    samples: int
    probe: Layer
    input_shapes: tuple[tuple[int, ...], ...]
    input_gradient: bool
    full: bool
    minor: bool
    input_dtypes: tuple[str, ...] = ()
    along: int | None = None
    stands_for_whole: bool = False

    @property
    def trains(self) -> bool:
        """Whether it has weights that train."""
        return any(variable.trainable for variable in self.probe.variables)

    @property
    def updates(self) -> bool:
        """Whether the optimizer's update is measured here: once, with all units, as it grows in proportion to the weights."""
        return (self.full or self.stands_for_whole) and self.trains

    @property
    def shares_batch(self) -> bool:
        """Whether it runs as if other devices had the rest of a split batch: batch norm then takes statistics in another form."""
        return self.dimension == "batch" and takes_statistics(self.probe)


def points(graph: LayerGraph, batch: int, coarse: bool = False, devices: int = SPACE_UP_TO_SAMPLES) -> tuple[Point, ...]:
    """Return what has to be measured first for a network; layers that are alike are measured once.

    Parameters
    ----------
    batch : samples of the whole batch.
    coarse : measure two numbers of units and of samples only, to save time.
    devices : that the batch may be split over.

    Notes
    -----
    O(layers). Where a cache holds an eighth of the batch, an elementwise layer may take a quarter of the time a sample.
    """
    counts = channels(graph)
    first_points: list[Point] = []
    for index in sorted(set(alike(graph))):
        layer = graph.layers[index]
        if layer.kind not in FREE_KINDS:
            first_points += _points_of(graph, index, counts, batch, coarse, max(SPACE_UP_TO_SAMPLES, devices))
    return tuple(first_points)


def extreme_points(graph: LayerGraph, wanted: Sequence[Point]) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Return the points that a short calibration measures first, and those that it may measure later.

    First are the upper end of every curve, and the lower end unless the layer is light. Later are the lower ends of light layers.

    Parameters
    ----------
    wanted : points of the network, those of a curve in order of their units.
    """
    light = _light_layers(graph)
    curves: dict[tuple[int, str], list[Point]] = {}
    for point in wanted:
        curves.setdefault((point.layer, point.dimension), []).append(point)
    first: list[Point] = []
    later: list[Point] = []
    for (layer, _), (*lower, upper) in curves.items():
        (later if layer in light else first).extend(lower[:1])
        first.append(upper)
    return tuple(first), tuple(later)


def point_of(graph: LayerGraph, layer: int, dimension: str, units: int, batch: int) -> Point:
    """Return the point of a layer with some units or samples, of a dimension in which it has points.

    Parameters
    ----------
    layer : index of the layer.
    dimension, units : as in a Point.
    batch : samples of the whole batch.
    """
    if dimension == "space":
        slab = slab_point(graph, layer, units, batch)
        assert slab is not None
        return slab
    return _point(graph, layer, dimension, units, channels(graph), batch)


def _points_of(graph: LayerGraph, index: int, counts: Sequence[int], batch: int, coarse: bool, space_up_to: int) -> list[Point]:
    layer = graph.layers[index]
    few = coarse or _is_minor(graph, layer)
    local_units = [(dimension, n) for dimension, total in _extents(graph, index, counts) for n in _unit_counts(total, few)]
    samples = _sample_counts(batch, few) if splits_batch(layer) else []
    positions = _position_counts(graph, index, few) if batch <= space_up_to else []
    try:
        split_points = [_point(graph, index, dimension, n, counts, batch) for dimension, n in local_units]
    except UnsupportedError:  # its options go with its own shape only
        split_points = []
    split_points = split_points or [_point(graph, index, "whole", layer.units, counts, batch)]
    in_slabs = [point for n in positions if (point := slab_point(graph, index, n, batch)) is not None]
    return split_points + [_point(graph, index, "batch", n, counts, batch) for n in samples] + in_slabs


def _extents(graph: LayerGraph, index: int, counts: Sequence[int]) -> list[tuple[str, int]]:
    """Return the dimensions that a layer may be split over, each with all its units."""
    layer = graph.layers[index]
    legal = kind_of(layer).layouts(layer)
    extents = []
    if "column" in legal:
        extents.append(("output", layer.units))
    elif "split" in legal:
        extents.append(("output", counts[index]))
    return [*extents, ("input", counts[layer.inputs[0]])] if "row" in legal else extents


def _unit_counts(total: int, few: bool) -> list[int]:
    return _counts(total, PLAIN_FRACTIONS if few else MIXING_FRACTIONS)


def _sample_counts(batch: int, few: bool) -> list[int]:
    if batch < SMALL_BATCH:
        return _counts(batch, MINOR_SMALL_BATCH_FRACTIONS if few else SMALL_BATCH_FRACTIONS)
    return _counts(batch, MINOR_BATCH_FRACTIONS if few else BATCH_FRACTIONS)


def _position_counts(graph: LayerGraph, index: int, few: bool) -> list[int]:
    """Return the numbers of positions of a layer's output that are measured as slabs; none where the layer cannot lie in slabs."""
    along = _slab_dimension(graph)
    if along is None or along >= len(reach_of(graph, index)):
        return []
    return _counts(graph.layers[index].output_shape[along], PLAIN_FRACTIONS if few else MIXING_FRACTIONS)


def _slab_dimension(graph: LayerGraph) -> int | None:
    try:
        along = slab_dimension(graph)
    except NothingToSplitError:
        return None
    return along if max(len(graph.layers[index].output_shape) for index in graph.inputs) > 2 else None


def slab_point(graph: LayerGraph, index: int, positions: int, batch: int) -> Point | None:
    """Return the point of a slab of a layer, by a smaller layer whose output has so many positions; None where there is no such layer.

    Parameters
    ----------
    index : of the layer, in a network that can be cut into slabs.
    positions : of its output.
    batch : samples of the whole batch.
    """
    along, layer = _slab_dimension(graph), graph.layers[index]
    assert along is not None
    shapes = [graph.layers[source].output_shape for source in layer.inputs]
    extent = layer.output_shape[along]
    guess = max(1, round(shapes[0][along] * positions / extent))
    for n in sorted(range(1, shapes[0][along] + 1), key=lambda n: abs(n - guess))[:_NEAR]:
        smaller = [(*shape[:along], n if shape[along] > 1 else 1, *shape[along + 1 :]) for shape in shapes]
        try:
            point = _point_of_shapes(graph, index, "space", positions, smaller, batch)
        except UnsupportedError:
            continue
        if point.probe.output_shape[along] == positions and {v.shape for v in point.probe.variables} == {v.shape for v in layer.variables}:
            return dataclasses.replace(point, along=along, full=False)
    return None


def _counts(total: int, fractions: Sequence[float]) -> list[int]:
    """Return different whole numbers, the last `total`.

    >>> _counts(6, (0.25, 0.5, 1.0))
    [2, 3, 6]
    """
    return sorted({max(1, round(total * fraction)) for fraction in fractions})


def _point(graph: LayerGraph, index: int, dimension: str, units: int, counts: Sequence[int], batch: int) -> Point:
    layer = graph.layers[index]
    shapes = [graph.layers[source].output_shape for source in layer.inputs]
    if dimension in ("input", "output") and not (kind_of(layer).mixes and dimension == "output"):
        shapes = [(*shape[:-1], shape[-1] * units // counts[source]) for shape, source in zip(shapes, layer.inputs)]
    return _point_of_shapes(graph, index, dimension, units, shapes, batch)


def _point_of_shapes(
    graph: LayerGraph, index: int, dimension: str, units: int, shapes: Sequence[tuple[int, ...]], batch: int
) -> Point:
    """Return a point of a layer with inputs of certain shapes."""
    layer = graph.layers[index]
    kind, attributes = kind_of(layer), dict(layer.attributes)
    if kind.mixes and dimension == "output":
        attributes = kind.with_units(attributes, units)
    probe = make_layer(layer.name, layer.kind, attributes, range(len(shapes)), shapes)
    trained = {variable.name: variable.trainable for variable in layer.variables}
    variables = tuple(dataclasses.replace(v, trainable=trained[v.name]) for v in probe.variables)
    trains = trains_before(graph)
    before = any(trains[source] for source in layer.inputs)
    samples = units if dimension == "batch" else batch
    unsplit = (
        tuple(shapes) == tuple(graph.layers[source].output_shape for source in layer.inputs) and probe.output_shape == layer.output_shape
    )
    full = unsplit and samples == batch and not (dimension == "batch" and takes_statistics(layer))
    probe = dataclasses.replace(probe, variables=variables, live=layer.live)
    probe = dataclasses.replace(probe, compute_dtype=layer.compute_dtype, variable_dtype=layer.variable_dtype)
    dtypes = tuple(graph.layers[source].dtype(graph.dtype) for source in layer.inputs)
    return Point(index, dimension, units, samples, probe, tuple(shapes), before, full, _is_minor(graph, layer), dtypes)


def _light_layers(graph: LayerGraph) -> set[int]:
    """Return the layers that are light, by the index of the first that is alike."""
    work: dict[int, float] = {}
    for first, layer in zip(alike(graph), graph.layers):
        work[first] = work.get(first, 0.0) + layer.flops
    order = sorted(work, key=lambda layer: work[layer])
    together = itertools.accumulate(work[layer] for layer in order)
    return {layer for layer, flops in zip(order, together) if flops <= LIGHT_PART * sum(work.values())}


def _is_minor(graph: LayerGraph, layer: Layer) -> bool:
    return layer.flops < MINOR_PART * sum(other.flops for other in graph.layers)
