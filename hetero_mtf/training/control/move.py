"""Move: training went on under another plan."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.plan.plan import Plan


@dataclasses.dataclass(frozen=True)
class Move:
    """A move to another plan.

    Parameters
    ----------
    step : number of steps taken before it.
    reason : why, as text.
    before, after : the plans.
    before_s : measured seconds of a step before it.
    expected_s : seconds of a step that were expected of the new plan.
    taken_s : seconds that training stood still: reading and writing the values; in a repeated training building, too.
    """

    step: int
    reason: str
    before: Plan
    after: Plan
    before_s: float
    expected_s: float
    taken_s: float
