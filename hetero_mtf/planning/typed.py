"""Stages from shares that a person typed: no profile, no cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout import Arrangement, arrange, lay_out
from hetero_mtf.planning.records import AXIS, LayerLayout, Stage
from hetero_mtf.planning.sizes import check_shares, proportional


def device_names(cluster: Any) -> tuple[str, ...]:
    """Return the names of a cluster's devices in order.

    Parameters
    ----------
    cluster : anything with `devices`, each with a `name`.

    Raises
    ------
    PlanError
        If it is anything else.
    """
    if not hasattr(cluster, "devices"):
        raise PlanError(f"the cluster is {cluster!r:.60}, which has no devices; pass a Cluster or a ClusterRecord")
    return tuple(device.name for device in cluster.devices)


def device_index(device: int | str, names: Sequence[str]) -> int:
    """Return the index of a device given by index or name.

    Parameters
    ----------
    device : index or name.
    names : (devices,) names of the cluster's devices.

    Raises
    ------
    PlanError
        If there is no such device.
    """
    if isinstance(device, str) and device in names:
        return names.index(device)
    if not isinstance(device, int) or isinstance(device, bool) or not 0 <= device < len(names):
        there = f"the cluster has {len(names)} ({', '.join(names)})"
        raise PlanError(f"there is no device {device!r}, {there}; use an index from 0 to {len(names) - 1} or a name")
    return device


def checked_shares(shares: Sequence[float], names: Sequence[str]) -> list[float]:
    """Return the shares as floats, one a device.

    Parameters
    ----------
    shares : (devices,) relative shares.
    names : (devices,) names of the cluster's devices.

    Raises
    ------
    PlanError
        If they are not as many as the devices, negative, not finite, or all zero.
    """
    try:
        values = [float(share) for share in shares]
    except (TypeError, ValueError) as fault:
        raise PlanError(f"shares are {shares!r}, each must be a number; give one share a device") from fault
    if len(values) != len(names):
        listed = ", ".join(f"{share:g}" for share in values)
        raise PlanError(f"there are {len(values)} shares [{listed}] for {len(names)} devices ({', '.join(names)}); give one share a device")
    check_shares(values)
    return values


def single_stage(graph: LayerGraph, device: int) -> Stage:
    """Return the stage that computes every layer whole on one device.

    Parameters
    ----------
    graph : LayerGraph.
    device : index of the device in the cluster.
    """
    layouts = tuple(LayerLayout(index, layer.name, "replicated") for index, layer in enumerate(graph.layers))
    return Stage(tuple(range(len(graph.layers))), (device,), ((AXIS, 1),), layouts)


def filter_stage(graph: LayerGraph, shares: Sequence[float], pairing: str) -> Stage:
    """Return the stage whose segments are split in proportion to `shares`.

    Parameters
    ----------
    graph : LayerGraph.
    shares : (devices,) relative shares, zero to leave a device out.
    pairing : as for `layout.arrange`.
    """
    arrangement = arrange(graph, pairing)
    sizes = [proportional(segment.units, shares).sizes for segment in arrangement.segments]
    fallback = max(range(len(shares)), key=lambda d: (shares[d], -d))
    return sized_stage(graph, arrangement, sizes, range(len(shares)), fallback)


def sized_stage(
    graph: LayerGraph, arrangement: Arrangement, sizes: Sequence[Sequence[int]], devices: Sequence[int], fallback: int
) -> Stage:
    """Return the stage with given sizes, without the devices that get nothing anywhere.

    Parameters
    ----------
    graph : LayerGraph.
    arrangement : its layouts and segments.
    sizes : (segments, devices) whole units.
    devices : (devices,) index in the cluster of each column of `sizes`.
    fallback : index in the cluster of the device that computes alone if nothing is split.

    Notes
    -----
    Where one device remains, every layer is replicated on it: a mesh of one splits nothing.
    """
    used = [at for at in range(len(devices)) if any(row[at] for row in sizes)]
    if len(used) < 2:
        return single_stage(graph, devices[used[0]] if used else fallback)
    remaining = [tuple(row[at] for at in used) for row in sizes]
    layouts = lay_out(graph, arrangement, remaining)
    return Stage(tuple(range(len(graph.layers))), tuple(devices[at] for at in used), ((AXIS, len(used)),), layouts)
