"""Predicted seconds of one training step of a stage, and what each device does meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from hetero_mtf.planning.layer_cost import Costs
from hetero_mtf.planning.link_cost import Ring, ring
from hetero_mtf.planning.memory import stage_memory_bytes
from hetero_mtf.planning.moves import Lying, Move, input_of, moves, output_of
from hetero_mtf.planning.records import DevicePart, LayerLayout, Prediction, Stage

__all__ = ["Costs", "predict"]


def predict(costs: Costs, stage: Stage, gradient_sync: str = "all_reduce") -> Prediction:
    """Return the predicted seconds of one synchronous step of a stage that holds the whole network.

    Every device has a clock. A layer advances the clock of each device by its measured seconds; a collective sets the clocks of
    the devices along its mesh axis to the latest of them plus its own seconds. The forward pass walks the layers in order, the
    backward pass in reverse; the updates follow without meeting again.

    Parameters
    ----------
    costs : Costs of the profile.
    stage : Stage.
    gradient_sync : as in a Plan.

    Notes
    -----
    Forward, a row ends in an all-reduce of its output, an input that lies otherwise than a layer wants it is moved once for all
    that want it so (`moves`), a split output that leaves the network is gathered, and batch norm gathers the statistics of a
    split batch. Backward, columns that read one input end in one all-reduce of its gradient where anything before them trains, every
    move is made in reverse, and batch norm adds up two sums a channel. The gradients of weights whose layer splits the batch are added
    up along its axis: TensorFlow starts each as soon as it is there, but sending takes a CPU's time from computing, so all their
    bytes are charged, with the latency of one all-reduce, before the update. Butterfly mixing sends the weights to one partner
    after it instead. Processors on one TensorFlow device take turns. Loss, regularizers and metrics are not counted.
    O(layers * devices).
    """
    clocks = _Clocks(costs, stage)
    clocks.forward()
    forward_s = max(clocks.now)
    clocks.backward()
    if gradient_sync == "all_reduce":
        clocks.add_gradients_up()
    backward_s = max(clocks.now) - forward_s
    for entry in stage.layouts:
        if costs.graph.owner(entry.layer) == entry.layer:
            clocks.compute(entry, "update")
    if gradient_sync == "butterfly_mixing":
        clocks.mix_weights()
    step_s = max(clocks.now)
    return Prediction(step_s, forward_s, backward_s, step_s - forward_s - backward_s, clocks.parts(step_s))


_Seconds = Callable[[Sequence[int]], float]  # of a collective among the processors of a group
_Brought = tuple[int, Lying]  # a layer whose output was moved, and how it lies then


class _Clocks:
    def __init__(self, costs: Costs, stage: Stage) -> None:
        self.costs, self.stage = costs, stage
        self.now = [0.0] * len(stage.devices)
        self.busy = [0.0] * len(stage.devices)
        self.sending = [0.0] * len(stage.devices)
        self.entries = {entry.layer: entry for entry in stage.layouts}
        self.places = {axis: stage.places(axis) for axis, _ in stage.axes}
        self._rings: dict[tuple[int, ...], Ring] = {}
        self._brought: dict[_Brought, int] = {}
        self._grouped: dict[str, list[list[int]]] = {}
        self._first_column: dict[tuple[int, str, Lying], int] = {}
        for entry in stage.layouts:
            for source in costs.graph.layers[entry.layer].inputs if entry.layout == "column" else ():
                self._first_column.setdefault((source, entry.axis, input_of(entry)), entry.layer)
        names = [costs.profile.cluster.devices[d].tf_device for d in stage.devices]
        self._turns = [[at for at, other in enumerate(names) if other == name] for name in names]

    def compute(self, entry: LayerLayout, step_pass: str) -> None:
        sizes = self._parts_of(entry.sizes, entry.axis)
        samples = self._parts_of(entry.samples, entry.batch_axis)
        shares = zip(self.stage.devices, sizes, samples)
        spent = [self.costs.seconds(entry, device, size, count, step_pass) for device, size, count in shares]
        for at, turns in enumerate(self._turns):
            self.busy[at] += spent[at]
            self.now[at] += sum(spent[other] for other in turns)

    def _parts_of(self, parts: Sequence[int], axis: str) -> list[int]:
        return [parts[place] for place in self.places[axis]] if parts else [0] * len(self.now)

    def forward(self) -> None:
        for entry in self.stage.layouts:
            self._bring(self.costs.graph.layers[entry.layer].inputs, input_of(entry), entry.layer)
            self.compute(entry, "forward")
            if entry.layout == "row":
                self._all_reduce(entry.axis, output_of(entry), self._bytes(entry.layer))
            self._join_statistics(entry, forward=True)
        for index in self.costs.graph.outputs:
            lying = output_of(self.entries[index])
            self._bring((index,), Lying((), "", lying.samples, lying.batch_axis), -1)

    def backward(self) -> None:
        for entry in reversed(self.stage.layouts):
            if not self.costs.trains_before[entry.layer]:
                continue
            self.compute(entry, "backward")
            self._join_statistics(entry, forward=False)
            self._return_gradients(entry)

    def add_gradients_up(self) -> None:
        """Add the gradients of the weights up over the processors that share the batch."""
        for axis in self._batch_axes():
            self._meet(axis, self._summing_s(self._weight_bytes(axis)))

    def mix_weights(self) -> None:
        """Send the weights to a partner and receive its own."""
        for axis in self._batch_axes():
            self._meet(axis, self._mixing_s(self._weight_bytes(axis)))

    def _summing_s(self, held_bytes: Sequence[float]) -> _Seconds:
        return lambda group: self._ring(group).all_reduce_s(held_bytes[group[0]])

    def _mixing_s(self, held_bytes: Sequence[float]) -> _Seconds:
        return lambda group: _sent_s(self._ring(group), 1, held_bytes[group[0]])

    def _batch_axes(self) -> list[str]:
        return sorted({entry.batch_axis for entry in self.stage.layouts if entry.samples})

    def _return_gradients(self, entry: LayerLayout) -> None:
        sources = [s for s in self.costs.graph.layers[entry.layer].inputs if self.costs.trains_before[s]]
        for source in dict.fromkeys(sources):
            if self._first_column.get((source, entry.axis, input_of(entry))) == entry.layer:
                self._all_reduce(entry.axis, input_of(entry), self._bytes(source))
            if self._brought.get((source, input_of(entry))) == entry.layer:
                for move in reversed(moves(output_of(self.entries[source]), input_of(entry))):
                    self._make(move.reverse, source)

    def _bring(self, sources: Iterable[int], wanted: Lying, reader: int) -> None:
        """Move the outputs of some layers to where `reader` wants them, unless an earlier reader did."""
        for source in sources:
            held = output_of(self.entries[source])
            if held == wanted or (source, wanted) in self._brought:
                continue
            self._brought[source, wanted] = reader
            for move in moves(held, wanted):
                self._make(move, source)

    def _make(self, move: Move, layer: int) -> None:
        whole_bytes = self._bytes(layer)
        if move.kind == "all_gather":
            self._meet(move.axis, lambda group: self._ring(group).all_gather_s(self._held(move, group) * whole_bytes))
        elif move.kind == "all_to_all":
            self._meet(move.axis, lambda group: _exchange_s(self._ring(group), move, self._held(move, group) * whole_bytes))

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

        def seconds(group: Sequence[int]) -> float:
            whole_bytes = self._held(here, group) * statistics
            return self._ring(group).all_gather_s(apart * whole_bytes) if forward else self._ring(group).all_reduce_s(whole_bytes)

        self._meet(entry.batch_axis, seconds)

    def _held(self, move: Move, group: Sequence[int]) -> float:
        """Return the part of a tensor that the processors of a group, along the move's axis, hold together."""
        part = 1.0
        for axis, (_, parts) in move.lying.by_axis.items():
            if axis != move.axis:
                part *= parts[self.places[axis][group[0]]] / sum(parts)
        return part

    def _weight_bytes(self, axis: str) -> list[float]:
        """Return the bytes of the weights that train on each processor, in the layers that split their batch along an axis."""
        held = [0.0] * len(self.now)
        for entry in self.stage.layouts:
            if entry.samples and entry.batch_axis == axis and self.costs.graph.owner(entry.layer) == entry.layer:
                weights = sum(v.size for v in self.costs.graph.layers[entry.layer].variables if v.trainable)
                sizes = self._parts_of(entry.sizes, entry.axis)
                parts = [size / sum(entry.sizes) for size in sizes] if entry.sizes else [1.0] * len(held)
                held = [bytes_ + part * weights * self.costs.graph.item_bytes for bytes_, part in zip(held, parts)]
        return held

    def _bytes(self, layer: int) -> float:
        """Return the bytes of a layer's whole output."""
        graph = self.costs.graph
        return self.costs.profile.batch_size * math.prod(graph.layers[layer].output_shape) * graph.item_bytes

    def _groups(self, axis: str) -> list[list[int]]:
        """Return the processors in groups that differ in their place on one axis only."""
        if axis in self._grouped:
            return self._grouped[axis]
        others = [places for name, places in self.places.items() if name != axis]
        groups: dict[tuple[int, ...], list[int]] = {}
        for at in range(len(self.now)):
            groups.setdefault(tuple(places[at] for places in others), []).append(at)
        return self._grouped.setdefault(axis, list(groups.values()))

    def _ring(self, group: Sequence[int]) -> Ring:
        devices = tuple(self.stage.devices[at] for at in group)
        if devices not in self._rings:
            self._rings[devices] = ring(self.costs.profile, devices)
        return self._rings[devices]

    def _meet(self, axis: str, seconds: _Seconds) -> None:
        """Let the processors along an axis meet and send for so many seconds."""
        for group in self._groups(axis):
            if len(group) < 2:
                continue
            sending_s = seconds(group)
            met_s = max(self.now[at] for at in group) + sending_s
            for at in group:
                self.sending[at] += sending_s
                self.now[at] = met_s

    def parts(self, step_s: float) -> tuple[DevicePart, ...]:
        memory = stage_memory_bytes(self.costs.profile, self.stage)
        devices = self.costs.profile.cluster.devices
        return tuple(
            DevicePart(devices[d].name, self.busy[at], self.sending[at], max(0.0, step_s - self.busy[at] - self.sending[at]), memory[at])
            for at, d in enumerate(self.stage.devices)
        )


def _exchange_s(ring: Ring, move: Move, whole_bytes: float) -> float:
    """Return the seconds of an all-to-all: every processor sends to all others what they want of its part, and waits for theirs."""
    held, wanted = ([part / sum(parts) for part in parts] for parts in (move.before, move.after))
    most = max(max(have * (1 - want), want * (1 - have)) for have, want in zip(held, wanted))
    return _sent_s(ring, ring.devices - 1, most * whole_bytes)


def _sent_s(ring: Ring, messages: int, sent_bytes: float) -> float:
    return messages * ring.latency_s + sent_bytes * ring.seconds_per_byte
