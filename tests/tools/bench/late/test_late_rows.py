"""The rows of the benches of schedules without a flush, from figures that are given here."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.late import accuracy, cohort, speed
from tools.bench.late.border import span_s


def _speed(late_s: float = 0.5) -> dict[str, Any]:
    seconds = {"one device": 1.0, "auto": 0.6, "fill_drain": 0.9, "1f1b": 0.8, "decoupled, replay": 0.7, "decoupled, stored": late_s}
    entry = {"plan": "pipeline 3-4", "predicted_s": 0.5, "launch_s": 0.02, "measured_parts": [], "peak_bytes": [1e8, 2e8]}
    arrangements = {name: {**entry, "measured_s": s, "rounds_s": [s, 1.1 * s]} for name, s in seconds.items()}
    arrangements["decoupled, stored"]["border_s"] = [0.01, -0.02]
    return {"network": "vgg11", "cluster": "0.8,0.4", "batch": 64, "slowest_s": 0.4, "arrangements": arrangements}


def test_the_best_schedule_without_a_flush_is_set_beside_the_best_synchronous_pipeline() -> None:
    figures = speed.conclusions(_speed())
    assert figures == pytest.approx({"ceiling": 2.0, "times_pipeline": 1.6, "reached": 0.8, "times_alone": 2.0, "times_auto": 1.2})
    assert speed.claims_row(_speed()).wanted == {"times_pipeline": speed.TIMES}
    assert not speed.claims_row({**_speed(), "cluster": "0.8,0.8"}).wanted


def test_every_arrangement_has_its_memory_and_those_without_a_flush_their_idle_time_at_borders() -> None:
    rows = {row.texts["arrangement"]: row for row in speed.rows(_speed())}
    assert rows["decoupled, stored"].lists["border_ms"] == pytest.approx([10.0, -20.0])
    assert all(row.lists["peak_mb"] == pytest.approx([100.0, 200.0]) for row in rows.values())
    assert "border_ms" not in rows["auto"].lists and rows["auto"].numbers["samples_s"] == pytest.approx(64 / 0.6)
    assert rows["auto"].numbers["launch_ms"] == pytest.approx(20.0)


def test_an_accuracy_is_over_the_seeds_that_a_variant_was_trained_with() -> None:
    synchronous, stored = "1: synchronous", "2: decoupled, stored"
    cases = [
        {"task": "digits", "seed": 0, "linear": 90.0, "scores": {synchronous: 96.0, stored: 95.0}},
        {"task": "digits", "seed": 1, "linear": 90.0, "scores": {synchronous: 98.0, stored: 98.0}},
        {"task": "digits", "seed": 2, "linear": 90.0, "scores": {synchronous: 97.0}},
    ]
    rows = {row.texts["variant"]: row for row in accuracy.rows(cases)}
    assert set(rows) == {"synchronous", "logistic regression", "decoupled, stored"}
    assert rows["synchronous"].texts["seeds"] == "3" and rows["decoupled, stored"].texts["seeds"] == "2"
    assert rows["decoupled, stored"].numbers == pytest.approx({"accuracy": 96.5, "difference": -0.5, "error": 0.5})


def test_a_trained_case_is_not_trained_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[tuple[str, int]] = []

    def train(_: Any, seed: int, variant: accuracy.Variant | None, stages: int) -> float:
        trained.append((variant.name if variant else accuracy.SYNCHRONOUS, stages))
        return 50.0

    monkeypatch.setattr(accuracy, "accuracy", train)
    case = {"task": "digits", "seed": 0, "linear": 90.0, "scores": {"2: decoupled, stored": 1.0}}
    kept: list[int] = []
    accuracy.run(case, [accuracy.Variant("decoupled", "stored")], lambda: kept.append(len(case["scores"])))
    assert trained == [("synchronous", 1), ("decoupled, stored", 3)] and kept == [2, 3]
    assert case["scores"]["2: decoupled, stored"] == 1.0


def test_the_mean_paired_difference_of_the_cohort_is_judged_whatever_its_sign() -> None:
    auc = {"single": (0.8, 0.9), "replay": (0.76, 0.86), "stored": (0.9, 0.8)}
    one, replay, stored = cohort.rows([{"seed": seed, "auc": {name: own[seed] for name, own in auc.items()}} for seed in (0, 1)])
    assert one.lists["auc"] == (0.8, 0.9) and "distance" not in one.numbers
    assert replay.numbers["difference"] == pytest.approx(-0.04) and replay.numbers["distance"] == pytest.approx(0.04)
    assert stored.numbers["difference"] == pytest.approx(0.0) and stored.numbers["distance"] == pytest.approx(0.0)


def test_a_stage_has_begun_once_a_hundredth_of_its_work_is_done() -> None:
    assert span_s([(0.0, 0.005), (2.0, 3.0), (3.0, 3.5)]) == (2.0, 3.5)
