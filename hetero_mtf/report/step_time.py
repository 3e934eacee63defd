"""Step times side by side: alone, split equally, as planned, and the ideal."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from hetero_mtf.errors import HeteroError


@dataclasses.dataclass(frozen=True)
class StepTime:
    """Seconds of one training step in one arrangement.

    Parameters
    ----------
    name : what people call it, such as "worker:0" or "planned split".
    predicted_s : predicted seconds; None if not predicted.
    measured_s : measured seconds; None if not measured.

    Raises
    ------
    HeteroError
        If a time is not finite or not above zero.
    """

    name: str
    predicted_s: float | None = None
    measured_s: float | None = None

    def __post_init__(self) -> None:
        for value in (self.predicted_s, self.measured_s):
            if value is not None and not 0 < value < math.inf:
                raise HeteroError(f"the step time of {self.name} is {value:g} s", "it must be finite and above zero")


@dataclasses.dataclass(frozen=True)
class StepTimes:
    """What a split is compared with.

    Parameters
    ----------
    alone : one for each device, training alone.
    planned : the planned split.
    equal : the equal split; None if it was not run.
    simpler : what else the planned one is compared with.
    """

    alone: tuple[StepTime, ...]
    planned: StepTime
    equal: StepTime | None = None
    simpler: tuple[StepTime, ...] = ()

    @property
    def ideal(self) -> StepTime:
        """The step if all devices computed all the time, without communication: 1 / sum over devices of 1 / T_d."""
        return StepTime("ideal", ideal_s([t.predicted_s for t in self.alone]), ideal_s([t.measured_s for t in self.alone]))

    def efficiency(self, *, measured: bool) -> float | None:
        """Return ideal / planned, measured or predicted; None if a time is missing.

        Parameters
        ----------
        measured : whether measured times are meant.
        """
        ideal, planned = self.ideal, self.planned
        pair = (ideal.measured_s, planned.measured_s) if measured else (ideal.predicted_s, planned.predicted_s)
        return pair[0] / pair[1] if pair[0] is not None and pair[1] is not None else None

    def ratio(self, entry: StepTime) -> float | None:
        """Return how many times the planned split's seconds an entry takes, measured where both are, else predicted."""
        if entry.measured_s is not None and self.planned.measured_s is not None:
            return entry.measured_s / self.planned.measured_s
        if entry.predicted_s is not None and self.planned.predicted_s is not None:
            return entry.predicted_s / self.planned.predicted_s
        return None


def ideal_s(alone: Sequence[float | None]) -> float | None:
    """Return 1 / sum over devices of 1 / T_d, or None if a time is missing.

    Parameters
    ----------
    alone : (devices,) seconds a step of each device alone.

    Examples
    --------
    >>> ideal_s([1.0, 1.0])
    0.5
    """
    known = [value for value in alone if value is not None]
    return 1 / math.fsum(1 / value for value in known) if known and len(known) == len(alone) else None
