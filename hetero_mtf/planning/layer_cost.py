"""Seconds of layers on devices, from the curves of a profile."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.curve import PASSES, Curve, interpolated
from hetero_mtf.planning.layout import channels, split_units, trains_before
from hetero_mtf.planning.link_cost import Lines, Ring, link_lines, ring
from hetero_mtf.planning.memory import Memory
from hetero_mtf.planning.profile import Profile, alike
from hetero_mtf.planning.records import LayerLayout, Stage

_DIMENSIONS = {
    "column": ("output",),
    "row": ("input",),
    "split": ("output", "input", "whole"),
    "replicated": ("whole", "output", "input"),
}
ALONE = "alone"  # the dimension of curves measured while the other devices of the host rested
_KEPT = 20_000  # layers laid out in some way whose seconds are kept
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
    alike : (layers,) index of the first layer that takes the same time, see `profile.alike`; such layers share their tables.
    memory : Memory of the profile.
    joining : the layers within which devices may meet: batch norm, and what has scores.
    message_s : seconds of each tensor that is sent at the same time as others, over the link where that takes longest.
    kept : what strategies found before and may take up again, by name.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.graph: LayerGraph = profile.graph
        self.counts = channels(self.graph)
        self.trains_before = trains_before(self.graph)
        self.alike = alike(self.graph)
        self.message_s = max((link.message_s for link in (*profile.cluster.links, *profile.links)), default=0.0)
        self.kept: dict[str, object] = {}
        self.memory = Memory(profile)
        scores = enumerate(self.memory.score_bytes)
        self.joining = {i for i, held in scores if held or self.graph.layers[i].kind == "BatchNormalization"}
        self._sums: dict[object, np.ndarray] = {}
        self._ways: dict[object, int] = {}
        self._numbers = itertools.count()
        self._spent: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self._rows: dict[tuple[int, str, str], np.ndarray] = {}
        self._parts: dict[tuple[int, str], np.ndarray] = {}
        self._alone: dict[tuple[int, str], np.ndarray] = {}
        self._resting: dict[tuple[int, ...], np.ndarray] = {}
        self._curves: dict[object, np.ndarray] = {}
        self._rings: dict[tuple[int, ...], Ring] = {}
        self._lines: Lines | None = None

    def summed_tensors(self, layer: int) -> int:
        """Return the number of gradients that are added up where a layer splits its batch: one a weight that trains and is its own.

        Parameters
        ----------
        layer : index of the layer.
        """
        return sum(v.trainable for v in self.graph.layers[layer].variables) if self.graph.owner(layer) == layer else 0

    def rows(self, layer: int, layout: str, step_pass: str) -> np.ndarray:
        """Return the seconds of a layer's pass on every device for every number of local units.

        Parameters
        ----------
        layer : index of the layer.
        layout : "column", "row" or "split"; "replicated" has one entry, all units; "batch" has one for 0, 1, ... samples of the
            profile's batch.
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
        proportion to them. The update of a layer whose batch is split is that of all its weights, however few the samples.
        Layers and devices with equal curves are tabulated once.
        """
        key = (self.alike[layer], layout, step_pass)
        if key not in self._rows:
            devices = range(len(self.profile.cluster.devices))
            self._rows[key] = np.stack([self._tabulate(layer, layout, device, step_pass) for device in devices])
        return self._rows[key]

    def table(self, layer: int, layout: str, device: int, step_pass: str) -> list[float]:
        """Return the seconds of a layer's pass on one device for every number of local units, a row of `rows`.

        Parameters
        ----------
        layer, layout, step_pass : as for `rows`.
        device : index of the device.
        """
        row: list[float] = self.rows(layer, layout, step_pass)[device].tolist()
        return row

    def spent(self, entry: LayerLayout, devices: np.ndarray, sizes: np.ndarray, samples: np.ndarray, step_pass: str) -> np.ndarray:
        """Return the seconds of a layer's pass on each processor of a mesh.

        Parameters
        ----------
        entry : the layer's layout.
        devices : (processors,) index of each one's device in the cluster.
        sizes : (processors,) units, of a layer that is split by channels.
        samples : (processors,) samples, of a layer whose batch is split.
        step_pass : "forward", "backward" or "update".

        Notes
        -----
        Split both ways, a layer takes t(u units, whole batch) * t(all units, s samples) / t(all units, whole batch).
        """
        rows = self.rows(entry.layer, entry.layout, step_pass)
        if entry.layout == "batch":
            found: np.ndarray = rows[devices, samples]
            return found
        found = rows[devices, sizes] if entry.sizes else rows[devices, -1]
        return found * self._samples_part(entry.layer, step_pass)[devices, samples] if entry.samples else found

    def seconds(self, entry: LayerLayout, device: int, size: int, samples: int, step_pass: str) -> float:
        """Return the seconds of a layer's pass on one processor of a mesh, as `spent`.

        Parameters
        ----------
        entry, step_pass : as for `spent`.
        device, size, samples : of the processor.
        """
        return float(self.spent(entry, np.array([device]), np.array([size]), np.array([samples]), step_pass)[0])

    def summed_rows(self, members: Sequence[tuple[int, str]]) -> np.ndarray:
        """Return the (devices, units + 1) seconds of a whole step's work in some layers on every device.

        Parameters
        ----------
        members : (layer, layout) of the layers of one segment.
        """
        counted = sorted(collections.Counter((self.alike[layer], layout) for layer, layout in members).items())
        return self._summed([(layer, layout, step_pass, count) for (layer, layout), count in counted for step_pass in PASSES])

    def batch_table(self, layers: Iterable[int], device: int) -> np.ndarray:
        """Return the (batch + 1,) seconds of the forward and backward pass of some layers for 0, 1, ... samples of the profile's batch.

        Parameters
        ----------
        layers : their indices.
        device : index of the device.
        """
        row: np.ndarray = self.batch_rows(layers)[device]
        return row

    def batch_rows(self, layers: Iterable[int]) -> np.ndarray:
        """Return the (devices, batch + 1) seconds of `batch_table` on every device.

        Parameters
        ----------
        layers : their indices.
        """
        counted = sorted(collections.Counter(self.alike[layer] for layer in layers).items())
        passes = {layer: PASSES[: 2 if self.trains_before[layer] else 1] for layer, _ in counted}
        found = [(layer, "batch", step_pass, count) for layer, count in counted for step_pass in passes[layer]]
        return self._summed(found) if found else np.zeros((len(self.profile.cluster.devices), self.profile.batch_size + 1))

    def _summed(self, parts: Sequence[tuple[int, str, str, int]]) -> np.ndarray:
        """Return the seconds of (layer, layout, pass, how many such layers) together, to more digits than are kept in the end.

        So equal sums are found equal whatever their order.
        """
        key = tuple(parts)
        if key not in self._sums:
            total = sum(self.rows(layer, layout, step_pass).astype(np.longdouble) * count for layer, layout, step_pass, count in parts)
            self._sums[key] = np.asarray(total).astype(float)
        return self._sums[key]

    def spent_on(self, entry: LayerLayout, stage: Stage, step_pass: str, beside: bool = False) -> np.ndarray:
        """Return the (processors,) seconds of a layer's pass on a stage, as `spent`, found once for alike layers laid out alike.

        Parameters
        ----------
        entry : the layer's layout.
        stage : Stage.
        step_pass : "forward", "backward" or "update".
        beside : whether the other devices of the hosts may be at work meanwhile.

        Returns
        -------
        (processors,) array of float, seconds; not to be written to.
        """
        return self.passes_on(entry, stage, self.way_of(entry, stage, beside), beside)[step_pass]

    def way_of(self, entry: LayerLayout, stage: Stage, beside: bool = False) -> int:
        """Return the number of the way in which a layer lies on a stage, equal for all layers that lie so.

        Parameters
        ----------
        entry, stage, beside : as for `spent_on`.
        """
        if len(self._spent) >= _KEPT:
            self._spent.clear()
            self._ways.clear()
        lies = entry.layout, entry.sizes, entry.axis, entry.samples, entry.batch_axis, stage.devices, stage.axes, beside
        if lies not in self._ways:
            self._ways[lies] = next(self._numbers)
        return self._ways[lies]

    def passes_on(self, entry: LayerLayout, stage: Stage, way: int, beside: bool = False) -> dict[str, np.ndarray]:
        """Return what `spent_on` returns for every pass.

        Parameters
        ----------
        entry, stage, beside : as for `spent_on`.
        way : its number from `way_of`.
        """
        key = self.alike[entry.layer], way
        if key not in self._spent:
            places = _parts_of(stage, entry.sizes, entry.axis), _parts_of(stage, entry.samples, entry.batch_axis)
            found = {step_pass: self.spent(entry, np.array(stage.devices), *places, step_pass) for step_pass in PASSES}
            if self._some_alone and not beside:
                alone, devices = self.undisturbed(stage.devices), list(stage.devices)
                found = {each: found[each] * np.where(alone, self.alone_part(entry.layer, each)[devices], 1.0) for each in PASSES}
            self._spent[key] = found
        return self._spent[key]

    @functools.cached_property
    def _some_alone(self) -> bool:
        return any(curve.dimension == ALONE for curve in self.profile.curves)

    def alone_part(self, layer: int, step_pass: str) -> np.ndarray:
        """Return the (devices,) t(the other devices of the host rest) / t(all work) of a layer's pass; 1 where that was not measured.

        Devices of a host share its caches and memory, so a layer may take less while the others rest, and never takes more.

        Parameters
        ----------
        layer : index of the layer.
        step_pass : "forward", "backward" or "update".
        """
        key = (self.alike[layer], step_pass)
        if key not in self._alone:
            together = self.rows(layer, "replicated", step_pass)[:, -1]
            known = [self.profile.has_curve(layer, d, ALONE, step_pass) for d in range(len(together))]
            alone = [self.profile.curve(layer, d, ALONE, step_pass).seconds[-1] if there else 0.0 for d, there in enumerate(known)]
            measured = np.array(known) & (together > 0)
            self._alone[key] = np.where(measured, np.minimum(1.0, np.array(alone) / np.where(measured, together, 1.0)), 1.0)
        return self._alone[key]

    def undisturbed(self, devices: Sequence[int]) -> np.ndarray:
        """Return the (devices,) whether the other devices of each one's host rest where only these work.

        Processors on one TensorFlow device are one device.

        Parameters
        ----------
        devices : indices of the devices that work.
        """
        key = tuple(devices)
        if key not in self._resting:
            records = self.profile.cluster.devices
            at_work: dict[str, set[str]] = {}
            for device in devices:
                at_work.setdefault(records[device].host, set()).add(records[device].tf_device)
            self._resting[key] = np.array([len(at_work[records[device].host]) == 1 for device in devices])
        return self._resting[key]

    @functools.cached_property
    def alone_s(self) -> np.ndarray:
        """The (devices,) seconds of a step of the whole network on each device alone."""
        counted = sorted(collections.Counter(self.alike).items())
        passes = {layer: PASSES if self.trains_before[layer] else ("forward", "update") for layer, _ in counted}
        found = [(layer, "replicated", step_pass, count) for layer, count in counted for step_pass in passes[layer]]
        shared = [self.alike[i] for i, layer in enumerate(self.graph.layers) if layer.shared_with is not None]
        again = [(layer, "replicated", "update", -count) for layer, count in sorted(collections.Counter(shared).items())]
        seconds: np.ndarray = self._summed([*found, *again])[:, -1]
        return seconds

    @functools.cached_property
    def by_speed(self) -> list[int]:
        """The devices, the fastest alone first; an earlier one first where two are as fast."""
        found: list[int] = np.argsort(self.alone_s, kind="stable").tolist()
        return found

    def turns(self, devices: Sequence[int]) -> np.ndarray:
        """Return the (devices,) number of the processors given that share each one's TensorFlow device, itself too: they take turns.

        Parameters
        ----------
        devices : indices of the processors' devices in the cluster.
        """
        names = [self.profile.cluster.devices[device].tf_device for device in devices]
        _, turn, counts = np.unique(names, return_inverse=True, return_counts=True)
        found: np.ndarray = counts[turn]
        return found

    def update_s(self, device: int) -> float:
        """Return the seconds of the update of all the network's weights on a device."""
        owners = [self.alike[i] for i, layer in enumerate(self.graph.layers) if layer.shared_with is None]
        counted = sorted(collections.Counter(owners).items())
        return float(self._summed([(layer, "replicated", "update", count) for layer, count in counted])[device, -1])

    def ring(self, devices: tuple[int, ...]) -> Ring:
        """Return the links among devices, looked up once; see `link_cost.ring`.

        Parameters
        ----------
        devices : indices of the devices, in the order of the mesh.
        """
        if devices not in self._rings:
            self._lines = self._lines or link_lines(self.profile)
            self._rings[devices] = ring(self.profile, devices, lines=self._lines)
        return self._rings[devices]

    def part_of_batch(self, layer: int, device: int, step_pass: str) -> np.ndarray:
        """Return t(s samples) / t(whole batch), all channels there, for 0, 1, ... samples; 1 for an update.

        Parameters
        ----------
        layer : index of the layer.
        device : index of the device.
        step_pass : "forward", "backward" or "update".
        """
        row: np.ndarray = self._samples_part(layer, step_pass)[device]
        return row

    def _samples_part(self, layer: int, step_pass: str) -> np.ndarray:
        """Return `part_of_batch` on every device."""
        key = (self.alike[layer], step_pass)
        if key not in self._parts:
            rows, batch = self.rows(layer, "batch", step_pass), self.profile.batch_size
            even = np.ones(batch + 1) if step_pass == "update" else np.arange(batch + 1) / batch
            whole_s = rows[:, -1:]
            measured = (whole_s > 0) & (step_pass != "update")
            self._parts[key] = np.where(measured, rows / np.where(whole_s > 0, whole_s, 1.0), even)
        return self._parts[key]

    def _tabulate_batch(self, layer: int, device: int, step_pass: str) -> np.ndarray:
        batch = self.profile.batch_size
        if step_pass == "update":
            return np.full(batch + 1, self.rows(layer, "replicated", step_pass)[device, -1])
        if not self.profile.has_curve(layer, device, "batch", step_pass):
            whole_s = self.rows(layer, "replicated", step_pass)[device, -1]
            return np.array([whole_s * samples / batch for samples in range(batch + 1)])
        return self._interpolated(self.profile.curve(layer, device, "batch", step_pass), range(batch + 1))

    def _tabulate(self, layer: int, layout: str, device: int, step_pass: str) -> np.ndarray:
        if layout == "batch":
            return self._tabulate_batch(layer, device, step_pass)
        units = split_units(self.graph, layer, layout, self.counts)
        wanted = _DIMENSIONS[layout] + (_ANY if step_pass == "update" else ())
        found = [d for d in wanted if self.profile.has_curve(layer, device, d, step_pass)]
        if not found:
            self._allow_no_curve(layer, layout, device, step_pass)
            return np.zeros(1 if layout == "replicated" else units + 1)
        curve = self.profile.curve(layer, device, found[0], step_pass)
        extent = self._extent(layer, found[0], curve.units[-1])
        asked = [extent] if layout == "replicated" else [u * extent / units for u in range(units + 1)]
        return self._interpolated(curve, asked)

    def _interpolated(self, curve: Curve, asked: Sequence[float]) -> np.ndarray:
        """Return the seconds of a curve at some units that go up in equal steps, once for all curves that are equal."""
        key = (curve.units, curve.seconds, curve.spread, len(asked), asked[-1])
        if key not in self._curves:
            self._curves[key] = np.array(interpolated(curve, asked))
        return self._curves[key]

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


def _parts_of(stage: Stage, parts: Sequence[int], axis: str) -> np.ndarray:
    """Return each processor's part, zero where nothing is split."""
    return np.array(parts)[list(stage.places(axis))] if parts else np.zeros(len(stage.devices), int)
