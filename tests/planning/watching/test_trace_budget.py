"""Traces are allowed as long as what they cost stays below a part of the run."""

from __future__ import annotations

import pytest

from hetero_mtf.planning.watching.trace_budget import TraceBudget


def test_the_first_trace_is_free_and_the_next_waits_until_it_is_paid_for() -> None:
    budget = TraceBudget(0.01)
    assert budget.allows()
    budget.add(1.0)
    budget.add_traced(1.1, [1.0])
    assert budget.spent_s == pytest.approx(0.1) and not budget.allows()
    for _ in range(17):
        budget.add(1.0)
    assert not budget.allows()
    budget.add(1.0)
    assert budget.allows()


def test_steps_that_are_known_to_come_pay_for_traces_too() -> None:
    budget = TraceBudget(0.01)
    budget.add_traced(1.1, [1.0])
    assert not budget.allows(ahead_s=5.0) and budget.allows(ahead_s=20.0)


def test_noise_of_traced_steps_cancels_and_traces_never_gain_time() -> None:
    budget = TraceBudget()
    budget.add_traced(0.9, [1.0, 1.2, 0.8])
    assert budget.spent_s == 0 and budget.run_s == 0.9
    budget.add_traced(1.3, [1.0])
    assert budget.spent_s == pytest.approx(0.2)


def test_what_traces_cost_stays_below_the_part_over_a_long_run() -> None:
    budget = TraceBudget(0.01)
    for _ in range(2000):
        if budget.allows():
            budget.add_traced(1.3, [1.0])
        else:
            budget.add(1.0)
    assert 0.005 < budget.spent_s / budget.run_s <= 0.01
