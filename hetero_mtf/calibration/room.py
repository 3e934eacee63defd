"""Room: which measurements a device has memory for, and the curves of layers that it cannot hold whole, from those of parts of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from hetero_mtf.calibration.points import Point, point_of, slab_point
from hetero_mtf.devices.records import ClusterRecord
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.profile.curve import PASSES, Curve, interpolated
from hetero_mtf.program.optimizers import UpdateRule

ROOM_PART = 0.8  # of the free memory
VALUES = 3  # times inputs and outputs: the values, their gradients, and a copy that a kernel reads or writes
PARTS = ("space", "batch")  # dimensions along which a part of a layer is measured instead, the first that it has points of
WEIGHTS = 3  # times weights: the values, their gradients, and the new ones; slots are counted beside


def room_bytes(record: ClusterRecord, device: int) -> float:
    """Return the bytes that measuring on a device may take while all others that draw from the same memory are measured; inf if unknown.

    Parameters
    ----------
    record : the cluster.
    device : index of the device.
    """
    pool = record.devices[device].pool
    beside = {other.process for other in record.devices if other.pool == pool}
    free = next((each.free_bytes for each in record.pools if each.name == pool), 0)
    return ROOM_PART * free / len(beside) if free > 0 else math.inf


def probe_bytes(graph: LayerGraph, point: Point, slots: int) -> float:
    """Return the bytes that measuring a point takes, at most.

    Parameters
    ----------
    slots : of the optimizer, for each weight.
    """
    values = sum(math.prod(shape) for shape in (*point.input_shapes, point.probe.output_shape)) * point.samples * graph.item_bytes
    copies = 2 if point.along is not None or point.shares_batch else 1  # a second processor has copies of the weights
    weights = copies * sum(variable.size for variable in point.probe.variables) * point.probe.variable_item_bytes(graph.dtype)
    return VALUES * values + (WEIGHTS + slots) * weights


def points_within(graph: LayerGraph, wanted: Sequence[Point], batch: int, rule: UpdateRule, room: float) -> list[Point]:
    """Return the points to measure where there is room for so many bytes: those that fit, of layers that lie in slabs or split batches.

    Parameters
    ----------
    wanted : points of the network, those of a curve in order of their units.
    batch : samples of the whole batch.
    rule : the optimizer's update.
    room : bytes.

    Notes
    -----
    Where the whole layer does not fit, the largest part is measured that does, with the optimizer's update, and half of it in place of
    smaller ones that do not: slabs of space where the layer has points of them, else samples. There are never more points than before.
    A layer without parts is measured as ever, and so is one of which no part fits: the bytes are those that it takes at most.
    """
    slots = len(rule.slots)
    if all(probe_bytes(graph, point, slots) <= room for point in wanted):
        return list(wanted)
    chosen: list[Point] = []
    for layer in dict.fromkeys(point.layer for point in wanted):
        of_layer = [point for point in wanted if point.layer == layer]
        fit = [point for point in of_layer if probe_bytes(graph, point, slots) <= room]
        parts = _parts(of_layer) if len(fit) < len(of_layer) else []
        largest = _part_within(graph, parts[-1], batch, slots, room) if parts else None
        chosen += of_layer if largest is None else _with_parts(graph, parts, fit, largest, batch)
    return chosen


def point_within(graph: LayerGraph, point: Point, wanted: Sequence[Point], batch: int, rule: UpdateRule, room: float) -> Point:
    """Return a point, or the largest part of its layer that fits where it does not.

    Parameters
    ----------
    point : one of those of the network.
    wanted, batch, rule, room : as for `points_within`.
    """
    parts = _parts([each for each in wanted if each.layer == point.layer])
    if not parts or probe_bytes(graph, point, len(rule.slots)) <= room:
        return point
    return _part_within(graph, parts[-1], batch, len(rule.slots), room) or point


def whole_by_parts(curves: Sequence[Curve], wanted: Sequence[Point]) -> list[Curve]:
    """Return the curves of a device, with those of layers that were measured in parts only, continued to the whole layer.

    Parameters
    ----------
    curves : as measured.
    wanted : all points of the network.
    """
    measured = {(curve.layer, curve.dimension, curve.step_pass): curve for curve in curves}
    whole_parts = {layer: _parts([point for point in wanted if point.layer == layer]) for layer in {point.layer for point in wanted}}
    units = {(point.layer, point.dimension): point.units for point in wanted if point.dimension not in PARTS}
    made: list[Curve] = []
    for (layer, dimension), whole in units.items():
        for step_pass in PASSES if whole_parts[layer] else ():
            last = whole_parts[layer][-1]
            parts, own = (measured.get((layer, each, step_pass)) for each in (last.dimension, dimension))
            if parts is None or (own is not None and own.units[-1] >= whole):
                continue
            seconds = parts.seconds[-1] if step_pass == "update" else interpolated(parts, [last.units])[0]
            begun = own or dataclasses.replace(parts, dimension=dimension, units=(), seconds=(), spread=())
            units_to, seconds_to, spread_to = (*begun.units, whole), (*begun.seconds, seconds), (*begun.spread, parts.spread[-1])
            made.append(dataclasses.replace(begun, units=units_to, seconds=seconds_to, spread=spread_to))
    replaced = {(curve.layer, curve.dimension, curve.step_pass) for curve in made}
    kept = (curve for curve in curves if (curve.layer, curve.dimension, curve.step_pass) not in replaced)
    return [*(curve for curve in kept if not (curve.dimension in PARTS and curve.step_pass == "update")), *made]


def _parts(of_layer: Sequence[Point]) -> list[Point]:
    """Return the points of a layer along the dimension of its parts, the last one whole; none where it has no parts."""
    dimension = next((each for each in PARTS if any((point.dimension == each and point.units > 1) for point in of_layer)), None)
    return [point for point in of_layer if point.dimension == dimension]


def _part(graph: LayerGraph, like: Point, units: int, batch: int) -> Point | None:
    if like.dimension == "space":
        return slab_point(graph, like.layer, units, batch)
    return point_of(graph, like.layer, like.dimension, units, batch)


def _part_within(graph: LayerGraph, whole: Point, batch: int, slots: int, room: float) -> Point | None:
    """Return the largest part of a layer that fits; None where none does."""
    units = whole.units
    while units > 0:
        part = _part(graph, whole, units, batch)
        taken = math.inf if part is None else probe_bytes(graph, part, slots)
        if part is not None and taken <= room:
            return part
        units = min(units - 1, math.floor(units * room / taken) if taken < math.inf else units)
    return None


def _with_parts(graph: LayerGraph, parts: Sequence[Point], fit: Sequence[Point], largest: Point, batch: int) -> list[Point]:
    """Return points of a layer that fit, with the largest part that does."""
    dimension = largest.dimension
    smaller = [point for point in fit if point.dimension == dimension and point.units < largest.units]
    half = _part(graph, parts[-1], max(1, largest.units // 2), batch) if not smaller and len(parts) > 1 else None
    if not any(point.full for point in fit):
        largest = dataclasses.replace(largest, stands_for_whole=True)
    others = [point for point in fit if point.dimension != dimension]
    return [*others, *smaller, *([half] if half is not None and half.units < largest.units else []), largest]
