"""Room: which measurements a device has memory for, and the curves of layers that it cannot hold whole, from those of slabs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from hetero_mtf.calibration.points import Point, slab_point
from hetero_mtf.devices.records import ClusterRecord
from hetero_mtf.errors import ProfileError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.profile.curve import PASSES, Curve, interpolated
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.units import bytes_text

ROOM_PART = 0.8  # of the free memory
VALUES = 3  # times inputs and outputs: the values, their gradients, and a copy that a kernel reads or writes
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
    weights = sum(variable.size for variable in point.probe.variables) * point.probe.variable_item_bytes(graph.dtype)
    return VALUES * values + (WEIGHTS + slots) * weights


def points_within(graph: LayerGraph, wanted: Sequence[Point], batch: int, rule: UpdateRule, room: float) -> list[Point]:
    """Return the points to measure where there is room for so many bytes: of layers that may lie in slabs those that fit.

    Parameters
    ----------
    wanted : points of the network, those of a curve in order of their units.
    batch : samples of the whole batch.
    rule : the optimizer's update.
    room : bytes.

    Raises
    ------
    ProfileError
        If a layer does not even fit in the thinnest slab.

    Notes
    -----
    Where the whole layer does not fit, the thickest slab is measured that does, with the optimizer's update, and half of it where no
    thinner one is. A layer that lies in no slabs is measured as ever.
    """
    slots = len(rule.slots)
    if all(probe_bytes(graph, point, slots) <= room for point in wanted):
        return list(wanted)
    chosen: list[Point] = []
    for layer in dict.fromkeys(point.layer for point in wanted):
        of_layer = [point for point in wanted if point.layer == layer]
        fit = [point for point in of_layer if probe_bytes(graph, point, slots) <= room]
        if len(fit) == len(of_layer) or not any(point.dimension == "space" for point in of_layer):
            chosen += of_layer
        else:
            chosen += _with_slabs(graph, of_layer, fit, batch, slots, room)
    return chosen


def point_within(graph: LayerGraph, point: Point, wanted: Sequence[Point], batch: int, rule: UpdateRule, room: float) -> Point:
    """Return a point, or the thickest slab of its layer that fits where it does not.

    Parameters
    ----------
    point : one of those of the network.
    wanted, batch, rule, room : as for `points_within`.
    """
    slabs = [each for each in wanted if each.layer == point.layer and each.dimension == "space"]
    if not slabs or probe_bytes(graph, point, len(rule.slots)) <= room:
        return point
    return slab_within(graph, slabs[-1], batch, len(rule.slots), room) or point


def whole_by_slabs(curves: Sequence[Curve], wanted: Sequence[Point]) -> list[Curve]:
    """Return the curves of a device, with those of layers that were measured in slabs only, continued to the whole layer.

    Parameters
    ----------
    curves : as measured.
    wanted : all points of the network.
    """
    measured = {(curve.layer, curve.dimension, curve.step_pass): curve for curve in curves}
    extents = {point.layer: point.units for point in wanted if point.dimension == "space"}  # the last of a layer is the whole one
    units = {(point.layer, point.dimension): point.units for point in wanted if point.dimension not in ("space", "batch")}
    made: list[Curve] = []
    for (layer, dimension), whole in units.items():
        for step_pass in PASSES:
            slabs = measured.get((layer, "space", step_pass))
            if slabs is None or (layer, dimension, step_pass) in measured:
                continue
            seconds = slabs.seconds[-1] if step_pass == "update" else interpolated(slabs, [extents[layer]])[0]
            made.append(dataclasses.replace(slabs, dimension=dimension, units=(whole,), seconds=(seconds,), spread=slabs.spread[-1:]))
    return [*(curve for curve in curves if (curve.dimension, curve.step_pass) != ("space", "update")), *made]


def slab_within(graph: LayerGraph, point: Point, batch: int, slots: int, room: float) -> Point | None:
    """Return the thickest slab of a layer that fits; None where none does.

    Parameters
    ----------
    point : the layer whole in space: the last point of its slabs.
    batch, slots : as for `probe_bytes` and `points_within`.
    room : bytes.
    """
    positions = point.units
    while positions > 0:
        slab = slab_point(graph, point.layer, positions, batch)
        taken = math.inf if slab is None else probe_bytes(graph, slab, slots)
        if slab is not None and taken <= room:
            return slab
        positions = min(positions - 1, math.floor(positions * room / taken) if taken < math.inf else positions)
    return None


def _with_slabs(graph: LayerGraph, points: Sequence[Point], fit: list[Point], batch: int, slots: int, room: float) -> list[Point]:
    """Return points of a layer that fit, the thickest slab that does among them."""
    whole = [point for point in points if point.dimension == "space"][-1]
    thickest = slab_within(graph, whole, batch, slots, room)
    if thickest is None:
        needed = bytes_text(int(probe_bytes(graph, whole, slots)))
        raise ProfileError(
            f"layer {whole.probe.name} takes {needed} to be measured, and {bytes_text(int(room))} are free for no slab of it",
            "use devices with more memory, or smaller samples",
        )
    thinner = [point for point in fit if point.dimension == "space" and point.units < thickest.units]
    half = slab_point(graph, whole.layer, max(1, thickest.units // 2), batch) if not thinner else None
    slabs = [*thinner, *([half] if half is not None and half.units < thickest.units else []), thickest]
    full = any(point.full for point in fit)
    slabs[-1] = slabs[-1] if full else dataclasses.replace(slabs[-1], stands_for_whole=True)
    return [*(point for point in fit if point.dimension != "space"), *slabs]
