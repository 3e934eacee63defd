"""By how many updates the gradients of a schedule without a flush are late, and how much its stages keep."""

from __future__ import annotations

from hetero_mtf.planning.schedule.stale import StaleOptions


def delays(schedule: str, stages: int, options: StaleOptions) -> tuple[int, ...]:
    """Return, for each stage, the most updates between a forward pass and the update by its gradient.

    Parameters
    ----------
    schedule : one of `STALE_SCHEDULES`.
    stages : number of stages, K.
    options : the accumulation counts.

    Examples
    --------
    >>> delays("decoupled", 3, StaleOptions()), delays("decoupled", 3, StaleOptions(accumulate=3)), delays("1f1b_2bw", 3, StaleOptions())
    ((4, 2, 0), (2, 1, 0), (1, 1, 1))
    """
    if schedule == "1f1b_2bw":
        return (1 if stages > 1 else 0,) * stages
    return tuple(-(-ticks_between(stage, stages) // options.accumulate) for stage in range(stages))


def ticks_between(stage: int, stages: int) -> int:
    """Return the steps from a stage's forward pass of a batch, or microbatch, to its backward pass.

    Parameters
    ----------
    stage, stages : index of the stage, and their number.
    """
    return 2 * (stages - 1 - stage)


def batches_kept(stage: int, stages: int) -> int:
    """Return the batches, or microbatches, whose inputs a stage holds at once, the arriving one included.

    Parameters
    ----------
    stage, stages : index of the stage, and their number.
    """
    return ticks_between(stage, stages) + 1
