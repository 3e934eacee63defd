"""A rough profile in about two seconds: two layers on each device, one exchange on each link, and operation counts for the rest.

A pass of a layer that computes f operations and moves b bytes takes

    s + max(f / F, b / B)    seconds,

with F operations a second of the heaviest layer, B bytes a second of the layer that moves most for what it computes, and s to start it
(Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", Comm. ACM 52, 2009).
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import datetime
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hetero_mtf.calibration.alone import by_process, distinct
from hetero_mtf.calibration.calibration_budget import EffortWindows
from hetero_mtf.calibration.feed_speed import measure_feed_links
from hetero_mtf.calibration.links import between, measure_idle_link, pair_kind
from hetero_mtf.calibration.points import LAYER_PASSES, Point, point_of, points
from hetero_mtf.calibration.reuse import MeasurementTarget
from hetero_mtf.calibration.room import point_within, room_bytes
from hetero_mtf.calibration.sampling import MeasurementContext, Sampler
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.devices.records import Link
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.planning.layout.arrangement import splits_batch
from hetero_mtf.planning.profile.curve import Curve
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.program.optimizers import UpdateRule

WINDOWS = EffortWindows.equal(Windows(0.2, 1))  # a limited device may work ahead of its share for about a tenth of a second
LINK_WINDOWS = Windows(0.05, 1)
LIGHT = 16  # operations for each value that a layer gives, at most, where moving bytes takes its time
PROBED_PART = 8  # the heaviest layer is measured with this part of the batch
START_S = 30e-6  # of one pass, on a CPU; traces correct it
LAUNCH_S = 2e-3  # of a step; steps correct it
OPERATIONS_PER_S, BYTES_PER_S = 1e10, 5e9  # where no layer tells
# Operations and bytes of a pass, as multiples of those of the forward pass; an update reads weight, gradient and slot and writes two.
WORK = {"forward": 1.0, "backward": 2.0}
UPDATE_WORK = 5.0


@dataclasses.dataclass(frozen=True)
class DeviceRates:
    """What is known of a device.

    Parameters
    ----------
    operations_per_s : floating-point operations a second in a layer that computes much.
    bytes_per_s : bytes a second that it reads and writes in a layer that computes little.
    """

    operations_per_s: float
    bytes_per_s: float

    def seconds(self, operations: float, moved_bytes: float) -> float:
        """Return the seconds of a pass.

        Parameters
        ----------
        operations : floating-point operations.
        moved_bytes : bytes that are read and written.
        """
        return START_S + max(operations / self.operations_per_s, moved_bytes / self.bytes_per_s)


def rough_profile(cluster: Any, target: MeasurementTarget, rule: UpdateRule) -> Profile:
    """Return a profile whose curves are operation counts over rates that are measured in about two seconds.

    Devices in processes of their own are measured at the same time, each link once.

    Parameters
    ----------
    cluster : live cluster.
    target : what is to be measured: network, batch size, optimizer.
    rule : its update rule.

    Raises
    ------
    HeteroError
        If a worker dies meanwhile.
    """
    context = MeasurementContext(cluster, target.graph, target.batch, rule, WINDOWS)
    devices = distinct(target.record.devices)
    rates = _rates(context, devices)
    wanted = points(target.graph, target.batch, coarse=True, devices=len(target.record.devices))
    curves = tuple(curve for device in devices for curve in rough_curves(target.graph, wanted, device, rates[device], target.batch))
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    links = tuple(_links(cluster, devices))
    record = target.record
    measured = curves, links, record.pools, target.optimizer, now, target.versions
    return Profile(record, target.graph, target.batch, *measured, LAUNCH_S, feed_links=measure_feed_links(cluster, devices))


def rough_curves(graph: LayerGraph, wanted: Sequence[Point], device: int, rates: DeviceRates, batch: int) -> Iterator[Curve]:
    """Yield the curves of a device, of operation counts over its rates.

    Parameters
    ----------
    wanted : the points that the curves are given at, as a calibration would measure them.
    device : index of the device.
    rates : its rates.
    batch : samples of the whole batch.
    """
    entries: dict[tuple[int, str], list[Point]] = collections.defaultdict(list)
    for point in wanted:
        entries[point.layer, point.dimension].append(point)
    for (layer, dimension), of_curve in entries.items():
        units = tuple(point.units for point in of_curve)
        for step_pass in LAYER_PASSES:
            seconds = tuple(_pass_s(graph, point, rates, step_pass) for point in of_curve)
            yield Curve(layer, device, dimension, step_pass, batch, units, seconds, (0.0,) * len(units))
        whole = [point for point in of_curve if point.updates]
        if whole and dimension != "batch":
            moved = UPDATE_WORK * _variable_bytes(graph, whole[-1].probe)
            yield Curve(layer, device, dimension, "update", batch, (whole[-1].units,), (rates.seconds(0.0, moved),), (0.0,))


def _pass_s(graph: LayerGraph, point: Point, rates: DeviceRates, step_pass: str) -> float:
    """Return the seconds of a pass: backward has the gradient of the inputs only where training needs it."""
    work = WORK[step_pass] - (step_pass == "backward" and not point.input_gradient)
    return rates.seconds(work * _operations(point), work * _moved_bytes(graph, point))


def _moved_bytes(graph: LayerGraph, point: Point) -> float:
    """Return the bytes that a forward pass reads and writes."""
    values = sum(math.prod(shape) for shape in (*point.input_shapes, point.probe.output_shape))
    return values * point.samples * graph.item_bytes + _variable_bytes(graph, point.probe)


def _variable_bytes(graph: LayerGraph, layer: Layer) -> float:
    return float(sum(variable.size for variable in layer.variables) * layer.variable_item_bytes(graph.dtype))


def _rates(context: MeasurementContext, devices: Sequence[int]) -> dict[int, DeviceRates]:
    """Return the rates of devices, those in processes of their own measured at the same time."""
    processes = by_process(context.cluster.devices, devices)
    probed = probed_points(context.graph, context.batch)
    wanted = points(context.graph, context.batch, coarse=True, devices=len(context.cluster.devices))

    def within(point: Point | None, device: int) -> Point | None:
        room = room_bytes(context.cluster.record, device) / len(probed)  # both are there at the same time
        return None if point is None else point_within(context.graph, point, wanted, context.batch, context.rule, room)

    def measure(indices: Sequence[int]) -> dict[int, DeviceRates]:
        return {device: _measured_rates(context, device, *(within(point, device) for point in probed)) for device in indices}

    with concurrent.futures.ThreadPoolExecutor(len(processes)) as pool:
        return {device: rates for measured in pool.map(measure, processes) for device, rates in measured.items()}


def probed_points(graph: LayerGraph, batch: int) -> tuple[Point | None, Point | None]:
    """Return the point of the layer with most operations, and that of the layer that moves most bytes for those that it computes.

    None stands for a layer that there is not.

    Parameters
    ----------
    batch : samples of the whole batch.
    """
    whole = {point.layer: point for point in points(graph, batch, coarse=True) if point.full}
    heaviest = max(whole.values(), key=lambda point: point.probe.flops, default=None)
    if heaviest is None or not heaviest.probe.flops:
        return None, None
    light = [p for p in whole.values() if p.probe.flops <= LIGHT * math.prod(p.probe.output_shape) and p.layer != heaviest.layer]
    if splits_batch(heaviest.probe):
        heaviest = point_of(graph, heaviest.layer, "batch", max(1, batch // PROBED_PART), batch)
    return heaviest, max(light, key=lambda point: _moved_bytes(graph, point), default=None)


def _measured_rates(context: MeasurementContext, device: int, heaviest: Point | None, light: Point | None) -> DeviceRates:
    if heaviest is None:
        return DeviceRates(OPERATIONS_PER_S, BYTES_PER_S)
    container = context.cluster.container("calibration")
    try:
        heavy, *lighter = Sampler(context, device, container.name).steps([heaviest, *([] if light is None else [light])])
    finally:
        container.release()
    operations = _rate_of(heaviest, heavy.seconds, _operations)
    if light is None:
        return DeviceRates(operations, BYTES_PER_S)
    return DeviceRates(operations, _rate_of(light, lighter[0].seconds, lambda point: _moved_bytes(context.graph, point)))


def _rate_of(point: Point, seconds: float, of_forward: Callable[[Point], float]) -> float:
    """Return operations or bytes a second, of a forward and a backward pass that take some seconds."""
    work = 1.0 + WORK["backward"] - (not point.input_gradient)
    return max(1.0, work * of_forward(point) / max(1e-9, seconds - 2 * START_S))


def _operations(point: Point) -> float:
    return point.probe.flops * point.samples


def _links(cluster: Any, devices: Sequence[int]) -> Iterator[Link]:
    measured: dict[Any, Sequence[Link]] = {}
    for at, first in enumerate(devices):
        for second in devices[at + 1 :]:
            kind = pair_kind(cluster.devices, first, second)
            if kind not in measured:
                measured[kind] = measure_idle_link(cluster, first, second, LINK_WINDOWS)
            yield from between(measured[kind], first, second)
