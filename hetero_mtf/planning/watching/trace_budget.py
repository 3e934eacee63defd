"""How often a step may be traced: what traces cost, measured, stays below a part of the run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

PART = 0.01  # of the run, that tracing may take
LEAST_INTERVAL = 10  # steps between two traces of a steady run


class TraceBudget:
    """Counts what traces cost beside steps that are not traced.

    Parameters
    ----------
    part : part of the run's seconds that traces may cost.
    """

    def __init__(self, part: float = PART) -> None:
        self._part = part
        self._run_s = 0.0
        self._spent_s = 0.0
        self._extra_s: list[float] = []

    @property
    def run_s(self) -> float:
        """Seconds of all steps so far."""
        return self._run_s

    @property
    def spent_s(self) -> float:
        """Seconds that traces have cost so far: what traced steps took beyond the usual step, in sum, so that noise cancels."""
        return max(0.0, self._spent_s)

    def add(self, seconds: float) -> None:
        """Count a step that is not traced.

        Parameters
        ----------
        seconds : what it took.
        """
        self._run_s += seconds

    def add_traced(self, seconds: float, usual_s: Sequence[float]) -> None:
        """Count a traced step.

        Parameters
        ----------
        seconds : what it took, the reading of its trace included.
        usual_s : seconds of steps before it that were not traced, at least one.
        """
        extra_s = seconds - statistics.median(usual_s)
        self._run_s += seconds
        self._spent_s += extra_s
        self._extra_s.append(extra_s)

    def allows(self, ahead_s: float = 0.0) -> bool:
        """Return whether another trace keeps their cost below the part of the run.

        Parameters
        ----------
        ahead_s : seconds of the run that are known to come.

        Notes
        -----
        What the next one costs is taken to be the median so far; the first one is free, as nothing is known of it.
        """
        next_s = max(0.0, statistics.median(self._extra_s)) if self._extra_s else 0.0
        return self.spent_s + next_s <= self._part * (self._run_s + ahead_s)
