"""Legal layouts drawn at random: any mix of them must give one device's numbers, whether or not a strategy would make it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

import hetero_mtf as hm
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.layout.arrangement import channels, reach_of, split_units, splits_batch
from hetero_mtf.planning.layout.records import LayerLayout, Stage

Axes = tuple[tuple[str, int], ...]
Split = tuple[str, tuple[int, ...]]  # mesh axis and sizes of a layer's output channels


def sizes(rng: np.random.Generator, units: int, positions: int) -> tuple[int, ...]:
    """Return sizes drawn at random, about a quarter of the positions without any."""
    weights = rng.random(positions) * (rng.random(positions) < 0.75)
    weights[rng.integers(positions)] += 0.1
    return tuple(int(n) for n in rng.multinomial(units, weights / weights.sum()))


def layouts(rng: np.random.Generator, graph: LayerGraph, axes: Axes, batch_size: int) -> tuple[LayerLayout, ...]:
    """Return a legal layout of every layer; a layer that reads a split keeps its sizes."""
    counts, split, found = channels(graph), dict[int, Split](), []
    for index, layer in enumerate(graph.layers):
        legal = [*sorted(kind_of(layer).layouts(layer)), *(["batch"] * splits_batch(layer)), *(["space"] * bool(reach_of(graph, index)))]
        drawn = _with_samples(rng, graph, LayerLayout(index, layer.name, str(rng.choice(legal))), axes, batch_size)
        if drawn.layout in ("column", "row", "split"):
            drawn = _with_sizes(rng, graph, drawn, split, counts, dict(axes))
        if graph.owner(index) != index and layer.variables:
            first = found[graph.owner(index)]  # calls of one layer hold its variables in one way
            drawn = drawn if first.layout == "batch" and not drawn.sizes else dataclasses.replace(first, layer=index, name=layer.name)
        drawn = _with_slabs(rng, graph, drawn, dict(axes)) if drawn.layout == "space" else drawn
        found.append(drawn)
        if drawn.layout in ("column", "split"):
            split[index] = drawn.axis, drawn.sizes
    return tuple(found)


def _with_samples(rng: np.random.Generator, graph: LayerGraph, drawn: LayerLayout, axes: Axes, batch_size: int) -> LayerLayout:
    """Return the layout with axes chosen: samples on one, if it has any, and channels on another."""
    names = [str(name) for name in rng.permutation([name for name, _ in axes])]
    axis, batch_axis = names[0], names[-1]
    whole = not splits_batch(graph.layers[drawn.layer])
    if drawn.layout == "batch" or (not whole and drawn.layout != "replicated" and axis != batch_axis and rng.random() < 0.6):
        samples = sizes(rng, batch_size, dict(axes)[batch_axis])
        return dataclasses.replace(drawn, axis=axis, samples=samples, batch_axis=batch_axis)
    return dataclasses.replace(drawn, axis=axis)


def _with_slabs(rng: np.random.Generator, graph: LayerGraph, drawn: LayerLayout, positions: dict[str, int]) -> LayerLayout:
    """Return the layout with slabs of any dimension, on an axis of the mesh without samples."""
    extents = graph.layers[drawn.layer].output_shape[:-1]
    dimension = int(rng.integers(len(extents)))
    slabs = sizes(rng, extents[dimension], positions[drawn.axis])
    return dataclasses.replace(drawn, slabs=slabs, dimension=dimension, slab_axis=drawn.axis, axis=LayerLayout.axis)


def _with_sizes(
    rng: np.random.Generator, graph: LayerGraph, drawn: LayerLayout, split: dict[int, Split], counts: Any, positions: dict[str, int]
) -> LayerLayout:
    """Return the layout with sizes that fit what arrives, or a replicated one if none do."""
    layer = graph.layers[drawn.layer]
    units = split_units(graph, drawn.layer, drawn.layout, counts)
    arriving = {split[i] for i in layer.inputs if i in split} if drawn.layout != "column" else set()
    given = arriving.pop() if len(arriving) == 1 else (drawn.axis, sizes(rng, units, positions[drawn.axis]))
    if arriving or sum(given[1]) != units or (drawn.samples and drawn.batch_axis == given[0]):
        return LayerLayout(drawn.layer, drawn.name, "replicated")
    return dataclasses.replace(drawn, axis=given[0], sizes=given[1])


def plan(rng: np.random.Generator, graph: LayerGraph, axes: Axes, batch_size: int) -> hm.Plan:
    """Return a plan with layouts drawn at random on a mesh with these axes, one processor a device."""
    devices = math.prod(size for _, size in axes)
    stage = Stage(tuple(range(len(graph.layers))), tuple(range(devices)), axes, layouts(rng, graph, axes, batch_size))
    return hm.Plan(graph.digest, graph.dtype, batch_size, "typed", ("cpu:0",) * devices, (stage,))


def pipeline(rng: np.random.Generator, graph: LayerGraph, meshes: list[Axes], batch_size: int) -> hm.Plan:
    """Return a pipeline drawn at random: cuts anywhere, a stage on each of some meshes, layouts as in `plan`, any microbatches."""
    inside = [index for index in range(len(graph.inputs) + 1, len(graph.layers)) if not _shares_over(graph, index)]
    count = min(len(meshes), len(inside) + 1)
    starts = [0, *sorted(int(i) for i in rng.choice(inside, count - 1, replace=False))] if inside else [0]
    stages, used = [], 0
    for axes, first, end in zip(meshes, starts, [*starts[1:], len(graph.layers)]):
        devices = math.prod(size for _, size in axes)
        drawn = layouts(rng, graph, axes, batch_size)[first:end]
        stages.append(Stage(tuple(range(first, end)), tuple(range(used, used + devices)), axes, drawn))
        used += devices
    microbatches, schedule = int(rng.integers(1, batch_size + 1)), str(rng.choice(["1f1b", "fill_drain", "synchronous"]))
    way = (schedule, microbatches, bool(rng.random() < 0.4))
    return hm.Plan(graph.digest, graph.dtype, batch_size, "typed", ("cpu:0",) * used, tuple(stages), *way)


def _shares_over(graph: LayerGraph, cut: int) -> bool:
    """Return whether variables are shared over a cut in front of a layer."""
    return any(graph.owner(index) < cut <= index for index in range(len(graph.layers)))
