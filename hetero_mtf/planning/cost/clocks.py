"""A clock for every processor of a mesh: layers and collectives of a step advance it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from hetero_mtf.layers import kind_of
from hetero_mtf.planning.cost.device_ring import Ring
from hetero_mtf.planning.cost.gradient_buckets import buckets
from hetero_mtf.planning.cost.hidden_sums import HiddenSums
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import joins_positions, takes_statistics
from hetero_mtf.planning.layout.records import BUCKET_BYTES, LayerLayout, Stage
from hetero_mtf.planning.layout.resharding import Resharding, TensorLayout, input_of, output_of, reshardings, weight_gathers
from hetero_mtf.planning.layout.slabs import wanted_of


@dataclasses.dataclass(frozen=True)
class _DeviceMembership:
    """The groups of processors along a mesh axis.

    Parameters
    ----------
    size : processors of a group.
    firsts : (groups,) the first processor of each.
    rings : (groups,) the links among them.
    now, communication_s : views of the clocks of all processors as (groups by outer axes, size, groups by inner axes).
    """

    size: int
    firsts: list[int]
    rings: list[Ring]
    now: np.ndarray
    communication_s: np.ndarray


class Clocks:
    """The clocks of a stage's processors, by the rules of `predict`.

    What a stage reads of other stages arrives in the layout that its layers need, and other stages read its outputs in their own
    layout: transfers between meshes are not charged here.

    Parameters
    ----------
    beside : whether the other devices of the hosts may compute at the same time, for other stages.
    bucket_bytes : as in a Plan.
    hides : whether computing hides sums of gradients, as far as the links allow; not where they follow the last microbatch only.

    Attributes
    ----------
    now : (processors,) seconds since the step began.
    compute_s : (processors,) seconds of compute.
    communication_s : (processors,) seconds in collectives.
    """

    def __init__(self, costs: Costs, stage: Stage, beside: bool = False, bucket_bytes: int = BUCKET_BYTES, hides: bool = True) -> None:
        self.costs, self.stage, self.beside, self.bucket_bytes = costs, stage, beside, bucket_bytes
        self.devices = np.array(stage.devices)
        self._hidden = costs.hidden if hides else 0.0
        self._sums = HiddenSums()
        # changed in place only: _groups keeps views of now and communication_s
        self.now, self.compute_s, self.communication_s = (np.zeros(len(stage.devices)) for _ in range(3))
        self.entries = {entry.layer: entry for entry in stage.layouts}
        self.places = {axis: np.array(stage.places(axis)) for axis, _ in stage.axes}
        self._resharded: set[tuple[int, TensorLayout]] = set()  # (layer, layout) of outputs after their resharding
        self._resharded_for: set[tuple[int, int]] = set()  # (layer, first reader) of these reshardings
        self._summed_for: set[tuple[int, int]] = set()  # (layer, first of the columns that need its output in one layout)
        self._along: dict[str, _DeviceMembership] = {}
        self._parts: dict[tuple[str, TensorLayout], list[float]] = {}
        names = [costs.profile.cluster.devices[d].tf_device for d in stage.devices]
        tf_devices, self._device_numbers = np.unique(names, return_inverse=True)
        self._alone = len(tf_devices) == len(names)
        self._held_as: dict[int, TensorLayout] = {}
        self._wanted_as: dict[int, TensorLayout] = {}
        self._spent: dict[int, dict[str, np.ndarray]] = {}
        self._merged = costs.merged(stage, self._look_up_layouts())

    def _look_up_layouts(self) -> tuple[int, ...]:
        """Look up each layer's output layout, input layout and seconds, once for all layers of equal layout; return their numbers."""
        numbers: list[int] = []
        known: dict[tuple[object, ...], tuple[TensorLayout, TensorLayout, int]] = {}
        columns: set[tuple[int, str, TensorLayout]] = set()
        for entry in self.stage.layouts:
            key = entry.layout, entry.parts, entry.dimension
            if key not in known:
                known[key] = output_of(entry), input_of(entry), self.costs.layout_number(entry, self.stage, self.beside)
            self._held_as[entry.layer], self._wanted_as[entry.layer], number = known[key]
            self._spent[entry.layer] = self.costs.passes_on(entry, self.stage, number, self.beside)
            numbers.append(number)
            for source in self.costs.graph.layers[entry.layer].inputs if entry.layout == "column" else ():
                column = source, entry.axis, self._wanted_as[entry.layer]
                if column not in columns:
                    columns.add(column)
                    self._summed_for.add((source, entry.layer))
        return tuple(numbers)

    def _compute(self, entry: LayerLayout, step_pass: str) -> None:
        """Charge every processor for its part of a layer; processors on one TensorFlow device run one after another."""
        seconds = self._spent[entry.layer][step_pass]
        self.compute_s += seconds
        self.now += seconds if self._alone else np.bincount(self._device_numbers, seconds)[self._device_numbers]

    def _parts_of(self, parts: Sequence[int], axis: str) -> np.ndarray:
        local_parts: np.ndarray = np.array(parts)[self.places[axis]] if parts else np.zeros(len(self.now), int)
        return local_parts

    def passes(self, gradient_sync: str = "all_reduce") -> Iterator[str]:
        """Run a step, and yield "forward", "backward", "gradients" and "update" when the clocks show the end of each.

        Parameters
        ----------
        gradient_sync : as in a Plan.
        """
        self._forward()
        yield "forward"
        if gradient_sync == "all_reduce" and self._hidden:
            self._sums = HiddenSums(self._sums_s_per_byte())
        self._backward()
        yield "backward"
        if gradient_sync == "all_reduce":
            self._add_gradients_up()
        yield "gradients"
        # in the order in which gradients arrive: the last layer's are sent first
        for entry in reversed(self.stage.layouts) if self._hidden else self.stage.layouts:
            if self.costs.graph.owner(entry.layer) == entry.layer:
                self._await(entry)
                self._gather_weights(entry)
                self._compute(entry, "update")
        if gradient_sync == "butterfly_mixing":
            self._mix_weights()
        yield "update"

    def _forward(self) -> None:
        """Walk the layers in order, then gather the outputs."""
        for entry in self.stage.layouts:
            self._arrange_inputs(entry)
            self._compute(entry, "forward")
            if entry.layout == "row":
                self._all_reduce(entry.axis, self._held_as[entry.layer], self._bytes(entry.layer))
            if entry.layer in self.costs.joining:
                self._join_scores(entry)
                self._join_statistics(entry, forward=True)
        for index in self.costs.graph.outputs:
            if index in self._held_as:
                self._reshard(index, self._held_as[index].whole_channels, -1)

    def _arrange_inputs(self, entry: LayerLayout) -> None:
        """Charge what brings the inputs of a layer into the layout that it needs."""
        sources = self.costs.graph.layers[entry.layer].inputs
        if self._reduces(entry):
            self._all_reduce(self._held_as[sources[0]].slab_axis, self._held_as[entry.layer], self._bytes(entry.layer))
            return
        for source in sources:
            self._reshard(source, self._wanted(entry, source), entry.layer)

    def _wanted(self, entry: LayerLayout, source: int) -> TensorLayout:
        """Return the layout in which a layer needs an input."""
        return wanted_of(self.costs.graph, entry, source) if entry.slabs else self._wanted_as[entry.layer]

    def _reduces(self, entry: LayerLayout) -> bool:
        """Return whether a layer reduces slabs to a number a channel, where they lie."""
        layer = self.costs.graph.layers[entry.layer]
        if not getattr(kind_of(layer), "reduces_space", False) or entry.sizes or layer.inputs[0] not in self._held_as:
            return False
        held = self._held_as[layer.inputs[0]]
        return bool(held.slabs) and held.slab_axis not in entry.copied_along

    def _backward(self) -> None:
        """Walk the layers whose outputs need gradients in reverse."""
        for entry in reversed(self.stage.layouts):
            if not self.costs.trains_before[entry.layer]:
                continue
            self._compute(entry, "backward")
            if entry.layer in self.costs.joining:
                self._join_scores(entry)
                self._join_statistics(entry, forward=False)
            self._return_gradients(entry)
            self._send_gradients(entry)

    def _add_gradients_up(self) -> None:
        """Add the gradients of the weights up over the processors that share the batch, but for what computing hides."""
        for axis, sums_s in self._gradient_sums_s():
            # the devices' own part of the sums; _await charges what has not arrived before each update
            self._meet(axis, [(1 - self._hidden) * seconds for seconds in sums_s])

    def _gradient_sums_s(self) -> list[tuple[str, list[float]]]:
        """Return, for each axis along which batches are split, the seconds in which each group adds all its gradients up."""
        sums_s = []
        for axis in self._batch_axes():
            along, messages_s = self._groups(axis), self._messages_s(axis)
            held = self._weight_bytes(axis)[along.firsts].tolist()
            sums_s.append((axis, [ring.all_reduce_s(n) + (along.size - 1) * messages_s for ring, n in zip(along.rings, held)]))
        return sums_s

    def _send_gradients(self, entry: LayerLayout) -> None:
        """Begin to send the gradients of a layer's weights, while the layers before it compute."""
        weights = self.costs.memory.message_bytes[entry.layer]
        for axis in entry.copied_along if weights else ():
            if self._sums.on(axis):
                self._sums.begin(axis, entry.layer, self._groups(axis).now, weights)

    def _sums_s_per_byte(self) -> dict[str, np.ndarray]:
        """Return, for each axis with sums of gradients, the seconds a byte of all weights in each group."""
        # s_l of `HiddenSums` is this rate times the bytes of l: all sums of an axis are charged as one all-reduce, whose latency is
        # spread over its bytes, so that the s_l of all layers add up to its seconds
        full_bytes, weights = dict[str, float](), self.costs.memory.message_bytes
        for entry in self.stage.layouts:
            for axis in entry.copied_along:
                full_bytes[axis] = full_bytes.get(axis, 0.0) + weights[entry.layer]
        sums_s = [(axis, seconds) for axis, seconds in self._gradient_sums_s() if seconds and full_bytes[axis]]
        return {axis: np.array(seconds) / full_bytes[axis] for axis, seconds in sums_s}

    def _await(self, entry: LayerLayout) -> None:
        """Charge every processor for waiting until the gradients of a layer have arrived."""
        if entry.layer in self._sums.arrivals_s:
            along = self._groups(entry.copied_along[0])
            wait_s = np.maximum(0.0, self._sums.arrivals_s[entry.layer] - along.now)
            along.now[:] += wait_s
            along.communication_s[:] += wait_s

    def _gather_weights(self, entry: LayerLayout) -> None:
        """Gather the weights of a split layer, and their gradients, for an optimizer that updates full variables."""
        full_bytes = self.costs.gathered_bytes[entry.layer]
        for resharding in weight_gathers(entry) if full_bytes else ():
            for _ in ("weights", "gradients"):
                self._reshard_along(resharding, full_bytes)

    def _mix_weights(self) -> None:
        """Charge every processor for sending its weights to one partner."""
        for axis in self._batch_axes():
            along = self._groups(axis)
            held = self._weight_bytes(axis)[along.firsts].tolist()
            self._meet(axis, [ring.sent_s(1, n) for ring, n in zip(along.rings, held)])

    def _messages_s(self, axis: str) -> float:
        """Return the seconds of handing the gradients of all weights to one other processor in buckets, their bytes left out."""
        sizes: list[float] = []
        for entry in reversed(self.stage.layouts):
            if axis in entry.copied_along:
                part = max(entry.sizes) / sum(entry.sizes) if entry.sizes else 1.0
                sizes += [part * size for size in self.costs.gradient_bytes[entry.layer]]
        return self.costs.message_s * len(buckets(sizes, self.bucket_bytes))

    def _batch_axes(self) -> list[str]:
        return sorted({axis for entry in self.stage.layouts for axis in entry.copied_along})

    def _return_gradients(self, entry: LayerLayout) -> None:
        sources = [s for s in self.costs.graph.layers[entry.layer].inputs if self.costs.trains_before[s]]
        for source in dict.fromkeys(sources):
            if (source, entry.layer) in self._summed_for:
                self._all_reduce(entry.axis, self._wanted_as[entry.layer], self._bytes(source))
            if (source, entry.layer) in self._resharded_for:
                for resharding in reversed(reshardings(self._held_as[source], self._wanted(entry, source))):
                    self._reshard_along(resharding.reverse, self._bytes(source))

    def _reshard(self, source: int, wanted: TensorLayout, reader: int) -> None:
        """Reshard the output of a layer to the layout that `reader` needs, unless an earlier reader needs the same."""
        held = self._held_as.get(source, wanted)
        if held is wanted or held == wanted or (source, wanted) in self._resharded:
            return
        self._resharded.add((source, wanted))
        self._resharded_for.add((source, reader))
        for resharding in reshardings(held, wanted):
            self._reshard_along(resharding, self._bytes(source))

    def _reshard_along(self, resharding: Resharding, full_bytes: float) -> None:
        if resharding.kind != "slice":
            held = self._held_bytes(resharding.axis, resharding.tensor_layout, full_bytes)
            self._meet(resharding.axis, [ring.reshard_s(resharding, n) for ring, n in held])

    def _all_reduce(self, axis: str, tensor_layout: TensorLayout, full_bytes: float) -> None:
        self._meet(axis, [ring.all_reduce_s(n) for ring, n in self._held_bytes(axis, tensor_layout, full_bytes)])

    def _join_statistics(self, entry: LayerLayout, forward: bool) -> None:
        """Batch norm over a split batch: an all-gather of two numbers a channel and processor forward, an all-reduce of them backward.

        Norms of samples over slabs gather three numbers in either pass. Batch norms whose synchronisations are merged have one of each,
        when the last of them has computed its own.
        """
        layer, graph = self.costs.graph.layers[entry.layer], self.costs.graph
        if entry.slabs and joins_positions(layer):
            apart, units = len(entry.slabs), 3 * self.costs.profile.batch_size * layer.units * graph.item_bytes
            self._meet(entry.slab_axis, [r.all_gather_s(apart * units) for r in self._groups(entry.slab_axis).rings])
            return
        if not (entry.samples or entry.slabs) or not takes_statistics(layer):
            return
        axis, places = (entry.batch_axis, entry.samples) if entry.samples else (entry.slab_axis, entry.slabs)
        group = self._merged.get(entry.layer, (entry.layer,))
        # the member that this pass reaches last: the backward pass walks in reverse
        if entry.layer != (group[-1] if forward else group[0]):
            return
        units = sum(self.costs.graph.layers[member].units for member in group)
        statistics, apart = 2 * units * graph.item_bytes, len(places)
        tensor_layout = TensorLayout(entry.sizes, entry.axis if entry.sizes else "")
        held = self._held_bytes(axis, tensor_layout, statistics)
        self._meet(axis, [ring.all_gather_s(apart * n) if forward else ring.all_reduce_s(n) for ring, n in held])

    def _join_scores(self, entry: LayerLayout) -> None:
        """Attention that is split by channels: an all-reduce of the scores forward, and of their gradients backward."""
        full_bytes = self.costs.memory.score_bytes[entry.layer]
        if entry.layout == "split" and full_bytes:
            held = self._held_as[entry.layer]
            self._all_reduce(entry.axis, held.whole_channels, full_bytes)

    def _held_bytes(self, axis: str, tensor_layout: TensorLayout, full_bytes: float) -> list[tuple[Ring, float]]:
        """Return, for each group of processors along an axis, their links and the bytes of a tensor that the group holds."""
        along = self._groups(axis)
        if len(self.places) < 2:
            return [(ring, full_bytes) for ring in along.rings]
        if (axis, tensor_layout) not in self._parts:
            self._parts[axis, tensor_layout] = [self._part(axis, tensor_layout, first) for first in along.firsts]
        return [(ring, part * full_bytes) for ring, part in zip(along.rings, self._parts[axis, tensor_layout])]

    def _part(self, axis: str, tensor_layout: TensorLayout, first: int) -> float:
        """Return the part of a tensor that the group along an axis with a given first processor holds."""
        part = 1.0
        for other in tensor_layout.by_axis:
            if other != axis:
                part *= float(tensor_layout.fractions(other)[int(self.places[other][first])])
        return part

    def _weight_bytes(self, axis: str) -> np.ndarray:
        """Return the bytes of the weights that train on each processor, in the layers that split batch or space along an axis."""
        held, weights = np.zeros(len(self.now)), self.costs.memory.message_bytes
        for entry in self.stage.layouts:
            if axis in entry.copied_along and weights[entry.layer]:
                part = self._parts_of(entry.sizes, entry.axis) / sum(entry.sizes) if entry.sizes else 1.0
                held += part * weights[entry.layer]
        return held

    def _bytes(self, layer: int) -> float:
        """Return the bytes of a layer's output, all parts together."""
        return self.costs.memory.output_bytes[layer]

    def extent(self, axis: str) -> tuple[int, int]:
        """Return the processors of a group along an axis, and how many processors lie from one of them to the next."""
        inner = 1
        for name, size in reversed(self.stage.axes):
            if name == axis:
                return size, inner
            inner *= size
        return 1, inner

    def _groups(self, axis: str) -> _DeviceMembership:
        """Return the processors in groups that differ in their place on one axis only; none where the axis has one place."""
        if axis not in self._along:
            size, inner = self.extent(axis)
            at = np.arange(len(self.now)).reshape(-1, size, inner)
            groups = np.swapaxes(at, 1, 2).reshape(-1, size).tolist() if size > 1 else []
            rings = [self.costs.ring(tuple(self.stage.devices[at] for at in group)) for group in groups]
            now, communication_s = (clocks.reshape(-1, size, inner) for clocks in (self.now, self.communication_s))
            self._along[axis] = _DeviceMembership(size, [group[0] for group in groups], rings, now, communication_s)
        return self._along[axis]

    def _meet(self, axis: str, seconds: Sequence[float]) -> None:
        """Synchronise the clocks of each group along an axis and charge its seconds of communication."""
        along = self._groups(axis)
        # c_d <- max_{e in G} c_e + s of `predict`; what a device waits for the slowest is idle, not communication
        # before the clocks move: it compares with the time at which the collective begins
        self._sums.delay(axis, along.now, seconds)
        if len(seconds) == 1:
            along.communication_s[:] += seconds[0]
            along.now[:] = np.maximum.reduce(self.now) + seconds[0]
        elif seconds:
            seconds_of_groups = np.reshape(seconds, (len(along.now), 1, -1))
            along.communication_s[:] += seconds_of_groups
            along.now[:] = np.maximum.reduce(along.now, axis=1, keepdims=True) + seconds_of_groups
