"""Seconds of the collectives of a mesh, from measured links."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hetero_mtf.devices import Device
from hetero_mtf.errors import ProfileError
from hetero_mtf.planning.cost.all_reduce import PairLinks, cheapest_by_size
from hetero_mtf.planning.cost.device_ring import Ring, Rules
from hetero_mtf.planning.profile.profile import Profile

Lines = tuple[np.ndarray, np.ndarray]


def link_lines(profile: Profile) -> Lines:
    """Return (devices, devices) latencies a, seconds, and seconds a byte b from each device to each; infinite where nothing was measured.

    n bytes over a link take a + n b seconds.

    Processors on one and the same TensorFlow device exchange tensors in place: their link costs nothing. A link measured in one
    direction stands for both. The factor of the profile's corrections is multiplied in.

    Parameters
    ----------
    profile : Profile with measured links.

    References
    ----------
    Hockney, "The communication challenge for MPP", Parallel Computing 20, 1994, for the line a + n b.
    """
    records = profile.cluster.devices
    lines = np.full((2, len(records), len(records)), np.inf)
    # later ones overwrite: the profile's before the cluster's, the first of equal pairs
    for link in [*profile.cluster.links[::-1], *profile.links[::-1]]:
        lines[:, link.source, link.destination] = link.latency_s, 1 / link.bandwidth_bytes_per_s
    back = np.swapaxes(lines, 1, 2)
    lines = np.where(np.isinf(lines), back, lines)
    # last, so that 0 replaces what was measured between two processors of one device
    _, same = np.unique([record.tf_device for record in records], return_inverse=True)
    lines[:, same[:, None] == same[None, :]] = 0.0
    lines *= profile.corrections.links
    return lines[0], lines[1]


def ring(profile: Profile, devices: Sequence[int], rules: Rules | None = None, lines: Lines | None = None) -> Ring:
    """Return the links among devices of a cluster, in the order given.

    Parameters
    ----------
    profile : Profile with measured links.
    devices : indices of the devices.
    rules : the plan's rules, empty for the defaults; None for the cheapest method for each size, a ring in equal segments.
    lines : `link_lines` of the profile, where known.

    Raises
    ------
    ProfileError
        If the link between two neighbours was not measured.
    """
    records = profile.cluster.devices
    if len(devices) < 2:
        return Ring(len(devices), 0.0, 0.0, None, rules)
    pairs = _pairs(profile, devices, lines or link_lines(profile))
    # every round of a ring uses all its links at once and ends with the slowest: hence one a and one b, the largest of each
    latencies, slownesses = pairs.around()
    for at, latency_s in enumerate(latencies):
        if math.isinf(latency_s):
            first, second = records[devices[at]].name, records[devices[(at + 1) % len(devices)]].name
            raise ProfileError(f"the profile has no link between {first} and {second}", "calibrate again")
    return Ring(len(devices), max(latencies), max(slownesses), pairs, rules)


def collective_rules(profile: Profile, devices: Sequence[int], axes: Sequence[tuple[str, int]] = ()) -> Rules:
    """Return the rules by which a stage's all-reduces take the cheapest method for each size.

    Parameters
    ----------
    profile : Profile with measured links.
    devices : indices of the stage's devices.
    axes : (name, size) of its mesh axes, last fastest; empty for one axis. On several axes each group along an axis has its own collective.

    Returns
    -------
    Rules with crossover sizes as limits; none where there is nothing to choose: a single device, processors on one TensorFlow
    device, GPUs of one process (there the default is NCCL).

    Raises
    ------
    ProfileError
        If the link between two neighbours was not measured.
    """
    split = [size for _, size in axes if size > 1]
    groups = _groups(devices, split) if len(split) > 1 else [[tuple(devices)]]
    lines = link_lines(profile)
    rings = [[ring(profile, group, lines=lines).pairs for group in along] for along in groups]
    priced_groups = [[pairs for pairs in along if pairs is not None] for along in rings]
    records = [profile.cluster.devices[d] for d in devices]
    free = all(b == 0 for along in priced_groups for pairs in along for b in pairs.around()[1])
    if not any(priced_groups) or free or _nccl_may_serve(records):
        return ()
    return cheapest_by_size(priced_groups, segmented=len(split) < 2)


def _nccl_may_serve(records: Sequence[Device]) -> bool:
    return len({record.process for record in records}) == 1 and all(record.kind == "GPU" for record in records)


def _groups(devices: Sequence[int], sizes: Sequence[int]) -> list[list[tuple[int, ...]]]:
    """Return, for each mesh axis, the groups of devices that differ in their place on this axis only."""
    by_axis, inner = [], 1
    for size in reversed(sizes):
        starts = [at for at in range(len(devices)) if at // inner % size == 0]
        by_axis.append([tuple(devices[start + step * inner] for step in range(size)) for start in starts])
        inner *= size
    return by_axis[::-1]


def _pairs(profile: Profile, devices: Sequence[int], lines: Lines) -> PairLinks:
    chosen = np.ix_(devices, devices)
    latencies, slownesses = (tuple(map(tuple, line[chosen].tolist())) for line in lines)
    return PairLinks(latencies, slownesses, tuple(profile.cluster.devices[d].host for d in devices))
