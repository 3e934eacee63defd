"""The space of the layout program: the layouts and size vectors that each layer may take on some devices."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hetero_mtf.errors import NothingToSplitError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import BORDERS, PAIRINGS, Arrangement, arrange, shared, split_units, splits_batch, trunk
from hetero_mtf.planning.layout.records import AXIS, BATCH_AXIS, FILTER_AXIS, LayerLayout, Stage
from hetero_mtf.planning.solvers.apportionment import equal_sizes, minimise_maximum, proportional

_POWERS = (0, 1, 2)  # of free memory
VECTORS = 4  # size vectors considered for each number of units

Vector = tuple[int, ...]
Members = tuple[tuple[tuple[int, str], int], ...]  # ((first layer that takes the same time, its layout), how many of them)


class LayoutState(NamedTuple):
    """A layout and sizes that the layout program may choose for a layer.

    Parameters
    ----------
    layout : as in a LayerLayout.
    sizes : units along the axis of channels; empty if they are not split.
    samples : samples along the axis of the batch; empty if it is not split. On one axis only one of the two is given.
    slabs : positions of the output along a spatial dimension; empty if space is not split.
    dimension : number of the spatial dimension.
    """

    layout: str
    sizes: Vector = ()
    samples: Vector = ()
    slabs: Vector = ()
    dimension: int = 0


@dataclasses.dataclass(frozen=True)
class Space:
    """The states that the layout program chooses from.

    Parameters
    ----------
    devices : (devices,) indices in the cluster, in the order of the mesh.
    states : (layers,) the states each layer may take.
    slowest : the device that a state's seconds are charged at, by place in `devices`: (layer, state) -> place. A state that is not
        in it is charged at the layer's own slowest device.
    rows : rows of the mesh, along which samples lie, and filters along its columns; 0 for a mesh of one axis.
    """

    devices: tuple[int, ...]
    states: tuple[tuple[LayoutState, ...], ...]
    slowest: dict[tuple[int, LayoutState], int]
    rows: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """(most states of a layer, size vectors altogether)."""
        vectors = {vector for states in self.states for state in states for vector in state[1:4] if vector}
        return max(map(len, self.states)), len(vectors)

    def entry(self, layer: int, name: str, state: LayoutState) -> LayerLayout:
        """Return the layout of a layer in a state.

        Parameters
        ----------
        layer : index of the layer.
        name : its name.
        """
        if not self.rows:
            parts = {"samples": state.samples, "slabs": state.slabs, "dimension": state.dimension}
            return LayerLayout(layer, name, state.layout, state.sizes, **parts)  # type: ignore[arg-type]
        axis, batch_axis = FILTER_AXIS if state.sizes else AXIS, BATCH_AXIS if state.samples else AXIS
        return LayerLayout(layer, name, state.layout, state.sizes, axis, state.samples, batch_axis)

    def layouts(self, graph: LayerGraph, states: Sequence[LayoutState]) -> tuple[LayerLayout, ...]:
        """Return the (layers,) layouts of states.

        Parameters
        ----------
        states : (layers,) the state of each layer.
        """
        return tuple(self.entry(index, layer.name, state) for index, (layer, state) in enumerate(zip(graph.layers, states)))


def layout_space(costs: Costs, devices: Sequence[int], known: Iterable[Stage] = (), by_memory: bool = False) -> Space:
    """Return the states of every layer on one mesh axis over some devices.

    A layer may be replicated; split its batch, by any of the sample vectors; lie in the slabs that it has in any of the known stages; and
    take each layout of its channels that its kind allows, by any of the size vectors for that many units.

    The samples are those that minimise the slowest device's seconds in the whole network, or in its `arrangement.trunk`. Size vectors
    minimise the slowest device's seconds in a segment of an arrangement (`arrangement.arrange`: pairs, gathered, and both borders of a
    hybrid), or in all its segments of as many units together; of each number of units the four that matter to most seconds.

    Parameters
    ----------
    devices : indices of the devices.
    known : stages on the same devices, from other searches, whose samples, sizes and slabs are considered too.
    by_memory : whether to consider samples and sizes too that are equal, in proportion to the free memory, or to its square:
        bytes that every device holds alike leave devices of little memory less for their part.

    Notes
    -----
    Every size vector is exact (`minimise_maximum`). A layer that is called more than once is not split by channels; a flattened
    tensor is split only where all its readers end in rows, as in `arrangement.arrange`. O(layers * vectors * devices).
    """
    free = _free(costs, devices) if by_memory else []
    shares = [[part**power for part in free] for power in _POWERS] if by_memory else []
    stages = [stage for stage in known if stage.devices == tuple(devices) and len(stage.axes) == 1]
    return _Space(costs, tuple(devices), shares).of(stages)


def _free(costs: Costs, devices: Sequence[int]) -> list[float]:
    """Return each device's part of the free memory of its pool; 1 where it is unknown."""
    names = [costs.profile.cluster.devices[device].pool for device in devices]
    free = {pool.name: float(pool.free_bytes) for pool in costs.profile.memory}
    parts = [free.get(name, 0.0) / names.count(name) for name in names]
    return parts if any(parts) else [1.0] * len(names)


