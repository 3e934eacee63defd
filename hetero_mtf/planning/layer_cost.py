"""Seconds of layers on devices, from the curves of a profile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.curve import PASSES, interpolated
from hetero_mtf.planning.layout import channels, split_units, trains_before
from hetero_mtf.planning.profile import Profile
from hetero_mtf.planning.records import LayerLayout

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
        self._parts: dict[tuple[int, int, str], list[float]] = {}

    def table(self, layer: int, layout: str, device: int, step_pass: str) -> list[float]:
        """Return the seconds of a layer's pass for every number of local units.

        Parameters
        ----------
        layer : index of the layer.
        layout : "column", "row" or "split"; "replicated" has one entry, all units; "batch" has one for 0, 1, ... samples of the
            profile's batch.
        device : index of the device.
        step_pass : "forward", "backward" or "update".

        Raises
        ------
        ProfileError
            If a layer that mixes channels was not measured.

        Notes
        -----
        A layer that does not mix channels and has no curve costs nothing: calibration leaves out what takes no time of its
        own. A layer without an update curve has no weights that train. Without a curve over samples, time is taken to grow in
        proportion to them. The update of a layer whose batch is split is that of all its weights, however few the samples.
        """
        key = (layer, layout, device, step_pass)
        if key not in self._tables:
            self._tables[key] = self._tabulate(*key)
        return self._tables[key]

    def seconds(self, entry: LayerLayout, device: int, size: int, samples: int, step_pass: str) -> float:
        """Return the seconds of a layer's pass on one processor of a mesh.

        Parameters
        ----------
        entry : the layer's layout.
        device : index of the processor's device in the cluster.
        size : its units, of a layer that is split by channels.
        samples : its samples, of a layer whose batch is split.
        step_pass : "forward", "backward" or "update".

        Notes
        -----
        Split both ways, a layer takes t(u units, whole batch) * t(all units, s samples) / t(all units, whole batch).
        """
        table = self.table(entry.layer, entry.layout, device, step_pass)
        if entry.layout == "batch":
            return table[samples]
        seconds = table[size] if entry.sizes else table[-1]
        return seconds * self.part_of_batch(entry.layer, device, step_pass)[samples] if entry.samples else seconds

    def summed_table(self, members: Sequence[tuple[int, str]], device: int) -> list[float]:
        """Return the seconds of a whole step's work in some layers for every number of local units.

        Parameters
        ----------
        members : (layer, layout) of the layers of one segment.
        device : index of the device.
        """
        tables = [self.table(layer, layout, device, step_pass) for layer, layout in members for step_pass in PASSES]
        return [math.fsum(values) for values in zip(*tables)]

    def batch_table(self, layers: Iterable[int], device: int) -> list[float]:
        """Return the seconds of the forward and backward pass of some layers for 0, 1, ... samples of the profile's batch.

        Parameters
        ----------
        layers : their indices.
        device : index of the device.
        """
        tables = [[0.0] * (self.profile.batch_size + 1)]
        for layer in layers:
            passes = ("forward", "backward") if self.trains_before[layer] else ("forward",)
            tables += [self.table(layer, "batch", device, step_pass) for step_pass in passes]
        return [math.fsum(values) for values in zip(*tables)]

    def update_s(self, device: int) -> float:
        """Return the seconds of the update of all the network's weights on a device."""
        owners = [i for i, layer in enumerate(self.graph.layers) if layer.shared_with is None]
        return math.fsum(self.table(layer, "replicated", device, "update")[-1] for layer in owners)

    def part_of_batch(self, layer: int, device: int, step_pass: str) -> list[float]:
        """Return t(s samples) / t(whole batch), all channels there, for 0, 1, ... samples; 1 for an update.

        Parameters
        ----------
        layer : index of the layer.
        device : index of the device.
        step_pass : "forward", "backward" or "update".
        """
        key = (layer, device, step_pass)
        if key not in self._parts:
            table, batch = self.table(layer, "batch", device, step_pass), self.profile.batch_size
            whole_s = table[-1]
            if step_pass == "update":
                self._parts[key] = [1.0] * (batch + 1)
            else:
                self._parts[key] = [s / whole_s if whole_s > 0 else samples / batch for samples, s in enumerate(table)]
        return self._parts[key]

    def _tabulate_batch(self, layer: int, device: int, step_pass: str) -> list[float]:
        batch = self.profile.batch_size
        whole_s = self.table(layer, "replicated", device, step_pass)[-1]
        if step_pass == "update":
            return [whole_s] * (batch + 1)
        if not self.profile.has_curve(layer, device, "batch", step_pass):
            return [whole_s * samples / batch for samples in range(batch + 1)]
        return interpolated(self.profile.curve(layer, device, "batch", step_pass), range(batch + 1))

    def _tabulate(self, layer: int, layout: str, device: int, step_pass: str) -> list[float]:
        if layout == "batch":
            return self._tabulate_batch(layer, device, step_pass)
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
