"""Sections for pipelines only: stages, bottleneck, bubble, and the comparison with simpler pipelines."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence

from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.pipeline.baselines import simpler_pipelines
from hetero_mtf.planning.pipeline.plan_prediction import predict_plan
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD
from hetero_mtf.planning.schedule.simulator import Entry, Simulation, ideal_bubble
from hetero_mtf.report.measured import Measured, MeasuredTask
from hetero_mtf.report.section import Section
from hetero_mtf.report.step_time import StepTime
from hetero_mtf.report.table import NOTHING, Table
from hetero_mtf.report.time_line.line import named
from hetero_mtf.report.time_line.pipeline_line import measured_line, placed, predicted_line
from hetero_mtf.units import seconds_text

NEAR = 3.0  # times the other; a time line that is longer than that has a scale of its own


def stages_table(plan: Plan, simulation: Simulation | None = None) -> Table:
    """Return the stages of a plan: their devices and layers and, where the step is simulated, seconds of a microbatch and idle time.

    Parameters
    ----------
    simulation : its simulated step; None to list only the stages.
    """
    headings = ("stage", "devices", "layers", "from", "to")
    rows = []
    for at, stage in enumerate(plan.stages):
        first, last = (entry.name or f"layer {entry.layer}" for entry in (stage.layouts[0], stage.layouts[-1]))
        cells = [str(at), placed(plan, at), str(len(stage.layers)), first, last]
        rows.append((*cells, *(_simulated(simulation, at) if simulation is not None else ())))
    if simulation is None:
        return Table(headings, tuple(rows), left=5)
    more = ("forward", "backward", "communication", "update", "compute", "idle", "in flight")
    return Table((*headings, *more), tuple(rows), left=5)


def stage_bottlenecks(plan: Plan, simulation: Simulation, launch_s: float = 0.0) -> tuple[str, ...]:
    """Return the bottleneck of a pipeline's step, a stage or a transfer, and how long its devices are idle.

    Parameters
    ----------
    simulation : its simulated step.
    launch_s : predicted launch overhead, which is not simulated.

    Notes
    -----
    The bottleneck is what is in use longest in a step: the devices of one stage, or of several where they have several, or the links
    over one boundary, which are in use while any transfer over them is under way, in either direction.
    """
    who, does, most_s = _in_use_longest(plan, simulation)
    step_s = launch_s + simulation.step_s
    share = f", {most_s / step_s:.0%}" if step_s > 0 else ""
    return f"{who} {does} for {seconds_text(most_s)} of {seconds_text(step_s)}{share}", _bubble_text(plan, simulation)


def bottleneck_name(plan: Plan, simulation: Simulation) -> str:
    """Return the bottleneck of a pipeline's step in few words.

    Parameters
    ----------
    simulation : its simulated step.
    """
    return _in_use_longest(plan, simulation)[0]


def _in_use_longest(plan: Plan, simulation: Simulation) -> tuple[str, str, float]:
    """Return what is in use longest in a step, what it does, and for how many seconds."""
    seconds: dict[tuple[str, tuple[int, ...]], float] = collections.defaultdict(float)
    stages_of: dict[tuple[int, ...], list[int]] = {}
    for at, stage in enumerate(plan.stages):
        stages_of.setdefault(tuple(sorted(stage.devices)), []).append(at)
    alike = {at: tuple(stages) for stages in stages_of.values() for at in stages}
    for entry in (*simulation.tasks, *simulation.updates):
        seconds["stage", alike[entry.stage]] += entry.end_s - entry.start_s
    for at in range(len(plan.stages) - 1):
        seconds["boundary", (at, at + 1)] = _covered_s([entry[-2:] for entry in simulation.transfers if entry.stage == at])
    (kind, numbers), most_s = max(seconds.items(), key=lambda item: item[1])
    who = (
        f"{named('stage', numbers)} on {placed(plan, numbers[0])}"
        if kind == "stage"
        else f"communication between {named('stage', numbers)}"
    )
    does = f"is the bottleneck: {'transfers are under way' if kind == 'boundary' else 'it computes'}"
    return who, "are the bottleneck: they compute" if kind == "stage" and len(numbers) > 1 else does, most_s


def pipeline_sections(plan: Plan, simulation: Simulation, measured: Measured | None = None) -> list[Section]:
    """Return the stages of a pipeline and its time line, the measured one under the predicted one where a step was traced.

    Parameters
    ----------
    simulation : its simulated step.
    measured : times of a run by this plan; None if there was none.
    """
    passes = "forward and backward passes and the communication of output and gradient are of a stage's first microbatch"
    held = "in flight is the most microbatches whose activations it holds at once"
    told = f"{passes}; compute and idle are shares of the whole step; {held}"
    sections = [Section("Stages", (told,), stages_table(plan, simulation))]
    tasks = measured.on_step_base().tasks if measured is not None else ()
    line = predicted_line(plan, simulation, _scale_s(simulation, _lasted_s(tasks)))
    if line is not None:
        sections.append(Section("Predicted time line", line=line))
    return [*sections, *traced_sections(plan, measured, simulation)]


def traced_sections(plan: Plan, measured: Measured | None, simulation: Simulation | None = None) -> list[Section]:
    """Return the time line of a traced step of a pipeline with its bubble; nothing if no task of one was traced.

    Parameters
    ----------
    measured : times of a run by this plan; None if there was none.
    simulation : the simulated step, on whose scale it is drawn unless one is far longer; None for a scale of its own.
    """
    if measured is None or not measured.tasks:
        return []
    measured = measured.on_step_base()
    lasted_s = _lasted_s(measured.tasks)
    scaled = f", scaled to the measured {seconds_text(measured.step_s)}/step," if measured.parts else ""
    sentences = [f"the tasks of one traced step{scaled} took {seconds_text(lasted_s)}"]
    if simulation is not None and simulation.passes_s > 0:
        sentences[0] += f", {lasted_s / simulation.passes_s:.2f} times what was predicted ({seconds_text(simulation.passes_s)})"
    beside = f", predicted {simulation.bubble:.0%}" if simulation is not None else ""
    between, inside = measured_bubble(measured.tasks)
    gaps = f"{between:.0%} between the bars, {inside:.0%} with the gaps inside them"
    sentences.append(f"measured bubble {gaps}{beside}, ideal {_ideal(plan):.0%}")
    sentences.append("a bar lasts from a task's first operation to its last one, idle time in between included")
    line = measured_line(plan, measured.tasks, _scale_s(simulation, lasted_s) if simulation is not None else 0.0)
    return [Section("Measured time line", tuple(sentences), line=line)]


def measured_bubble(tasks: Sequence[MeasuredTask]) -> tuple[float, float]:
    """Return the idle fractions of the devices between the first task's beginning and the last one's end.

    First that in which no task of theirs had begun and not ended, then that in which they worked on no operation of a task.

    Parameters
    ----------
    tasks : tasks of a traced step, at least one.

    Examples
    --------
    >>> import dataclasses
    >>> task = MeasuredTask("a", 0, 0, "forward", 1.0, 3.0, 1.5)
    >>> measured_bubble([task, dataclasses.replace(task, device="b", start_s=3.0, end_s=4.0, compute_s=0.75)])
    (0.5, 0.625)
    """
    begun_s, lasted_s = min(task.start_s for task in tasks), _lasted_s(tasks)
    of: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    for task in tasks:
        of[task.device].append((task.start_s - begun_s, task.end_s - begun_s))
    if lasted_s <= 0:
        return 0.0, 0.0
    spent = math.fsum(map(_covered_s, of.values())), math.fsum(task.compute_s for task in tasks)
    between, inside = (max(0.0, 1 - seconds / (len(of) * lasted_s)) for seconds in spent)
    return between, inside


def simpler_times(plan: Plan, costs: Costs, measured: Measured | None = None) -> tuple[StepTime, ...]:
    """Return the steps of an equal partition and of the same stages without microbatches; nothing for what is no pipeline.

    Parameters
    ----------
    costs : Costs of the profile.
    measured : times of a run by this plan; None if there was none.
    """
    known = measured.simpler_s if measured is not None else {}
    predictions = [(name, predict_plan(costs, simpler)) for name, simpler in simpler_pipelines(costs.graph, plan).items()]
    return tuple(StepTime(name, (step.step_s or None) if step is not None else None, known.get(name)) for name, step in predictions)


def _simulated(simulation: Simulation, stage: int) -> tuple[str, ...]:
    """Return the cells of a stage that its simulation gives."""
    passes = [_first(simulation.tasks, stage, name) for name in (FORWARD, BACKWARD)]
    sent = [_first(simulation.transfers, stage, name) for name in (FORWARD, BACKWARD)]
    update_s = sum(entry.end_s - entry.start_s for entry in simulation.updates if entry.stage == stage)
    compute_s = update_s + sum(entry.end_s - entry.start_s for entry in simulation.tasks if entry.stage == stage)
    sends = seconds_text(sum(s for s in sent if s is not None)) if sent[0] is not None else NOTHING
    spent = [seconds_text(s) if s is not None else NOTHING for s in passes]
    share = f"{compute_s / simulation.step_s:.0%}" if simulation.step_s > 0 else NOTHING
    idle = f"{simulation.bubbles[stage]:.0%}"
    return (*spent, sends, seconds_text(update_s), share, idle, str(simulation.in_flight[stage]))


def _first(entries: Sequence[Entry], stage: int, step_pass: str) -> float | None:
    """Return the seconds of the stage's first microbatch; None if there is none."""
    own = [entry for entry in entries if (entry.stage, entry.step_pass) == (stage, step_pass)]
    first = min(own, key=lambda entry: entry.microbatch, default=None)
    return None if first is None else first.end_s - first.start_s


