"""What the pictures of a plan show: sizes by layer and device, and how each device spends the step."""

from __future__ import annotations

import math

from hetero_mtf.planning.layout.records import DevicePart, LayerLayout, Prediction, Stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import stage_rows
from hetero_mtf.report.limiting_part import critical
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.section import Bar, Bars
from hetero_mtf.units import seconds_text

DRAWN_UP_TO = 16  # devices; more would be hairlines
NEAR = 3.0  # times the plan's step; longer bars would dwarf the others
TIMES = ("compute", "communication", "idle")
EVERYWHERE = "replicated on every device"


def size_bars(plan: Plan) -> Bars | None:
    """Return a bar a layer, with each device's part of the work in it; None for more devices than can be told apart."""
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
            if not entry.parts and (len(places) > 1 or len(plan.stages) == 1):
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
    return math.prod(parts[stage.places(axis)[at]] / sum(parts) for parts, axis in entry.parts)


def time_bars(plan: Plan) -> Bars | None:
    """Return a bar a device, with its seconds of compute, communication and idle time; None if nothing is predicted."""
    if plan.predicted is None or not plan.predicted.parts or plan.predicted.step_s <= 0:
        return None
    return Bars(TIMES, tuple(_time_bar(part.device, part) for part in plan.predicted.parts), plan.predicted.step_s, "times")


def measured_bars(predicted: Prediction, measured: Measured) -> Bars:
    """Return for each device that was traced how it was predicted to spend the step, and how it did.

    Parameters
    ----------
    predicted : the prediction.
    measured : times of a run with a traced step.
    """
    predicted_of = {part.device: part for part in reversed(predicted.parts)}
    bars = []
    for part in measured.parts:
        if part.device in predicted_of:
            bars.append(_time_bar(f"{part.device} predicted", predicted_of[part.device]))
        bars.append(_time_bar(f"{part.device} measured", part))
    return Bars(TIMES, tuple(bars), max(sum(bar.parts) for bar in bars), "times")


def alternative_bars(plan: Plan) -> Bars | None:
    """Return how the bottleneck device of each strategy spends its step, first that of the plan; None if that is not known.

    Parameters
    ----------
    plan : Plan; alternatives with steps of more than three times its own are left to the table.
    """
    if plan.predicted is None or not plan.predicted.parts or plan.predicted.step_s <= 0:
        return None
    near_s = NEAR * plan.predicted.step_s
    bars = [_time_bar(f"{plan.strategy} (chosen)", critical(plan.predicted.parts))]
    for other in plan.alternatives:
        if other.bottleneck is not None and other.step_s is not None and other.step_s <= near_s:
            bars.append(_time_bar(other.strategy, other.bottleneck))
    return Bars(TIMES, tuple(bars), max(sum(bar.parts) for bar in bars), "times") if len(bars) > 1 else None


def _time_bar(label: str, part: DevicePart) -> Bar:
    seconds = (part.compute_s, part.communication_s, part.idle_s)
    return Bar(label, seconds, tuple(seconds_text(value) for value in seconds))
