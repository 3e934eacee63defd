"""The duty cycle as a pure rule, with a clock of the test's own."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetero_mtf.runtime.limits.duty_cycle import DutyCycle


def _run(cycle, end_s, lateness, now_s=0.0):
    ran_s = 0.0
    while now_s < end_s:
        switch_s = max(now_s, cycle.next_s()) + next(lateness)
        ran_s += (switch_s - now_s) * cycle.running
        now_s = switch_s
        assert cycle.switch(now_s)
    return ran_s / now_s


@given(st.floats(0.05, 0.95), st.integers(0, 2**32))
def test_the_share_holds_though_switches_come_late(share, seed):
    generator = random.Random(seed)
    lateness = iter(lambda: generator.uniform(0, 0.003), None)
    assert _run(DutyCycle(share, 0.0), 20.0, lateness) == pytest.approx(share, abs=0.02)


def test_a_switch_that_is_on_time_comes_after_the_share_of_a_period():
    cycle = DutyCycle(0.3, 5.0, period_s=0.01)
    assert cycle.next_s() == pytest.approx(5.003)
    assert not cycle.switch(5.002)
    assert cycle.switch(5.003) and not cycle.running
    assert cycle.next_s() == pytest.approx(5.010)


def test_a_whole_share_never_stops():
    cycle = DutyCycle(1.0, 0.0)
    assert cycle.next_s() == float("inf") and not cycle.switch(1e9) and cycle.running


def test_a_stopped_process_given_the_whole_share_is_continued_at_once():
    cycle = DutyCycle(0.5, 0.0)
    cycle.switch(0.005)
    cycle.set_share(1.0, 0.006)
    assert cycle.next_s() == 0.006 and cycle.switch(0.006) and cycle.running
    assert cycle.next_s() == float("inf")


def test_a_long_absence_is_not_made_good_without_end():
    cycle = DutyCycle(0.5, 0.0)
    cycle.switch(3600.0)
    assert cycle.next_s() <= 3600.0 + 0.2 + 1e-9
