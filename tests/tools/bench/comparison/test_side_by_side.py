"""Traced steps are put on the scale of untraced ones."""

from __future__ import annotations

import pytest

from hetero_mtf.runtime.step_trace import DeviceTrace, StepTrace, TaskTrace
from tools.bench.comparison.side_by_side import parts_text, scaled_parts, scaled_tasks


def test_parts_of_traced_steps_are_means_on_the_scale_of_an_untraced_step() -> None:
    traces = [
        StepTrace(2.0, (DeviceTrace("fast", 2.0, 0.0, 0.0), DeviceTrace("slow", 1.0, 0.5, 0.5))),
        StepTrace(2.0, (DeviceTrace("fast", 1.0, 0.5, 0.5), DeviceTrace("slow", 1.0, 0.5, 0.5))),
    ]
    fast, slow = scaled_parts(traces, 1.0)
    assert fast == pytest.approx({"device": "fast", "compute_s": 0.75, "communication_s": 0.125, "idle_s": 0.125}, nan_ok=True)
    assert (slow["compute_s"], slow["communication_s"], slow["idle_s"]) == pytest.approx((0.5, 0.25, 0.25))


def test_tasks_of_a_traced_step_are_put_on_the_scale_of_an_untraced_step() -> None:
    trace = StepTrace(2.0, (), (TaskTrace("fast", "stage0_forward0", 0.5, 1.0, 0.25),))
    assert scaled_tasks(trace, 1.0) == [{"device": "fast", "task": "stage0_forward0", "start_s": 0.25, "end_s": 0.5, "compute_s": 0.125}]


def test_the_text_of_parts_is_in_milliseconds() -> None:
    parts = [{"compute_s": 0.3, "communication_s": 0.02, "idle_s": 0.005}, {"compute_s": 0.1004, "communication_s": 0.0, "idle_s": 0.2}]
    assert parts_text(parts) == "300+20+5; 100+0+200"
