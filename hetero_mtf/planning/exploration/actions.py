"""What a training may do next."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.plan.plan import Plan


@dataclasses.dataclass(frozen=True)
class Watch:
    """Try nothing more; watch the steps for changes of devices.

    Parameters
    ----------
    reason : why, as text.
    is_final : whether no other plan promises to be faster, whatever the length of the training; else a longer one would try more.
    """

    reason: str
    is_final: bool


@dataclasses.dataclass(frozen=True)
class TakeStep:
    """Take a training step under the plan in force."""


@dataclasses.dataclass(frozen=True)
class TraceStep:
    """Take a training step under the plan in force, and trace it."""


@dataclasses.dataclass(frozen=True)
class MeasureCurves:
    """Measure curves and links for a second or so, before the next step."""


@dataclasses.dataclass(frozen=True)
class Solve:
    """Correct the profile by the trials so far, and solve for candidates, in the background."""


@dataclasses.dataclass(frozen=True)
class BuildPlan:
    """Build a plan in the background.

    Parameters
    ----------
    plan : the plan.
    """

    plan: Plan


@dataclasses.dataclass(frozen=True)
class MoveTo:
    """Go on under another plan that is built.

    Parameters
    ----------
    plan : the plan.
    """

    plan: Plan


Action = TakeStep | TraceStep | MeasureCurves | Solve | BuildPlan | MoveTo | Watch
