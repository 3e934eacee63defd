"""Sampling: the measurements of one device, and their curves."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.calibration.adaptive import Sampled, next_sample
from hetero_mtf.calibration.calibration_budget import Effort, EffortWindows
from hetero_mtf.calibration.points import LAYER_PASSES, Point, point_of, slab_point
from hetero_mtf.calibration.probe import PROBED, Probe, build_probe
from hetero_mtf.calibration.turns import Turns
from hetero_mtf.calibration.windows import Measurement, Windows, together
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.profile.curve import PASSES, Curve
from hetero_mtf.planning.profile.profile import alike
from hetero_mtf.program.optimizers import UpdateRule

# The lower ends of curves are left out once a device has taken so many times its seconds, as where building probes is slow.
OVERTIME = 1.5
_NEAR_SLABS = 4  # thicknesses that are tried for a further slab

Passes = dict[str, Measurement]  # "forward", "backward" and, where it was measured, "update"


@dataclasses.dataclass(frozen=True)
class MeasurementContext:
    """What all devices of a calibration share.

    Parameters
    ----------
    cluster : live cluster.
    graph : the network.
    batch : samples of the whole batch.
    rule : the update of the optimizer.
    windows : how long each kind of measurement takes.
    turns : when measurements may be taken.
    """

    cluster: Any
    graph: LayerGraph
    batch: int
    rule: UpdateRule
    windows: EffortWindows
    turns: Turns = Turns()


def both_passes(passes: Mapping[str, Measurement]) -> Measurement:
    """Return the seconds of a layer's forward and backward pass one after the other.

    Parameters
    ----------
    passes : pass -> its seconds.
    """
    return together([passes[name] for name in LAYER_PASSES])


class Sampler:
    """Measures one device.

    Parameters
    ----------
    device : index of the device.
    container : resource container for its variables.
    """

    def __init__(self, context: MeasurementContext, device: int, container: str) -> None:
        self._context, self._device, self._container = context, device, container
        self._number = 0
        self._full: dict[int, Passes] = {}
        self._measurements: dict[tuple[int, str], dict[int, Passes]] = {}
        self._served = collections.Counter(alike(context.graph))
        self._minor: set[int] = set()
        self._refined: set[tuple[int, str]] = set()  # curves that have no further points

    def take(self, point: Point) -> Passes:
        """Return the seconds of a point, and keep them; that of a whole layer is measured once for all its curves."""
        passes = self._full.get(point.layer) if point.full else None
        if passes is None:
            passes = self._measured(point)
        if point.full:
            self._full[point.layer] = passes
        if point.minor:
            self._minor.add(point.layer)
        self._measurements.setdefault((point.layer, point.dimension), {})[point.units] = passes
        return passes

    def taken_s(self, layer: int) -> float:
        """Return the seconds of a layer, forward and backward, that was measured with all its units; for all layers that are alike."""
        passes = self._full.get(layer)
        return self._served[layer] * both_passes(passes).seconds if passes else 0.0

    def refine(self, effort: Effort, start_s: float, clock: Callable[[], float]) -> None:
        """Measure further points where most seconds are expected to be wrong, as long as the effort allows it.

        Parameters
        ----------
        start_s : when the device's first point was begun, by the clock.
        clock : seconds.
        """
        end_s = min(clock() + effort.refine_s, start_s + effort.limit_s)
        optional = {(point.layer, point.dimension): point.units for point in effort.optional}
        for _ in range(effort.refinements):
            chosen = next_sample(self._sampled(optional))
            if chosen is None or clock() + effort.refinement_s > end_s:
                return
            (layer, dimension), units = chosen
            point = self._near(layer, dimension, units)
            if point is None:
                self._refined.add((layer, dimension))
            else:
                self.take(point)

    def _near(self, layer: int, dimension: str, units: int) -> Point | None:
        """Return the point of some units that were not measured, or of slabs the nearest one that there is; None where there is none."""
        graph, batch, known = self._context.graph, self._context.batch, sorted(self._measurements[layer, dimension])
        if dimension != "space":
            return point_of(graph, layer, dimension, units, batch)
        between = [n for n in range(max((n for n in known if n < units), default=0) + 1, known[-1]) if n not in known]
        slabs = (slab_point(graph, layer, n, batch) for n in sorted(between, key=lambda n: abs(n - units))[:_NEAR_SLABS])
        return next((slab for slab in slabs if slab is not None), None)

    def curves(self) -> list[Curve]:
        """Return the curves of all that was measured."""
        curves = []
        for (layer, dimension), entries in self._measurements.items():
            for step_pass in PASSES:
                if (dimension, step_pass) == ("batch", "update") and layer in self._full:
                    continue
                measured = [(units, passes[step_pass]) for units, passes in sorted(entries.items()) if step_pass in passes]
                if measured:
                    units = tuple(n for n, _ in measured)
                    seconds, spread = tuple(m.seconds for _, m in measured), tuple(m.spread for _, m in measured)
                    curves.append(Curve(layer, self._device, dimension, step_pass, self._context.batch, units, seconds, spread))
        return curves

    def _sampled(self, optional: Mapping[tuple[int, str], int]) -> dict[tuple[int, str], Sampled]:
        """Return the points so far, forward and backward together, of the curves that may bend or have an optional point left."""
        sampled = {}
        for (layer, dimension), entries in self._measurements.items():
            lower = optional.get((layer, dimension)) if len(entries) == 1 else None
            lower = lower if lower is not None and lower < min(entries) else None  # else there is no room for it
            if (layer, dimension) in self._refined:
                continue
            if lower is not None or (layer not in self._minor and dimension != "whole"):
                both = [both_passes(passes) for _, passes in sorted(entries.items())]
                seconds, spread = tuple(each.seconds for each in both), tuple(each.spread for each in both)
                sampled[layer, dimension] = Sampled(tuple(sorted(entries)), seconds, spread, self._served[layer], lower)
        return sampled

    def steps(self, points: Sequence[Point]) -> list[Measurement]:
        """Return the seconds of points, forward and backward pass timed as one; they are not kept.

        Parameters
        ----------
        points : they share a session, as opening one takes about as long as a short measurement.
        """
        return [timed["step"] for timed in self._timed(points, ("step",))]

    def _measured(self, point: Point) -> Passes:
        with self._context.turns.take():
            timed = self._timed([point], PROBED)[0]
        step = timed.pop("step")
        return {**timed, "backward": Measurement(max(step.seconds - timed["forward"].seconds, 0.0), step.spread)}

    def _timed(self, points: Sequence[Point], wanted: Sequence[str]) -> list[dict[str, Measurement]]:
        """Return the seconds of some passes of points, which are timed one after the other."""
        context, cluster = self._context, self._context.cluster
        device, dtype = cluster.devices[self._device].tf_device, context.graph.dtype
        graph, probes = tf.Graph(), []
        with graph.as_default():
            for point in points:
                self._number += 1
                probes.append(build_probe(point, device, dtype, context.rule, self._container, self._number, wanted))
        with cluster.session(graph) as session:
            session.run([probe.setup for probe in probes])
            timed = [_time_probe(session, probe, context.windows.of(probe.point)) for probe in probes]
            session.run([probe.teardown for probe in probes])
        return timed


def sample(
    context: MeasurementContext, device: int, effort: Effort, wanted: Sequence[Point], advance: Callable[[str], None]
) -> list[Curve]:
    """Return the curves of a device.

    Parameters
    ----------
    device : index of the device.
    wanted : points to measure first, those of a curve in order of their units.
    advance : called for each of these points, and once more for each refinement of the effort.

    Notes
    -----
    The upper ends of all curves are measured in any case, then the other points, of the layers that take most seconds first, until the
    device has taken half as much again as the effort allows. A curve of its upper end alone is continued by a line through zero.
    """
    name = context.cluster.devices[device].name
    container = context.cluster.container("calibration")
    clock = context.turns.clock
    start_s = clock()
    upper, lower = _upper_and_lower(wanted)
    try:
        sampler = Sampler(context, device, container.name)
        for point in upper:
            sampler.take(point)
            advance(f"{point.probe.name} on {name}")
        for point in sorted(lower, key=lambda point: -sampler.taken_s(point.layer)):
            if clock() - start_s <= OVERTIME * effort.limit_s:
                sampler.take(point)
            advance(f"{point.probe.name} on {name}")
        sampler.refine(effort, start_s, clock)
        for _ in range(effort.refinements):
            advance(f"curves on {name}")
        return sampler.curves()
    finally:
        container.release()


def _upper_and_lower(wanted: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Return the last point of each curve, and the others."""
    upper = {(point.layer, point.dimension): point for point in wanted}
    return list(upper.values()), [point for point in wanted if point is not upper[point.layer, point.dimension]]


def _time_probe(session: Any, probe: Probe, windows: Windows) -> dict[str, Measurement]:
    """Return the seconds of a probe's passes; where a disturbance shows, the smaller ones of two measurements."""

    def run(name: str, count: int) -> None:
        session.run(probe.passes[name], {probe.repeats: count})

    runs = {name: functools.partial(run, name) for name in probe.passes}
    timed = windows.measure(runs)
    if _is_disturbed(probe.point, timed):
        again = windows.measure(runs)
        timed = {name: min(each, again[name], key=lambda measured: measured.seconds) for name, each in timed.items()}
    return timed


def _is_disturbed(point: Point, timed: Mapping[str, Measurement]) -> bool:
    """Return whether the forward pass of a layer of some work took no less than both passes, though it has a backward pass."""
    has_backward = point.input_gradient or point.trains
    return has_backward and not point.minor and "forward" in timed and timed["forward"].seconds >= timed["step"].seconds
