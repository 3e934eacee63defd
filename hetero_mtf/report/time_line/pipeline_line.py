"""The time line of a pipeline's step: as it is predicted, and as one traced step was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.clock_table import FORWARD
from hetero_mtf.planning.schedule.simulator import UPDATE, Entry, Simulation
from hetero_mtf.report.colours import TRANSFER
from hetero_mtf.report.measured import MeasuredTask
from hetero_mtf.report.time_line.line import Span, TimeLine, named
from hetero_mtf.units import seconds_text

DEVICES_UP_TO = 16  # rows; for more devices there is a row a stage
STAGES_UP_TO = 64


class Rows:
    """The rows of a plan's time lines: a device each, or a stage each where there are many devices.

    Attributes
    ----------
    names : (rows,) what people read in front of them; empty for more stages than can be drawn.
    """

    def __init__(self, plan: Plan) -> None:
        self.by_device = len(plan.used) <= DEVICES_UP_TO
        stages = range(len(plan.stages))
        if self.by_device:
            held = {device: [stage for stage in stages if device in plan.stages[stage].devices] for device in plan.used}
            self._rows = [[at for at, device in enumerate(held) if stage in held[device]] for stage in stages]
            self.names = tuple(f"{plan.devices[device]}, {named('stage', numbers)}" for device, numbers in held.items())
        else:
            self._rows = [[stage] for stage in stages]
            self.names = tuple(f"stage {at}, {placed(plan, at)}" for at in stages) if len(plan.stages) <= STAGES_UP_TO else ()
        self._named: dict[tuple[str, int], int] = {}
        for stage in reversed(stages):  # of processors on one device, the first has its name
            for device in reversed(plan.stages[stage].devices):
                row = plan.used.index(device) if self.by_device else stage
                self._named[plan.devices[device], stage] = row

    def of_stage(self, stage: int) -> Sequence[int]:
        """Return the rows of all devices of a stage.

        Parameters
        ----------
        stage : its index.
        """
        return self._rows[stage]

    def of_device(self, device: str, stage: int) -> int | None:
        """Return the row of a device in a stage; None for a device that is not in it.

        Parameters
        ----------
        device : the device's name.
        stage : index of the stage.
        """
        return self._named.get((device, stage))


def placed(plan: Plan, stage: int) -> str:
    """Return the devices of a stage: all names of up to three, else the first and how many others.

    Parameters
    ----------
    stage : index of the stage.
    """
    names = [plan.devices[device] for device in plan.stages[stage].devices]
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def predicted_line(plan: Plan, simulation: Simulation, total_s: float = 0.0) -> TimeLine | None:
    """Return the predicted time line; None for more stages than can be drawn.

    Parameters
    ----------
    simulation : its simulated step.
    total_s : least seconds from edge to edge, so that two lines have one scale.

    Notes
    -----
    A transfer stands in the rows of its senders. The launch overhead, before the first task, is left out.
    """
    rows = Rows(plan)
    if not rows.names:
        return None
    spans = [*_spans(rows, simulation.tasks), *_spans(rows, simulation.updates), *_sent(rows, simulation.transfers)]
    return TimeLine(rows.names, tuple(spans), max(total_s, simulation.step_s))


def measured_line(plan: Plan, tasks: Sequence[MeasuredTask], total_s: float = 0.0) -> TimeLine | None:
    """Return the time line of a traced step, which begins with its first task; None for more stages than can be drawn.

    Parameters
    ----------
    tasks : the tasks of the step, at least one.
    total_s : as for `predicted_line`.
    """
    rows, spans = Rows(plan), []
    if not rows.names:
        return None
    begun_s = min(task.start_s for task in tasks)
    for task in tasks:
        row = rows.of_device(task.device, task.stage)
        if row is not None:
            told = f"{_told(task.stage, task.microbatch, task.step_pass)} on {task.device}, {seconds_text(task.compute_s)} of it compute"
            spans.append(_span(row, task.step_pass, task.microbatch, told, task.start_s - begun_s, task.end_s - begun_s))
    return TimeLine(rows.names, tuple(spans), max(total_s, max(task.end_s for task in tasks) - begun_s))


def _spans(rows: Rows, entries: Sequence[Entry]) -> Iterator[Span]:
    for stage, microbatch, step_pass, start_s, end_s in entries:
        for row in rows.of_stage(stage):
            yield _span(row, step_pass, microbatch, _told(stage, microbatch, step_pass), start_s, end_s)


def _sent(rows: Rows, entries: Sequence[Entry]) -> Iterator[Span]:
    for boundary, microbatch, step_pass, start_s, end_s in entries:
        if end_s <= start_s:
            continue
        onwards = step_pass == FORWARD
        source, reader = (boundary, boundary + 1) if onwards else (boundary + 1, boundary)
        what = "output" if onwards else "gradient"
        for row in rows.of_stage(source):
            yield _span(row, TRANSFER, microbatch, f"{what} of microbatch {microbatch} to stage {reader}", start_s, end_s)


def _told(stage: int, microbatch: int, step_pass: str) -> str:
    what = "update" if step_pass == UPDATE else f"{step_pass} pass of microbatch {microbatch}"
    return f"stage {stage}, {what}"


def _span(row: int, kind: str, microbatch: int, told: str, start_s: float, end_s: float) -> Span:
    label = str(microbatch) if microbatch >= 0 else ""
    return Span(row, kind, label, f"{told}: {seconds_text(end_s - start_s)} from {seconds_text(start_s)}", start_s, end_s)
