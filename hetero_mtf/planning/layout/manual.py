"""Stages from manual shares, without a profile."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from hetero_mtf.errors import PlanError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.arrangement import Arrangement, arrange, lay_out, splits_batch
from hetero_mtf.planning.layout.records import AXIS, BATCH_AXIS, FILTER_AXIS, LayerLayout, Stage
from hetero_mtf.planning.layout.slabs import slab_dimension, slab_layouts
from hetero_mtf.planning.layout.stage_from_layouts import split_by_samples, trimmed_grid, trimmed_stage, unsplit_stage
from hetero_mtf.planning.solvers.apportionment import check_shares, proportional

Grid = Sequence[Sequence[int]]


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
        raise PlanError(f"the cluster is {cluster!r:.60}, which has no devices", "pass a Cluster or a ClusterRecord")
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
        raise PlanError(f"there is no device {device!r}, {there}", f"use an index from 0 to {len(names) - 1} or a name")
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
    values = numbers(shares)
    if len(values) != len(names):
        listed = ", ".join(f"{share:g}" for share in values)
        raise PlanError(
            f"there are {len(values)} shares [{listed}] for {len(names)} devices ({', '.join(names)})", "give one share a device"
        )
    check_shares(values)
    return values


def numbers(shares: Sequence[float]) -> list[float]:
    """Return shares as floats.

    Parameters
    ----------
    shares : relative shares.

    Raises
    ------
    PlanError
        If one is no number.
    """
    try:
        return [float(share) for share in shares]
    except (TypeError, ValueError) as fault:
        raise PlanError(f"shares are {shares!r}, each must be a number", "give one share a device") from fault


def single_stage(graph: LayerGraph, device: int) -> Stage:
    """Return the stage that computes every layer on one device.

    Parameters
    ----------
    device : index of the device in the cluster.
    """
    return unsplit_stage(graph, range(len(graph.layers)), device)


def filter_stage(graph: LayerGraph, shares: Sequence[float], pairing: str) -> Stage:
    """Return the stage whose segments are split in proportion to `shares`.

    Parameters
    ----------
    shares : (devices,) relative shares, zero to leave a device out.
    pairing : as for `arrangement.arrange`.
    """
    arrangement = arrange(graph, pairing)
    sizes = [proportional(segment.units, shares).sizes for segment in arrangement.segments]
    fallback = max(range(len(shares)), key=lambda d: (shares[d], -d))
    return sized_stage(graph, arrangement, sizes, range(len(shares)), fallback)


def sized_stage(
    graph: LayerGraph,
    arrangement: Arrangement,
    sizes: Sequence[Sequence[int]],
    devices: Sequence[int],
    fallback: int,
    samples: Sequence[int] = (),
) -> Stage:
    """Return the stage with given sizes, without the devices that get nothing anywhere.

    Parameters
    ----------
    arrangement : its layouts and segments.
    sizes : (segments, devices) integer units.
    devices : (devices,) index in the cluster of each column of `sizes`.
    fallback : index in the cluster of the device that computes alone if nothing is split.
    samples : (devices,) samples of each device in the layers whose layout is "batch"; empty if there are none.

    Notes
    -----
    Where one device remains, every layer is replicated on it: a mesh of one splits nothing.
    """
    return trimmed_stage(lay_out(graph, arrangement, sizes, samples), devices, fallback)


def batch_stage(graph: LayerGraph, samples: Sequence[int], devices: Sequence[int]) -> Stage:
    """Return the stage that splits the batch in every layer.

    Parameters
    ----------
    samples : (devices,) samples of each device; one with none is left out.
    devices : (devices,) their indices in the cluster.
    """
    return trimmed_stage(split_by_samples(graph, range(len(graph.layers)), samples), devices)


def hybrid_stage(graph: LayerGraph, shares: Sequence[float], batch_size: int, border: str) -> Stage:
    """Return the stage that splits the batch up to the dense layers and channels in them, both in proportion to `shares`.

    Parameters
    ----------
    shares : (devices,) relative shares, zero to leave a device out.
    batch_size : samples a step.
    border : as for `arrangement.arrange`.
    """
    arrangement = arrange(graph, border=border)
    sizes = [proportional(segment.units, shares).sizes for segment in arrangement.segments]
    samples = proportional(batch_size, shares).sizes
    return sized_stage(graph, arrangement, sizes, range(len(shares)), 0, samples)


def space_stage(graph: LayerGraph, shares: Sequence[float], dimension: int | None) -> Stage:
    """Return the stage that cuts one spatial dimension into slabs in proportion to `shares`.

    Parameters
    ----------
    shares : (devices,) relative shares, zero to leave a device out.
    dimension : number of the spatial dimension; None for the longest one of the input.
    """
    along = slab_dimension(graph) if dimension is None else dimension
    return trimmed_stage(slab_layouts(graph, shares, along), range(len(shares)))


def grid_stage(graph: LayerGraph, samples: Sequence[int], arrangement: Arrangement, sizes: Sequence[Sequence[int]], devices: Grid) -> Stage:
    """Return the stage that splits samples along one axis of a mesh and channels along the other.

    Parameters
    ----------
    samples : (rows,) samples of each row of the mesh; a row with none is left out.
    arrangement : layouts and segments of the filter split.
    sizes : (segments, columns) integer units; a column that gets nothing anywhere is left out.
    devices : (rows, columns) indices in the cluster.

    Notes
    -----
    A layer that the filter split replicates is computed by every column for its row's samples. Where one row or one column
    remains, the stage splits by filters or by samples alone.
    """
    of_layer = {layer: tuple(row) for segment, row in zip(arrangement.segments, sizes) for layer in segment.layers}
    layouts = [_on_grid(graph, index, layout, of_layer.get(index, ()), tuple(samples)) for index, layout in enumerate(arrangement.layouts)]
    stage = trimmed_grid(layouts, list(itertools.chain(*devices)), len(devices))
    if stage is not None:
        return stage
    column = next((at for at in range(len(devices[0])) if any(row[at] for row in sizes)), 0)
    rows = [row for row, count in zip(devices, samples) if count]
    if len(rows) < 2:
        return sized_stage(graph, arrangement, sizes, rows[0], rows[0][column])
    return batch_stage(graph, samples, [row[column] for row in devices])


def _on_grid(graph: LayerGraph, index: int, layout: str, sizes: tuple[int, ...], samples: tuple[int, ...]) -> LayerLayout:
    layer = graph.layers[index]
    if not splits_batch(layer):
        return LayerLayout(index, layer.name, layout, sizes)
    split = "batch" if layout == "replicated" else layout
    return LayerLayout(index, layer.name, split, sizes, FILTER_AXIS if sizes else AXIS, samples, BATCH_AXIS)


def grid_of(rows: int, columns: int, names: Sequence[str]) -> Grid:
    """Return the devices of a cluster row by row.

    Parameters
    ----------
    rows, columns : extents of the mesh.
    names : (devices,) names of the cluster's devices.

    Raises
    ------
    PlanError
        If there are not rows * columns devices.
    """
    if rows * columns != len(names):
        there = f"{len(names)} devices ({', '.join(names)})"
        raise PlanError(
            f"{rows} batch shares by {columns} filter shares make {rows * columns} places for {there}", "give shares that fit them"
        )
    return [list(range(row * columns, (row + 1) * columns)) for row in range(rows)]
