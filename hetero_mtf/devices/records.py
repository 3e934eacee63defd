"""Device, Link, MemoryPool and ClusterRecord: what a cluster consists of, as frozen records with JSON."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hetero_mtf.errors import ClusterError
from hetero_mtf.units import value_text

KINDS = ("CPU", "GPU")
_TASK = re.compile(r"/task:(\d+)/")
LIMITS = ("process", "compute")
"""What the share of an emulated device limits: all threads of its process, or those that compute."""


@dataclasses.dataclass(frozen=True)
class Device:
    """A processor that can hold slices and compute on them.

    Parameters
    ----------
    name : name for people, such as "cpu:0", "gpu:0" or "worker:1".
    kind : "CPU" or "GPU".
    host : name of the machine it is in.
    tf_device : TensorFlow's device string, "/device:CPU:0" in process, "/job:worker/task:1/device:CPU:0" in a cluster.
    memory_bytes : bytes it can use at most; devices of one pool share them.
    pool : name of the `MemoryPool` it draws from.
    share : emulated share of a core, in (0, 1]; 1 is unlimited.
    model : the maker's name for it.
    cores : cores of its host that programs may run on, of a CPU; 0 where that is not known.
    limit : what the share limits, one of `LIMITS`; sending and receiving are not limited by "compute".
    instruction_set : newest one that its kernels may use, of an emulated device; "" for all that it has.
    """

    name: str
    kind: str
    host: str
    tf_device: str
    memory_bytes: int
    pool: str
    share: float = 1.0
    model: str = ""
    cores: int = 0
    limit: str = LIMITS[0]
    instruction_set: str = ""

    @property
    def traits(self) -> tuple[str, str, str, float, str, str, str]:
        """Name, kind, model, share, TensorFlow device, limit and instruction set, by which a device is recognised.

        Its host may have a new name.
        """
        return self.name, self.kind, self.model, self.share, self.tf_device, self.limit, self.instruction_set

    @property
    def process(self) -> str:
        """Name of the process that it is in: its TensorFlow device string without the device, in lower case; "" for this one."""
        return self.tf_device.lower().rpartition("/device:")[0]

    @property
    def worker(self) -> int | None:
        """Number of the worker that it belongs to; None for a device of this process."""
        task = _TASK.search(self.tf_device)
        return int(task[1]) if task else None

    @property
    def share_text(self) -> str:
        """The share for people, such as "0.5", "0.5 (compute only)" where sending and receiving are not limited, or "1 (avx2)"."""
        notes = [self.instruction_set, "compute only" if self.limit == "compute" else ""]
        return f"{self.share:g}" + (f" ({', '.join(note for note in notes if note)})" if any(notes) else "")


@dataclasses.dataclass(frozen=True)
class Link:
    """The connection from one device to another: n bytes take latency_s + n / bandwidth_bytes_per_s.

    Parameters
    ----------
    source, destination : device indices.
    latency_s : seconds before the first byte arrives.
    bandwidth_bytes_per_s : bytes per second after that.
    spread : largest inter-quartile range of what was measured, relative to the median.
    message_s : seconds of each further tensor that is sent at the same time, its bytes left out.
    hidden : part of the seconds of a transfer, from 0 to 1, by which independent computing on its devices takes no longer.
    """

    source: int
    destination: int
    latency_s: float
    bandwidth_bytes_per_s: float
    spread: float = 0.0
    message_s: float = 0.0
    hidden: float = 0.0


@dataclasses.dataclass(frozen=True)
class MemoryPool:
    """Memory that one or more devices draw from.

    Parameters
    ----------
    name : the name devices refer to.
    free_bytes : bytes that were free when it was looked at.
    """

    name: str
    free_bytes: int


@dataclasses.dataclass(frozen=True)
class ClusterRecord:
    """Devices, the memory they draw from and, where measured, the links between them.

    Parameters
    ----------
    devices : the devices; a device's place is its index.
    pools : the memory pools.
    links : measured links, empty where nothing has been measured.

    Raises
    ------
    ClusterError
        If the records contradict each other; all contradictions at once.
    """

    devices: tuple[Device, ...]
    pools: tuple[MemoryPool, ...]
    links: tuple[Link, ...] = ()

    def __post_init__(self) -> None:
        faults = _contradictions(self.devices, self.pools, self.links)
        if faults:
            raise ClusterError(f"the description of the cluster is wrong: {', '.join(faults)}", "correct it or look for the devices again")

    def part(self, kept: Sequence[int]) -> ClusterRecord:
        """Return the record of some devices alone, numbered in the order given.

        Parameters
        ----------
        kept : indices of the devices.
        """
        devices = tuple(self.devices[index] for index in kept)
        pools = {device.pool for device in devices}
        links = (renumbered(link, kept, "source", "destination") for link in self.links)
        return ClusterRecord(
            devices, tuple(pool for pool in self.pools if pool.name in pools), tuple(link for link in links if link is not None)
        )

    def joined(self, other: ClusterRecord) -> ClusterRecord:
        """Return the record of these devices and others, in the order of their workers, without links.

        Parameters
        ----------
        other : of other workers; a pool that both have is as it is here.
        """
        devices = sorted((*self.devices, *other.devices), key=lambda device: -1 if device.worker is None else device.worker)
        names = {pool.name for pool in self.pools}
        return ClusterRecord(tuple(devices), (*self.pools, *(pool for pool in other.pools if pool.name not in names)))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able document."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ClusterRecord:
        """Return the record in a document made by `to_json`.

        Raises
        ------
        ClusterError
            If entries are missing, unknown or of the wrong form; all faults at once, each with its path.
        """
        faults: list[str] = []
        if not isinstance(document, Mapping):
            raise ClusterError("the description of the cluster is not a JSON object", "look for the devices again")
        devices = _entries(Device, document, "devices", faults)
        pools = _entries(MemoryPool, document, "pools", faults)
        links = _entries(Link, document, "links", faults) if "links" in document else ()
        if faults:
            faults += _contradictions(devices, pools, links)
            raise ClusterError(f"the description of the cluster is damaged: {', '.join(faults)}", "look for the devices again")
        return cls(_undamaged(devices), _undamaged(pools), _undamaged(links))


_Indexed = TypeVar("_Indexed")


def renumbered(entry: _Indexed, kept: Sequence[int], *fields: str) -> _Indexed | None:
    """Return a frozen record with the indices that its devices have among some of them; None where it is of another one.

    Parameters
    ----------
    entry : a dataclass.
    kept : (devices,) indices of these devices.
    fields : names of its fields that hold the index of a device.
    """
    at = {index: place for place, index in enumerate(kept)}
    places = {name: at.get(getattr(entry, name)) for name in fields}
    return None if None in places.values() else dataclasses.replace(entry, **places)  # type: ignore[type-var]


_Record = TypeVar("_Record", Device, Link, MemoryPool)
_TYPES: Mapping[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}


def _entries(record: type[_Record], document: Mapping[str, Any], key: str, faults: list[str]) -> Sequence[_Record | None] | None:
    """Return the entries in their places, None for a damaged one; None if they are no list."""
    listed = document.get(key)
    if not isinstance(listed, (list, tuple)):
        faults.append(f"{key} is not a list")
        return None
    return [_entry(record, entry, f"{key}[{index}]", faults) for index, entry in enumerate(listed)]


def _undamaged(entries: Sequence[_Record | None] | None) -> tuple[_Record, ...]:
    return tuple(entry for entry in entries or () if entry is not None)


def _entry(record: type[_Record], entry: object, path: str, faults: list[str]) -> _Record | None:
    if not isinstance(entry, Mapping):
        faults.append(f"{path} is not an object")
        return None
    fields = {field.name: field for field in dataclasses.fields(record)}
    entry_faults = [f"{path}.{name} is unknown" for name in entry if name not in fields]
    for name, field in fields.items():
        if name not in entry:
            if field.default is dataclasses.MISSING:
                entry_faults.append(f"{path}.{name} is missing")
        # field.type is a text, since annotations are postponed in this module
        elif not isinstance(entry[name], _TYPES[str(field.type)]) or isinstance(entry[name], bool):
            entry_faults.append(f"{path}.{name} is {value_text(entry[name])} and not {field.type}")
        elif not isinstance(entry[name], str) and abs(entry[name]) > sys.float_info.max:
            entry_faults.append(f"{path}.{name} is too large a number")
    faults.extend(entry_faults)
    if entry_faults:
        return None
    values: dict[str, Any] = {name: float(value) if fields[name].type == "float" else value for name, value in entry.items()}
    return record(**values)


def _contradictions(
    devices: Sequence[Device | None] | None, pools: Sequence[MemoryPool | None] | None, links: Sequence[Link | None] | None
) -> list[str]:
    """Return what is wrong with entries that have the right form; None stands for one that has not, and is passed over."""
    names = [pool.name for pool in pools or () if pool is not None]
    faults = [f"pool {name} is listed {names.count(name)} times" for name in sorted(set(names)) if names.count(name) > 1]
    for index, pool in enumerate(pools or ()):
        if pool is not None and pool.free_bytes < 0:
            faults.append(f"pools[{index}].free_bytes is {pool.free_bytes}, below 0")
    if devices is not None and not devices:
        faults.append("there is no device")
    known = names if pools is not None and None not in pools else None
    for index, device in enumerate(devices or ()):
        faults += _device_contradictions(device, f"devices[{index}]", known) if device is not None else []
    for index, link in enumerate(links or ()):
        faults += _link_contradictions(link, f"links[{index}]", devices) if link is not None else []
    return faults


def _device_contradictions(device: Device, path: str, pools: list[str] | None) -> list[str]:
    faults = []
    if device.kind not in KINDS:
        faults.append(f"{path}.kind is {value_text(device.kind)}, neither CPU nor GPU")
    if pools is not None and device.pool not in pools:
        faults.append(f"{path}.pool is {value_text(device.pool)}, which is no pool")
    if device.memory_bytes < 0:
        faults.append(f"{path}.memory_bytes is {device.memory_bytes}, below 0")
    if not 0 < device.share <= 1:
        faults.append(f"{path}.share is {device.share}, outside (0, 1]")
    if device.limit not in LIMITS:
        faults.append(f"{path}.limit is {value_text(device.limit)}, neither {' nor '.join(LIMITS)}")
    if device.cores < 0:
        faults.append(f"{path}.cores is {device.cores}, below 0")
    return faults


def _link_contradictions(link: Link, path: str, devices: Sequence[Device | None] | None) -> list[str]:
    faults = []
    for end in ("source", "destination"):
        if devices is not None and not 0 <= getattr(link, end) < len(devices):
            faults.append(f"{path}.{end} is {getattr(link, end)}, and there are {len(devices)} devices")
    if not (math.isfinite(link.latency_s) and link.latency_s >= 0):
        faults.append(f"{path}.latency_s is {link.latency_s}, not a time")
    if not (math.isfinite(link.bandwidth_bytes_per_s) and link.bandwidth_bytes_per_s > 0):
        faults.append(f"{path}.bandwidth_bytes_per_s is {link.bandwidth_bytes_per_s}, not a number above 0")
    for name in ("spread", "message_s"):
        if not (math.isfinite(getattr(link, name)) and getattr(link, name) >= 0):
            faults.append(f"{path}.{name} is {getattr(link, name)}, not a number from 0")
    if not 0 <= link.hidden <= 1:
        faults.append(f"{path}.hidden is {link.hidden}, not a number from 0 to 1")
    return faults
