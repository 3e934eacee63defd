"""Predicted seconds of one training step of a stage, and what each device does meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.curve import PASSES, interpolated
from hetero_mtf.planning.layout import channels, split_units, trains_before
from hetero_mtf.planning.link_cost import Ring, ring
from hetero_mtf.planning.memory import stage_memory_bytes
from hetero_mtf.planning.profile import Profile
from hetero_mtf.planning.records import DevicePart, LayerLayout, Prediction, Stage

_DIMENSIONS = {
    "column": ("output",),
    "row": ("input",),
    "split": ("output", "input", "whole"),
    "replicated": ("whole", "output", "input"),
}
_ANY = ("output", "input", "whole")  # an update takes time in proportion to the weights, whichever way they are cut


class Costs:
    """Seconds of layers from a profile, tabulated once and kept.

    Parameters
    ----------
    profile : Profile.

    Attributes
    ----------
    counts : (layers,) units each layer's output is split into, see `layout.channels`.
    trains_before : (layers,) whether each layer's output needs a gradient, see `layout.trains_before`.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.graph: LayerGraph = profile.graph
        self.counts = channels(self.graph)
        self.trains_before = trains_before(self.graph)
        self._tables: dict[tuple[int, str, int, str], list[float]] = {}

    def table(self, layer: int, layout: str, device: int, step_pass: str) -> list[float]:
        """Return the seconds of a layer's pass for every number of local units.

        Parameters
        ----------
        layer : index of the layer.
        layout : "column", "row" or "split"; "replicated" has all units or none.
        device : index of the device.
        step_pass : "forward", "backward" or "update".

        Raises
        ------
        ProfileError
            If a layer that mixes channels was not measured.

        Notes
        -----
        A layer that does not mix channels and has no curve costs nothing: calibration leaves out what takes no time of its
        own. A layer without an update curve has no weights that train.
        """
        key = (layer, layout, device, step_pass)
        if key not in self._tables:
            self._tables[key] = self._tabulate(*key)
        return self._tables[key]

    def seconds(self, entry: LayerLayout, position: int, device: int, step_pass: str) -> float:
        """Return the seconds of a layer's pass on one processor of a mesh.

        Parameters
        ----------
        entry : the layer's layout.
        position : place of the processor on the mesh axis.
        device : index of its device in the cluster.
        step_pass : "forward", "backward" or "update".
        """
        table = self.table(entry.layer, entry.layout, device, step_pass)
        return table[entry.sizes[position]] if entry.sizes else table[-1]

    def summed_table(self, members: Sequence[tuple[int, str]], device: int) -> list[float]:
        """Return the seconds of a whole step's work in some layers for every number of local units.

        Parameters
        ----------
        members : (layer, layout) of the layers of one segment.
        device : index of the device.
        """
        tables = [self.table(layer, layout, device, step_pass) for layer, layout in members for step_pass in PASSES]
        return [math.fsum(values) for values in zip(*tables)]

    def _tabulate(self, layer: int, layout: str, device: int, step_pass: str) -> list[float]:
        units = split_units(self.graph, layer, layout, self.counts)
        wanted = _DIMENSIONS[layout] + (_ANY if step_pass == "update" else ())
        found = [d for d in wanted if self.profile.has_curve(layer, device, d, step_pass)]
        if not found:
            self._allow_no_curve(layer, layout, device, step_pass)
            return [0.0] * (units + 1)
        curve = self.profile.curve(layer, device, found[0], step_pass)
        extent = self._extent(layer, found[0], curve.units[-1])
        asked = [extent] if layout == "replicated" else [u * extent / units for u in range(units + 1)]
        return interpolated(curve, asked)

    def _extent(self, layer: int, dimension: str, measured: int) -> int:
        """Return all the units of a layer in a dimension of its curve: behind a Flatten, channels or features as measured."""
        entry = self.graph.layers[layer]
        if dimension == "whole":
            return measured
        at = entry.inputs[0] if dimension == "input" and entry.inputs else layer
        if dimension == "output" and kind_of(entry).mixes:
            return entry.units
        return self.counts[at] if measured <= self.counts[at] else self.graph.layers[at].units

    def _allow_no_curve(self, layer: int, layout: str, device: int, step_pass: str) -> None:
        entry = self.graph.layers[layer]
        if kind_of(entry).mixes and step_pass == "forward":
            names = f"layer {entry.name} as {layout} on {self.profile.cluster.devices[device].name}"
            raise ProfileError(f"the profile has no {step_pass} curve for {names}; calibrate again")


