"""Windows, by a clock that only the work moves."""

from __future__ import annotations

import pytest

from hetero_mtf.calibration.windows import Measurement, Windows


class _Work:
    """A clock, and work that moves it: a cost a call, a cost a repetition, and now and then a disturbance."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.calls: list[tuple[str, int]] = []
        self.extra_s: dict[int, float] = {}

    def clock(self) -> float:
        return self.now_s

    def run(self, name: str, launch_s: float, each_s: float):  # type: ignore[no-untyped-def]
        def work(repeats: int) -> None:
            self.now_s += launch_s + repeats * each_s + self.extra_s.get(len(self.calls), 0.0)
            self.calls.append((name, repeats))

        return work


@pytest.mark.parametrize("each_s", [1e-5, 0.003, 0.4, 7.0])
def test_the_cost_of_a_call_is_left_out(each_s: float) -> None:
    work = _Work()
    found = Windows(0.2, 3).measure({"a": work.run("a", 0.05, each_s)}, work.clock)
    assert found["a"].seconds == pytest.approx(each_s, rel=1e-6)
    assert found["a"].spread == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("each_s", [1e-5, 0.003, 0.4])
def test_a_window_is_at_least_as_long_as_asked_for_and_not_many_times_longer(each_s: float) -> None:
    work = _Work()
    Windows(0.2, 3).measure({"a": work.run("a", 0.0, each_s)}, work.clock)
    lengths = {repeats * each_s for _, repeats in work.calls[-3 if each_s < 0.2 else -2 :]}
    assert all(0.2 * (1 - 1e-9) <= length <= max(0.2 + each_s, each_s) * (1 + 1e-9) for length in lengths)


@pytest.mark.parametrize(("each_s", "count", "windows"), [(0.1, 3, 3), (0.21, 3, 3), (0.3, 3, 2), (0.5, 3, 2), (2.0, 3, 1), (2.0, 1, 1)])
def test_work_that_is_longer_than_a_window_takes_the_seconds_of_all_windows_and_one_call_before(
    each_s: float, count: int, windows: int
) -> None:
    work = _Work()
    times = Windows(0.2, count).times({"a": work.run("a", 0.0, each_s), "b": work.run("b", 0.0, 2 * each_s)}, work.clock)
    assert {name: list(entries) for name, entries in times.items()} == {
        "a": pytest.approx([each_s] * windows),
        "b": pytest.approx([2 * each_s] * windows),
    }
    if each_s >= 0.2:
        assert sum(repeats for name, repeats in work.calls if name == "a") == 1 + windows


def test_the_windows_of_all_works_take_turns() -> None:
    work = _Work()
    Windows(0.2, 3).measure({"a": work.run("a", 0.0, 0.1), "b": work.run("b", 0.0, 0.2)}, work.clock)
    assert [name for name, _ in work.calls[-6:]] == ["a", "b"] * 3


def test_one_disturbed_window_moves_the_spread_and_not_the_median() -> None:
    work = _Work()
    run = work.run("a", 0.0, 0.1)
    Windows(0.2, 3).measure({"a": run}, work.clock)
    last = len(work.calls) - 1
    again = _Work()
    again.extra_s = {last: 0.2}
    found = Windows(0.2, 3).measure({"a": again.run("a", 0.0, 0.1)}, again.clock)["a"]
    assert found.seconds == pytest.approx(0.1) and found.spread > 0.1


def test_work_that_takes_no_time_beside_its_call_takes_zero_seconds_and_never_less() -> None:
    work = _Work()
    found = Windows(0.2, 1).measure({"a": work.run("a", 0.3, 0.0)}, work.clock)
    assert found["a"] == Measurement(pytest.approx(0.0, abs=1e-12), 0.0) and found["a"].seconds >= 0
