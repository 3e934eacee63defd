"""DeviceWatch: how much faster or slower devices are than in a profile, from the steps of whatever plan is in force."""

from __future__ import annotations

import math
from typing import NamedTuple

from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.plan_run import TracedStep
from hetero_mtf.planning.watching.evidence import DeviceChange, Evidence
from hetero_mtf.planning.watching.levels import CHANGED
from hetero_mtf.planning.watching.speeds import evidence_at_start, log_factors_after, profile_at
from hetero_mtf.planning.watching.step_watch import StepWatch
from hetero_mtf.planning.watching.trace_budget import TraceBudget


class Change(NamedTuple):
    """A change of devices, and how the plan in force runs since.

    Parameters
    ----------
    devices : those that have changed.
    profile : the profile with the speeds of devices as they are now.
    step_s : seconds of the steps since that were not traced.
    traces : traced ones.
    """

    devices: tuple[DeviceChange, ...]
    profile: Profile
    step_s: tuple[float, ...]
    traces: tuple[TracedStep, ...]


class DeviceWatch:
    """Watches the devices of a training.

    Parameters
    ----------
    profile : the profile of the network, cluster and batch size.

    Attributes
    ----------
    budget : counts what traces cost.
    """

    def __init__(self, profile: Profile) -> None:
        self.budget = TraceBudget()
        self._profile = profile
        self._log_factors: dict[int, float] = {}
        self._compared = False  # whether a baseline was compared with the profile since devices last changed
        self._compares = False  # whether that of the present steps is to be
        self._steps: StepWatch | None = None
        self._built_from: object = None  # of the plan whose steps are, or were last, watched
        self._paused: StepWatch | None = None  # of that plan, while others are tried

    @property
    def is_watching(self) -> bool:
        """Whether steps are watched at present."""
        return self._steps is not None

    @property
    def is_calm(self) -> bool:
        """Whether no steps are watched, or recent ones are as in the baseline."""
        return self._steps is None or self._steps.is_calm

    def begin(self, profile: Profile, plan: Plan) -> None:
        """Watch the steps of a plan from the next one on; of the plan that was watched last with its baseline.

        Parameters
        ----------
        profile : as other steps have corrected it; it counts until a device has changed, from when on speeds are relative to it.
        plan : the plan in force.
        """
        if not self._log_factors:
            self._profile = profile
        if self.knows(plan):
            self._steps, self._compares = self._paused, False
        else:
            shares = [device.share for device in self._profile.cluster.devices]
            self._steps, self._compares = StepWatch(self.budget, shares), not self._compared
        self._built_from, self._paused = plan.built_from, None

    def knows(self, plan: Plan) -> bool:
        """Return whether there is a baseline of a plan's steps, from before others were tried.

        Parameters
        ----------
        plan : the plan.
        """
        return self._paused is not None and plan.built_from == self._built_from

    def stop(self) -> None:
        """Watch no steps, as those to come are no measurement, or of another plan."""
        if self._steps is not None:
            self._paused = self._steps if self._steps.baseline is not None else None
            self._steps.pause()
        self._steps = None

    def wants_trace(self, left: int | None) -> bool:
        """Return whether the next step is to be traced.

        Parameters
        ----------
        left : steps to come; None where that is not known.
        """
        if self._steps is None:
            return False
        usual_s = self._steps.usual_s
        return self._steps.wants_trace(0.0 if usual_s is None or left is None else usual_s * left)

    def add(self, seconds: float) -> None:
        """Take note of a step that was not traced.

        Parameters
        ----------
        seconds : what it took.
        """
        if self._steps is not None:
            self._steps.add(seconds)

    def add_traced(self, seconds: float, trace: TracedStep) -> None:
        """Take note of a traced step.

        Parameters
        ----------
        seconds : what it took, the reading of its trace included.
        trace : its trace.
        """
        if self._steps is not None:
            self._steps.add_traced(seconds, trace)

    def change(self, plan: Plan) -> Change | None:
        """Return a change that steps and traces agree on, once; None while there is none.

        Parameters
        ----------
        plan : the plan in force.
        """
        watched = self._steps
        evidence = None if watched is None else self._evidence(watched, plan)
        if watched is None or evidence is None:
            return None
        before = self._log_factors
        after = log_factors_after(self._profile, plan, before, evidence)
        times = {device: after.get(device, 0.0) - before.get(device, 0.0) for device in evidence.changed}
        if all(log_times * math.copysign(1.0, evidence.levels[device]) < CHANGED / 2 for device, log_times in times.items()):
            watched.dismiss()
            return None
        self._log_factors = after
        devices = self._profile.cluster.devices
        changes = tuple(DeviceChange(devices[device].name, math.exp(log_times)) for device, log_times in times.items())
        recent_s, traces = watched.recent_s or (evidence.step_s,), watched.looked
        if not traces and watched.baseline is not None:  # compared with the profile: the baseline shows the change
            recent_s, traces = (watched.baseline.step_s,), watched.baseline.traces
        watched.accept()
        self._compared = False
        return Change(changes, profile_at(self._profile, after), recent_s, traces)

    def _evidence(self, watched: StepWatch, plan: Plan) -> Evidence | None:
        """Return evidence of a change since the baseline, or, with that of a plan to be compared, since the profile was made or corrected.

        Devices may have changed while plans were tried, which are no measurement of them.
        """
        baseline = watched.baseline
        if baseline is None or not self._compares:
            return watched.evidence()
        self._compares, self._compared = False, True
        if len(plan.stages) > 1:
            return None
        return evidence_at_start(self._profile, plan, baseline, self._log_factors)
