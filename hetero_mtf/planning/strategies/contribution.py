"""Whether each device is worth using: the plan made again without it, or with it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost.step_cost import Costs, predict
from hetero_mtf.planning.layout.arrangement import Arrangement, Segment, channels, split_units
from hetero_mtf.planning.layout.manual import single_stage, sized_stage
from hetero_mtf.planning.layout.records import DeviceContribution, Stage
from hetero_mtf.planning.memory.shortfall import pool_lack
from hetero_mtf.planning.solvers.apportionment import equal_sizes, minimise_maximum
from hetero_mtf.planning.strategies.search import Candidate

WORTH_FROM = 0.02  # of a step
LOOKED_AT_UP_TO = 8  # devices; of more, only the slowest
SLOWEST = 3


def device_contributions(costs: Costs, chosen: Candidate, others: Iterable[Candidate] = ()) -> tuple[DeviceContribution, ...]:
    """Return for each device what a step would take without it if the plan uses it, with it if the plan does not.

    Parameters
    ----------
    costs : Costs of the profile.
    chosen : the plan.
    others : plans by other strategies that fit in memory; those without or with the device are considered too.

    Notes
    -----
    The plan without a device keeps the layouts of its layers and has its sizes solved anew (`Resizer`), so its step is an upper
    bound: another choice of layouts may do better. For a plan on two mesh axes the best other plan on one is taken. Of more than
    eight devices, only the three slowest that are used and the three fastest that are not are looked at. O(layers * devices *
    units) a device.
    """
    used = chosen.stage.devices
    inside, outside = looked_at(costs, used)
    known = list(others)
    resizer = _resizer(costs, chosen, known)
    found = {device: _without(costs, resizer, chosen, known, device) for device in inside if len(used) > 1}
    found.update({device: _with(costs, resizer, chosen, known, device) for device in outside})
    return tuple(contributions for _, contributions in sorted(found.items()) if contributions is not None)


def looked_at(costs: Costs, used: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the devices a plan uses and those it does not, the fastest first; of more than eight only the next to go or to come.

    Parameters
    ----------
    costs : Costs of the profile.
    used : indices of the devices that the plan uses.
    """
    inside, outside = ([d for d in costs.by_speed if (d in used) == wanted] for wanted in (True, False))
    return (inside[-SLOWEST:], outside[:SLOWEST]) if len(costs.by_speed) > LOOKED_AT_UP_TO else (inside, outside)


def without_hindrances(costs: Costs, chosen: Candidate) -> Candidate:
    """Return a plan without the devices that make its step longer, its layouts as they are and its sizes solved anew.

    Parameters
    ----------
    costs : Costs of the profile.
    chosen : the plan; on two mesh axes it stays as it is.

    Notes
    -----
    One device after another is left out, each time the one without which the predicted step is shortest, until every device helps;
    of more than eight only the three slowest are looked at. Heuristic, never worse than where it starts. O(devices^2) predictions.
    """
    while len(chosen.stage.devices) > 1 and len(chosen.stage.axes) == 1:
        resizer, used = Resizer(costs, chosen.stage), chosen.stage.devices
        slowest = used
        if len(used) > LOOKED_AT_UP_TO:
            slowest = tuple([device for device in costs.by_speed if device in used][-SLOWEST:])
        found = [leaner for device in slowest for leaner in _made(costs, resizer.on([d for d in used if d != device]))]
        best = min(found, key=lambda c: c.prediction.step_s, default=chosen)
        if best.prediction.step_s >= chosen.prediction.step_s * (1 - 1e-9):
            break
        chosen = best
    return chosen


def _resizer(costs: Costs, chosen: Candidate, others: Sequence[Candidate]) -> Resizer | None:
    """Return what solves the sizes of the plan anew, or for a mesh of two axes those of the best other plan on one."""
    if len(chosen.stage.devices) < 2:
        return None
    able = [chosen, *sorted(others, key=lambda c: c.prediction.step_s)]
    return next((Resizer(costs, c.stage) for c in able if len(c.stage.axes) == 1 and len(c.stage.devices) > 1), None)


