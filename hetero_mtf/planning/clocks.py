"""A clock for every processor of a mesh: what a step's layers and collectives add to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hetero_mtf.planning.layer_cost import Costs
from hetero_mtf.planning.link_cost import Ring
from hetero_mtf.planning.moves import Lying, Move, input_of, moves, output_of
from hetero_mtf.planning.records import LayerLayout, Stage

_Seconds = Callable[[np.ndarray], float]  # of a collective among the processors of a group
_Brought = tuple[int, Lying]  # a layer whose output was moved, and how it lies then


class Clocks:
    """The clocks of a stage's processors; `predict` says by what rule they go.

    What a stage reads of other stages arrives as its layers want it, and what others read of it is taken where it lies: a transfer
    between meshes is not the stage's.

    Parameters
    ----------
    costs : Costs of the profile.
    stage : Stage.
    beside : whether the other devices of the hosts may be at work meanwhile, for other stages.

    Attributes
    ----------
    now : (processors,) seconds since the step began.
    busy : (processors,) seconds spent computing.
    sending : (processors,) seconds spent in collectives.
    """

    def __init__(self, costs: Costs, stage: Stage, beside: bool = False) -> None:
        self.costs, self.stage, self.beside = costs, stage, beside
        self.devices = np.array(stage.devices)
        self.now, self.busy, self.sending = (np.zeros(len(stage.devices)) for _ in range(3))
        self.entries = {entry.layer: entry for entry in stage.layouts}
        self.places = {axis: np.array(stage.places(axis)) for axis, _ in stage.axes}
        self._brought: dict[_Brought, int] = {}
        self._rings: dict[bytes, Ring] = {}
        self._grouped: dict[str, list[np.ndarray]] = {}
        self._first_column: dict[tuple[int, str, Lying], int] = {}
        for entry in stage.layouts:
            for source in costs.graph.layers[entry.layer].inputs if entry.layout == "column" else ():
                self._first_column.setdefault((source, entry.axis, input_of(entry)), entry.layer)
        names = [costs.profile.cluster.devices[d].tf_device for d in stage.devices]
        found, self._turns = np.unique(names, return_inverse=True)
        self._alone = len(found) == len(names)
        self._held_as = {entry.layer: output_of(entry) for entry in stage.layouts}
        self._wanted_as = {entry.layer: input_of(entry) for entry in stage.layouts}

    def compute(self, entry: LayerLayout, step_pass: str) -> None:
        """Let every processor compute its part of a layer; those on one TensorFlow device take turns."""
        spent = self.costs.spent_on(entry, self.stage, step_pass, self.beside)
        self.busy += spent
        self.now += spent if self._alone else np.bincount(self._turns, spent)[self._turns]

    def _parts_of(self, parts: Sequence[int], axis: str) -> np.ndarray:
        found: np.ndarray = np.array(parts)[self.places[axis]] if parts else np.zeros(len(self.now), int)
        return found

    def forward(self) -> None:
        """Walk the layers in order, then gather the outputs."""
        for entry in self.stage.layouts:
            self._bring(self.costs.graph.layers[entry.layer].inputs, self._wanted_as[entry.layer], entry.layer)
            self.compute(entry, "forward")
            if entry.layout == "row":
                self._all_reduce(entry.axis, self._held_as[entry.layer], self._bytes(entry.layer))
            self._join_scores(entry)
            self._join_statistics(entry, forward=True)
        for index in self.costs.graph.outputs:
            if index in self._held_as:
                lying = self._held_as[index]
                self._bring((index,), Lying((), "", lying.samples, lying.batch_axis), -1)

    def backward(self) -> None:
        """Walk the layers that train, or that one before them does, in reverse."""
        for entry in reversed(self.stage.layouts):
            if not self.costs.trains_before[entry.layer]:
                continue
            self.compute(entry, "backward")
            self._join_scores(entry)
            self._join_statistics(entry, forward=False)
            self._return_gradients(entry)

    def add_gradients_up(self) -> None:
        """Add the gradients of the weights up over the processors that share the batch."""
        for axis in self._batch_axes():
            self._meet(axis, self._summing_s(self._weight_bytes(axis), self._messages_s(axis)))

    def mix_weights(self) -> None:
        """Send the weights to a partner and receive its own."""
        for axis in self._batch_axes():
            self._meet(axis, self._mixing_s(self._weight_bytes(axis)))

    def _summing_s(self, held_bytes: np.ndarray, messages_s: float) -> _Seconds:
        return lambda group: self._ring(group).all_reduce_s(held_bytes[group[0]]) + (len(group) - 1) * messages_s

    def _messages_s(self, axis: str) -> float:
        """Return the seconds of handing the gradients of all weights to one other processor, their bytes left out."""
        layers = [entry.layer for entry in self.stage.layouts if entry.samples and entry.batch_axis == axis]
        return self.costs.message_s * sum(map(self.costs.summed_tensors, layers))

    def _mixing_s(self, held_bytes: np.ndarray) -> _Seconds:
        return lambda group: self._ring(group).sent_s(1, held_bytes[group[0]])

    def _batch_axes(self) -> list[str]:
        return sorted({entry.batch_axis for entry in self.stage.layouts if entry.samples})

    def _return_gradients(self, entry: LayerLayout) -> None:
        sources = [s for s in self.costs.graph.layers[entry.layer].inputs if self.costs.trains_before[s]]
        for source in dict.fromkeys(sources):
            if self._first_column.get((source, entry.axis, self._wanted_as[entry.layer])) == entry.layer:
                self._all_reduce(entry.axis, self._wanted_as[entry.layer], self._bytes(source))
            if self._brought.get((source, self._wanted_as[entry.layer])) == entry.layer:
                for move in reversed(moves(self._held_as[source], self._wanted_as[entry.layer])):
                    self._make(move.reverse, source)

    def _bring(self, sources: Iterable[int], wanted: Lying, reader: int) -> None:
        """Move the outputs of some layers to where `reader` wants them, unless an earlier reader did."""
        for source in sources:
            held = self._held_as.get(source, wanted)
            if held == wanted or (source, wanted) in self._brought:
                continue
            self._brought[source, wanted] = reader
            for move in moves(held, wanted):
                self._make(move, source)

    def _make(self, move: Move, layer: int) -> None:
        if move.kind != "slice":
            whole_bytes = self._bytes(layer)
            self._meet(move.axis, lambda group: self._ring(group).move_s(move, self._held(move, group) * whole_bytes))

    def _all_reduce(self, axis: str, lying: Lying, whole_bytes: float) -> None:
        here = Move("all_reduce", axis, lying, (), ())
        self._meet(axis, lambda group: self._ring(group).all_reduce_s(self._held(here, group) * whole_bytes))

    def _join_statistics(self, entry: LayerLayout, forward: bool) -> None:
        """Batch norm over a split batch: an all-gather of two numbers a channel and processor forward, an all-reduce of them backward."""
        layer = self.costs.graph.layers[entry.layer]
        if layer.kind != "BatchNormalization" or not entry.samples or not layer.attributes.get("trainable", True):
            return
        statistics, apart = 2 * layer.units * self.costs.graph.item_bytes, len(entry.samples)
        lying = Lying(entry.sizes, entry.axis if entry.sizes else "")
        here = Move("all_gather", entry.batch_axis, lying, (), ())

        def seconds(group: np.ndarray) -> float:
            whole_bytes = self._held(here, group) * statistics
            return self._ring(group).all_gather_s(apart * whole_bytes) if forward else self._ring(group).all_reduce_s(whole_bytes)

        self._meet(entry.batch_axis, seconds)

    def _join_scores(self, entry: LayerLayout) -> None:
        """Attention that is split by channels: an all-reduce of the scores forward, and of their gradients backward."""
        whole_bytes = self.costs.memory.score_bytes[entry.layer]
        if entry.layout == "split" and whole_bytes:
            held = self._held_as[entry.layer]
            self._all_reduce(entry.axis, Lying((), "", held.samples, held.batch_axis), whole_bytes)

    def _held(self, move: Move, group: np.ndarray) -> float:
        """Return the part of a tensor that the processors of a group, along the move's axis, hold together."""
        part = 1.0
        for axis, (_, parts) in move.lying.by_axis.items():
            if axis != move.axis:
                part *= parts[int(self.places[axis][group[0]])] / sum(parts)
        return part

    def _weight_bytes(self, axis: str) -> np.ndarray:
        """Return the bytes of the weights that train on each processor, in the layers that split their batch along an axis."""
        held = np.zeros(len(self.now))
        for entry in self.stage.layouts:
            if entry.samples and entry.batch_axis == axis and self.costs.graph.owner(entry.layer) == entry.layer:
                weights = sum(v.size for v in self.costs.graph.layers[entry.layer].variables if v.trainable)
                part = self._parts_of(entry.sizes, entry.axis) / sum(entry.sizes) if entry.sizes else 1.0
                held += part * (weights * self.costs.graph.item_bytes)
        return held

    def _bytes(self, layer: int) -> float:
        """Return the bytes of a layer's whole output."""
        graph = self.costs.graph
        return self.costs.profile.batch_size * math.prod(graph.layers[layer].output_shape) * graph.item_bytes

    def _groups(self, axis: str) -> list[np.ndarray]:
        """Return the processors in groups that differ in their place on one axis only."""
        if axis not in self._grouped:
            others = [places for name, places in self.places.items() if name != axis]
            groups: dict[tuple[int, ...], list[int]] = {}
            for at in range(len(self.now)):
                groups.setdefault(tuple(int(places[at]) for places in others), []).append(at)
            self._grouped[axis] = [np.array(group) for group in groups.values()]
        return self._grouped[axis]

    def _ring(self, group: np.ndarray) -> Ring:
        key = group.tobytes()
        if key not in self._rings:
            self._rings[key] = self.costs.ring(tuple(self.devices[group].tolist()))
        return self._rings[key]

    def _meet(self, axis: str, seconds: _Seconds) -> None:
        """Let the processors along an axis meet and send for so many seconds."""
        for group in self._groups(axis):
            if len(group) < 2:
                continue
            sending_s = seconds(group)
            all_or_some = slice(None) if len(group) == len(self.now) else group
            self.sending[all_or_some] += sending_s
            self.now[all_or_some] = self.now[all_or_some].max() + sending_s
