"""The verdict on a plan: how much faster it is than the best single device, how far from the ideal, and the bottleneck."""

from __future__ import annotations

import dataclasses

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.report.measured import Measured
from hetero_mtf.report.step_time import StepTime, StepTimes
from hetero_mtf.units import seconds_text

TRUSTED_UP_TO = 0.25  # of the measured step: the largest error that predictions are claimed to have


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a plan gains, measured or predicted.

    Parameters
    ----------
    basis : "measured", "predicted" or "predicted for a what-if".
    step_s : seconds a step of the plan.
    single : the best single device and its seconds a step; None if unknown.
    of_ideal : ideal / step; None if unknown.
    bottleneck : what limits the step, such as "worker:1"; "" if unknown.
    """

    basis: str
    step_s: float
    single: StepTime | None = None
    of_ideal: float | None = None
    bottleneck: str = ""

    @property
    def times_faster(self) -> float | None:
        """Seconds of the best single device / seconds of the plan; None if either is unknown."""
        single_s = None if self.single is None else self.single.measured_s if self.basis == "measured" else self.single.predicted_s
        return single_s / self.step_s if single_s is not None and self.step_s > 0 else None

    @property
    def text(self) -> str:
        """The verdict as one sentence."""
        ratio, parts = self.times_faster, []
        if ratio is not None and self.single is not None:
            parts.append(f"{relative_text(ratio)} the best single device ({self.single.name})")
        parts += [f"{self.of_ideal:.2f} of ideal"] if self.of_ideal is not None else []
        gain = ", ".join(parts or [f"{seconds_text(self.step_s)}/step"])
        return f"{self.basis}: {gain}" + (f"; bottleneck {self.bottleneck}" if self.bottleneck else "")


def relative_text(ratio: float) -> str:
    """Return how fast something is relative to something else, as the beginning of a sentence.

    Parameters
    ----------
    ratio : seconds of the other / its own seconds.

    Examples
    --------
    >>> relative_text(1.128), relative_text(0.5), relative_text(1.001)
    ('1.13 x faster than', '2.00 x slower than', 'as fast as')
    """
    if abs(ratio - 1) < 0.005:
        return "as fast as"
    return f"{ratio:.2f} x faster than" if ratio > 1 else f"{1 / ratio:.2f} x slower than"


def measured_verdict(times: StepTimes, bottleneck: str = "") -> Verdict | None:
    """Return the measured verdict; None where the plan or no device alone was measured.

    Parameters
    ----------
    times : what the plan is compared with.
    bottleneck : what limits the measured step; "" if unknown.
    """
    single = min((t for t in times.alone if t.measured_s is not None), key=lambda t: t.measured_s or 0.0, default=None)
    if times.planned.measured_s is None or single is None:
        return None
    return Verdict("measured", times.planned.measured_s, single, times.efficiency(measured=True), bottleneck)


def predicted_verdict(plan: Plan, times: StepTimes | None = None, bottleneck: str = "") -> Verdict | None:
    """Return the predicted verdict; None for a plan without a prediction.

    Parameters
    ----------
    times : what the plan is compared with; None for what is known from its alternatives considered.
    bottleneck : what limits the predicted step; "" if unknown.
    """
    if plan.predicted is None or plan.predicted.step_s <= 0:
        return None
    step_s = plan.predicted.step_s
    known = times.alone if times is not None else _single_of(plan)
    single = min((t for t in known if t.predicted_s is not None), key=lambda t: t.predicted_s or 0.0, default=None)
    basis = "predicted for a what-if" if plan.what_if else "predicted"
    return Verdict(basis, step_s, single, times.efficiency(measured=False) if times is not None else None, bottleneck)


def _single_of(plan: Plan) -> tuple[StepTime, ...]:
    """Return the best single device among the alternatives considered."""
    return tuple(
        StepTime(other.bottleneck.device if other.bottleneck is not None else "alone", other.step_s or None)
        for other in plan.alternatives
        if other.strategy == "single" and other.step_s
    )


def surprise(measured: Measured, plan: Plan) -> str:
    """Return a sentence where the measured step is far from its prediction; "" where it is near, or nothing is predicted.

    Parameters
    ----------
    measured : times of a run by the plan.
    """
    if plan.predicted is None or plan.predicted.step_s <= 0:
        return ""
    predicted_s = plan.predicted.step_s
    if abs(predicted_s / measured.step_s - 1) <= TRUSTED_UP_TO:
        return ""
    ratio = measured.step_s / predicted_s
    steps = f"the measured step of {seconds_text(measured.step_s)} is {ratio:.2f} times the predicted {seconds_text(predicted_s)}"
    remedy = "calibrate again while the devices do nothing else, and plan again"
    return f"{steps}, further off than predictions are trusted to be ({TRUSTED_UP_TO:.0%}); {remedy}"
