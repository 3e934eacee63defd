"""The long training: its figures are of the time before faults, and beside trainings that are not elastic."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.faults.long_training import FORM, quiet, rows, turn_rows
from tools.results.publication import shown


def record(elastic: bool, faults: list[float], speed: float, growth: float = 0.0) -> dict[str, Any]:
    noted = [(float(at), speed if at % 300 > 60 else 1.0, int(2**20 * (100 + growth * at / 1200.0))) for at in range(5, 1500, 5)]
    return {"elastic": elastic, "minutes": 25.0, "faults": faults, "noted": noted, "begun_s": 0.0}


def test_the_minutes_before_faults_are_compared() -> None:
    (end_s, windows), *rest = quiet(record(True, [300.0, 600.0], 50.0))
    assert end_s == 300.0 and len(rest) == 1 and windows[0][0] == 160.0 and windows[-1][0] == 295.0


def test_speed_is_beside_those_that_are_not_elastic_and_memory_beside_that_at_the_first_fault() -> None:
    plain, elastic, again = rows([record(False, [], 50.0), record(True, [300.0, 600.0, 1200.0], 49.0, growth=8.0), record(False, [], 50.0)])
    assert elastic.numbers["of_before"] == pytest.approx(0.98) and elastic.numbers["faults"] == 3
    assert elastic.numbers["growth"] == pytest.approx(6.0 / 101.5, rel=0.02)
    assert "of_before" not in plain and plain.numbers["samples_s"] == again.numbers["samples_s"] == 50.0
    assert "≤ 0.02 ✗" in shown(FORM, [plain, elastic, again])


def test_a_training_that_failed_has_no_figures() -> None:
    failed = {"elastic": True, "minutes": 25.0, "faults": [300.0], "noted": [], "begun_s": 0.0}
    (row,) = rows([failed])
    assert "samples_s" not in row and row.numbers["faults"] == 1


def test_trainings_by_turns_are_compared_by_their_medians() -> None:
    plain, elastic = turn_rows([(False, 100.0), (True, 97.0), (True, 99.0), (False, 102.0), (False, 101.0), (True, 100.0)])
    assert plain.numbers["samples_s"] == 101.0 and elastic.numbers["speed"] == pytest.approx(99.0 / 101.0)
    assert "speed" not in plain and "✓" in shown(FORM, [plain, elastic])
