"""A plan as commands print it."""

from __future__ import annotations

import dataclasses
import math

from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers.fallback.keras_call_kind import keras_calls_text
from hetero_mtf.planning.layout.records import DevicePart
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.plan_text import execution_text, proof_text, proven
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.loop import Refinement
from hetero_mtf.report.legend import layout_legend
from hetero_mtf.report.limiting_part import bottlenecks
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.pipeline_sections import stages_table
from hetero_mtf.report.plan_facts import reported_plan, verdict
from hetero_mtf.report.step_time import StepTimes
from hetero_mtf.report.table import (
    Table,
    alternatives_table,
    contribution_table,
    folded_text,
    prediction_table,
    sizes_table,
)
from hetero_mtf.units import seconds_text


def plan_report(plan: Plan) -> str:
    """Return a plan's layouts, its prediction and the alternatives considered as text."""
    head = f"Network {plan.digest} in {plan.dtype}, schedule {execution_text(plan)}"
    layouts = sizes_table(plan)
    what_if = "".join(f"\nWhat-if, not measured: {clause}" for clause in plan.what_if)
    parts = [folded_text(f"{head}\n{layouts.title}{what_if}"), _untitled(layouts), folded_text("\n".join(layout_legend(plan)))]
    if len(plan.stages) > 1:
        parts.append(stages_table(plan).text())
    if plan.predicted is None:
        return "\n\n".join([*parts, "Nothing is predicted: the plan is manual."])
    seconds = plan.predicted
    launch = {"launch overhead": seconds.launch_s} if seconds.launch_s > 0 else {}
    named = {**launch, "forward": seconds.forward_s, "backward": seconds.backward_s, "update": seconds.update_s}
    passes = ", ".join(f"{name} {seconds_text(value)}" for name, value in named.items())
    parts += [_untitled(prediction_table(plan)), folded_text(f"Predicted step: {seconds_text(seconds.step_s)} ({passes})")]
    if plan.proof is not None:
        parts.append(folded_text(f"{proven(plan).capitalize()}: {proof_text(plan.proof)}"))
    if plan.alternatives:
        parts.append(alternatives_table(plan).text())
    if plan.contributions:
        parts.append(contribution_table(plan).text())
    return "\n\n".join(parts)


def _untitled(table: Table) -> str:
    """Return the table alone: a title above it would be folded to its width."""
    return dataclasses.replace(table, title="").text()


def verdict_text(plan: Plan, profile: Profile | None, measured: Measured | None, times: StepTimes | None) -> str:
    """Return what a plan gained, or is predicted to gain, and whether its step is far from its prediction; "" if nothing is known.

    Parameters
    ----------
    profile : the profile that the plan was made from; None if it is not at hand.
    measured : times of the run; None if none were kept.
    times : times of a comparison; None if there was none.
    """
    if measured is None and times is not None and times.planned.measured_s is not None:
        measured = Measured(plan.digest, plan.strategy, plan.batch_size, plan.devices, 1, times.planned.measured_s)
    reported = reported_plan(plan, profile, measured.beside(times) if measured is not None else None)
    return folded_text("\n".join(verdict(reported)))


def plan_summary(plan: Plan, graph: LayerGraph, columns: int | None = None) -> str:
    """Return a plan in a line, a line a device, and a line on the predicted step and its bottleneck.

    Parameters
    ----------
    plan : a plan for the network.
    graph : the network.
    columns : characters of a line at most; None for those of the terminal.
    """
    layers = f"{len(graph.layers)} layers" + (f" in {len(plan.stages)} stages" if len(plan.stages) > 1 else "")
    heading = f"Plan: strategy {plan.strategy}, batch size {plan.batch_size}, {layers}, {execution_text(plan)}"
    shares, parts = flops_shares(plan, graph), {} if plan.predicted is None else {part.device: part for part in plan.predicted.parts}
    rows = [(name, _task(plan, index, graph), *_cells(shares[index], parts.get(name))) for index, name in enumerate(plan.devices)]
    table = Table(("device", "computes", "of the FLOPs", "compute", "communication", "idle"), tuple(rows), left=2)
    head = "\n".join([heading, *(f"What-if, not measured: {clause}" for clause in plan.what_if)])
    end = "\n".join(text for text in (_prediction(plan), keras_calls_text(graph)) if text)
    return "\n".join([folded_text(head, columns), table.text(columns), folded_text(end, columns)])


