"""Alone: seconds of a device while the other devices of its host are idle, for the layers that take most of its time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from hetero_mtf.calibration.points import LAYER_PASSES, Point
from hetero_mtf.calibration.sampling import MeasurementContext, Passes, Sampler
from hetero_mtf.devices import Device
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import alike

# The layers that take this part of a device's time are measured, the longest first.
PART = 0.9


def distinct(devices: Sequence[Device]) -> list[int]:
    """Return the index of the first processor on each TensorFlow device.

    Parameters
    ----------
    devices : of the cluster.
    """
    first: dict[str, int] = {}
    for index, device in enumerate(devices):
        first.setdefault(device.tf_device, index)
    return list(first.values())


def by_process(devices: Sequence[Device], chosen: Sequence[int]) -> list[list[int]]:
    """Return the chosen devices' indices, in one list for each process that they are in.

    Parameters
    ----------
    devices : of the cluster.
    chosen : indices of those that are measured.
    """
    lists: dict[str, list[int]] = {}
    for index in chosen:
        lists.setdefault(devices[index].process, []).append(index)
    return list(lists.values())


def accompanied(devices: Sequence[Device], chosen: Sequence[int]) -> list[int]:
    """Return which devices were measured beside others of their host: those of hosts with several processes.

    Parameters
    ----------
    devices : of the cluster.
    chosen : indices of those that were measured, one of each TensorFlow device.
    """
    processes: dict[str, set[str]] = {}
    for index in chosen:
        processes.setdefault(devices[index].host, set()).add(devices[index].process)
    return [index for index in chosen if len(processes[devices[index].host]) > 1]


def heaviest(context: MeasurementContext, curves: Sequence[Curve], device: int, wanted: Sequence[Point], most: int) -> list[Point]:
    """Return the whole layers that take most of a device's time and have not been measured alone.

    Parameters
    ----------
    curves : of all devices.
    device : index of the device.
    wanted : points of the network.
    most : how many layers, at most.
    """
    kinds = alike(context.graph)
    spent: dict[int, dict[str, float]] = {}
    for curve in curves:
        if curve.device == device and curve.dimension not in ("batch", "space", "alone") and curve.step_pass in LAYER_PASSES:
            spent.setdefault(curve.layer, {})[curve.step_pass] = curve.seconds[-1]
    seconds = {layer: kinds.count(layer) * sum(passes.values()) for layer, passes in spent.items()}
    known = {curve.layer for curve in curves if curve.device == device and curve.dimension == "alone"}
    points = {point.layer: point for point in wanted if point.full}
    heavy_points: list[Point] = []
    reached_s = 0.0
    for layer in sorted(seconds, key=lambda layer: -seconds[layer])[:most]:
        if reached_s >= PART * sum(seconds.values()):
            break
        reached_s += seconds[layer]
        if layer in points and layer not in known:
            heavy_points.append(points[layer])
    return heavy_points


def sample_alone(context: MeasurementContext, device: int, wanted: Sequence[Point]) -> list[Curve]:
    """Return the curves of some whole layers on a device, measured while the other devices are idle.

    Parameters
    ----------
    device : index of the device.
    wanted : whole layers to measure.
    """
    container = context.cluster.container("calibration")
    curves: list[Curve] = []
    try:
        sampler = Sampler(context, device, container.name)
        for point in wanted:
            passes = sampler.take(dataclasses.replace(point, full=False))  # without the update, which streams all weights in either case
            curves += _curves(context, device, point, passes)
    finally:
        container.release()
    return curves


def _curves(context: MeasurementContext, device: int, point: Point, passes: Passes) -> Iterator[Curve]:
    for step_pass in LAYER_PASSES:
        measurement = passes[step_pass]
        yield Curve(point.layer, device, "alone", step_pass, context.batch, (point.units,), (measurement.seconds,), (measurement.spread,))
