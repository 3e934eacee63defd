"""The layout program on a mesh of rows and columns: samples along its rows, filters along its columns.

A state is a layout with sizes along the columns and samples along the rows, either of which may be empty:

    min_s  J(s) = sum_l own_l(s_l) + sum_l sent_l(s_l, s_R(l))

as in `layout_program`, with other seconds of collectives: a tensor that is split along the other axis too is held in parts q_g by the
groups g along an axis, and as the groups communicate at the same time, n bytes take max_g collective_g(q_g n).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.layers import kind_of
from hetero_mtf.planning.cost.device_ring import Ring
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import shared, split_units, splits_batch, takes_statistics
from hetero_mtf.planning.layout.records import BATCH_AXIS, FILTER_AXIS, LayerLayout, Stage
from hetero_mtf.planning.layout.resharding import TensorLayout, reshardings
from hetero_mtf.planning.layout_search.layout_space import VECTORS, LayoutState, Space, Vector, flattened, state_of
from hetero_mtf.planning.layout_search.step_objective import LayoutCost
from hetero_mtf.planning.profile.curve import PASSES

SAMPLES = 2  # sample vectors considered on one mesh


def grid_space(costs: Costs, stages: Sequence[Stage]) -> Space:
    """Return the states of every layer on the mesh of some stages.

    A layer may be replicated; split its batch along the rows; take each layout of its channels that its kind allows along the columns,
    with the batch split or not. Samples are those of the first two stages that differ in them, sizes those of the first four that
    differ in them for so many units.

    Parameters
    ----------
    stages : stages on the same mesh of two axes, the best first.

    Notes
    -----
    A state is charged at the device that is slowest over all layers of the same layout in the first stage that has it. O(stages *
    layers * devices).
    """
    graph, first = costs.graph, stages[0]
    samples: dict[Vector, None] = {}
    vectors: dict[int, dict[Vector, None]] = {}
    slowest: dict[tuple[int, LayoutState], int] = {}
    for stage in stages:
        for entry in stage.layouts:
            if entry.samples and (len(samples) < SAMPLES or stage is first):
                samples[entry.samples] = None
            considered = vectors.setdefault(sum(entry.sizes), {}) if entry.sizes else {}
            if len(considered) < VECTORS or stage is first:
                considered[entry.sizes] = None
        _charge(costs, stage, slowest)
    never, views = shared(graph), flattened(graph, costs.counts)
    states = tuple(
        tuple(_states(costs, index, list(samples), vectors, index not in never and views.get(index, True)))
        for index in range(len(graph.layers))
    )
    return Space(first.devices, states, slowest, dict(first.axes)[BATCH_AXIS])


def _states(
    costs: Costs, index: int, samples: Sequence[Vector], vectors: dict[int, dict[Vector, None]], splits: bool
) -> Iterable[LayoutState]:
    layer = costs.graph.layers[index]
    batches = list(samples) if splits_batch(layer) else []
    yield LayoutState("replicated")
    for vector in batches:
        yield LayoutState("batch", samples=vector)
    legal = kind_of(layer).layouts(layer) if splits and layer.inputs else frozenset({"replicated"})
    if len({costs.counts[i] for i in layer.inputs}) > 1:
        legal -= {"split"}
    for layout in sorted(legal - {"replicated"}):
        for sizes in vectors.get(split_units(costs.graph, index, layout, costs.counts), ()):
            for vector in [(), *batches]:
                yield LayoutState(layout, sizes, vector)


def _charge(costs: Costs, stage: Stage, slowest: dict[tuple[int, LayoutState], int]) -> None:
    """Charge layers of equal sizes and samples in a stage at the device that is slowest in all of them together."""
    alike: dict[tuple[Vector, Vector], list[LayerLayout]] = {}
    for entry in stage.layouts:
        alike.setdefault((entry.sizes, entry.samples), []).append(entry)
    for entries in alike.values():
        spent = np.zeros(len(stage.devices))
        for entry in entries:
            trains, own = costs.trains_before[entry.layer], costs.graph.owner(entry.layer) == entry.layer
            for step_pass, counts in zip(PASSES, (True, trains, own)):
                spent = spent + costs.spent_on(entry, stage, step_pass) if counts else spent
        for entry in entries:
            slowest.setdefault((entry.layer, state_of(entry)), int((spent * costs.processors_per_device(stage.devices)).argmax()))


class GridCost(LayoutCost):
    """The terms of J on a mesh of rows and columns.

    Collectives over channels are among the devices of one row, those over samples among the devices of one column. All groups along an
    axis communicate at the same time, so the slowest group is charged, with the part of the tensor that it holds. Every batch norm is
    charged its own synchronisations: which are merged depends on the layouts of all layers. The rest of J is defined in `layout_program`.

    Parameters
    ----------
    space : Space with rows.
    """

    def __init__(self, costs: Costs, space: Space) -> None:
        mesh = np.reshape(space.devices, (space.rows, -1)).tolist()
        self._groups = {FILTER_AXIS: _rings(costs, mesh), BATCH_AXIS: _rings(costs, list(zip(*mesh)))}
        self._reshard_s: dict[tuple[float, int, int], tuple[float, float]] = {}
        self._reduce_s: dict[tuple[float, int], float] = {}
        super().__init__(costs, space)

    def reshard_s(self, index: int, held: int, wanted: int) -> tuple[float, float]:
        """Return the seconds of resharding an output and of resharding its gradient back; parameters as in `LayoutCost`."""
        full_bytes, trains = self.output_bytes(index), self.costs.trains_before[index]
        key = full_bytes, held, wanted
        if key not in self._reshard_s:
            path = reshardings(self.tensor_layout(held), self.tensor_layout(wanted)) if held != wanted else []
            forward_s, backward_s = 0.0, 0.0
            # steps follow each other and add up; the groups of a step work at the same time: max_g collective_g(q_g n)
            for resharding in path:
                parts = self._groups_of(resharding.tensor_layout, resharding.axis)
                groups = [(ring, part * full_bytes) for part, rings in parts for ring in rings]
                forward_s += max(ring.reshard_s(resharding, n) for ring, n in groups)
                backward_s += max(ring.reshard_s(resharding.reverse, n) for ring, n in groups)
            self._reshard_s[key] = forward_s, backward_s
        forward_s, backward_s = self._reshard_s[key]
        return forward_s, backward_s if trains else 0.0

    def reduce_s(self, full_bytes: float, tensor_layout: int) -> float:
        """Return the seconds of an all-reduce of a tensor along the rows; parameters as in `LayoutCost`."""
        if (full_bytes, tensor_layout) not in self._reduce_s:
            held = self._groups_of(self.tensor_layout(tensor_layout), FILTER_AXIS)
            self._reduce_s[full_bytes, tensor_layout] = max(ring.all_reduce_s(part * full_bytes) for part, rings in held for ring in rings)
        return self._reduce_s[full_bytes, tensor_layout]

    def _batch_s(self, index: int, state: LayoutState) -> float:
        layer, samples = self.graph.layers[index], state.samples
        if not samples:
            return 0.0
        seconds, parts = 0.0, [size / sum(state.sizes) for size in state.sizes] or [1.0] * len(self._groups[BATCH_AXIS])
        if takes_statistics(layer):
            statistics = 2 * layer.units * self.graph.item_bytes
            columns = list(zip(self._groups[BATCH_AXIS], parts))
            seconds += max(ring.all_gather_s(len(samples) * part * statistics) for ring, part in columns)
            seconds += max(ring.all_reduce_s(part * statistics) for ring, part in columns) if self.costs.trains_before[index] else 0.0
        messages_s = (len(samples) - 1) * self.costs.message_s * self.costs.messages(index, self._bucket_bytes)
        gradients_s = messages_s + self._gradient_s_per_byte * max(parts) * self._trained_bytes((index,))
        return seconds + (1 - self.costs.hidden) * gradients_s

    def _filter_rings(self) -> Sequence[Ring]:
        return self._groups[FILTER_AXIS]

    def _parts(self, state: LayoutState) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = self.space.rows, len(self.devices) // self.space.rows
        return np.tile(state.sizes or [0] * columns, rows), np.repeat(state.samples or [0] * rows, columns)

    def _rate(self) -> float:
        """Return the seconds a byte of one all-reduce of all gradients along the columns, each with an equal part of every weight."""
        columns = self._groups[BATCH_AXIS]
        full_bytes = self._trained_bytes(range(len(self.graph.layers))) / len(columns)
        return max(ring.all_reduce_s(full_bytes) for ring in columns) / full_bytes if full_bytes else 0.0

    def _groups_of(self, tensor_layout: TensorLayout, axis: str) -> list[tuple[float, list[Ring]]]:
        """Return, for each group along an axis, the part of a tensor that it holds, and its links."""
        others = [parts for other, (_, parts) in tensor_layout.by_axis.items() if other != axis]
        rings = self._groups[axis]
        parts = [part / sum(others[0]) for part in others[0]] if others else [1.0] * len(rings)
        by_part: dict[float, dict[Ring, None]] = {}
        for part, ring in zip(parts, rings):
            by_part.setdefault(part, {})[ring] = None
        return [(part, list(kept)) for part, kept in by_part.items()]


def _rings(costs: Costs, groups: Sequence[Sequence[int]]) -> list[Ring]:
    return [costs.ring(tuple(group)) for group in groups]
