"""The memory bench: its rows, and predictions that need no cluster."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import cluster_of, pair_net
from tools.bench.memory import manual_plan, networks, peak_bytes, predict, rows, summarise


def _found(predicted: float, measured: float) -> list[dict[str, Any]]:
    part = {"device": "worker:0", "predicted_bytes": predicted, "measured_bytes": measured}
    return [{"network": "net", "strategy": "single", "devices": [part]}]


def test_a_row_says_by_how_much_a_prediction_is_off_and_whether_it_counts() -> None:
    (judged,) = rows(_found(450e6, 500e6))
    assert judged.texts == {"network": "net", "strategy": "single", "device": "worker:0"} and judged.wanted == {"off": 0.2}
    assert judged.numbers == {"predicted_mb": 450.0, "measured_mb": 500.0, "off": pytest.approx(-0.1)}
    (small,) = rows(_found(450e6, 400e6))
    assert small.wanted == {} and small.numbers["off"] == pytest.approx(0.125)


def test_only_devices_above_the_claimed_bytes_are_judged() -> None:
    assert summarise(rows(_found(450e6, 500e6))) == ["1 devices above 500 MB: off by 10% in the median, 10% at most."]
    assert summarise(rows(_found(450e6, 499e6))) == []


@pytest.mark.parametrize("strategy", ["single", "filters", "batch"])
def test_every_strategy_is_predicted_without_a_profile_that_was_measured(strategy: str) -> None:
    graph, cluster = pair_net(), cluster_of(2)
    plan = manual_plan(graph, strategy, [1.0, 0.5], cluster, 4)
    assert isinstance(plan, Plan) and plan.strategy == strategy
    assert all(guess > 0 for guess in predict(graph, plan, cluster))


def test_the_peak_of_a_process_is_read_from_the_kernel() -> None:
    if not pathlib.Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    assert peak_bytes(os.getpid()) > 2**20


def test_every_network_has_a_batch() -> None:
    assert all(network.batch > 0 for network in networks().values())
