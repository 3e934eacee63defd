"""What is said of the lower bound of an allocation."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench.allocation_bound import bounded, row, verdict


def _entry(index: int, bound: float) -> dict[str, Any]:
    return {"index": index, "fluid": 0.2, "bound": bound, "cpu_s": 1.0}


def test_the_row_has_medians_and_the_worst() -> None:
    entry = row("operations", [_entry(0, 0.7), _entry(3, 0.95), _entry(6, 0.99)])
    assert entry.texts == {"chains_of": "operations"} and entry.wanted == {"bound": 0.9}
    medians = {"chains": 3.0, "fluid": 0.2, "fluid_worst": 0.2, "bound": 0.95, "bound_worst": 0.7}
    assert {key: entry.numbers[key] for key in medians} == medians


def test_the_verdict_says_where_the_claim_fails() -> None:
    assert verdict([_entry(0, 0.95)]).endswith("the claim holds")
    assert verdict([_entry(0, 0.85)]).endswith("does NOT hold")
    assert "above the optimum: [3]" in verdict([_entry(3, 1.1)]) and verdict([_entry(3, 1.1)]).endswith("does NOT hold")


@pytest.mark.slow
def test_a_bound_is_no_more_than_the_optimum() -> None:
    assert 0.5 <= bounded(1, "blocks")["bound"] <= 1 + 1e-9
