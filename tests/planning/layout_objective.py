"""The layout program's objective said a second time, for plans instead of tables, and networks small enough to enumerate."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.records import LayerLayout
from hetero_mtf.planning.layout.resharding import TensorLayout, input_of, output_of, reshardings
from hetero_mtf.planning.layout_search.layout_space import LayoutState, Space
from hetero_mtf.planning.profile.profile import Profile
from tests.planning.networks import Net, profile_of


def objective(costs: Costs, space: Space, states: Sequence[LayoutState]) -> float:
    """Return J, walking the layers of one choice of states; infinite if they do not go together."""
    graph, entries = costs.graph, [space.entry(index, "", state) for index, state in enumerate(states)]
    if any(not readable(costs, entries, index) for index in range(len(entries))):
        return math.inf
    seconds = sum(passes(costs, space, index, state) + collectives(costs, space, entries[index]) for index, state in enumerate(states))
    seconds += sum(gathers(costs, space, entry) for entry in entries)
    brought, columns = set(), set()
    for entry in entries:
        for source in graph.layers[entry.layer].inputs:
            if output_of(entries[source]) != input_of(entry):
                brought.add((source, input_of(entry)))
            if entry.layout == "column" and costs.trains_before[source]:
                columns.add(source)
    for source, wanted in brought:
        made = reshardings(output_of(entries[source]), wanted)
        back = [move.reverse for move in made] if costs.trains_before[source] else []
        seconds += sum(costs.ring(space.devices).reshard_s(move, size(costs, source)) for move in [*made, *back])
    for source in columns:
        seconds += costs.ring(space.devices).all_reduce_s(size(costs, source))
    for index in graph.outputs:
        held = output_of(entries[index])
        whole = TensorLayout((), "", held.samples, held.batch_axis)
        if held != whole and (index, whole) not in brought:
            seconds += sum(costs.ring(space.devices).reshard_s(move, size(costs, index)) for move in reshardings(held, whole))
    return seconds


def size(costs: Costs, index: int) -> float:
    return costs.profile.batch_size * math.prod(costs.graph.layers[index].output_shape) * costs.graph.item_bytes


def readable(costs: Costs, entries: Sequence[LayerLayout], index: int) -> bool:
    """Return whether a layer may read its inputs as they lie: split by its own sizes, or gathered, which a flattened tensor is not."""
    entry = entries[index]
    for source in costs.graph.layers[index].inputs:
        other = entries[source]
        if other.layout not in ("column", "split"):
            continue
        flat = not kind_of(costs.graph.layers[source]).mixes and costs.counts[source] != costs.graph.layers[source].units
        if entry.layout in ("row", "split"):
            if entry.sizes != other.sizes:
                return False
        elif flat:
            return False
    return True


def passes(costs: Costs, space: Space, index: int, state: LayoutState) -> float:
    """Return the seconds of a layer on the device charged."""
    entry, parts = space.entry(index, "", state), state.sizes or state.samples or (0,) * len(space.devices)

    def on(place: int, step_pass: str) -> float:
        return spent(costs, entry, space.devices[place], parts[place], parts[place], step_pass)

    places = range(len(space.devices))
    work = [on(p, "forward") + (on(p, "backward") if costs.trains_before[index] else 0.0) for p in places]
    updates = [on(p, "update") if costs.graph.owner(index) == index else 0.0 for p in places]
    charged = space.slowest.get((index, state), int(np.argmax(np.add(work, updates))))
    return work[charged] + (max(updates) if state.layout == "batch" else updates[charged])


def spent(costs: Costs, entry: LayerLayout, device: int, size: int, samples: int, step_pass: str) -> float:
    """Return the seconds of a layer's pass on one processor of a mesh, as `Costs.spent`."""
    return float(costs.spent(entry, np.array([device]), np.array([size]), np.array([samples]), step_pass)[0])


