"""Links: both ways alike, finite, what swaps add to computing, and a fit that no noise makes negative."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hetero_mtf as hm
from hetero_mtf.calibration.links import ELEMENTS, HOPS, MESSAGES, fitted_line, measure_link, pair_kind
from hetero_mtf.calibration.windows import Windows
from hetero_mtf.devices import Device, Link

IDLE = {"still": 0.001, **{str(elements): 0.001 + 1e-6 * HOPS for elements in ELEMENTS}}


class _Given(Windows):
    """Windows that find what they are given, of idle devices first and then of each size."""

    left: list[dict[str, np.ndarray]]

    def times(self, runs: Any, clock: Any = None) -> dict[str, np.ndarray]:
        for run in runs.values():
            run(1)
        found = self.left.pop(0)
        assert set(found) == set(runs)
        return found


def _found(
    monkeypatch: pytest.MonkeyPatch, hops: Mapping[int, list[float]], several_s: float = 0.7, beside_s: float = 0.5
) -> tuple[Link, Link]:
    left = [{name: np.full(3, seconds) for name, seconds in IDLE.items()}]
    left += [{"still": np.full(3, 0.5), "swapping": 0.5 + HOPS * np.array(hops[elements])} for elements in ELEMENTS]
    left.append({"one": np.full(3, 0.7), "several": np.full(3, several_s)})
    left.append({"still": np.full(3, 0.5), "beside": np.full(3, beside_s)})
    monkeypatch.setattr(_Given, "left", left, raising=False)
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        return measure_link(cluster, 0, 1, _Given(0.02, 3))


@pytest.mark.slow
def test_latency_and_bandwidth_follow_from_what_swaps_add_to_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    there, back = _found(monkeypatch, {n: [0.002 + 4 * n / 1e8] * 3 for n in ELEMENTS})
    assert (there.source, there.destination, back.source, back.destination) == (0, 1, 1, 0)
    assert there.latency_s == back.latency_s == pytest.approx(0.002)
    assert there.bandwidth_bytes_per_s == back.bandwidth_bytes_per_s == pytest.approx(1e8)
    assert there.spread == pytest.approx(0.0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "several_s, message_s",
    [
        (0.7 + HOPS * (MESSAGES - 1) * 0.0005, 0.0005),
        pytest.param(0.6, 0.0, marks=pytest.mark.slow),
        pytest.param(1.7, 0.002, marks=pytest.mark.slow),
    ],
)
def test_a_further_message_costs_what_several_small_tensors_take_longer_than_one_and_at_most_the_latency(
    several_s: float, message_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    hops = {n: [0.002 + 4 * n / 1e8] * 3 for n in ELEMENTS}
    there, back = _found(monkeypatch, hops, several_s)
    assert there.message_s == back.message_s == pytest.approx(message_s)


@pytest.mark.fast("-0.1-1.0")
@pytest.mark.parametrize("exposed, hidden", [(0.0, 1.0), (0.25, 0.75), (1.5, 0.0), (-0.1, 1.0)])
def test_what_an_exchange_beside_computing_does_not_add_to_it_is_hidden(
    exposed: float, hidden: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    hops = {n: [0.002 + 4 * n / 1e8] * 3 for n in ELEMENTS}
    link, _ = _found(monkeypatch, hops, beside_s=0.5 + HOPS * exposed * hops[ELEMENTS[-1]][0])
    assert link.hidden == pytest.approx(hidden)


@pytest.mark.slow
def test_a_link_keeps_the_widest_spread_of_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = {n: [0.01] * 3 for n in ELEMENTS}
    hops[ELEMENTS[1]] = [0.009, 0.01, 0.012]
    assert _found(monkeypatch, hops)[0].spread == pytest.approx(0.15)


@pytest.mark.slow
def test_a_swap_that_seems_to_cost_nothing_costs_what_it_costs_idle_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    link, _ = _found(monkeypatch, {n: [-0.1] * 3 for n in ELEMENTS})
    assert link.latency_s == pytest.approx(1e-6) and 0 < link.bandwidth_bytes_per_s < math.inf


@given(st.lists(st.floats(1e-6, 10.0), min_size=4, max_size=4))
def test_a_fitted_line_is_never_negative_and_no_other_comes_nearer(seconds: list[float]) -> None:
    sizes = [4.0 * n for n in ELEMENTS]
    latency_s, slope = fitted_line(sizes, seconds)

    def error(a: float, b: float) -> float:
        return sum(((a + b * n) / t - 1) ** 2 for n, t in zip(sizes, seconds))

    assert latency_s >= 0 and slope >= 0
    least = error(latency_s, slope)
    for a in (0.0, 0.9, 1.1):
        for b in (0.0, 0.9, 1.1):
            assert least <= error(a * latency_s, b * slope) + 1e-9


def test_pairs_are_of_one_kind_if_their_ends_are_in_either_order_unless_one_is_a_gpu() -> None:
    def device(host: str, share: float, kind: str = "CPU") -> Device:
        return Device("name", kind, host, "/device:CPU:0", 0, "pool", share, "model", 2)

    devices = [device("here", 1.0), device("here", 0.5), device("here", 0.5), device("there", 0.5), device("here", 1.0, "GPU")]
    assert pair_kind(devices, 0, 1) == pair_kind(devices, 2, 0) != pair_kind(devices, 1, 2)
    assert pair_kind(devices, 0, 3) != pair_kind(devices, 0, 1)
    assert pair_kind(devices, 0, 4) == (0, 4)
