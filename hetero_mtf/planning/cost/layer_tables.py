"""Seconds of a layer's pass for every number of local units, from the curves of a profile."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from hetero_mtf.errors import NothingToSplitError, ProfileError
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.layout.arrangement import channels, reach_of, split_units, takes_statistics
from hetero_mtf.planning.layout.slabs import slab_dimension
from hetero_mtf.planning.memory.optimizer_slots import needs_full_variable
from hetero_mtf.planning.profile.curve import ALONE, Curve, interpolated
from hetero_mtf.planning.profile.profile import Profile, alike

_DIMENSIONS = {
    "column": ("output",),
    "row": ("input",),
    "split": ("output", "input", "whole"),
    "replicated": ("whole", "output", "input"),
}
_ANY = ("output", "input", "whole")  # an update takes time in proportion to the weights, however they are split


class LayerTables:
    """Seconds of each layer's passes on every device, tabulated once and kept.

    Attributes
    ----------
    counts : (layers,) units each layer's output is split into, see `arrangement.channels`.
    alike : (layers,) index of the first layer that takes the same time, see `profile.alike`; such layers share their tables.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile, self.graph = profile, profile.graph
        self.counts = channels(profile.graph)
        self.alike = alike(profile.graph)
        self._full_updates = needs_full_variable(profile.optimizer)
        self._rows: dict[tuple[int, str, str], np.ndarray] = {}
        self._parts: dict[tuple[int, str], np.ndarray] = {}
        self._alone: dict[tuple[int, str, bool], np.ndarray] = {}
        self._curves: dict[object, np.ndarray] = {}

    def rows(self, layer: int, layout: str, step_pass: str) -> np.ndarray:
        """Return the seconds of a layer's pass on every device for every number of local units.

        Parameters
        ----------
        layout : "column", "row" or "split"; "replicated" has one entry, all units; "batch" has one for 0, 1, ... samples of the
            profile's batch, "space" one for 0, 1, ... positions of the output along the dimension that is cut.
        step_pass : "forward", "backward" or "update".

        Returns
        -------
        (devices, entries) array of float, seconds; not to be written to.

        Raises
        ------
        ProfileError
            If a layer that mixes channels was not measured.

        Notes
        -----
        A layer that does not mix channels and has no curve costs nothing: calibration leaves out what takes no time of its
        own. A layer without an update curve has no weights that train. Without a curve over samples, time is taken to grow in
        proportion to them. The update of a layer whose batch is split is that of all its weights, however few the samples, as is that
        of a layer split by channels where the optimizer updates full variables.
        Layers and devices with equal curves are tabulated once. Factors of the profile's corrections are multiplied in.
        """
        key = (self.alike[layer], layout, step_pass)
        if key not in self._rows:
            devices = range(len(self.profile.cluster.devices))
            self._rows[key] = np.stack([self._tabulate(layer, layout, device, step_pass) for device in devices])
        return self._rows[key]

    def alone_part(self, layer: int, step_pass: str, layout: str) -> np.ndarray:
        """Return the (devices,) t(other devices of the host idle) / t(all compute) of a layer's pass; 1 where not measured.

        Devices of a host share its caches and memory, so a layer may take less while the others are idle, and is never measured to take
        more. A layer that is not split has a factor of its own in the profile's corrections for either case.

        Parameters
        ----------
        step_pass : "forward", "backward" or "update".
        layout : layout of the layer.
        """
        corrected = layout == "replicated"
        key = (self.alike[layer], step_pass, corrected)
        if key not in self._alone:
            part = self._measured_alone_part(layer, step_pass)
            for device in range(len(part)) if corrected else ():
                alone, beside = (self.profile.factor(layer, device, split, step_pass) for split in (ALONE, "whole"))
                part[device] *= alone / beside
            self._alone[key] = part
        return self._alone[key]

    def _measured_alone_part(self, layer: int, step_pass: str) -> np.ndarray:
        part = np.ones(len(self.profile.cluster.devices))
        for device in range(len(part)):
            if self.profile.has_curve(layer, device, ALONE, step_pass):
                beside_s = self.rows(layer, "replicated", step_pass)[device, -1] / self.profile.factor(layer, device, "whole", step_pass)
                alone_s = self.profile.curve(layer, device, ALONE, step_pass).seconds[-1]
                part[device] = min(1.0, alone_s / beside_s) if beside_s > 0 else 1.0
        return part

    @functools.cached_property
    def some_alone(self) -> bool:
        """Whether a layer may take another time while the other devices of a host are idle: such a curve or factor is known."""
        factors = (entry.split == ALONE for entry in self.profile.corrections.layers)
        return any(curve.dimension == ALONE for curve in self.profile.curves) or any(factors)

    def part_of_batch(self, layer: int, step_pass: str) -> np.ndarray:
        """Return the (devices, batch + 1) t(s samples) / t(whole batch), all channels there, for 0, 1, ... samples; 1 for an update.

        Parameters
        ----------
        step_pass : "forward", "backward" or "update".

        Notes
        -----
        For layers whose batch is split. Batch norm then takes longer with all samples too than over an unsplit batch, by which it is
        divided: its last entry is above 1.
        """
        key = (self.alike[layer], step_pass)
        if key not in self._parts:
            rows, batch = self.rows(layer, "batch", step_pass), self.profile.batch_size
            proportional = np.ones(batch + 1) if step_pass == "update" else np.arange(batch + 1) / batch
            joins = takes_statistics(self.graph.layers[layer])
            full_batch_s = self.rows(layer, "replicated", step_pass)[:, -1:] if joins else rows[:, -1:]
            measured = (full_batch_s > 0) & (step_pass != "update")
            self._parts[key] = np.where(measured, rows / np.where(full_batch_s > 0, full_batch_s, 1.0), proportional)
        return self._parts[key]

    def _unsplit_s(self, layer: int, device: int, step_pass: str, split: str) -> float:
        """Return the seconds of a layer that is not split, with the correction of one that is split."""
        factors = [self.profile.factor(layer, device, each, step_pass) for each in (split, "whole")]
        return float(self.rows(layer, "replicated", step_pass)[device, -1] * factors[0] / factors[1])

    def _tabulate_batch(self, layer: int, device: int, step_pass: str) -> np.ndarray:
        batch = self.profile.batch_size
        if step_pass == "update":
            return np.full(batch + 1, self.rows(layer, "replicated", step_pass)[device, -1])
        if not self.profile.has_curve(layer, device, "batch", step_pass):
            full_batch_s = self._unsplit_s(layer, device, step_pass, "samples")
            return np.array([full_batch_s * samples / batch for samples in range(batch + 1)])
        seconds = self._interpolated(self.profile.curve(layer, device, "batch", step_pass), range(batch + 1))
        return seconds * self.profile.factor(layer, device, "samples", step_pass)

    def slab_extent(self, layer: int) -> int:
        """Return the positions of a layer's output along the dimension that is cut; 0 where the layer cannot lie in slabs."""
        along = self._along
        return self.graph.layers[layer].output_shape[along] if along is not None and along < len(reach_of(self.graph, layer)) else 0

    @functools.cached_property
    def _along(self) -> int | None:
        try:
            return slab_dimension(self.graph)
        except NothingToSplitError:
            return None

    def _tabulate_space(self, layer: int, device: int, step_pass: str) -> np.ndarray:
        extent = self.slab_extent(layer)
        whole_s = self._unsplit_s(layer, device, step_pass, "whole" if step_pass == "update" else "positions")
        if step_pass == "update":
            return np.full(extent + 1, whole_s)
        if not self.profile.has_curve(layer, device, "space", step_pass):
            return np.array([whole_s * positions / extent for positions in range(extent + 1)])
        seconds = self._interpolated(self.profile.curve(layer, device, "space", step_pass), range(extent + 1))
        return seconds * self.profile.factor(layer, device, "positions", step_pass)

    def _tabulate(self, layer: int, layout: str, device: int, step_pass: str) -> np.ndarray:
        if layout == "batch":
            return self._tabulate_batch(layer, device, step_pass)
        if layout == "space":
            return self._tabulate_space(layer, device, step_pass)
        units = split_units(self.graph, layer, layout, self.counts)
        if step_pass == "update" and self._full_updates and layout != "replicated":
            return np.full(units + 1, self._unsplit_s(layer, device, step_pass, "units"))
        wanted = _DIMENSIONS[layout] + (_ANY if step_pass == "update" else ())
        dimensions = [d for d in wanted if self.profile.has_curve(layer, device, d, step_pass)]
        if not dimensions:
            self._allow_no_curve(layer, layout, device, step_pass)
            return np.zeros(1 if layout == "replicated" else units + 1)
        curve = self.profile.curve(layer, device, dimensions[0], step_pass)
        extent = self._extent(layer, dimensions[0], curve.units[-1])
        asked = [extent] if layout == "replicated" else [u * extent / units for u in range(units + 1)]
        split = "whole" if layout == "replicated" else "units"
        return self._interpolated(curve, asked) * self.profile.factor(layer, device, split, step_pass)

    def _interpolated(self, curve: Curve, asked: Sequence[float]) -> np.ndarray:
        """Return the seconds of a curve at some units that go up in equal steps, once for all curves that are equal."""
        key = (curve.units, curve.seconds, curve.spread, len(asked), asked[-1])
        if key not in self._curves:
            self._curves[key] = np.array(interpolated(curve, asked))
        return self._curves[key]

    def _extent(self, layer: int, dimension: str, measured: int) -> int:
        """Return the total units of a layer in a dimension of its curve: behind a Flatten, channels or features as measured."""
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
            raise ProfileError(f"the profile has no {step_pass} curve for {names}", "calibrate again")
