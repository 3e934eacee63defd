"""The memory bench: its rows, and predictions that need no cluster."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import NothingToSplitError
from hetero_mtf.planning import choose
from hetero_mtf.planning.pipeline.search import PipelineOptions
from hetero_mtf.planning.plan.plan import Plan
from tests.planning.networks import cluster_of, pair_net, profile_of
from tools.bench import memory
from tools.bench.comparison.plan_memory import predicted_bytes
from tools.bench.memory import (
    GATHERING,
    MANUAL,
    PIPELINES,
    PLANNED,
    STRATEGIES,
    MemoryCase,
    MemoryRun,
    manual_plan,
    measure,
    networks,
    peak_bytes,
    rows,
    summarise,
)


def _case(predicted: float, measured: float) -> list[dict[str, Any]]:
    part = {"device": "worker:0", "predicted_bytes": predicted, "measured_bytes": measured}
    return [{"network": "net", "strategy": "single", "devices": [part]}]


def test_a_row_says_by_how_much_a_prediction_is_off_and_whether_it_counts() -> None:
    (judged,) = rows(_case(450e6, 500e6))
    assert judged.texts == {"network": "net", "strategy": "single", "device": "worker:0"} and judged.wanted == {"off": 0.2}
    assert judged.numbers == {"predicted_mb": 450.0, "measured_mb": 500.0, "off": pytest.approx(-0.1)}
    (small,) = rows(_case(450e6, 400e6))
    assert small.wanted == {} and small.numbers["off"] == pytest.approx(0.125)


def test_only_devices_above_the_claimed_bytes_are_judged() -> None:
    assert summarise(rows(_case(450e6, 500e6))) == ["1 devices above 500 MB: off by 10% in the median, 10% at most."]
    assert summarise(rows(_case(450e6, 499e6))) == []


@pytest.mark.parametrize("strategy", [*MANUAL, *PIPELINES, *GATHERING])
def test_every_strategy_is_predicted_without_a_profile_that_was_measured(strategy: str) -> None:
    graph, cluster = pair_net(), cluster_of(2)
    plan = manual_plan(graph, strategy, [1.0, 0.5], cluster, 4)
    assert isinstance(plan, Plan) and plan.strategy == strategy.partition(" ")[0].rstrip(",")
    predicted = predicted_bytes(graph, plan, cluster)
    assert sorted(predicted) == ([0] if strategy.startswith("single") else [0, 1]) and all(guess > 0 for guess in predicted.values())


def test_pipelines_have_two_stages_and_their_schedule() -> None:
    plans = {name: manual_plan(pair_net(), name, [1.0, 0.5], cluster_of(2), 8) for name in PIPELINES}
    assert {(len(plan.stages), plan.microbatches) for plan in plans.values()} == {(2, 4)}
    assert {name: (plan.schedule, plan.recompute) for name, plan in plans.items()} == PIPELINES


def test_recomputed_activations_and_few_microbatches_in_flight_take_less() -> None:
    def held(name: str) -> int:
        return sum(predicted_bytes(pair_net(64, 64), manual_plan(pair_net(64, 64), name, [1], cluster_of(2), 256), cluster_of(2)).values())

    assert held("pipeline fill_drain, recomputed") < held("pipeline fill_drain") > held("pipeline 1f1b")


@pytest.mark.fast("1f1b-False", "1f1b-True", "batch-False", "fill_drain-False", "fill_drain-True", "filters-False")
@pytest.mark.parametrize(
    ("strategy", "recompute"), [*((name, False) for name in ("filters", "batch", "layers", "auto")), *PIPELINES.values()]
)
def test_the_prediction_is_the_one_of_the_plan(strategy: str, recompute: bool) -> None:
    profile = profile_of(pair_net(), [1e6, 5e5], batch_size=8)
    kind, schedule = ("pipeline", strategy) if strategy in dict(PIPELINES.values()) else (strategy, "")
    options = PipelineOptions(microbatches=4, stages=2, schedule=schedule, recompute=recompute) if schedule else None
    plan = choose.plan(profile, strategy=kind, pipeline=options)
    assert plan.predicted is not None
    predicted = predicted_bytes(profile.graph, plan, profile.cluster, profile.optimizer)
    assert {plan.devices[device]: held for device, held in predicted.items()} == {
        part.device: part.memory_bytes for part in plan.predicted.parts
    }


def _tiny() -> Any:
    import keras

    inputs = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    x = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(x)
    return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.Dense(8, activation="relu")(keras.layers.Flatten()(x))))


TINY = MemoryCase(_tiny, 8)


def _local() -> Any:
    import hetero_mtf as hm

    return hm.Cluster.local(["cpu:0", "cpu:0"])


@pytest.fixture(scope="module")
def run() -> MemoryRun:
    return MemoryRun((1.0, 0.5), steps=1, budget_s=1.0, open_cluster=_local)


@pytest.fixture(scope="module")
def profile(run: MemoryRun) -> Callable[[], Any]:
    """Measures the tiny network where it is first called."""
    import warnings

    def measured() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return memory.profile_of(TINY, run)

    return functools.cache(measured)


@pytest.mark.fast("single, lamb")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_trains_and_is_measured_in_a_cluster_of_its_own(
    strategy: str, run: MemoryRun, profile: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = itertools.count(1)
    monkeypatch.setattr(memory, "peaks", lambda cluster: [10**6 * next(marks)] * len(cluster.devices))
    devices = measure(TINY, strategy, run, profile)
    assert {part["measured_bytes"] for part in devices} == {10**6} and all(part["predicted_bytes"] > 0 for part in devices)
    assert {part["device"] for part in devices} <= {"worker:0", "worker:1"} and (strategy not in PIPELINES or len(devices) == 2)


def test_a_strategy_that_a_network_does_not_allow_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(network: MemoryCase, strategy: str, run: MemoryRun, profile: Callable[[], Any]) -> list[dict[str, Any]]:
        if strategy == "hybrid":
            raise NothingToSplitError("it has no dense layer; use batch")
        return [{"device": "worker:0", "predicted_bytes": 9e8, "measured_bytes": 1e9}]

    monkeypatch.setattr(memory, "networks", lambda: {"tiny": TINY})
    monkeypatch.setattr(memory, "measure", measured)
    ended = CliRunner().invoke(memory.main, ["--results", "-"])
    assert ended.exit_code == 0 and "tiny, hybrid: left out, it has no dense layer" in ended.output
    assert all(name in ended.output for name in (*PLANNED, *PIPELINES))


def test_the_peak_of_a_process_is_read_from_the_kernel() -> None:
    if not pathlib.Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    assert peak_bytes(os.getpid()) > 2**20


def test_every_network_has_a_batch() -> None:
    assert all(network.batch > 0 for network in networks().values())
