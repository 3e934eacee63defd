"""The error where no allocation of a chain fits into memory."""

from __future__ import annotations

import dataclasses
import math

from hetero_mtf.errors import PlanError
from hetero_mtf.planning.allocation.exact import any_allocation
from hetero_mtf.planning.allocation.problem import Allocation, ChainProblem
from hetero_mtf.units import bytes_text

_STEP = 1.01  # the factor of memory is found to a hundredth
_MOST = 2.0**40


def impossible(problem: ChainProblem, stages: int | None, closest: Allocation | None, proven: bool, cheap: bool) -> PlanError:
    """Return the error that states the missing memory, and which allocation would fit with more.

    Parameters
    ----------
    stages : number of stages; None for any.
    closest : the allocation with the least shortfall; None if none is known.
    proven : whether it is proven that no allocation fits.
    cheap : whether the least memory with which one fits can be computed.

    Notes
    -----
    The least factor on the memory of all devices, to 1 %, by bisection over `any_allocation`.
    """
    what = f"{problem.blocks} blocks" + ("" if stages is None else f" in {stages} stages")
    on = f"{len(problem.groups)} groups of {problem.devices} devices"
    verb = "fits" if proven else "was found that fits"
    nearest = _least_memory(problem, stages) if cheap else None
    if nearest is None:
        if closest is None:
            return PlanError(f"no allocation of {what} to {on} {verb} into memory", "use more devices, fewer microbatches or smaller ones")
        short = bytes_text(problem.shortfall_bytes(closest))
        text = f"no allocation of {what} to {on} {verb} into memory, the nearest is {short} short on a device"
        return PlanError(f"{text}", "use more devices, fewer microbatches or smaller ones")
    factor, allocation = nearest
    short = bytes_text(problem.shortfall_bytes(allocation))
    fits = f"one with {len(allocation.boundaries)} stages fits with {factor:.2f} times the memory of each device"
    remedy = f"{fits}; use smaller microbatches or more devices"
    return PlanError(f"no allocation of {what} to {on} fits into memory, the nearest is {short} short on a device", remedy)


def _least_memory(problem: ChainProblem, stages: int | None) -> tuple[float, Allocation] | None:
    """Return the least factor on all memory with which an allocation fits, and that allocation."""
    low, high = 1.0, 2.0
    while (allocation := any_allocation(_with_memory(problem, high), stages)) is None:
        low, high = high, 2.0 * high
        if high > _MOST:
            return None
    while high / low > _STEP:
        middle = math.sqrt(low * high)
        fitting = any_allocation(_with_memory(problem, middle), stages)
        low, high, allocation = (middle, high, allocation) if fitting is None else (low, middle, fitting)
    return math.ceil(high * 100) / 100, allocation


def _with_memory(problem: ChainProblem, factor: float) -> ChainProblem:
    return dataclasses.replace(problem, memory_bytes=problem.memory_bytes * factor)
