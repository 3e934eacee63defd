"""What a run measured: seconds of training steps, kept beside its plan to be set beside the prediction."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import DataError, PlanError
from hetero_mtf.json_file import read_json, write_json
from hetero_mtf.json_records import Fault, listed, read_fields, renamed, unchecked, unless_caused
from hetero_mtf.planning.layout.records import DevicePart
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.plan.version1 import PART_NAMES, current_strategy
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD
from hetero_mtf.planning.schedule.stale import batches_kept
from hetero_mtf.report.step_time import StepTimes

VERSION, EARLIER = 2, 1
_HEAD = ("kind", "version")
_PART_TIMES = ("compute_s", "communication_s", "idle_s", "overlapped_s")
_TASK = re.compile(rf"stage(\d+)_({FORWARD}|{BACKWARD})(\d+)")


@dataclasses.dataclass(frozen=True)
class MeasuredTask:
    """When one device computed one task of a pipeline in a traced step.

    Parameters
    ----------
    device : the device's name.
    stage, microbatch : indices of the task's stage and microbatch.
    step_pass : "forward" or "backward".
    start_s, end_s : when its first operation began and its last one ended, seconds since the step's first operation on any device.
    compute_s : seconds in which the device worked on it.
    """

    device: str
    stage: int
    microbatch: int
    step_pass: str
    start_s: float
    end_s: float
    compute_s: float


def measured_task(device: str, task: str, start_s: float, end_s: float, compute_s: float) -> MeasuredTask:
    """Return the record of a task that a step trace tells of.

    Parameters
    ----------
    device, start_s, end_s, compute_s : as in `MeasuredTask`.
    task : its name.

    Raises
    ------
    DataError
        If the name is of another form.

    Examples
    --------
    >>> measured_task("cpu:0", "stage1_backward3", 0.5, 0.75, 0.25)
    MeasuredTask(device='cpu:0', stage=1, microbatch=3, step_pass='backward', start_s=0.5, end_s=0.75, compute_s=0.25)
    """
    match = _TASK.fullmatch(task)
    if match is None:
        raise DataError(f"a trace names the task {task!r}, which is not like stage0_forward3", "report it with the plan")
    return MeasuredTask(device, int(match[1]), int(match[3]), match[2], start_s, end_s, compute_s)


@dataclasses.dataclass(frozen=True)
class MeasuredPart(DevicePart):
    """What one device did in one traced step.

    Parameters
    ----------
    overlapped_s : seconds of `compute_s` in which a tensor was sent from it or to it.
    """

    overlapped_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Measured:
    """Measured seconds of training steps.

    Parameters
    ----------
    digest : digest of the network that was trained.
    strategy : strategy of the plan it was trained by.
    batch_size : samples a step.
    devices : names of the cluster's devices.
    steps : steps that were timed; the first ones, short batches and the last of each epoch are not.
    step_s : median seconds a step.
    spread : inter-quartile range relative to the median.
    alone_s : (devices,) seconds a step on each device alone; empty if not measured.
    equal_s : seconds a step of the equal split; None if not measured.
    parts : what each TensorFlow device did in one traced step; empty if none was traced.
    tasks : when each TensorFlow device computed which task of a pipeline in that step; empty where there is one stage and microbatch.
    simpler_s : name -> seconds a step of what else a pipeline was compared with (`simpler_pipelines`); empty if not measured.

    Raises
    ------
    DataError
        If a value is out of range.
    """

    digest: str
    strategy: str
    batch_size: int
    devices: tuple[str, ...]
    steps: int
    step_s: float
    spread: float = 0.0
    alone_s: tuple[float, ...] = ()
    equal_s: float | None = None
    parts: tuple[MeasuredPart, ...] = ()
    tasks: tuple[MeasuredTask, ...] = ()
    simpler_s: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = _faults(self)
        if faults:
            raise DataError(f"the measured times have {listed(faults)}", "train again")

    def check(self, plan: Plan, source: str = "the measured times") -> None:
        """Raise `PlanError` unless the times are of a run by a plan of this strategy for this network, batch size and cluster.

        The tasks of a traced step must be those of the plan's stages and microbatches too.

        Parameters
        ----------
        source : what messages call it.
        """
        mine, asked = (_said(r.digest, r.strategy, r.batch_size, r.devices) for r in (self, plan))
        if mine != asked:
            raise PlanError(f"{source}: measured was {mine}, the plan is {asked}", "give the plan of that run or train by this one")
        traced = tuple(1 + max(getattr(task, name) for task in self.tasks) if self.tasks else 0 for name in ("stage", "microbatch"))
        known = len(plan.stages), _numbered(plan)
        if self.tasks and traced != known:
            mine, asked = (f"{stages} stages with {batches} microbatches" for stages, batches in (traced, known))
            raise PlanError(f"{source}: traced were {mine}, the plan has {asked}", "give the plan of that run or train by this one")

    @property
    def traced_s(self) -> float:
        """Seconds of the traced step; 0 if none was traced."""
        return max((part.compute_s + part.communication_s + part.idle_s for part in self.parts), default=0.0)

    def on_step_base(self) -> Measured:
        """Return the times with those of the traced step scaled to `step_s`, which is the median of many steps and not traced."""
        if self.traced_s <= 0:
            return self
        scale = self.step_s / self.traced_s
        parts = tuple(dataclasses.replace(part, **{name: scale * getattr(part, name) for name in _PART_TIMES}) for part in self.parts)
        tasks = tuple(
            dataclasses.replace(task, start_s=scale * task.start_s, end_s=scale * task.end_s, compute_s=scale * task.compute_s)
            for task in self.tasks
        )
        return dataclasses.replace(self, parts=parts, tasks=tasks)

    def beside(self, times: StepTimes | None) -> Measured:
        """Return the times with those of each device alone, of the equal split and of simpler plans, taken in one comparison.

        Parameters
        ----------
        times : what `train --compare` measured; None for nothing.
        """
        if times is None:
            return self
        alone_s = tuple(entry.measured_s for entry in times.alone if entry.measured_s is not None)
        equal_s, planned_s = (entry.measured_s if entry is not None else None for entry in (times.equal, times.planned))
        known = planned_s if planned_s is not None else self.step_s
        simpler_s = {entry.name: entry.measured_s for entry in times.simpler if entry.measured_s is not None}
        alone_s = alone_s if len(alone_s) == len(self.devices) else ()
        return dataclasses.replace(self, alone_s=alone_s, equal_s=equal_s, simpler_s=simpler_s, step_s=known)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the times to a JSON file in one piece.

        Parameters
        ----------
        path : path of the file to write or replace.
        """
        write_json(path, {"kind": "measured", "version": VERSION, **dataclasses.asdict(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Measured:
        """Return the times in a file written by `save`.

        Parameters
        ----------
        path : path of the file.

        Raises
        ------
        HeteroError
            If the file cannot be read, is not of this kind and version, or has faults; all faults at once.
        """
        document: dict[str, Any] = read_json(path, kind="measured", version=VERSION, earlier=(EARLIER,))
        if document["version"] == EARLIER:
            document = renamed(document, {**PART_NAMES, "even_s": "equal_s"})
            document["strategy"] = current_strategy(document.get("strategy", ""))
        faults: list[Fault] = []
        values = read_fields(cls, {key: value for key, value in document.items() if key not in _HEAD}, "", faults)
        faults += unless_caused(_faults(unchecked(cls, values)), faults)
        if faults:
            raise DataError(f"{os.fspath(path)} has {listed(faults)}", "train again with hetero-mtf train")
        return cls(**values)


def _numbered(plan: Plan) -> int:
    """Return how many microbatches the tasks of a step are of; without a flush, batches in flight."""
    return batches_kept(0, len(plan.stages)) if plan.schedule in STALE_SCHEDULES else plan.microbatches


def _said(digest: str, strategy: str, batch_size: int, devices: Sequence[str]) -> str:
    return f"network {digest} by strategy {strategy} at batch size {batch_size} on {', '.join(devices)}"


def _faults(measured: Measured) -> list[Fault]:
    faults = [Fault(name, f"is {value}, must be at least 1") for name in ("batch_size", "steps") if (value := getattr(measured, name)) < 1]
    faults += [] if measured.devices else [Fault("devices", "are none, must name at least one")]
    named = {"step_s": measured.step_s, **{f"alone_s[{i}]": value for i, value in enumerate(measured.alone_s)}}
    named |= {} if measured.equal_s is None else {"equal_s": measured.equal_s}
    named |= {f"simpler_s.{name}": value for name, value in measured.simpler_s.items()}
    faults += [Fault(path, f"is {value:g}, must be finite and above zero") for path, value in named.items() if not 0 < value < math.inf]
    for index, part in enumerate(measured.parts):
        spent = {f"parts[{index}].{name}": getattr(part, name) for name in _PART_TIMES}
        faults += [Fault(path, f"is {value:g}, must be zero or more") for path, value in spent.items() if not 0 <= value < math.inf]
    for index, task in enumerate(measured.tasks):
        faults += [Fault(f"tasks[{index}].{name}", text) for name, text in _task_faults(task)]
    if not 0 <= measured.spread < math.inf:
        faults.append(Fault("spread", f"is {measured.spread:g}, must be zero or more"))
    if measured.alone_s and len(measured.alone_s) != len(measured.devices):
        faults.append(Fault("alone_s", f"are {len(measured.alone_s)}, there are {len(measured.devices)} devices"))
    return faults


def _task_faults(task: MeasuredTask) -> list[tuple[str, str]]:
    faults = [(name, f"is {value}, must be at least 0") for name in ("stage", "microbatch") if (value := getattr(task, name)) < 0]
    if task.step_pass not in (FORWARD, BACKWARD):
        faults.append(("step_pass", f"is {task.step_pass!r}, must be {FORWARD} or {BACKWARD}"))
    for name in ("start_s", "compute_s"):
        value = getattr(task, name)
        faults += [] if 0 <= value < math.inf else [(name, f"is {value:g}, must be zero or more")]
    if not task.start_s <= task.end_s < math.inf:
        faults.append(("end_s", f"is {task.end_s:g}, must not be before {task.start_s:g}"))
    return faults
