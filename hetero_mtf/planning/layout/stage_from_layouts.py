"""A stage from the layouts of its layers, on all given devices or without those that have no part of any layer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.layout.arrangement import splits_batch
from hetero_mtf.planning.layout.records import AXIS, BATCH_AXIS, FILTER_AXIS, LayerLayout, Stage


def full_stage(layouts: Iterable[LayerLayout], devices: Sequence[int], rows: int = 0) -> Stage:
    """Return the stage with given layouts on all given devices.

    Parameters
    ----------
    layouts : layouts on a mesh of one axis, or of rows that split samples and columns that split channels.
    devices : (processors,) indices in the cluster, row by row.
    rows : rows of the mesh; 0 for one axis.
    """
    entries = tuple(layouts)
    axes = ((BATCH_AXIS, rows), (FILTER_AXIS, len(devices) // rows)) if rows else ((AXIS, len(devices)),)
    return Stage(tuple(entry.layer for entry in entries), tuple(devices), axes, entries)


def trimmed_stage(layouts: Sequence[LayerLayout], devices: Sequence[int], fallback: int | None = None) -> Stage:
    """Return the stage with given layouts on one axis, without the devices that have no part of any layer.

    Parameters
    ----------
    layouts : layouts on one axis over `devices`.
    devices : indices in the cluster.
    fallback : index in the cluster of the device that computes alone if nothing is split; None for the first of `devices`.

    Notes
    -----
    Where one device remains, every layer is replicated on it: a mesh of one splits nothing.
    """
    used = [at for at in range(len(devices)) if any(parts[at] for e in layouts for parts in (e.sizes, e.samples, e.slabs) if parts)]
    if len(used) < 2:
        idle = devices[0] if fallback is None else fallback
        return full_stage((LayerLayout(e.layer, e.name, "replicated") for e in layouts), (devices[used[0]] if used else idle,))
    if len(used) == len(devices):
        return full_stage(layouts, devices)
    return full_stage((_at_places(entry, used, used) for entry in layouts), [devices[at] for at in used])


def trimmed_grid(layouts: Sequence[LayerLayout], devices: Sequence[int], rows: int) -> Stage | None:
    """Return the stage with given layouts on rows and columns, without those that have no part of any layer.

    Parameters
    ----------
    layouts : layouts whose samples are along the rows and whose sizes are along the columns.
    devices : (rows * columns,) indices in the cluster, row by row.
    rows : rows of the mesh.

    Returns
    -------
    The stage; None where fewer than two rows or columns remain, which is no mesh of two axes.
    """
    columns = len(devices) // rows
    used_rows = [row for row in range(rows) if any(entry.samples and entry.samples[row] for entry in layouts)]
    used_columns = [column for column in range(columns) if any(entry.sizes and entry.sizes[column] for entry in layouts)]
    if min(len(used_rows), len(used_columns)) < 2:
        return None
    used = [devices[row * columns + column] for row in used_rows for column in used_columns]
    return full_stage((_at_places(entry, used_columns, used_rows) for entry in layouts), used, len(used_rows))


def unsplit_stage(graph: LayerGraph, layers: Iterable[int], device: int) -> Stage:
    """Return the stage that computes some layers on one device.

    Parameters
    ----------
    layers : their indices.
    device : index of the device in the cluster.
    """
    return full_stage(replicated(graph, layers), (device,))


def replicated(graph: LayerGraph, layers: Iterable[int]) -> list[LayerLayout]:
    """Return the layouts of some layers that are not split."""
    return [LayerLayout(index, graph.layers[index].name, "replicated") for index in layers]


def split_by_samples(graph: LayerGraph, layers: Iterable[int], samples: Sequence[int]) -> list[LayerLayout]:
    """Return the layouts of some layers whose batch is split; a layer whose kind mixes samples is replicated.

    Parameters
    ----------
    layers : their indices.
    samples : (devices,) samples of each device.
    """
    return [
        LayerLayout(index, graph.layers[index].name, "batch", samples=tuple(samples))
        if splits_batch(graph.layers[index])
        else LayerLayout(index, graph.layers[index].name, "replicated")
        for index in layers
    ]


def _at_places(entry: LayerLayout, columns: Sequence[int], rows: Sequence[int]) -> LayerLayout:
    """Return a layout with its sizes and slabs at some places only, and its samples at some."""
    sizes = tuple(entry.sizes[at] for at in columns) if entry.sizes else ()
    samples = tuple(entry.samples[at] for at in rows) if entry.samples else ()
    slabs = tuple(entry.slabs[at] for at in columns) if entry.slabs else ()
    return dataclasses.replace(entry, sizes=sizes, samples=samples, slabs=slabs)
