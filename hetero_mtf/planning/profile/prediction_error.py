"""The error of predictions: how far a step may be from what a profile predicts, as a part of it."""

from __future__ import annotations

import math
import statistics

from hetero_mtf.planning.profile.profile import Profile

# Without steps that were run: a layer in a step differs from one measured alone, and small operations cost what no curve has.
# The figures are those of networks that the planner's own benches did not contain, see docs/planning.md.
UNTRIED_PART = 0.10
UNTRIED_S = 0.003
LARGEST_ERROR = 0.5
# With such steps: never below what medians of a few steps deviate by.
LEAST_ERROR = 0.03


def prediction_error(profile: Profile, step_s: float) -> float:
    """Return by which part of its prediction a step that was never run may take longer.

    Parameters
    ----------
    profile : Profile; the steps in its corrections decide, where it has any.
    step_s : predicted seconds of the step.

    Returns
    -------
    The median of |ln(measured / predicted)| over the steps that were run after others had corrected the profile, at least 0.03.
    Without such steps 0.1 + 3 ms / step_s, at most 0.5.

    Examples
    --------
    >>> untried_error(0.3)
    0.11
    """
    later = profile.corrections.steps[1:]
    if not later:
        return untried_error(step_s)
    return max(LEAST_ERROR, statistics.median(abs(math.log(step.measured_s / step.predicted_s)) for step in later))


def untried_error(step_s: float) -> float:
    """Return the error that is assumed where no step has been run.

    Parameters
    ----------
    step_s : predicted seconds of the step.
    """
    return min(LARGEST_ERROR, UNTRIED_PART + UNTRIED_S / step_s) if step_s > 0 else LARGEST_ERROR