class _Space:
    def __init__(self, costs: Costs, devices: tuple[int, ...], shares: Sequence[Sequence[float]]) -> None:
        self.costs, self.graph, self.devices, self.shares = costs, costs.graph, devices, shares
        self.processors_per_device = costs.processors_per_device(devices)[:, None]
        self.at = np.arange(len(devices))
        self.slowest: dict[tuple[int, LayoutState], int] = {}
        self._solved: dict[Members, tuple[Vector, float, int]] = {}

    def of(self, stages: Sequence[Stage]) -> Space:
        samples = self._samples(stages)
        vectors = self._vectors(stages)
        never, views = shared(self.graph), flattened(self.graph, self.costs.counts)
        states = tuple(self._states(index, samples, vectors, index in never, views) for index in range(len(self.graph.layers)))
        in_slabs = self._in_slabs(stages)
        states = tuple((*own, *others) for own, others in zip(states, in_slabs))
        return Space(self.devices, states, self.slowest)

    def _states(
        self, index: int, samples: Sequence[Vector], vectors: dict[int, tuple[Vector, ...]], never: bool, views: dict[int, bool]
    ) -> tuple[LayoutState, ...]:
        layer = self.graph.layers[index]
        states = [LayoutState("replicated")]
        if splits_batch(layer):
            states += [LayoutState("batch", samples=vector) for vector in samples]
        legal = frozenset({"replicated"}) if never or not layer.inputs or not views.get(index, True) else kind_of(layer).layouts(layer)
        if len({self.costs.counts[i] for i in layer.inputs}) > 1:
            legal -= {"split"}
        for layout in sorted(legal - {"replicated"}):
            units = split_units(self.graph, index, layout, self.costs.counts)
            states += [LayoutState(layout, vector) for vector in vectors.get(units, ())]
        return tuple(states)

    def _in_slabs(self, known: Sequence[Stage]) -> list[tuple[LayoutState, ...]]:
        """Return the states in which each layer lies in slabs, charged at the device that is slowest in all layers of a stage."""
        found: list[dict[LayoutState, None]] = [{} for _ in self.graph.layers]
        for stage in known:
            cut = [entry for entry in stage.layouts if entry.slabs]
            passes = ("forward", "backward")
            spent = sum((self.costs.spent_on(entry, stage, each) for entry in cut for each in passes), np.zeros(len(self.devices)))
            for entry in cut:
                found[entry.layer][state_of(entry)] = None
                self.slowest.setdefault((entry.layer, state_of(entry)), int((spent * self.processors_per_device[:, 0]).argmax()))
        return [tuple(states) for states in found]

    # Samples, and the device that is charged for them.

    def _samples(self, known: Sequence[Stage]) -> tuple[Vector, ...]:
        everything = frozenset(range(len(self.graph.layers)))
        split_layers: dict[Vector, frozenset[int]] = {}
        for layers in dict.fromkeys((everything, trunk(self.graph))):
            splitting = [i for i in sorted(layers) if splits_batch(self.graph.layers[i])]
            rows = self.costs.batch_rows(splitting)[list(self.devices)] * self.processors_per_device
            units = self.costs.profile.batch_size
            vector = minimise_maximum(rows, units).sizes if rows[:, -1].any() else equal_sizes(units, len(self.devices)).sizes
            split_layers.setdefault(vector, frozenset(splitting))
        for stage in known:
            for vector in {entry.samples: None for entry in stage.layouts if entry.samples}:
                split_layers.setdefault(vector, frozenset(e.layer for e in stage.layouts if e.samples == vector))
        for share in self.shares:
            split_layers.setdefault(proportional(self.costs.profile.batch_size, share).sizes, everything)
        for vector, members in split_layers.items():
            self._charge_samples(vector, members)
        return tuple(split_layers)

    def _charge_samples(self, vector: Vector, layers: frozenset[int]) -> None:
        """Charge the layers between two batch norms, which synchronise all devices, at the slowest device there."""
        run: list[int] = []
        for index in sorted(layers):
            run.append(index)
            if self.graph.layers[index].kind == "BatchNormalization":
                self._charge_run(vector, run)
                run = []
        self._charge_run(vector, run)

    def _charge_run(self, vector: Vector, run: Sequence[int]) -> None:
        if run:
            seconds = (self.costs.batch_rows(run)[list(self.devices)] * self.processors_per_device)[self.at, list(vector)]
            for index in run:
                self.slowest[index, LayoutState("batch", samples=vector)] = int(seconds.argmax())

    # Size vectors, and the device that is charged for them.

    def _vectors(self, known: Sequence[Stage]) -> dict[int, tuple[Vector, ...]]:
        seconds_by_vector: dict[int, dict[Vector, float]] = {}
        for arrangement in arrangements(self.graph):
            together: dict[int, list[int]] = {}
            for segment in arrangement.segments:
                self._count_seconds(seconds_by_vector, segment.units, segment.layers, arrangement.layouts)
                together.setdefault(segment.units, []).extend(segment.layers)
            for units, layers in together.items():
                self._count_seconds(seconds_by_vector, units, layers, arrangement.layouts)
        vectors = {units: sorted(by, key=lambda v, by=by: -by[v])[:VECTORS] for units, by in seconds_by_vector.items()}  # type: ignore[misc]
        for entry in (entry for stage in known for entry in stage.layouts if entry.sizes):
            kept = vectors.setdefault(sum(entry.sizes), [])
            if entry.sizes not in kept:
                kept.append(entry.sizes)
        for units, kept in vectors.items():
            kept += [v for v in dict.fromkeys(proportional(units, share).sizes for share in self.shares) if v not in kept]
        return {units: tuple(kept) for units, kept in vectors.items()}

    def _count_seconds(
        self, seconds_by_vector: dict[int, dict[Vector, float]], units: int, layers: Sequence[int], layouts: Sequence[str]
    ) -> None:
        members = tuple(sorted(collections.Counter((self.costs.alike[layer], layouts[layer]) for layer in layers).items()))
        if members not in self._solved:
            self._solved[members] = self._solve(members, units)
        vector, seconds, slowest = self._solved[members]
        of_units = seconds_by_vector.setdefault(units, {})
        of_units[vector] = of_units.get(vector, 0.0) + seconds
        for layer in layers:
            self.slowest.setdefault((layer, LayoutState(layouts[layer], vector)), slowest)

    def _solve(self, members: Members, units: int) -> tuple[Vector, float, int]:
        """Return the best sizes of some layers, their seconds on the slowest device, and its place."""
        rows = sum(self.costs.summed_rows([member])[list(self.devices)] * count for member, count in members) * self.processors_per_device
        vector = minimise_maximum(rows, units).sizes
        seconds = rows[self.at, list(vector)]
        return vector, float(seconds.max()), int(seconds.argmax())


