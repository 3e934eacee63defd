"""What the tasks of a traced pipeline say: seconds of each stage, the idle part of the step, and J of what was measured. Pure functions."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.planning.simulator import chain_s

Tasks = Sequence[Mapping[str, Any]]
"""Each with device, task (such as "stage0_forward3"), start_s, end_s and busy_s."""

_NAME = re.compile(r"stage(\d+)_(forward|backward)(\d+)")
PASSES = ("forward", "backward")


def stage_passes_s(tasks: Tasks) -> list[dict[str, float]]:
    """Return forward and backward of each stage: seconds of one microbatch on the stage's busiest device, mean over microbatches.

    Parameters
    ----------
    tasks : of one step.

    Examples
    --------
    >>> names = ("stage0_forward0", "stage0_forward1")
    >>> stage_passes_s([{"device": "d0", "task": name, "busy_s": busy_s} for name, busy_s in zip(names, (1.0, 2.0))])
    [{'forward': 1.5, 'backward': 0.0}]
    """
    spent: dict[tuple[int, str, str], float] = {}
    microbatches = set()
    for entry in tasks:
        stage, step_pass, microbatch = _read(entry)
        key = stage, step_pass, str(entry["device"])
        spent[key] = spent.get(key, 0.0) + entry["busy_s"]
        microbatches.add(microbatch)

    def busiest_s(stage: int, step_pass: str) -> float:
        found = [seconds for (at, name, _), seconds in spent.items() if (at, name) == (stage, step_pass)]
        return max(found, default=0.0) / len(microbatches)

    return [{name: busiest_s(stage, name) for name in PASSES} for stage in range(1 + max(stage for stage, _, _ in spent))]


def bubble(tasks: Tasks) -> float:
    """Return the part of the passes in which devices work on no task, mean over the devices that take part.

    The passes last from the start of the first task to the end of the last one.

    Parameters
    ----------
    tasks : of one step.

    Examples
    --------
    >>> first = {"device": "d0", "start_s": 0.0, "end_s": 1.0, "busy_s": 1.0}
    >>> second = {"device": "d1", "start_s": 1.0, "end_s": 2.0, "busy_s": 0.5}
    >>> bubble([first, second])
    0.625
    """
    lasted_s = float(max(entry["end_s"] for entry in tasks) - min(entry["start_s"] for entry in tasks))
    busy_s, devices = float(sum(entry["busy_s"] for entry in tasks)), {entry["device"] for entry in tasks}
    return 1 - busy_s / (len(devices) * lasted_s)


def measured_j(steps: Sequence[Tasks], transfer_s: Sequence[float], microbatches: int) -> float:
    """Return J of the stages' measured seconds, medians over steps, and of transfers: what this cut allows with even microbatches.

    Parameters
    ----------
    steps : the tasks of each traced step.
    transfer_s : (stages - 1,) seconds of a microbatch there and back.
    microbatches : M.

    Examples
    --------
    >>> step = [{"device": "d0", "task": "stage0_forward0", "busy_s": 1.0}, {"device": "d1", "task": "stage1_forward0", "busy_s": 2.0}]
    >>> measured_j([step], [0.5], 3)
    7.5
    """
    each = [[sum(passes.values()) for passes in stage_passes_s(tasks)] for tasks in steps]
    return float(chain_s([statistics.median(seconds) for seconds in zip(*each)], transfer_s, microbatches))


def _read(entry: Mapping[str, Any]) -> tuple[int, str, int]:
    found = _NAME.fullmatch(entry["task"])
    if found is None:
        raise ValueError(f"{entry['task']} is no task of a pipeline")
    return int(found[1]), found[2], int(found[3])
