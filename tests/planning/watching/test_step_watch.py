"""When a step is traced, and what counts as evidence of a change."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from hetero_mtf.planning.watching.evidence import Evidence
from hetero_mtf.planning.watching.step_watch import BASELINE_TRACES, FIRST_QUIET, RECENT, SETTLING, StepWatch
from hetero_mtf.planning.watching.trace_budget import LEAST_INTERVAL, TraceBudget
from tests.planning.watching.test_levels import trace


class Steps:
    """Steps of a plan on two devices, which take as long as the slower one; a trace costs a hundredth of a step."""

    def __init__(self, shares: Sequence[float] = (1.0, 1.0)) -> None:
        self.watch, self.seconds = StepWatch(TraceBudget(), shares), [1.0, 1.0]
        self.traced: list[bool] = []
        self.rng = np.random.default_rng(5)
        self.noise = 0.0
        self.extra_s = 0.0  # of a step, of no device

    def run(self, count: int) -> list[Evidence]:
        evidence = []
        for _ in range(count):
            disturbed = np.exp(self.noise * self.rng.standard_normal(2)) * self.seconds
            step_s = float(max(disturbed)) + self.extra_s
            self.traced.append(self.watch.wants_trace())
            if self.traced[-1]:
                self.watch.add_traced(1.01 * step_s, trace(*disturbed))
            else:
                self.watch.add(step_s)
            shown = self.watch.evidence()
            if shown is not None:
                evidence.append(shown)
                self.watch.accept()
        return evidence


def test_a_baseline_is_taken_after_the_first_steps_and_then_few_steps_are_traced() -> None:
    steps = Steps()
    steps.run(60)
    assert steps.watch.baseline is not None and steps.watch.baseline.step_s == 1.0
    assert not any(steps.traced[: SETTLING + 2]) and sum(steps.traced[:20]) <= BASELINE_TRACES
    at = [number for number, traced in enumerate(steps.traced[20:]) if traced]
    assert all(later - earlier > LEAST_INTERVAL for earlier, later in zip(at, at[1:]))


def test_a_slower_step_leads_to_three_traces_and_evidence() -> None:
    steps = Steps()
    steps.run(60)
    steps.seconds = [1.0, 2.5]
    (evidence,) = steps.run(12)
    assert evidence.changed == (1,) and evidence.levels[1] == pytest.approx(math.log(2.5))
    assert (evidence.step_s, evidence.reference_s) == (2.5, 1.0)
    assert steps.run(300) == []


def test_a_device_that_does_not_decide_the_step_is_found_by_a_trace() -> None:
    steps = Steps()
    steps.run(60)
    steps.seconds = [1.0, 0.4]
    (evidence,) = steps.run(120)
    assert evidence.changed == (1,) and evidence.levels[1] == pytest.approx(math.log(0.4)) and evidence.step_s == 1.0


def test_steps_that_take_longer_with_no_device_that_does_are_looked_at_less_and_less() -> None:
    steps = Steps()
    steps.run(60)
    steps.extra_s = 0.5
    assert steps.run(400) == []
    looked = [number for number in range(60, 458) if steps.traced[number : number + 3] == [True, False, True]]
    gaps = [later - earlier for earlier, later in zip(looked, looked[1:]) if later - earlier > 2]
    assert gaps[0] > FIRST_QUIET and all(later > 1.5 * earlier for earlier, later in zip(gaps, gaps[1:]))


def test_a_change_soon_after_a_look_that_showed_nothing_is_found_at_once() -> None:
    steps = Steps()
    steps.run(60)
    steps.extra_s = 0.15
    assert steps.run(13) == []
    steps.seconds = [1.0, 2.5]
    (evidence,) = steps.run(12)
    assert evidence.changed == (1,)


@pytest.mark.parametrize("noise", [0.02, 0.06, 0.12])
def test_noise_is_no_evidence(noise: float) -> None:
    steps = Steps()
    steps.noise = noise
    assert steps.run(1000) == []


def test_a_short_disturbance_is_no_evidence() -> None:
    steps = Steps()
    steps.run(60)
    steps.seconds = [1.0, 3.0]
    steps.run(4)
    steps.seconds = [1.0, 1.0]
    assert steps.run(100) == []


def test_one_device_is_slower_where_the_other_works_ahead_after_its_waits() -> None:
    steps = Steps(shares=(0.8, 0.8))
    steps.run(60)
    steps.seconds = [0.78, 2.5]
    (evidence,) = steps.run(20)
    assert evidence.changed == (1,)


def test_a_pause_leaves_the_baseline_and_what_changed_meanwhile_is_found() -> None:
    steps = Steps()
    steps.run(60)
    baseline = steps.watch.baseline
    steps.watch.pause()
    assert steps.watch.baseline is baseline and not steps.watch.is_calm
    steps.run(SETTLING + RECENT)
    assert steps.watch.is_calm and steps.watch.baseline is not None
    steps.watch.pause()
    steps.seconds = [1.0, 2.5]
    (evidence,) = steps.run(SETTLING + RECENT + 10)
    assert evidence.changed == (1,) and evidence.reference_s == 1.0
