"""Seconds of layers on devices, from the curves of a profile."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.graph.records import ITEM_BYTES, LayerGraph
from hetero_mtf.layers.half_precision import sums_in
from hetero_mtf.planning.cost.device_ring import Ring, Rules
from hetero_mtf.planning.cost.gradient_buckets import bucket_bytes_of
from hetero_mtf.planning.cost.layer_tables import LayerTables
from hetero_mtf.planning.cost.link_cost import Lines, link_lines, ring
from hetero_mtf.planning.layout.arrangement import takes_statistics, trains_before
from hetero_mtf.planning.layout.records import BUCKET_BYTES, LayerLayout, Stage
from hetero_mtf.planning.layout.synchronisation import synchronisation_groups
from hetero_mtf.planning.memory.layer_memory import NetworkMemory
from hetero_mtf.planning.memory.optimizer_slots import needs_full_variable
from hetero_mtf.planning.profile.curve import PASSES
from hetero_mtf.planning.profile.profile import Profile

_KEPT = 20_000  # (layer, layout) entries in the cache of seconds


class Costs:
    """Seconds of layers and stages from a profile, each computed once and kept.

    Parameters
    ----------
    profile : the profile.
    rules : rules that all-reduces go by; None for the cheapest method for each size.

    Attributes
    ----------
    tables : LayerTables of the profile.
    counts : (layers,) units each layer's output is split into, see `arrangement.channels`.
    trains_before : (layers,) whether each layer's output needs a gradient, see `arrangement.trains_before`.
    alike : (layers,) index of the first layer that takes the same time, see `profile.alike`; such layers share their tables.
    gradient_bytes : (layers, gradients) bytes, as they are sent, of what is added up after the backward pass of a layer that splits its
        batch: a gradient of each weight that trains and is its own; those of a batch norm are the sums of its backward pass.
    gathered_bytes : (layers,) bytes of the weights of a layer that are gathered before their update, and of their gradients as many, if the
        layer is split by channels; 0 where the optimizer updates elements.
    joining : the layers whose passes may have collectives of their own: batch norm, and attention scores.
    message_s : largest seconds of a link for each further tensor that is sent at the same time.
    hidden : least part of a transfer's seconds on a link by which independent computing takes no longer.
    """

    def __init__(self, profile: Profile, rules: Rules | None = None) -> None:
        self.profile, self.rules = profile, rules
        self.graph: LayerGraph = profile.graph
        self.tables = LayerTables(profile)
        self.counts, self.alike = self.tables.counts, self.tables.alike
        self.trains_before = trains_before(self.graph)
        links = (*profile.cluster.links, *profile.links)
        message_s = max((link.message_s for link in links), default=0.0)
        self.hidden = min((link.hidden for link in links), default=0.0)
        self.message_s = profile.corrections.links * message_s
        self.memory = NetworkMemory(profile)
        scores = enumerate(self.memory.score_bytes)
        self.gradient_bytes = [_gradient_bytes(self.graph, layer) for layer in range(len(self.graph.layers))]
        gathers = needs_full_variable(profile.optimizer)
        self.gathered_bytes = [n if gathers else 0 for n in self.memory.message_bytes]
        norms = ("BatchNormalization", "GroupNormalization", "LayerNormalization")
        self.joining = {i for i, held in scores if held or self.graph.layers[i].kind in norms}
        self._joins_statistics = any(takes_statistics(layer) for layer in self.graph.layers)
        self._merged: dict[tuple[tuple[int, ...], tuple[int, ...]], dict[int, tuple[int, ...]]] = {}
        self._sums: dict[object, np.ndarray] = {}
        self._layout_numbers: dict[object, int] = {}
        self._numbers = itertools.count()
        self._spent: dict[tuple[int, int], dict[str, np.ndarray]] = {}
        self._resting: dict[tuple[int, ...], np.ndarray] = {}
        self._rings: dict[tuple[int, ...], Ring] = {}
        self._lines: Lines | None = None

    def messages(self, layer: int, bucket_bytes: int) -> float:
        """Return the messages that a layer's gradients add: one for each, of those that share a bucket their parts of it.

        Parameters
        ----------
        bucket_bytes : as in a Plan.
        """
        return sum(min(1.0, size / bucket_bytes) if bucket_bytes else 1.0 for size in self.gradient_bytes[layer])

    def bucket_bytes(self, devices: Sequence[int]) -> int:
        """Return the most bytes of a bucket of gradients among devices; see `gradient_buckets.bucket_bytes`."""
        return bucket_bytes_of(self.ring(tuple(devices))) if len(devices) > 1 else BUCKET_BYTES

    def spent(self, entry: LayerLayout, devices: np.ndarray, sizes: np.ndarray, samples: np.ndarray, step_pass: str) -> np.ndarray:
        """Return the seconds of a layer's pass on each processor of a mesh.

        Parameters
        ----------
        entry : the layer's layout.
        devices : (processors,) index of each one's device in the cluster.
        sizes : (processors,) units, of a layer that is split by channels; positions, of one that is split by space.
        samples : (processors,) samples, of a layer whose batch is split.
        step_pass : "forward", "backward" or "update".

        Notes
        -----
        Split both ways, a layer takes t(u units, whole batch) * t(all units, s samples) / t(all units, whole batch).
        """
        rows = self.tables.rows(entry.layer, entry.layout, step_pass)
        if entry.layout == "batch":
            seconds: np.ndarray = rows[devices, samples]
            return seconds
        seconds = rows[devices, sizes] if entry.sizes or entry.slabs else rows[devices, -1]
        return seconds * self.tables.part_of_batch(entry.layer, step_pass)[devices, samples] if entry.samples else seconds

    def summed_rows(self, members: Sequence[tuple[int, str]]) -> np.ndarray:
        """Return the (devices, units + 1) seconds of a whole step's work in some layers on every device.

        Parameters
        ----------
        members : (layer, layout) of the layers of one segment.
        """
        counted = sorted(collections.Counter((self.alike[layer], layout) for layer, layout in members).items())
        return self._summed([(layer, layout, step_pass, count) for (layer, layout), count in counted for step_pass in PASSES])

    def batch_rows(self, layers: Iterable[int]) -> np.ndarray:
        """Return the (devices, batch + 1) seconds of the forward and backward pass of some layers for 0, 1, ... samples on every device.

        Parameters
        ----------
        layers : their indices.
        """
        counted = sorted(collections.Counter(self.alike[layer] for layer in layers).items())
        passes = {layer: PASSES[: 2 if self.trains_before[layer] else 1] for layer, _ in counted}
        parts = [(layer, "batch", step_pass, count) for layer, count in counted for step_pass in passes[layer]]
        return self._summed(parts) if parts else np.zeros((len(self.profile.cluster.devices), self.profile.batch_size + 1))

    def _summed(self, parts: Sequence[tuple[int, str, str, int]]) -> np.ndarray:
        """Return the seconds of (layer, layout, pass, how many such layers) together, added in extended precision.

        So sums of equal terms are equal in whatever order the terms stand.
        """
        key = tuple(parts)
        if key not in self._sums:
            rows = self.tables.rows
            total = sum(rows(layer, layout, step_pass).astype(np.longdouble) * count for layer, layout, step_pass, count in parts)
            self._sums[key] = np.asarray(total).astype(float)
        return self._sums[key]

    def spent_on(self, entry: LayerLayout, stage: Stage, step_pass: str, beside: bool = False) -> np.ndarray:
        """Return the (processors,) seconds of a layer's pass on a stage, as `spent`, computed once for alike layers of equal layout.

        Parameters
        ----------
        entry : the layer's layout.
        step_pass : "forward", "backward" or "update".
        beside : whether the other devices of the hosts may compute at the same time.

        Returns
        -------
        (processors,) array of float, seconds; not to be written to.
        """
        return self.passes_on(entry, stage, self.layout_number(entry, stage, beside), beside)[step_pass]

    def layout_number(self, entry: LayerLayout, stage: Stage, beside: bool = False) -> int:
        """Return the number of a layer's layout on a stage, the same for all layers of equal layout.

        Parameters
        ----------
        entry, stage, beside : as for `spent_on`.
        """
        if len(self._spent) >= _KEPT:
            self._spent.clear()
            self._layout_numbers.clear()
        key = entry.layout, entry.parts, entry.dimension, stage.devices, stage.axes, beside
        if key not in self._layout_numbers:
            # never counted from 0 again, so a number from before a clear stands for no other layout
            self._layout_numbers[key] = next(self._numbers)
        return self._layout_numbers[key]

    def passes_on(self, entry: LayerLayout, stage: Stage, number: int, beside: bool = False) -> dict[str, np.ndarray]:
        """Return what `spent_on` returns for every pass.

        Parameters
        ----------
        entry, stage, beside : as for `spent_on`.
        number : the layout's number from `layout_number`.
        """
        key = self.alike[entry.layer], number
        if key not in self._spent:
            own = _parts_of(stage, entry.slabs, entry.slab_axis)
            units = self.measured_positions(entry, own) if entry.slabs else _parts_of(stage, entry.sizes, entry.axis)
            places = units, _parts_of(stage, entry.samples, entry.batch_axis)
            by_pass = {step_pass: self.spent(entry, np.array(stage.devices), *places, step_pass) for step_pass in PASSES}
            if self.tables.some_alone and not beside:
                alone, devices = self.undisturbed(stage.devices), list(stage.devices)
                parts = {each: self.tables.alone_part(entry.layer, each, entry.layout)[devices] for each in PASSES}
                by_pass = {each: by_pass[each] * np.where(alone, parts[each], 1.0) for each in PASSES}
            self._spent[key] = by_pass
        return self._spent[key]

    def measured_positions(self, entry: LayerLayout, own: np.ndarray) -> np.ndarray:
        """Return as many positions of the dimension that was measured as make the same part of a layer as those of another dimension.

        Parameters
        ----------
        entry : layout of a layer in slabs.
        own : (processors,) positions of its output along its own dimension.
        """
        measured = self.tables.slab_extent(entry.layer)
        whole: np.ndarray = own if sum(entry.slabs) == measured else np.rint(own * measured / sum(entry.slabs)).astype(int)
        return whole

    def slab_rows(self, sizes: int) -> np.ndarray:
        """Return the (devices, sizes + 1) seconds of a step's layers in slabs, for 0, 1, ... of the positions of the input.

        Parameters
        ----------
        sizes : positions of the input along the dimension in slabs.
        """
        total = np.zeros((len(self.profile.cluster.devices), sizes + 1))
        for first, count in sorted(collections.Counter(self.alike).items()):
            for step_pass in PASSES[: 2 if self.trains_before[first] else 1] if self.tables.slab_extent(first) else ():
                rows = self.tables.rows(first, "space", step_pass)
                at = np.linspace(0, rows.shape[1] - 1, sizes + 1)
                total += count * np.stack([np.interp(at, np.arange(rows.shape[1]), row) for row in rows])
        return total

    def merged(self, stage: Stage, numbers: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
        """Return the group of each batch norm of a stage whose synchronisations are merged with others'.

        Parameters
        ----------
        numbers : (layers of the stage,) the layouts' numbers from `layout_number`.
        """
        if not self._joins_statistics or not any(entry.samples for entry in stage.layouts):
            return {}
        key = stage.layers, numbers
        if key not in self._merged:
            if len(self._merged) >= _KEPT:
                self._merged.clear()
            groups = synchronisation_groups(self.graph, stage.layouts)
            self._merged[key] = {layer: group for group in groups for layer in group}
        return self._merged[key]

    def undisturbed(self, devices: Sequence[int]) -> np.ndarray:
        """Return, for each device, whether all other devices of its host are idle when only these compute.

        Processors on one TensorFlow device are one device.

        Parameters
        ----------
        devices : indices of the devices that compute.
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
        """The (devices,) seconds of a step of the whole network on each device alone, the other devices of its host idle.

        That is the predicted step of each device's plan of one stage, without the launch overhead, which all plans have alike.
        """
        if not self.tables.some_alone:
            return self.beside_s
        rows, part = self.tables.rows, self.tables.alone_part
        terms = [rows(layer, layout, each)[:, -1] * part(layer, each, layout) * count for layer, layout, each, count in self._full_step]
        seconds: np.ndarray = np.sum(terms, axis=0)
        return seconds

    @functools.cached_property
    def beside_s(self) -> np.ndarray:
        """The (devices,) seconds of a step of the whole network on each device while the other devices of its host compute too."""
        seconds: np.ndarray = self._summed(self._full_step)[:, -1]
        return seconds

    @functools.cached_property
    def _full_step(self) -> list[tuple[int, str, str, int]]:
        """The (layer, layout, pass, how many such layers) of a step on one device."""
        counted = sorted(collections.Counter(self.alike).items())
        passes = {layer: PASSES if self.trains_before[layer] else ("forward", "update") for layer, _ in counted}
        terms = [(layer, "replicated", step_pass, count) for layer, count in counted for step_pass in passes[layer]]
        shared = [self.alike[i] for i, layer in enumerate(self.graph.layers) if layer.shared_with is not None]
        return [*terms, *((layer, "replicated", "update", -count) for layer, count in sorted(collections.Counter(shared).items()))]

    @functools.cached_property
    def by_speed(self) -> list[int]:
        """The devices in order of `beside_s`, for devices that compute together; ties in order of index."""
        devices: list[int] = np.argsort(self.beside_s, kind="stable").tolist()
        return devices

    def processors_per_device(self, devices: Sequence[int]) -> np.ndarray:
        """Return the (devices,) number of the given processors on each one's TensorFlow device, which run one after another.

        Parameters
        ----------
        devices : indices of the processors' devices in the cluster.
        """
        names = [self.profile.cluster.devices[device].tf_device for device in devices]
        _, turn, counts = np.unique(names, return_inverse=True, return_counts=True)
        sharing: np.ndarray = counts[turn]
        return sharing

    def update_s(self, device: int) -> float:
        """Return the seconds of the update of all the network's weights on a device."""
        owners = [self.alike[i] for i, layer in enumerate(self.graph.layers) if layer.shared_with is None]
        counted = sorted(collections.Counter(owners).items())
        return float(self._summed([(layer, "replicated", "update", count) for layer, count in counted])[device, -1])

    def ring(self, devices: tuple[int, ...]) -> Ring:
        """Return the links among devices, computed once; see `link_cost.ring`.

        Parameters
        ----------
        devices : indices of the devices, in the order of the mesh.
        """
        if devices not in self._rings:
            self._lines = self._lines or link_lines(self.profile)
            self._rings[devices] = ring(self.profile, devices, self.rules, self._lines)
        return self._rings[devices]


def _gradient_bytes(graph: LayerGraph, layer: int) -> list[int]:
    record = graph.layers[layer]
    if graph.owner(layer) != layer or takes_statistics(record):
        return []
    item_bytes = ITEM_BYTES[sums_in(record) or record.variable_dtype or graph.dtype]
    return [item_bytes * variable.size for variable in record.variables[::-1] if variable.trainable]


def _parts_of(stage: Stage, parts: Sequence[int], axis: str) -> np.ndarray:
    """Return each processor's part, zero where nothing is split."""
    return np.array(parts)[list(stage.places(axis))] if parts else np.zeros(len(stage.devices), int)
