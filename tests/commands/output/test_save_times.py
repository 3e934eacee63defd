"""When a training saves its state on the way."""

import types

import pytest

from hetero_mtf.commands.output.save_times import SaveTimes


@pytest.fixture
def clock():
    """A clock that stands still until it is set."""
    return types.SimpleNamespace(now_s=0.0)


def _saves(times, clock, steps, step_s, save_s):
    """Return the steps after which a training of so many steps saves."""
    saved = []
    for step in range(1, steps + 1):
        clock.now_s += step_s
        if times.is_due(step):
            times.begin()
            clock.now_s += save_s
            times.end()
            saved.append(step)
    return saved


def test_every_so_many_steps_whatever_the_time(clock):
    assert _saves(SaveTimes(3, lambda: clock.now_s), clock, 10, 100.0, 100.0) == [3, 6, 9]


@pytest.mark.parametrize(("save_s", "apart"), [(0.0, 6), (1.0, 6), (4.0, 20)])
def test_by_time_a_minute_apart_and_at_most_a_fiftieth_of_the_time(clock, save_s, apart):
    saved = _saves(SaveTimes(clock=lambda: clock.now_s), clock, 600, 10.0, save_s)
    assert saved[0] == 6 and {later - earlier for earlier, later in zip(saved, saved[1:])} == {apart}
    assert len(saved) * save_s <= 0.021 * clock.now_s


def test_the_next_save_is_told(clock):
    assert SaveTimes(3).next_text(6) == "after step 9"
    times = SaveTimes(clock=lambda: clock.now_s)
    clock.now_s = 18.0
    assert times.next_text(4) == "in 42 s"
