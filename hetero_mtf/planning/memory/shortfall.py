"""Memory pools that have less free than a plan needs, and by how much."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from hetero_mtf.planning.layout.records import DevicePart, Stage
from hetero_mtf.planning.memory.layer_memory import LayerMemory, NetworkMemory
from hetero_mtf.planning.memory.stage_memory import stage_memory_bytes
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.units import bytes_text


@dataclasses.dataclass(frozen=True)
class Shortfall:
    """A memory pool that has less free than a plan needs.

    Parameters
    ----------
    pool : name of the pool.
    needed_bytes, free_bytes : bytes that its devices need together, and bytes that are free.
    layer : name of the layer that needs most on one of its devices, with its temporaries.
    device : name of that device.
    layer_bytes : what it needs there.
    """

    pool: str
    needed_bytes: int
    free_bytes: int
    layer: str
    device: str
    layer_bytes: int

    @property
    def short_bytes(self) -> int:
        """Bytes that are missing."""
        return self.needed_bytes - self.free_bytes

    def __str__(self) -> str:
        most = f"layer {self.layer} ({bytes_text(self.layer_bytes)} on {self.device})"
        return f"{short_text(self.pool, self.needed_bytes, self.free_bytes)}, most for {most}"


def short_text(pool: str, needed_bytes: int, free_bytes: int) -> str:
    """Return the shortfall of a pool as text.

    Parameters
    ----------
    pool : its name.
    needed_bytes, free_bytes : bytes needed of it, and the fewer bytes that are free.
    """
    needs = f"needs {bytes_text(needed_bytes)} of memory {pool}, which has {bytes_text(free_bytes)} free"
    return f"{needs} and is {needed_bytes - free_bytes} bytes short"


def pool_bytes(profile: Profile, stage: Stage, memory: NetworkMemory | None = None) -> dict[str, int]:
    """Return the bytes that the devices of a stage need together, by pool.

    Parameters
    ----------
    profile, stage, memory : as for `stage_memory_bytes`.
    """
    needed: dict[str, int] = {}
    for device, held_bytes in zip(stage.devices, stage_memory_bytes(profile, stage, memory)):
        pool = profile.cluster.devices[device].pool
        needed[pool] = needed.get(pool, 0) + held_bytes
    return needed


def short_bytes(profile: Profile, stage: Stage, memory: NetworkMemory | None = None) -> int:
    """Return the bytes that a stage is short of, over all pools; 0 where it fits.

    Parameters
    ----------
    profile, stage, memory : as for `stage_memory_bytes`.
    """
    needed = pool_bytes(profile, stage, memory)
    return sum(max(0, needed.get(free.name, 0) - free.free_bytes) for free in profile.memory)


def shortfalls(profile: Profile, stage: Stage, memory: NetworkMemory | None = None) -> tuple[Shortfall, ...]:
    """Return the pools that have less free than a stage needs, the largest shortfall first.

    Parameters
    ----------
    profile : Profile with its memory pools.
    memory : Memory of the profile, where known.
    """
    devices, needed = profile.cluster.devices, pool_bytes(profile, stage, memory)
    lacking = [free for free in profile.memory if needed.get(free.name, 0) > free.free_bytes]
    if not lacking:
        return ()
    layers, most = _largest_layers(profile, stage, memory)
    short_pools = []
    for free in lacking:
        drawing = [at for at, device in enumerate(stage.devices) if devices[device].pool == free.name]
        at = max(drawing, key=lambda at: (most[at], -layers[at]))
        name, holder = stage.layouts[layers[at]].name, devices[stage.devices[at]].name
        short_pools.append(Shortfall(free.name, needed[free.name], free.free_bytes, name, holder, math.ceil(most[at])))
    return tuple(sorted(short_pools, key=lambda short: -short.short_bytes))


def _largest_layers(profile: Profile, stage: Stage, memory: NetworkMemory | None) -> tuple[list[int], list[float]]:
    """Return the layer that needs most on each processor, and the bytes that it needs there."""
    held = LayerMemory(memory or NetworkMemory(profile), stage)
    per_layer = np.array([held.layer_bytes(entry) + held.temporary_bytes(entry) for entry in stage.layouts])
    return per_layer.argmax(axis=0).tolist(), per_layer.max(axis=0).tolist()


def lack_of_memory(profile: Profile, stage: Stage) -> str:
    """Return "" if a stage fits in the free memory of every pool, else its largest shortfall as text.

    Parameters
    ----------
    profile : Profile with its memory pools.
    """
    short_pools = shortfalls(profile, stage)
    return str(short_pools[0]) if short_pools else ""


def pool_lack(profile: Profile, parts: Sequence[DevicePart]) -> str:
    """Return "" if what the devices of a step hold fits in the free memory of every pool, else the largest shortfall as text.

    Parameters
    ----------
    profile : Profile with its memory pools.
    parts : what each device does in a predicted step.
    """
    pool_of = {device.name: device.pool for device in profile.cluster.devices}
    short = ""
    most = 0
    for pool in profile.memory:
        drawing = [part for part in parts if pool_of[part.device] == pool.name]
        needed = sum(part.memory_bytes for part in drawing)
        if needed - pool.free_bytes > most:
            most = needed - pool.free_bytes
            largest = max(drawing, key=lambda part: part.memory_bytes)
            short = f"{short_text(pool.name, needed, pool.free_bytes)}, most for {largest.device} ({bytes_text(largest.memory_bytes)})"
    return short