def _covered_s(intervals: Sequence[tuple[float, float]]) -> float:
    """Return the seconds that lie in at least one interval; none begins before 0."""
    total_s = reached_s = 0.0
    for start_s, end_s in sorted(intervals):
        total_s += max(0.0, end_s - max(start_s, reached_s))
        reached_s = max(reached_s, end_s)
    return total_s


def _bubble_text(plan: Plan, simulation: Simulation) -> str:
    parts = "" if plan.schedule in STALE_SCHEDULES else f" and {plan.microbatches} microbatches"
    idle = f"the bubble is {simulation.bubble:.0%}: the share of the passes in which its devices are idle"
    return f"{idle}; with {len(plan.stages)} equal stages{parts} without communication it would be {_ideal(plan):.0%}"


def _ideal(plan: Plan) -> float:
    """Return the bubble of equal stages: none without a flush; where devices have several, each counts for so many microbatches more."""
    if plan.schedule in STALE_SCHEDULES:
        return 0.0
    groups = len({tuple(sorted(stage.devices)) for stage in plan.stages})
    return ideal_bubble(groups, plan.microbatches * len(plan.stages) // groups)


def _scale_s(simulation: Simulation, lasted_s: float) -> float:
    """Return the seconds from edge to edge of both time lines; 0 where one would be a hairline beside the other."""
    shorter, longer = sorted((simulation.step_s, lasted_s))
    return longer if longer <= NEAR * shorter else 0.0


def _lasted_s(tasks: Sequence[MeasuredTask]) -> float:
    return max((task.end_s for task in tasks), default=0.0) - min((task.start_s for task in tasks), default=0.0)
