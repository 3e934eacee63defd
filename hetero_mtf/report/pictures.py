"""What the pictures of a plan show: sizes by layer and device, and how each device spends the step."""

from __future__ import annotations

import math

from hetero_mtf.planning.plan import Plan
from hetero_mtf.planning.plan_text import stage_rows
from hetero_mtf.planning.records import LayerLayout, Stage
from hetero_mtf.report.section import Bar, Bars
from hetero_mtf.units import seconds_text

DRAWN_UP_TO = 16  # devices; more would be hairlines
TIMES = ("busy", "sending", "waiting")
EVERYWHERE = "whole on every device"


def size_bars(plan: Plan) -> Bars | None:
    """Return a bar a layer, with each device's part of the work in it; None for more devices than can be told apart.

    Parameters
    ----------
    plan : Plan.
    """
    devices = sorted({d for stage in plan.stages for d in stage.devices})
    if len(devices) > DRAWN_UP_TO:
        return None
    bars = []
    for stage in plan.stages:
        places = [devices.index(d) for d in stage.devices]
        for entry, (name, _, *cells) in zip(stage.layouts, stage_rows(stage, plan.devices)[1:]):
            parts, texts = [0.0] * (len(devices) + 1), [""] * (len(devices) + 1)
            fractions = [fraction(entry, stage, at) for at in range(len(places))]
            for place, part, cell in zip(places, fractions, cells):
                parts[place], texts[place] = part / sum(fractions), cell if part else ""
            if not (entry.sizes or entry.samples):
                parts, texts = [0.0] * len(devices) + [1.0], [""] * len(devices) + ["all"]
            bars.append(Bar(name, tuple(parts), tuple(texts)))
    return Bars((*(plan.devices[d] for d in devices), EVERYWHERE), tuple(bars))


def fraction(entry: LayerLayout, stage: Stage, at: int) -> float:
    """Return the fraction of a layer that lies on a processor; 1 where every processor has all of it.

    Parameters
    ----------
    entry : the layer's layout.
    stage : its stage.
    at : index of the processor in the stage.
    """
    parts = ((entry.sizes, entry.axis), (entry.samples, entry.batch_axis))
    return math.prod(sizes[stage.places(axis)[at]] / sum(sizes) for sizes, axis in parts if sizes)


def time_bars(plan: Plan) -> Bars | None:
    """Return a bar a device, with the seconds it computes, sends and waits; None if nothing is predicted.

    Parameters
    ----------
    plan : Plan.
    """
    if plan.predicted is None or not plan.predicted.parts or plan.predicted.step_s <= 0:
        return None
    bars = []
    for part in plan.predicted.parts:
        seconds = (part.busy_s, part.sending_s, part.waiting_s)
        bars.append(Bar(part.device, seconds, tuple(seconds_text(value) for value in seconds)))
    return Bars(TIMES, tuple(bars), plan.predicted.step_s, "times")