def arrangements(graph: LayerGraph) -> list[Arrangement]:
    """Return the arrangements for whose segments sizes are computed: pairs, gathered, and both borders of a hybrid where there is one."""
    all_arrangements = [arrange(graph, pairing) for pairing in PAIRINGS]
    for border in BORDERS:
        try:
            all_arrangements.append(arrange(graph, border=border))
        except NothingToSplitError:
            continue
    return all_arrangements


def flattened(graph: LayerGraph, counts: Sequence[int]) -> dict[int, bool]:
    """Return, for each layer whose output is a flattened tensor, whether it may be split by the channels in front of the Flatten.

    It may not if its output leaves the network, it has variables or several inputs, or it depends on the order of its dimensions.

    Parameters
    ----------
    counts : `arrangement.channels` of it.
    """
    allowed: dict[int, bool] = {}
    for index, layer in enumerate(graph.layers):
        if layer.inputs and not kind_of(layer).mixes and counts[index] != layer.units:
            plain = not layer.variables and len(layer.inputs) == 1 and index not in graph.outputs
            allowed[index] = plain and not kind_of(layer).needs_flat
    return allowed


def state_of(entry: LayerLayout) -> LayoutState:
    """Return the state of a layer of a given layout."""
    return LayoutState(entry.layout, entry.sizes, entry.samples, entry.slabs, entry.dimension)
