"""How many times as long devices take as in a reference, from traced steps of one plan, and which of them have changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from hetero_mtf.planning.refinement.factors import device_levels
from hetero_mtf.planning.refinement.observations import Observation
from hetero_mtf.planning.refinement.plan_run import TracedStep

CHANGED = math.log(1.2)  # a device whose layers take less than a fifth longer or shorter has not changed
SPREADS = 2.5  # times the spread of single traces, that a change exceeds likewise
CONSECUTIVE = 0.5  # part of that which every single trace shows

Passes = Mapping[tuple[int, int, str], float]
"""Seconds of each (device, layer, pass)."""


def usual_passes(traces: Sequence[TracedStep]) -> Passes:
    """Return the median traced seconds of each pass of each layer on each device.

    Parameters
    ----------
    traces : traced steps of one plan, at least one.
    """
    seconds: dict[tuple[int, int, str], list[float]] = {}
    for trace in traces:
        for device, layer, step_pass, compute_s in trace.layers:
            seconds.setdefault((device, layer, step_pass), []).append(compute_s)
    return {key: statistics.median(each) for key, each in seconds.items()}


def levels(reference: Passes, traces: Sequence[TracedStep]) -> dict[int, float]:
    """Return ln of how many times as long the layers of each device take as in a reference.

    Parameters
    ----------
    reference : seconds there, of the same plan.
    traces : traced steps; of several the medians count.

    Notes
    -----
    What is compared is the compute of layers, which a device does whether it waits for others or not. As in refinement, see
    `refinement.factors`; the reference takes the place of the profile's curves, so what these err by cancels.
    """
    observed = [
        Observation(layer, device, "whole", step_pass, reference[device, layer, step_pass], compute_s)
        for trace in traces
        for device, layer, step_pass, compute_s in trace.layers
        if compute_s > 0 and reference.get((device, layer, step_pass), 0.0) > 0
    ]
    return device_levels(observed)


def least_change(reference: Passes, *groups: Sequence[TracedStep]) -> float:
    """Return ln of the least factor that counts as a change, where traces of the same state scatter as they do.

    Parameters
    ----------
    reference : seconds that levels are relative to.
    groups : traces of one state each.
    """
    squares, freedom = 0.0, 0
    for traces in groups:
        single = [levels(reference, [trace]) for trace in traces]
        for device in set.intersection(*map(set, single)) if len(single) > 1 else ():
            squares = squares + statistics.variance(each[device] for each in single) * (len(single) - 1)
            freedom += len(single) - 1
    return max(CHANGED, SPREADS * math.sqrt(squares / freedom)) if freedom else CHANGED


def changed_devices(median: Mapping[int, float], single: Sequence[Mapping[int, float]], least: float = CHANGED) -> tuple[int, ...]:
    """Return the devices that have changed: by the medians of traces, and in the same direction in each of them.

    Parameters
    ----------
    median : levels of several traces together.
    single : levels of each.
    least : ln of the least factor that counts as a change.
    """
    changed = []
    for device, level in sorted(median.items()):
        alike = all(each.get(device, 0.0) * math.copysign(1.0, level) >= CONSECUTIVE * least for each in single)
        if abs(level) >= least and alike:
            changed.append(device)
    return tuple(changed)


def unexplained(changed: Sequence[int], level_of: Mapping[int, float], shares: Sequence[float], log_step: float) -> tuple[int, ...]:
    """Return those of the changed devices whose change is not explained by waits for a slower one.

    A device that is limited to a share of a core works ahead of its limit after it has waited, so its layers seem to take down to that
    share of their seconds. Where another device became slower, that is no change of its own.

    Parameters
    ----------
    changed : the devices.
    level_of : their levels.
    shares : (devices,) share of each device of the cluster; 1 for one that is not limited.
    log_step : ln of how many times as long the whole step takes.
    """
    slower = [device for device in changed if level_of[device] > 0]
    if not slower or log_step <= 0:
        return tuple(changed)
    return tuple(d for d in changed if level_of[d] > 0 or level_of[d] < math.log(min(1.0, shares[d])) - CHANGED)
