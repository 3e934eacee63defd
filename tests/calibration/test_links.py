"""Links: both ways alike, finite, and nothing kept afterwards."""

from __future__ import annotations

import math
from typing import Any

import pytest

import hetero_mtf as hm
from hetero_mtf.calibration.links import measure_link
from hetero_mtf.calibration.windows import Measurement, Windows


class _Given(Windows):
    """Windows that find what they are given."""

    def __init__(self, small_s: float, large_s: float) -> None:
        super().__init__(0.02, 1)
        object.__setattr__(self, "found", {"small": Measurement(small_s, 0.0), "large": Measurement(large_s, 0.0)})

    def measure(self, runs: Any, clock: Any = None) -> dict[str, Measurement]:
        for run in runs.values():
            run(1)
        return self.found  # type: ignore[attr-defined, no-any-return]


def test_latency_and_bandwidth_follow_from_two_sizes_over_eight_hops() -> None:
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        there, back = measure_link(cluster, 0, 1, _Given(0.008, 0.808))
    assert (there.source, there.destination, back.source, back.destination) == (0, 1, 1, 0)
    assert there.latency_s == back.latency_s == 0.001
    assert there.bandwidth_bytes_per_s == back.bandwidth_bytes_per_s == pytest.approx(4 * (2**20 - 16) / 0.1)


def test_a_large_tensor_that_seems_no_slower_gives_a_bandwidth_that_can_be_written() -> None:
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        link, _ = measure_link(cluster, 0, 1, _Given(0.008, 0.007))
    assert 0 < link.bandwidth_bytes_per_s < math.inf
