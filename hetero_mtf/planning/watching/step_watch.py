"""StepWatch: whether the next step is to be traced, and whether a device has changed, from the seconds of one plan's steps."""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
from collections.abc import Sequence

from hetero_mtf.planning.profile.spread import median_and_spread
from hetero_mtf.planning.refinement.plan_run import TracedStep
from hetero_mtf.planning.watching.evidence import Evidence
from hetero_mtf.planning.watching.levels import CHANGED, Passes, changed_devices, least_change, levels, unexplained, usual_passes
from hetero_mtf.planning.watching.trace_budget import LEAST_INTERVAL, TraceBudget

SETTLING = 2  # steps after building that do not count: the first builds, the one after it is often slow
BASELINE_STEPS, BASELINE_TRACES = 10, 3
MOST_TRACES = 9  # of a baseline: later ones that show no change are added up to these
BETWEEN_TRACES = 2  # steps between two traces of the baseline
LOOKED_STEPS = 3  # of a closer look, that are not traced: one after each trace
RECENT = 5  # steps whose median is compared with the baseline
STEP_CHANGE = 0.1  # of ln(step), from where steps are looked at more closely
SPREADS = 1.5  # times the spread of the baseline, likewise: more than three standard deviations of a median of five
WIDE = 0.5  # spread of a baseline that is taken again
MUCH_FURTHER = 0.3  # of ln(step), from a look that showed nothing, from where there is another one at once
FIRST_QUIET = 20  # steps without a closer look after one that showed nothing; twice as many after each further one


@dataclasses.dataclass(frozen=True)
class Baseline:
    """How a plan runs while nothing changes.

    Parameters
    ----------
    step_s : median seconds of a step.
    spread : their inter-quartile range relative to it.
    passes : traced seconds of each pass of each layer on each device.
    traces : the traces that these are of.
    """

    step_s: float
    spread: float
    passes: Passes
    traces: tuple[TracedStep, ...]


