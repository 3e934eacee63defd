"""The verdict with which a training ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetero_mtf.planning.plan.plan import Plan
    from hetero_mtf.planning.profile.profile import Profile
    from hetero_mtf.report.measured import Measured
    from hetero_mtf.report.step_time import StepTimes


def verdict_text(plan: Plan, profile: Profile | None, measured: Measured | None, times: StepTimes | None) -> str:
    """Return what a plan gained, or is predicted to gain, and whether its step is far from its prediction; "" if nothing is known.

    Parameters
    ----------
    profile : the profile that the plan was made from; None if it is not at hand.
    measured : times of the run; None if none were kept.
    times : times of a comparison; None if there was none.
    """
    from hetero_mtf.report.facts import ReportedPlan, verdict
    from hetero_mtf.report.measured import Measured
    from hetero_mtf.report.table import folded_text

    if measured is None and times is not None and times.planned.measured_s is not None:
        measured = Measured(plan.digest, plan.strategy, plan.batch_size, plan.devices, 1, times.planned.measured_s)
    reported = ReportedPlan(plan, profile, measured.beside(times) if measured is not None else None)
    return folded_text("\n".join(verdict(reported)))
