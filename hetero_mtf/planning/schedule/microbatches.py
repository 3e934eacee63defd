"""Microbatches: the parts that a pipeline divides a batch into."""

from __future__ import annotations

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.solvers.apportionment import equal_sizes


def microbatch_sizes(batch_size: int, microbatches: int) -> tuple[int, ...]:
    """Return the samples of each microbatch: as equal as possible, the larger ones first.

    Parameters
    ----------
    batch_size : samples of the batch, at least 1.
    microbatches : number of microbatches. A batch of fewer samples, such as the last of an epoch, has one microbatch a sample.

    Raises
    ------
    PlanError
        If the batch size or the number of microbatches is less than 1.

    Examples
    --------
    >>> microbatch_sizes(10, 4), microbatch_sizes(2, 4)
    ((3, 3, 2, 2), (1, 1))
    """
    if batch_size < 1 or microbatches < 1:
        raise PlanError(f"a batch of {batch_size} samples cannot be divided into {microbatches} microbatches", "use at least 1 of each")
    return equal_sizes(batch_size, min(batch_size, microbatches)).sizes