class StepWatch:
    """Watches the steps of one plan.

    First a baseline is taken, of some steps and traces. Then a step is traced every now and then, as often as the budget allows. Where
    the median of recent steps leaves the baseline, or a trace shows a device that does, three of the next steps are traced; if all of
    them show the same change of a device, there is evidence.

    Parameters
    ----------
    budget : counts what traces cost.
    shares : (devices,) share of each device of the cluster.
    """

    def __init__(self, budget: TraceBudget, shares: Sequence[float]) -> None:
        self._budget, self._shares = budget, tuple(shares)
        self._settling = SETTLING
        self._quiet, self._next_quiet = 0, FIRST_QUIET
        self._dismissed = 0.0  # how far steps had left the baseline at the last look that showed nothing
        self.baseline: Baseline | None = None
        self._begin()

    def _begin(self) -> None:
        self._plain: list[float] = []  # of the baseline to come
        self._traces: list[TracedStep] = []  # of the baseline to come, or of a closer look
        self._recent: collections.deque[float] = collections.deque(maxlen=RECENT)
        self._looking = False
        self._looked: list[float] = []  # steps of the closer look that were not traced
        self._since = 0  # steps since the last trace

    @property
    def usual_s(self) -> float | None:
        """Seconds of a recent step; None before there is one."""
        return statistics.median(self._recent) if self._recent else None

    @property
    def is_calm(self) -> bool:
        """Whether recent steps are as in the baseline, as far as it is known, and no change is looked for."""
        return len(self._recent) == RECENT and not self._looking

    def wants_trace(self, ahead_s: float = 0.0) -> bool:
        """Return whether the next step is to be traced.

        Parameters
        ----------
        ahead_s : seconds of the run that are known to come.
        """
        if self._settling:
            return False
        if self.baseline is None:
            due = len(self._plain) >= BETWEEN_TRACES and self._since >= BETWEEN_TRACES and len(self._traces) < BASELINE_TRACES
            return due and self._budget.allows(ahead_s)
        if self._looking:
            return len(self._traces) < BASELINE_TRACES and (self._since > 0 or not self._traces)
        return self._since >= LEAST_INTERVAL and self._budget.allows(ahead_s)

    def add(self, seconds: float) -> None:
        """Take note of a step that was not traced.

        Parameters
        ----------
        seconds : what it took.
        """
        self._budget.add(seconds)
        if self._settling:
            self._settling -= 1
            return
        self._since += 1
        self._recent.append(seconds)
        if self.baseline is None:
            self._plain.append(seconds)
            self._end_baseline()
            return
        if self._looking:
            self._looked.append(seconds)
            return
        away = self._away()
        self._quiet = max(0, self._quiet - 1)
        if away > max(STEP_CHANGE, SPREADS * self.baseline.spread) and (not self._quiet or away > self._dismissed + MUCH_FURTHER):
            self._looking = True

    def add_traced(self, seconds: float, trace: TracedStep) -> None:
        """Take note of a traced step.

        Parameters
        ----------
        seconds : what it took, the reading of its trace included.
        trace : its trace.
        """
        self._budget.add_traced(seconds, [*self._recent] or [trace.step_s])
        self._since = 0
        if self.baseline is None:
            self._traces.append(trace)
            self._end_baseline()
        elif self._looking:
            self._traces.append(trace)
        elif all(abs(level) < CHANGED for level in levels(self.baseline.passes, [trace]).values()):
            self._add_to_baseline(trace)
        elif not self._quiet:
            self._looking, self._traces = True, [trace]

    @property
    def recent_s(self) -> tuple[float, ...]:
        """Seconds of the latest steps that were not traced."""
        return tuple(self._recent)

    @property
    def looked(self) -> tuple[TracedStep, ...]:
        """Traces of a closer look; none outside one."""
        return tuple(self._traces) if self._looking else ()

    def evidence(self) -> Evidence | None:
        """Return a change that three traces have shown, once; None while there is none."""
        if self.baseline is None or len(self._traces) < BASELINE_TRACES or len(self._looked) < LOOKED_STEPS:
            return None
        passes, traces = self.baseline.passes, tuple(self._traces)
        median, single = levels(passes, traces), [levels(passes, [trace]) for trace in traces]
        step_s, spread = median_and_spread([*self._recent])
        log_step = math.log(step_s / self.baseline.step_s)
        least = least_change(passes, self.baseline.traces, traces)
        changed = unexplained(changed_devices(median, single, least), median, self._shares, log_step)
        if not changed:
            self.dismiss()
            return None
        return Evidence(median, changed, step_s, self.baseline.step_s, max(spread, self.baseline.spread) / 2)

    def pause(self) -> None:
        """Leave steps out from here to the next one that is added, whose first ones settle again."""
        self._begin()
        self._settling, self._quiet, self._next_quiet = SETTLING, 0, FIRST_QUIET

    def dismiss(self) -> None:
        """Go on with the baseline as it is, without a closer look for a while, unless steps leave it much further."""
        self._dismissed = self._away()
        self._begin()
        self._quiet, self._next_quiet = self._next_quiet, 2 * self._next_quiet

    def accept(self) -> None:
        """Take what a closer look has shown as the baseline from now on; without one it stays."""
        if self.baseline is None or not self._looking:
            return
        traces = tuple(self._traces)
        step_s, spread = median_and_spread([*self._recent])
        self.baseline = Baseline(step_s, max(spread, self.baseline.spread), usual_passes(traces), traces)
        self._begin()
        self._next_quiet = FIRST_QUIET

    def _add_to_baseline(self, trace: TracedStep) -> None:
        """Make the traced seconds of the baseline more certain by a trace that shows no change."""
        assert self.baseline is not None
        if len(self.baseline.traces) < MOST_TRACES:
            traces = (*self.baseline.traces, trace)
            self.baseline = dataclasses.replace(self.baseline, passes=usual_passes(traces), traces=traces)

    def _away(self) -> float:
        """Return how far the recent steps have left the baseline, |ln(median / baseline)|; 0 where there are too few of them."""
        if self.baseline is None or len(self._recent) < RECENT:
            return 0.0
        return abs(math.log(statistics.median(self._recent) / self.baseline.step_s))

    def _end_baseline(self) -> None:
        """Take the baseline once there is enough of it; begin again where its steps scatter too widely."""
        if len(self._plain) < BASELINE_STEPS or len(self._traces) < BASELINE_TRACES:
            return
        traces = tuple(self._traces)
        step_s, spread = median_and_spread(self._plain[-4 * BASELINE_STEPS :])
        self._begin()
        if spread <= WIDE:
            self.baseline = Baseline(step_s, spread, usual_passes(traces), traces)
