"""Calls: what a step costs besides its layers, and never less than nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.calibration.launch_overhead import FED_BYTES, STEPS, LaunchOverhead, measure_launch_overhead
from hetero_mtf.calibration.windows import Windows


class _Given(Windows):
    """Windows that find what they are given."""

    found: dict[str, np.ndarray]

    def times(self, runs: Any, clock: Any = None) -> dict[str, np.ndarray]:
        for run in runs.values():
            run(1)
        assert set(self.found) == set(runs)
        return self.found


def _measured(monkeypatch: pytest.MonkeyPatch, one: float, several: float, fed: float) -> LaunchOverhead:
    found = {"one": one, "several": several, "fed": fed}
    monkeypatch.setattr(_Given, "found", {name: np.full(3, seconds) for name, seconds in found.items()}, raising=False)
    with hm.Cluster.local(["cpu:0"]) as cluster:
        return measure_launch_overhead(cluster, [0], _Given(0.02, 3))


def test_a_call_costs_what_several_steps_take_longer_than_one_of_as_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _measured(monkeypatch, 1.0, 1.0 + 0.002 * (STEPS - 1), 1.1)
    assert found.launch_s == pytest.approx(0.002)
    assert found.feed_s_per_byte == pytest.approx((0.1 - 0.002 * (STEPS - 1)) / STEPS / FED_BYTES)


@pytest.mark.slow
def test_noise_does_not_make_a_call_cost_less_than_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _measured(monkeypatch, 1.0, 0.9, 0.8) == LaunchOverhead(0.0, 0.0)