def collectives(costs: Costs, space: Space, entry: LayerLayout) -> float:
    """Return the seconds of a layer's own all-reduces."""
    graph, ring = costs.graph, costs.ring(space.devices)
    layer = graph.layers[entry.layer]
    if entry.layout == "row":
        return ring.all_reduce_s(size(costs, entry.layer))
    if entry.layout == "split" and layer.kind == "Attention":
        scores = costs.profile.batch_size * layer.output_shape[0] * layer.attributes["keys"] * graph.item_bytes
        return (1 + costs.trains_before[entry.layer]) * ring.all_reduce_s(scores)
    if entry.layout != "batch":
        return 0.0
    seconds = 0.0
    if layer.kind == "BatchNormalization":
        seconds += ring.all_gather_s(2 * len(space.devices) * layer.units * graph.item_bytes)
        seconds += ring.all_reduce_s(2 * layer.units * graph.item_bytes) if costs.trains_before[entry.layer] else 0.0
    trained = [sum(v.size for v in other.variables if v.trainable) * graph.item_bytes for other in graph.layers]
    return seconds + trained[entry.layer] * ring.all_reduce_s(sum(trained)) / sum(trained)


def gathers(costs: Costs, space: Space, entry: LayerLayout) -> float:
    """Return the seconds of gathering the weights of a split layer and their gradients, where the optimizer is Adafactor."""
    trained = sum(v.size for v in costs.graph.layers[entry.layer].variables if v.trainable) * costs.graph.item_bytes
    if costs.profile.optimizer.name != "adafactor" or not entry.sizes or not trained:
        return 0.0
    split = TensorLayout(entry.sizes, entry.axis)
    return 2 * sum(costs.ring(space.devices).reshard_s(move, trained) for move in reshardings(split, TensorLayout()))


def every_choice(space: Space) -> Iterator[tuple[LayoutState, ...]]:
    yield from itertools.product(*space.states)


def drawn_graph(rng: np.random.Generator, layers: int) -> LayerGraph:
    """Return a small random network: chains, branches that meet in an Add or a Concatenate, tensors with several readers."""
    net, channels = Net((4, 4, 3)), [0]
    while len(net.layers) < layers:
        source = int(channels[-1] if rng.random() < 0.6 else rng.choice(channels))
        joined = [i for i in channels if i != source and net.layers[i].output_shape == net.layers[source].output_shape]
        draw = rng.random()
        if draw < 0.25 and joined:
            made = net.add("Add", f"layer{len(net.layers)}", [source, int(rng.choice(joined))])
        elif draw < 0.4 and joined:
            made = net.add("Concatenate", f"layer{len(net.layers)}", [source, int(rng.choice(joined))])
        elif draw < 0.55:
            made = net.add("BatchNormalization", f"layer{len(net.layers)}", [source])
        else:
            made = net.conv(f"layer{len(net.layers)}", int(rng.choice([4, 6])), [source], kernel_size=[1, 1])
        channels.append(made)
    if rng.random() < 0.5:
        net.add("Flatten", "flatten", [channels[-1]])
        net.dense("head", 4, activation=str(rng.choice(["linear", "softmax"])))
    return net.graph()


def drawn_profile(rng: np.random.Generator, graph: LayerGraph) -> Profile:
    """Return a profile of two or three devices whose curves are random staircases, with random links."""

    def staircase(tread_s: float, rise: float) -> object:
        return lambda seconds: rise * tread_s * math.ceil(seconds / tread_s)

    speeds = [staircase(float(rng.uniform(10, 3000)), float(rng.uniform(1e-6, 5e-6))) for _ in range(int(rng.integers(2, 4)))]
    latency_s, bandwidth = float(10 ** rng.uniform(-6, -2)), float(10 ** rng.uniform(4, 8))
    return profile_of(graph, speeds, latency_s, bandwidth)  # type: ignore[arg-type]


def few_states(rng: np.random.Generator, space: Space, most: int = 5) -> Space:
    """Return the space with so few states a layer, drawn at random, that all choices can be walked; "replicated" is always there."""
    states = []
    for legal in space.states:
        kept = sorted({0, *rng.permutation(len(legal))[: most - 1].tolist()})
        states.append(tuple(legal[at] for at in kept))
    return dataclasses.replace(space, states=tuple(states))
