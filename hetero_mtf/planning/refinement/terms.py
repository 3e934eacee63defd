"""Factors of the links and of the launch overhead, estimated from whole steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

PRIOR_SPREAD = 0.5  # of a factor about 1
STEP_SPREAD = 0.03  # of a measured step
SMALLEST, LARGEST = 0.2, 5.0


class StepParts(NamedTuple):
    """A measured step beside the parts of its prediction.

    Parameters
    ----------
    measured_s : seconds of the step.
    compute_s : what the prediction has besides the next two: compute and idle time of the bottleneck.
    communication_s : predicted seconds of the bottleneck in collectives, with a factor of 1.
    launch_s : predicted launch overhead, with a factor of 1.
    """

    measured_s: float
    compute_s: float
    communication_s: float
    launch_s: float


def link_and_launch_factors(steps: Sequence[StepParts]) -> tuple[float, float]:
    """Return the factors of the links and of the launch overhead.

        min_{a, b} sum_r ((compute_r + a communication_r + b launch_r - measured_r) / (0.03 measured_r))^2
                   + ((a - 1)^2 + (b - 1)^2) / 0.5^2

    Parameters
    ----------
    steps : the steps that were run; none gives (1, 1).

    Notes
    -----
    Ridge regression about 1: where no step has collectives, the factor of links stays 1. Between 0.2 and 5.

    Examples
    --------
    >>> links, launch = link_and_launch_factors([StepParts(1.0, 0.6, 0.2, 0.0)])
    >>> round(links, 2), launch
    (1.92, 1.0)
    """
    if not steps:
        return 1.0, 1.0
    parts = np.array([[step.communication_s, step.launch_s] for step in steps])
    missing = np.array([step.measured_s - step.compute_s for step in steps]) - parts.sum(axis=1)
    spread = STEP_SPREAD * np.array([step.measured_s for step in steps])
    weighted = parts / spread[:, None]
    normal = weighted.T @ weighted + np.eye(2) / PRIOR_SPREAD**2
    links, launch = 1 + np.linalg.solve(normal, weighted.T @ (missing / spread))
    return float(np.clip(links, SMALLEST, LARGEST)), float(np.clip(launch, SMALLEST, LARGEST))
