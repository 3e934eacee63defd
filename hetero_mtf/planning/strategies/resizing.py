"""Resizing: the layouts of a stage stay, its sizes are recomputed for other devices or within largest shares.

For fixed layouts and devices, the units u of every segment of layers minimise

    max_d T_d(u_d)    subject to    sum_d u_d = units,  0 <= u_d <= c_d * units,

and so do the samples of the layers that split the batch. T_d are the seconds of the segment on device d, as tabulated from the profile;
c_d is the largest share that device d may have, 1 without a limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.layout.arrangement import Arrangement, Segment, channels, split_units
from hetero_mtf.planning.layout.manual import single_stage, sized_stage
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.solvers.apportionment import equal_sizes, minimise_maximum


class Resizer:
    """Recomputes the sizes of a stage for other devices, with the layouts of its layers unchanged.

    Parameters
    ----------
    stage : a stage that splits something along one mesh axis.
    """

    def __init__(self, costs: Costs, stage: Stage) -> None:
        self.costs, self.stage = costs, stage
        layouts = tuple(entry.layout for entry in stage.layouts)
        self._arrangement = Arrangement(layouts, _segments(costs.graph, stage))
        self._units = [costs.summed_rows([(layer, layouts[layer]) for layer in s.layers]) for s in self._arrangement.segments]
        batched = [entry.layer for entry in stage.layouts if entry.samples]
        self._samples = costs.batch_rows(batched) if batched else None

    def on(self, devices: Sequence[int], most: Sequence[float] = ()) -> Stage:
        """Return the stage on some devices; a device without any units or samples is left out.

        Parameters
        ----------
        devices : their indices in the cluster, at least one.
        most : (devices,) largest share of every dimension that each may have, summing to 1 at least, up to whole units; empty for all.
        """
        graph, segments = self.costs.graph, self._arrangement.segments
        if len(devices) < 2:
            return single_stage(graph, devices[0])
        sizes_by_rows: dict[tuple[int, int], tuple[int, ...]] = {}  # segments of alike layers share their rows
        for rows, segment in zip(self._units, segments):
            if (id(rows), segment.units) not in sizes_by_rows:
                sizes_by_rows[id(rows), segment.units] = self._minimised(rows, segment.units, devices, most)
        sizes = [sizes_by_rows[id(rows), segment.units] for rows, segment in zip(self._units, segments)]
        samples = self._minimised(self._samples, self.costs.profile.batch_size, devices, most) if self._samples is not None else ()
        return sized_stage(graph, self._arrangement, sizes, devices, devices[0], samples)

    def _minimised(self, rows: np.ndarray, units: int, devices: Sequence[int], most: Sequence[float]) -> tuple[int, ...]:
        """Return the units that minimise the slowest device's seconds; processors on one TensorFlow device run one after another."""
        tables = [count * rows[device] for count, device in zip(self.costs.processors_per_device(devices).tolist(), devices)]
        if most:
            return minimise_maximum(tables, units, upper=_upper(units, most)).sizes
        return minimise_maximum(tables, units).sizes if any(table[-1] for table in tables) else equal_sizes(units, len(devices)).sizes


def _upper(units: int, most: Sequence[float]) -> list[int]:
    """Return the most whole units of each device; where they do not suffice, one more for those that lose the most by rounding."""
    bounds = [min(units, math.floor(share * units + 1e-9)) for share in most]
    for device in sorted(range(len(most)), key=lambda d: bounds[d] - most[d] * units):
        if sum(bounds) >= units:
            break
        bounds[device] = min(units, bounds[device] + (most[device] > 0))
    return bounds if sum(bounds) >= units else [units] * len(most)


def _segments(graph: LayerGraph, stage: Stage) -> tuple[Segment, ...]:
    """Return the layers that must have equal sizes: those that read each other's split outputs or share variables."""
    entries, counts = {entry.layer: entry for entry in stage.layouts}, channels(graph)
    group = {layer: layer for layer, entry in entries.items() if entry.sizes}

    def join(first: int, second: int) -> None:
        low, high = sorted((group[first], group[second]))
        group.update({layer: low for layer, first_member in group.items() if first_member == high})

    for layer in group:
        if entries[layer].layout != "column":
            for source in graph.layers[layer].inputs:
                if source in group and entries[source].layout in ("column", "split"):
                    join(layer, source)
        if graph.owner(layer) in group:
            join(layer, graph.owner(layer))
    members: dict[int, list[int]] = {}
    for layer, first in group.items():
        members.setdefault(first, []).append(layer)
    return tuple(Segment(split_units(graph, ls[0], entries[ls[0]].layout, counts), tuple(ls)) for ls in members.values())
