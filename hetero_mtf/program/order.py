"""The order in which a program's passes are built, and computed on every device."""

from __future__ import annotations

from collections.abc import Sequence

from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, Task, clock_table, kept
from hetero_mtf.program.context import ProgramContext


def task_order(context: ProgramContext, microbatches: int, training: bool) -> list[Task]:
    """Return the tasks of a step, each after those it needs.

    Parameters
    ----------
    context : stages and schedule. "synchronous" takes one microbatch after another through all stages and back.
    microbatches : microbatches of the step, at least 1.
    training : whether there are backward passes.
    """
    stages, execution = range(len(context.stages)), context.execution
    if not training:
        return [Task(stage, microbatch, FORWARD) for microbatch in range(microbatches) for stage in stages]
    if execution.schedule == "synchronous":
        return [
            task
            for microbatch in range(microbatches)
            for task in (
                *(Task(stage, microbatch, FORWARD) for stage in stages),
                *(Task(stage, microbatch, BACKWARD) for stage in reversed(stages)),
            )
        ]
    devices = [placed.stage.devices for placed in context.stages]
    return [task for tick in clock_table(execution.schedule, devices, microbatches, execution.depths or None) for task in tick]


def recomputed_passes(context: ProgramContext, order: Sequence[Task]) -> frozenset[tuple[int, int]]:
    """Return the (stage, microbatch) whose backward passes recompute activations; none where all activations are kept.

    Parameters
    ----------
    context : stages, and whether activations are recomputed.
    order : the tasks of a step.
    """
    if not context.execution.recompute:
        return frozenset()
    backward = {(task.stage, task.microbatch) for task in order if task.step_pass == BACKWARD}
    return frozenset(backward) - kept(order, [placed.stage.devices for placed in context.stages])