def predict(costs: Costs, stage: Stage) -> Prediction:
    """Return the predicted seconds of one synchronous step of a stage that holds the whole network.

    Every device has a clock. A layer advances the clock of each device by its measured seconds; an all-reduce or all-gather
    sets all clocks to the latest of them plus its own seconds. The forward pass walks the layers in order, the backward pass
    in reverse; the updates follow without meeting again.

    Parameters
    ----------
    costs : Costs of the profile.
    stage : Stage.

    Notes
    -----
    Forward, a row ends in an all-reduce of its output, and a split output that something reads whole (or that leaves the
    network) in one all-gather. Backward, a column ends in an all-reduce of its input's gradient where anything before it
    trains, and a row or split layer that slices a whole input in an all-gather. Processors on one TensorFlow device take turns.
    Loss, regularizers and metrics are not counted. O(layers * devices).
    """
    clocks = _Clocks(costs, stage)
    clocks.forward()
    forward_s = max(clocks.now)
    clocks.backward()
    backward_s = max(clocks.now) - forward_s
    for entry in stage.layouts:
        clocks.compute(entry, "update")
    step_s = max(clocks.now)
    return Prediction(step_s, forward_s, backward_s, step_s - forward_s - backward_s, clocks.parts(step_s))


class _Clocks:
    def __init__(self, costs: Costs, stage: Stage) -> None:
        self.costs, self.stage = costs, stage
        self.ring: Ring = ring(costs.profile, stage.devices)
        self.now = [0.0] * len(stage.devices)
        self.busy = [0.0] * len(stage.devices)
        self.sending_s = 0.0
        self._gathered: set[int] = set()
        names = [costs.profile.cluster.devices[d].tf_device for d in stage.devices]
        self._turns = [[at for at, other in enumerate(names) if other == name] for name in names]

    def compute(self, entry: LayerLayout, step_pass: str) -> None:
        spent = [self.costs.seconds(entry, at, device, step_pass) for at, device in enumerate(self.stage.devices)]
        for at, turns in enumerate(self._turns):
            self.busy[at] += spent[at]
            self.now[at] += sum(spent[other] for other in turns)

    def forward(self) -> None:
        for entry in self.stage.layouts:
            layer = self.costs.graph.layers[entry.layer]
            if entry.layout in ("replicated", "column"):
                self._gather(layer.inputs)
            self.compute(entry, "forward")
            if entry.layout == "row":
                self._meet(self.ring.all_reduce_s, entry.layer)
        self._gather((len(self.stage.layouts) - 1,))

    def backward(self) -> None:
        for entry in reversed(self.stage.layouts):
            sources = self.costs.graph.layers[entry.layer].inputs
            if not self.costs.trains_before[entry.layer]:
                continue
            self.compute(entry, "backward")
            for source in sources:
                self._return_gradient(entry.layout, source)

    def _return_gradient(self, layout: str, source: int) -> None:
        if not self.costs.trains_before[source]:
            return
        if layout == "column":
            self._meet(self.ring.all_reduce_s, source)
        elif layout != "replicated" and not self._is_split(source):
            self._meet(self.ring.all_gather_s, source)

    def _gather(self, sources: Sequence[int]) -> None:
        for source in sources:
            if self._is_split(source) and source not in self._gathered:
                self._gathered.add(source)
                self._meet(self.ring.all_gather_s, source)

    def _is_split(self, layer: int) -> bool:
        return self.stage.layouts[layer].layout in ("column", "split")

    def _meet(self, seconds: Callable[[float], float], layer: int) -> None:
        """Send the output of `layer`, or its gradient, around the ring."""
        if len(self.now) < 2:
            return
        profile, shape = self.costs.profile, self.costs.graph.layers[layer].output_shape
        sending_s = seconds(profile.batch_size * math.prod(shape) * self.costs.graph.item_bytes)
        self.sending_s += sending_s
        self.now[:] = [max(self.now) + sending_s] * len(self.now)

    def parts(self, step_s: float) -> tuple[DevicePart, ...]:
        memory = stage_memory_bytes(self.costs.profile, self.stage)
        devices = self.costs.profile.cluster.devices
        return tuple(
            DevicePart(devices[d].name, busy, self.sending_s, max(0.0, step_s - busy - self.sending_s), memory[at])
            for at, (d, busy) in enumerate(zip(self.stage.devices, self.busy))
        )