def flops_shares(plan: Plan, graph: LayerGraph) -> tuple[float, ...]:
    """Return (devices,) the part of the network's floating-point operations that each device computes.

    A replicated layer is computed by every device of its stage, so that the parts may sum to more than 1.

    Parameters
    ----------
    plan, graph : as for `plan_summary`.
    """
    flops = [0.0] * len(plan.devices)
    for stage in plan.stages:
        for entry in stage.layouts:
            for at, device in enumerate(stage.devices):
                part = math.prod(parts[stage.places(axis)[at]] / sum(parts) for parts, axis in entry.parts)
                flops[device] += graph.layers[entry.layer].flops * part
    total = sum(layer.flops for layer in graph.layers)
    return tuple(value / total if total else 0.0 for value in flops)


def _task(plan: Plan, device: int, graph: LayerGraph) -> str:
    """Return what a device computes: its stages, its parts of the layer of most operations, all, or nothing."""
    stages = [number for number, stage in enumerate(plan.stages) if device in stage.devices]
    if not stages:
        return "nothing"
    if len(plan.stages) > 1:
        return f"stage {', '.join(map(str, stages))}"
    (stage,) = plan.stages
    place = stage.devices.index(device)
    split = [entry for entry in stage.layouts if entry.parts]
    if not split:
        return "all layers"
    entry = max(split, key=lambda layout: graph.layers[layout.layer].flops)
    positions = (entry.slabs, entry.slab_axis, "positions")
    sizes = ((entry.samples, entry.batch_axis, "samples"), (entry.sizes, entry.axis, "units"), positions)
    counts = [f"{part[stage.places(axis)[place]]} of {sum(part)} {unit}" for part, axis, unit in sizes if part]
    return f"{', '.join(counts)} of {entry.name}"


def _cells(share: float, part: DevicePart | None) -> list[str]:
    seconds = ("", "", "") if part is None else (part.compute_s, part.communication_s, part.idle_s)
    return [f"{share:.0%}", *(seconds_text(value) if isinstance(value, float) else value for value in seconds)]


def _prediction(plan: Plan) -> str:
    if plan.predicted is None:
        return "Nothing is predicted: the plan is manual."
    limits = [limit.text for limit in bottlenecks(plan.predicted, plan.used)] if plan.predicted.parts and not plan.pipelined else []
    return "; ".join([f"Predicted step: {seconds_text(plan.predicted.step_s)}", *limits])


def refinement_text(refinement: Refinement, columns: int | None = None) -> str:
    """Return the plans that were run, with predicted and measured steps, and the plan in force.

    Parameters
    ----------
    columns : characters of a line at most; None for those of the terminal.
    """
    rows = tuple(
        (
            f"{run.plan.strategy}{' (in force)' if run is refinement.best else ''}",
            ", ".join(run.plan.devices[index] for index in run.plan.used),
            seconds_text(run.first_predicted_s),
            seconds_text(run.predicted_s),
            seconds_text(run.median_s),
            f"{run.spread:.0%}",
        )
        for run in refinement.runs
    )
    heading = ("plan", "devices", "calibrated", "predicted", "measured", "spread")
    best, first = refinement.best, refinement.first
    kept = "the plan is kept" if best is first else f"strategy {best.plan.strategy} replaces {first.plan.strategy}"
    gain = "" if best is first else f", {refinement.gain:.2f} times as fast"
    explained = (
        f"Refined in {seconds_text(refinement.seconds)}, until {refinement.reason}: {kept}{gain}. "
        "calibrated: predicted from the calibration alone; predicted: with the factors of the plans that were run before."
    )
    return "\n".join([Table(heading, rows, left=2).text(columns), folded_text(explained, columns)])