class Resizer:
    """Solves the sizes of a stage anew for other devices, with the layouts of its layers as they are.

    Parameters
    ----------
    costs : Costs of the profile.
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
        """Return the stage on some devices; one that would get nothing anywhere is left out.

        Parameters
        ----------
        devices : their indices in the cluster, at least one.
        most : (devices,) largest share of every dimension that each may have, summing to 1 at least, up to whole units; empty for all.
        """
        graph, segments = self.costs.graph, self._arrangement.segments
        if len(devices) < 2:
            return single_stage(graph, devices[0])
        found: dict[tuple[int, int], tuple[int, ...]] = {}  # segments of alike layers have one and the same rows
        for rows, segment in zip(self._units, segments):
            if (id(rows), segment.units) not in found:
                found[id(rows), segment.units] = self._dealt(rows, segment.units, devices, most)
        sizes = [found[id(rows), segment.units] for rows, segment in zip(self._units, segments)]
        samples = self._dealt(self._samples, self.costs.profile.batch_size, devices, most) if self._samples is not None else ()
        return sized_stage(graph, self._arrangement, sizes, devices, devices[0], samples)

    def _dealt(self, rows: np.ndarray, units: int, devices: Sequence[int], most: Sequence[float]) -> tuple[int, ...]:
        """Return the units that minimise the slowest device's seconds; processors on one TensorFlow device take turns."""
        tables = [count * rows[device] for count, device in zip(self.costs.processors_per_device(devices).tolist(), devices)]
        if most:
            return minimise_maximum(tables, units, upper=_upper(units, most)).sizes
        return minimise_maximum(tables, units).sizes if any(table[-1] for table in tables) else equal_sizes(units, len(devices)).sizes


def _upper(units: int, most: Sequence[float]) -> list[int]:
    """Return the most whole units of each device; where they do not suffice, one more for those that are cut off the most."""
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
        group.update({layer: low for layer, found in group.items() if found == high})

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


def _without(
    costs: Costs, resizer: Resizer | None, chosen: Candidate, others: Sequence[Candidate], device: int
) -> DeviceContribution | None:
    left = [d for d in chosen.stage.devices if d != device]
    made = _made(costs, resizer.on(left)) if resizer is not None else []
    steps = [c.prediction.step_s for c in [*made, *others] if device not in c.stage.devices]
    name, best_s = costs.profile.cluster.devices[device].name, chosen.prediction.step_s
    if not steps:
        if resizer is None:
            return None
        return DeviceContribution(name, True, None, f"no plan without {name} was found that fits in memory")
    return contribution_without(name, min(steps), best_s)


def contribution_without(name: str, step_s: float, best_s: float) -> DeviceContribution:
    """Return what a device that a plan uses is worth.

    Parameters
    ----------
    name : name of the device.
    step_s : predicted seconds of a step without it.
    best_s : predicted seconds of a step of the plan.
    """
    times = step_s / best_s if best_s > 0 else 1.0
    if times < 1 + WORTH_FROM:
        change = f"costs {times - 1:.1%}" if times > 1.0005 else "costs nothing" if times > 0.9995 else f"saves {1 - times:.1%}"
        return DeviceContribution(name, True, step_s, f"leaving out {name} {change}: it is not worth its power")
    return DeviceContribution(name, True, step_s, f"leaving out {name} makes a step {times:.2f} times as long")


def _with(costs: Costs, resizer: Resizer | None, chosen: Candidate, others: Sequence[Candidate], device: int) -> DeviceContribution | None:
    made = _made(costs, resizer.on(sorted((*chosen.stage.devices, device)))) if resizer is not None else []
    steps = [c.prediction.step_s for c in [*made, *others] if device in c.stage.devices]
    if not steps:
        return None
    return contribution_with(costs.profile.cluster.devices[device].name, min(steps), chosen.prediction.step_s)


def contribution_with(name: str, step_s: float, best_s: float) -> DeviceContribution:
    """Return what a device that a plan does not use would be worth.

    Parameters
    ----------
    name : name of the device.
    step_s : predicted seconds of a step with it.
    best_s : predicted seconds of a step of the plan.
    """
    times = step_s / best_s if best_s > 0 else 1.0
    if abs(times - 1) < WORTH_FROM:
        change = f"costs {times - 1:.1%}" if times > 1.0005 else "gains nothing" if times > 0.9995 else f"gains only {1 - times:.1%}"
        return DeviceContribution(name, False, step_s, f"using {name} as well {change}: it is not worth its power")
    return DeviceContribution(name, False, step_s, f"using {name} as well makes a step {times:.2f} times as long")


def _made(costs: Costs, stage: Stage) -> list[Candidate]:
    """Return the candidate of a stage if it fits in memory."""
    prediction = predict(costs, stage)
    return [] if pool_lack(costs.profile, prediction.parts) else [Candidate(stage, prediction)]
