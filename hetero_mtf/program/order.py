"""The order in which a program's passes are built, and taken by every device."""

from __future__ import annotations

from hetero_mtf.planning.schedule import BACKWARD, FORWARD, Task, clock_table
from hetero_mtf.program.setting import Setting


def task_order(setting: Setting, microbatches: int, training: bool) -> list[Task]:
    """Return the tasks of a step, each behind those it needs.

    Parameters
    ----------
    setting : stages and schedule. "synchronous" takes one microbatch after another through all stages and back.
    microbatches : microbatches of the step, at least 1.
    training : whether there are backward passes.
    """
    stages = range(len(setting.stages))
    if not training:
        return [Task(stage, microbatch, FORWARD) for microbatch in range(microbatches) for stage in stages]
    if setting.schedule == "synchronous":
        return [
            task
            for microbatch in range(microbatches)
            for task in (
                *(Task(stage, microbatch, FORWARD) for stage in stages),
                *(Task(stage, microbatch, BACKWARD) for stage in reversed(stages)),
            )
        ]
    devices = [placed.stage.devices for placed in setting.stages]
    return [task for tick in clock_table(setting.schedule, devices, microbatches, setting.depths or None) for task in tick]
