"""The profile: a cluster with its measured curves, links and memory, for one network and batch size."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from hetero_mtf.devices import ClusterRecord, Link, MemoryPool
from hetero_mtf.devices.records import renumbered
from hetero_mtf.errors import HeteroError, ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.json_records import Fault, listed, read_fields, unchecked, unless_caused
from hetero_mtf.layers import kind_of
from hetero_mtf.planning.layout.arrangement import channels, split_units, trains_before
from hetero_mtf.planning.profile.corrections import Corrections, correction_faults
from hetero_mtf.planning.profile.curve import PASSES, Curve, curve_faults, interpolated
from hetero_mtf.planning.profile.earlier_versions import EARLIER, current_fields
from hetero_mtf.planning.profile.feed_link import FeedLink
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.units import bytes_text

VERSION = 3
_HEAD = frozenset({"kind", "version"})
_Indexed = TypeVar("_Indexed")
_EMBEDDED = frozenset({"cluster", "graph"})
# Planning tabulates seconds for every number of samples and of units, on every device.
LARGEST_EXTENT = 10_000_000  # samples of a batch, or units of a layer
LARGEST_TABLES_BYTES = 4 * 2**30


@dataclasses.dataclass(frozen=True)
class Profile:
    """What calibration measured.

    Parameters
    ----------
    cluster : the devices it was measured on.
    graph : LayerGraph it was measured for.
    batch_size : samples a step.
    curves : measured seconds; one set serves all layers of equal structure.
    links : latency and bandwidth of each pair of devices.
    memory : free memory of each pool at the time.
    optimizer : the optimizer whose updates were measured.
    measured_at : ISO date of the measurement.
    versions : version of each program that took part.
    launch_s : seconds of a training step besides its layers and links: those of a session call on all devices.
    feed_s_per_byte : seconds for each byte of a step's batch, which is handed to the devices.
    corrections : what steps on the cluster took beside their predictions; none where none was run.
    feed_links : from the training program to the devices of other hosts; empty where it shares memory with all.

    Raises
    ------
    ProfileError
        If anything is wrong with it; all faults are named at once. A batch, or a layer that can be split, of more than ten million
        samples or units is too large to plan for, and so is what takes tables of more than 4 GiB for all devices.
    """

    cluster: ClusterRecord
    graph: LayerGraph
    batch_size: int
    curves: tuple[Curve, ...]
    links: tuple[Link, ...]
    memory: tuple[MemoryPool, ...]
    optimizer: OptimizerSpec
    measured_at: str
    versions: Mapping[str, str]
    launch_s: float = 0.0
    feed_s_per_byte: float = 0.0
    corrections: Corrections = Corrections()
    feed_links: tuple[FeedLink, ...] = ()

    def __post_init__(self) -> None:
        faults = _faults(self)
        if faults:
            raise ProfileError(f"the profile has {listed(faults)}", "calibrate again")

    def __repr__(self) -> str:
        network = f"{len(self.graph.layers)} layers (digest {self.graph.digest}, {self.graph.dtype_text})"
        measured = f"{len(self.curves)} curves and {len(self.links)} links of {', '.join(d.name for d in self.cluster.devices)}"
        return f"<Profile: {network}, batch size {self.batch_size}, {self.optimizer}, {measured}, measured {self.measured_at}>"

    def has_curve(self, layer: int, device: int, dimension: str, step_pass: str) -> bool:
        """Return whether `curve` would return a curve; parameters as for `curve`."""
        return self._measured_curve(layer, device, dimension, step_pass) is not None

    def curve(self, layer: int, device: int, dimension: str, step_pass: str) -> Curve:
        """Return the curve of a layer, or of one of equal structure, on a device, or on a processor of the same one.

        Parameters
        ----------
        layer : index of the layer.
        device : index of the device.
        dimension : "output", "input" or "whole".
        step_pass : "forward", "backward" or "update".

        Raises
        ------
        ProfileError
            If nothing was measured for it.
        """
        curve = self._measured_curve(layer, device, dimension, step_pass)
        if curve is None:
            names = f"layer {self.graph.layers[layer].name} on {self.cluster.devices[device].name}"
            raise ProfileError(f"the profile has no {step_pass} curve over {dimension} units of {names}", "calibrate again")
        return curve

    def seconds(self, layer: int, device: int, dimension: str, units: float, step_pass: str) -> float:
        """Return the seconds of a layer's pass with some of its units.

        Parameters
        ----------
        layer, device, dimension, step_pass : as for `curve`.
        units : local units; 0 takes 0 seconds.

        Raises
        ------
        ProfileError
            If nothing was measured for it.

        Notes
        -----
        Piecewise linear between measured points, after noise that makes a curve fall is pooled away (`scipy.optimize.isotonic_regression`).
        Beyond either end the nearest piece is continued, but below the first point never under the line to zero; a curve of
        one point is proportional. O(points).
        """
        return interpolated(self.curve(layer, device, dimension, step_pass), (units,))[0]

    def factor(self, layer: int, device: int, split: str, step_pass: str) -> float:
        """Return how many times as long a pass of a layer takes in a step as its curve says; 1 where no step has told.

        Parameters
        ----------
        layer, device, step_pass : as for `curve`.
        split : one of `SPLITS`.
        """
        where = self.cluster.devices[device].tf_device
        return self._factors.get((self._first[layer], where, split, step_pass), 1.0)

    @functools.cached_property
    def _factors(self) -> dict[tuple[int, str, str, str], float]:
        """Factors by first layer of the kind, TensorFlow device, split and pass."""
        records = self.cluster.devices
        entries = self.corrections.layers
        return {(self._first[e.layer], records[e.device].tf_device, e.split, e.step_pass): e.factor for e in entries}

    @functools.cached_property
    def _first(self) -> tuple[int, ...]:
        return alike(self.graph)

    @functools.cached_property
    def _index(self) -> dict[tuple[int, str, str, str], Curve]:
        """Curves by first layer of the kind, TensorFlow device, dimension and pass."""
        index: dict[tuple[int, str, str, str], Curve] = {}
        for curve in self.curves:
            if curve.batch == self.batch_size:
                where = self.cluster.devices[curve.device].tf_device
                index.setdefault((self._first[curve.layer], where, curve.dimension, curve.step_pass), curve)
        return index

    def _measured_curve(self, layer: int, device: int, dimension: str, step_pass: str) -> Curve | None:
        return self._index.get((self._first[layer], self.cluster.devices[device].tf_device, dimension, step_pass))

    def part(self, kept: Sequence[int]) -> Profile:
        """Return the profile of some devices alone, numbered in the order given.

        Parameters
        ----------
        kept : indices of the devices; processors of one device are kept together.
        """

        def of_kept(entries: Iterable[_Indexed], *fields: str) -> tuple[_Indexed, ...]:
            return tuple(entry for each in entries if (entry := renumbered(each, kept, *fields)) is not None)

        cluster = self.cluster.part(kept)
        pools = {pool.name for pool in cluster.pools}
        return dataclasses.replace(
            self,
            cluster=cluster,
            curves=of_kept(self.curves, "device"),
            links=of_kept(self.links, "source", "destination"),
            memory=tuple(pool for pool in self.memory if pool.name in pools),
            corrections=dataclasses.replace(self.corrections, layers=of_kept(self.corrections.layers, "device")),
            feed_links=of_kept(self.feed_links, "device"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in _EMBEDDED}
        for name in ("curves", "links", "memory", "feed_links"):
            plain[name] = [dataclasses.asdict(entry) for entry in plain[name]]
        plain["versions"] = dict(self.versions)
        for name in ("optimizer", "corrections"):
            plain[name] = dataclasses.asdict(plain[name])
        return {"kind": "profile", "version": VERSION, "cluster": self.cluster.to_json(), "graph": self.graph.to_json(), **plain}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], source: str = "the profile") -> Profile:
        """Return the profile in a document made by `to_json`.

        Parameters
        ----------
        document : JSON object of schema version 1, 2 or 3.
        source : what messages call it.

        Raises
        ------
        ProfileError
            If anything is wrong with it; every fault is named with its path.
        """
        faults: list[Fault] = []
        body = {key: value for key, value in current_fields(document).items() if key not in _HEAD}
        values = read_fields(cls, body, "", faults, ignored=_EMBEDDED)
        values["cluster"] = _embedded("cluster", ClusterRecord, body, faults)
        values["graph"] = _embedded("graph", LayerGraph, body, faults)
        faults += unless_caused(_faults(unchecked(cls, values)), faults)
        if faults:
            raise ProfileError(f"{source} has {listed(faults)}", "calibrate again with hetero-mtf calibrate")
        return cls(**values)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile to a JSON file in one piece.

        Parameters
        ----------
        path : file to write or replace.
        """
        write_json(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Profile:
        """Return the profile in a file written by `save`.

        Parameters
        ----------
        path : path of the file.

        Raises
        ------
        HeteroError
            If the file cannot be read, is not a profile of this version, or has faults.
        """
        return cls.from_json(read_json(path, kind="profile", version=VERSION, earlier=EARLIER), os.fspath(path))


def alike(graph: LayerGraph) -> tuple[int, ...]:
    """Return, for each layer, the index of the first layer that takes the same time.

    Layers are alike if they compute the same on inputs of the same shapes and both or neither pass a gradient on to their inputs: the
    first layer of a network has less to compute backward. Names, positions and the owner of variables do not matter.
    """
    first: dict[str, int] = {}
    return tuple(first.setdefault(structure, index) for index, structure in enumerate(structures(graph)))


def structures(graph: LayerGraph) -> tuple[str, ...]:
    """Return, for each layer, a text that is equal for all layers that take the same time, of whatever network; see `alike`."""
    counts, trains = channels(graph), trains_before(graph)
    texts: list[str] = []
    for layer in graph.layers:
        inputs = [(graph.layers[i].output_shape, counts[i], trains[i]) for i in layer.inputs]
        structure = {**layer.structure(), "inputs": inputs, "shared_with": None, "dtype": graph.dtype}
        texts.append(json.dumps(structure, sort_keys=True, default=list))
    return tuple(texts)


def _embedded(name: str, record: Any, body: Mapping[str, Any], faults: list[Fault]) -> Any:
    try:
        return record.from_json(body[name])
    except KeyError:
        faults.append(Fault(name, "is missing"))
    except HeteroError as fault:
        faults.append(Fault(name, fault.reason))
    return None


def _faults(profile: Profile) -> list[Fault]:
    devices = len(profile.cluster.devices) if profile.cluster is not None else None
    layers = len(profile.graph.layers) if profile.graph is not None else None
    faults = [Fault(path, text) for wrong, path, text in _entries(profile, devices) if wrong]
    for index, curve in enumerate(profile.curves):
        faults += curve_faults(curve, f"curves[{index}]", layers, devices)
    faults += correction_faults(profile.corrections, layers, devices)
    return faults if devices is None or layers is None or profile.batch_size < 1 else faults + _too_large(profile)


def _entries(profile: Profile, devices: int | None) -> Iterator[tuple[bool, str, str]]:
    yield profile.batch_size < 1, "batch_size", f"is {profile.batch_size}, must be at least 1"
    momentum = profile.optimizer.momentum
    yield not 0 <= momentum < math.inf, "optimizer.momentum", f"is {momentum:g}, must be finite and zero or more"
    for name in ("launch_s", "feed_s_per_byte"):
        seconds = getattr(profile, name)
        yield not 0 <= seconds < math.inf, name, f"is {seconds:g}, must be zero or more"
    yield not _is_date(profile.measured_at), "measured_at", f"is {profile.measured_at!r}, must be an ISO date"
    for index, link in enumerate(profile.links):
        path = f"links[{index}]"
        for name in ("source", "destination"):
            end = getattr(link, name)
            yield end < 0 or (devices is not None and end >= devices), f"{path}.{name}", f"is {end}, there are {devices} devices"
        yield not 0 <= link.latency_s < math.inf, f"{path}.latency_s", f"is {link.latency_s:g}, must be zero or more"
        bandwidth = link.bandwidth_bytes_per_s
        yield not 0 < bandwidth < math.inf, f"{path}.bandwidth_bytes_per_s", f"is {bandwidth:g}, must be above zero"
        for name in ("spread", "message_s"):
            yield not 0 <= getattr(link, name) < math.inf, f"{path}.{name}", f"is {getattr(link, name):g}, must be zero or more"
        yield not 0 <= link.hidden <= 1, f"{path}.hidden", f"is {link.hidden:g}, must be from 0 to 1"
    for index, feed_link in enumerate(profile.feed_links):
        path, at = f"feed_links[{index}]", feed_link.device
        yield at < 0 or (devices is not None and at >= devices), f"{path}.device", f"is {at}, there are {devices} devices"
        for name in ("bytes_per_s", "together_bytes_per_s"):
            yield not 0 < getattr(feed_link, name) < math.inf, f"{path}.{name}", f"is {getattr(feed_link, name):g}, must be above zero"
    for index, pool in enumerate(profile.memory):
        yield pool.free_bytes < 0, f"memory[{index}].free_bytes", f"is {pool.free_bytes}, must be zero or more"


def _too_large(profile: Profile) -> list[Fault]:
    """Return what is too large for the tables that planning computes from a profile, before any is computed."""
    limit = f"{LARGEST_EXTENT:,}"
    faults = [Fault("batch_size", f"is {profile.batch_size:,}, must be at most {limit}")] if profile.batch_size > LARGEST_EXTENT else []
    extents = _extents(profile.graph)
    for index, units in enumerate(extents):
        if max(units) > LARGEST_EXTENT:
            text = f"can be split by {max(units):,} units, must be at most {limit} ({profile.graph.layers[index].name})"
            faults.append(Fault(f"graph.layers[{index}]", text))
    at_most = LARGEST_TABLES_BYTES // (8 * len(PASSES) * len(profile.cluster.devices))
    if faults or sum(profile.batch_size + 1 + sum(units) for units in extents) <= at_most:
        return faults
    kinds = dict.fromkeys(profile._first)  # alike layers share their tables
    needed = sum(profile.batch_size + 1 + sum(extents[index]) for index in kinds)
    if needed <= at_most:
        return []
    took = f"{len(profile.cluster.devices)} devices and {len(kinds)} kinds of layers"
    sizes = bytes_text(needed * LARGEST_TABLES_BYTES / at_most), bytes_text(LARGEST_TABLES_BYTES)
    return [Fault("batch_size", f"is {profile.batch_size:,}, with {took} it takes tables of {sizes[0]}, must be at most {sizes[1]}")]


def _extents(graph: LayerGraph) -> list[tuple[int, ...]]:
    """Return the units of every legal layout that splits a layer by channels, and 1 for a layer that is not split."""
    counts = channels(graph)
    legal = [sorted(kind_of(layer).layouts(layer) - {"replicated"}) if layer.inputs else [] for layer in graph.layers]
    return [(1, *(split_units(graph, index, layout, counts) for layout in layouts)) for index, layouts in enumerate(legal)]


def _is_date(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True
