"""What the tasks of a traced pipeline say: seconds of each stage, the idle part of the step, and J of what was measured. Pure functions."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.planning.schedule.simulator import chain_s

Tasks = Sequence[Mapping[str, Any]]
"""Each with device, task (such as "stage0_forward3"), start_s and end_s."""

_NAME = re.compile(r"stage(\d+)_(forward|backward)(\d+)")
PASSES = ("forward", "backward")


def work_s(tasks: Tasks) -> list[float]:
    """Return the seconds that a device is at work on each task: from its first operation to its last, but a forward pass from its input on.

    The input of a forward pass is there when the forward pass of the stage before ends. What a limited device is stopped between two
    short operations counts as work, which the seconds it is busy with operations leave out.

    Parameters
    ----------
    tasks : of one step.

    Examples
    --------
    >>> first = {"device": "d0", "task": "stage0_forward0", "start_s": 0.0, "end_s": 1.0}
    >>> second = {"device": "d1", "task": "stage1_forward0", "start_s": 0.5, "end_s": 3.0}
    >>> work_s([first, second])
    [1.0, 2.0]
    """
    end_s: dict[tuple[int, str, int], float] = {}
    for entry in tasks:
        key = _read(entry)
        end_s[key] = max(end_s.get(key, 0.0), entry["end_s"])
    seconds = []
    for entry in tasks:
        stage, step_pass, microbatch = _read(entry)
        given_s = end_s.get((stage - 1, "forward", microbatch), 0.0) if step_pass == "forward" else 0.0
        seconds.append(entry["end_s"] - min(max(entry["start_s"], given_s), entry["end_s"]))
    return seconds


def stage_passes_s(tasks: Tasks) -> list[dict[str, float]]:
    """Return forward and backward of each stage: seconds of one microbatch on the stage's busiest device, mean over microbatches.

    Parameters
    ----------
    tasks : of one step.

    Examples
    --------
    >>> lasted = (("stage0_forward0", 0.0, 1.0), ("stage0_forward1", 1.0, 3.0))
    >>> stage_passes_s([{"device": "d0", "task": name, "start_s": start_s, "end_s": end_s} for name, start_s, end_s in lasted])
    [{'forward': 1.5, 'backward': 0.0}]
    """
    spent: dict[tuple[int, str, str], float] = {}
    microbatches = set()
    for entry, seconds in zip(tasks, work_s(tasks)):
        stage, step_pass, microbatch = _read(entry)
        key = stage, step_pass, str(entry["device"])
        spent[key] = spent.get(key, 0.0) + seconds
        microbatches.add(microbatch)

    def busiest_s(stage: int, step_pass: str) -> float:
        device_s = [seconds for (at, name, _), seconds in spent.items() if (at, name) == (stage, step_pass)]
        return max(device_s, default=0.0) / len(microbatches)

    return [{name: busiest_s(stage, name) for name in PASSES} for stage in range(1 + max(stage for stage, _, _ in spent))]


def bubble(tasks: Tasks) -> float:
    """Return the part of the passes in which devices are at work on no task, mean over the devices that take part.

    The passes last from the start of the first task to the end of the last one.

    Parameters
    ----------
    tasks : of one step.

    Examples
    --------
    >>> first = {"device": "d0", "task": "stage0_forward0", "start_s": 0.0, "end_s": 1.0}
    >>> second = {"device": "d1", "task": "stage1_forward0", "start_s": 1.0, "end_s": 2.0}
    >>> bubble([first, second])
    0.5
    """
    lasted_s = float(max(entry["end_s"] for entry in tasks) - min(entry["start_s"] for entry in tasks))
    devices = {entry["device"] for entry in tasks}
    return 1 - sum(work_s(tasks)) / (len(devices) * lasted_s)


def measured_j(steps: Sequence[Tasks], transfer_s: Sequence[float], microbatches: int) -> float:
    """Return J of the stages' measured seconds, medians over steps, and of transfers: what the partition allows with equal microbatches.

    Parameters
    ----------
    steps : the tasks of each traced step.
    transfer_s : (stages - 1,) seconds of a microbatch there and back.
    microbatches : M.

    Examples
    --------
    >>> first = {"device": "d0", "task": "stage0_forward0", "start_s": 0.0, "end_s": 1.0}
    >>> second = {"device": "d1", "task": "stage1_forward0", "start_s": 1.0, "end_s": 3.0}
    >>> measured_j([[first, second]], [0.5], 3)
    7.5
    """
    each = [[sum(passes.values()) for passes in stage_passes_s(tasks)] for tasks in steps]
    return float(chain_s([statistics.median(seconds) for seconds in zip(*each)], transfer_s, microbatches))


def _read(entry: Mapping[str, Any]) -> tuple[int, str, int]:
    match = _NAME.fullmatch(entry["task"])
    if match is None:
        raise ValueError(f"{entry['task']} is no task of a pipeline")
    return int(match[1]), match[2], int(match[3])
