"""Whether each device is worth using: the plan made again without it, or with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.cost import Costs, predict
from hetero_mtf.planning.curve import PASSES
from hetero_mtf.planning.layout import Arrangement, Segment, channels, split_units
from hetero_mtf.planning.memory import lack_of_memory
from hetero_mtf.planning.records import DeviceWorth, Stage
from hetero_mtf.planning.search import Candidate, Sizer
from hetero_mtf.planning.typed import single_stage, sized_stage

WORTH_FROM = 0.02  # of a step
LOOKED_AT_UP_TO = 8  # devices; of more, only the slowest
SLOWEST = 3


def device_worth(costs: Costs, chosen: Candidate, others: Iterable[Candidate] = ()) -> tuple[DeviceWorth, ...]:
    """Return for each device what a step would take without it if the plan uses it, with it if the plan does not.

    Parameters
    ----------
    costs : Costs of the profile.
    chosen : the plan.
    others : plans by other strategies that fit in memory; those without or with the device are considered too.

    Notes
    -----
    The plan without a device keeps the layouts of its layers and has its sizes solved anew (`resized`), so its step is an upper
    bound: another choice of layouts may do better. Of more than eight devices, only the three slowest that are used and the three
    fastest that are not are looked at. O(layers * devices * units) a device.
    """
    used = chosen.stage.devices
    alone_s = _alone_s(costs)
    by_speed = sorted(range(len(alone_s)), key=lambda device: (alone_s[device], device))
    inside, outside = ([d for d in by_speed if (d in used) == wanted] for wanted in (True, False))
    if len(by_speed) > LOOKED_AT_UP_TO:
        inside, outside = inside[-SLOWEST:], outside[:SLOWEST]
    sizer, known = Sizer(costs), list(others)
    found = {device: _without(costs, sizer, chosen, known, device) for device in inside if len(used) > 1}
    for device in outside:
        asked = _with(costs, sizer, chosen, known, device)
        if asked is not None:
            found[device] = asked
    return tuple(found[device] for device in sorted(found))


def resized(sizer: Sizer, stage: Stage, devices: Sequence[int]) -> Stage | None:
    """Return a stage with the same layouts on other devices, its sizes and samples solved anew; None for a mesh of two axes.

    Parameters
    ----------
    sizer : finds the sizes.
    stage : a stage that splits something along one mesh axis.
    devices : indices of the devices it may use; one that would get nothing is left out.
    """
    if len(stage.axes) > 1:
        return None
    graph = sizer.costs.graph
    if len(devices) < 2:
        return single_stage(graph, devices[0])
    arrangement = Arrangement(tuple(entry.layout for entry in stage.layouts), _segments(graph, stage))
    sizes = [sizer.units(segment, arrangement, tuple(devices)) for segment in arrangement.segments]
    batched = frozenset(entry.layer for entry in stage.layouts if entry.samples)
    samples = sizer.samples(batched, tuple(devices)) if batched else ()
    return sized_stage(graph, arrangement, sizes, devices, devices[0], samples)


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


def _alone_s(costs: Costs) -> list[float]:
    """Return the seconds of the whole network on each device alone."""
    graph = costs.graph
    rows = [costs.rows(layer, "replicated", step_pass)[:, -1] for layer in range(len(graph.layers)) for step_pass in PASSES]
    alone_s: list[float] = np.sum(rows, axis=0).tolist()
    return alone_s


def _without(costs: Costs, sizer: Sizer, chosen: Candidate, others: Sequence[Candidate], device: int) -> DeviceWorth:
    left = [d for d in chosen.stage.devices if d != device]
    made = _made(costs, resized(sizer, chosen.stage, left))
    steps = [c.prediction.step_s for c in [*made, *others] if device not in c.stage.devices]
    name, best_s = costs.profile.cluster.devices[device].name, chosen.prediction.step_s
    if not steps:
        return DeviceWorth(name, True, None, f"no plan without {name} was found that fits in memory")
    step_s = min(steps)
    times = step_s / best_s if best_s > 0 else 1.0
    if times < 1 + WORTH_FROM:
        change = f"costs {times - 1:.1%}" if times > 1.0005 else "costs nothing" if times > 0.9995 else f"saves {1 - times:.1%}"
        return DeviceWorth(name, True, step_s, f"leaving out {name} {change}: it is not worth its power")
    return DeviceWorth(name, True, step_s, f"leaving out {name} makes a step {times:.2f} times as long")


def _with(costs: Costs, sizer: Sizer, chosen: Candidate, others: Sequence[Candidate], device: int) -> DeviceWorth | None:
    splits = len(chosen.stage.devices) > 1
    made = _made(costs, resized(sizer, chosen.stage, sorted((*chosen.stage.devices, device)))) if splits else []
    steps = [c.prediction.step_s for c in [*made, *others] if device in c.stage.devices]
    if not steps:
        return None
    name, step_s, best_s = costs.profile.cluster.devices[device].name, min(steps), chosen.prediction.step_s
    times = step_s / best_s if best_s > 0 else 1.0
    if abs(times - 1) < WORTH_FROM:
        change = f"costs {times - 1:.1%}" if times > 1.0005 else "gains nothing" if times > 0.9995 else f"gains only {1 - times:.1%}"
        return DeviceWorth(name, False, step_s, f"using {name} as well {change}: it is not worth its power")
    return DeviceWorth(name, False, step_s, f"using {name} as well makes a step {times:.2f} times as long")


def _made(costs: Costs, stage: Stage | None) -> list[Candidate]:
    """Return the candidate of a stage that fits in memory."""
    if stage is None or lack_of_memory(costs.profile, stage):
        return []
    return [Candidate(stage, predict(costs, stage))]
