"""By how many steps the gradients of a schedule are late, and how many batches its stages keep."""

from __future__ import annotations


def delays(stages: int) -> tuple[int, ...]:
    """Return, for each stage of schedule "decoupled", the updates between a batch's forward pass and the update by its gradient.

    Parameters
    ----------
    stages : number of stages.

    Examples
    --------
    >>> delays(3)
    (4, 2, 0)
    """
    return tuple(2 * (stages - 1 - stage) for stage in range(stages))


def batches_kept(stage: int, stages: int) -> int:
    """Return the batches whose inputs a stage of schedule "decoupled" holds at once, the arriving one included.

    Parameters
    ----------
    stage, stages : index of the stage, and their number.
    """
    return delays(stages)[stage] + 1
