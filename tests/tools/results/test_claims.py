"""The index of results and the table of errors are computed from the tables themselves."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from hetero_mtf.errors import DataError
from tools.results import claims, prediction_errors
from tools.results.claims import CLAIMS, Claim, Gain, claims_table
from tools.results.pages import filled, load_all
from tools.results.prediction_errors import PREDICTIONS, Predictions, errors_table
from tools.results.records import Column, Machine, ResultSet, Row, Run

ROOT = pathlib.Path(__file__).resolve().parents[3]
COLUMNS = (Column("kind", "kind"), Column("speed", "x", ".2f", "at_least", 1.2), Column("was_ms", "ms"), Column("is_ms", "ms"))
ROWS = (
    Row(0, {"kind": "a"}, {"speed": 1.5, "was_ms": 90.0, "is_ms": 100.0}),
    Row(0, {"kind": "b"}, {"speed": 1.1, "was_ms": 120.0, "is_ms": 100.0}, {}, {"speed": 1.4}),
    Row(0, {"kind": "a"}, {"was_ms": 100.0}),
)
SPEEDS = ResultSet("speeds", "Speeds", COLUMNS, ROWS, (Run("python a.py", "2026-11-28", Machine("a CPU", 2), "0123"),))


def test_a_claim_has_its_targets_its_range_and_how_many_cases_reach_them(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Claim("It is faster", "speeds", "speed", "x"), Claim("A is", "speeds", "speed", "x", {"kind": "a"})
    monkeypatch.setattr(claims, "CLAIMS", both)
    assert claims_table({"speeds": SPEEDS}).splitlines()[2:] == [
        "| It is faster | ≥ 1.2 to 1.4 | 1.30 (1.10 to 1.50) | ✗ 1 of 2 | [x](results/x.md) |",
        "| A is | ≥ 1.2 | 1.50 | ✓ | [x](results/x.md) |",
    ]


@pytest.mark.parametrize("claim", [Claim("x", "gone", "speed", "x"), Claim("x", "speeds", "gone", "x"), Claim("x", "speeds", "is_ms", "x")])
def test_a_claim_about_nothing_is_refused(claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "CLAIMS", (claim,))
    with pytest.raises(DataError, match="correct tools/results/claims.py"):
        claims_table({"speeds": SPEEDS})


def test_a_gain_is_over_the_fastest_device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (*COLUMNS, Column("alone_ms", "alone ms"))
    rows = tuple(dataclasses.replace(row, lists={"alone_ms": (150.0, 300.0)}) for row in ROWS[:2])
    monkeypatch.setattr(claims, "CLAIMS", (Gain("It gains", "speeds", "is_ms", "x"),))
    table = claims_table({"speeds": dataclasses.replace(SPEEDS, columns=columns, rows=rows)})
    assert table.splitlines()[2] == "| It gains | - | 1.50 | - | [x](results/x.md) |"
    with pytest.raises(DataError, match="speeds have no gone"):
        monkeypatch.setattr(claims, "CLAIMS", (Gain("It gains", "speeds", "gone", "x"),))
        claims_table({"speeds": SPEEDS})


def test_errors_are_of_rows_with_both_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction_errors, "PREDICTIONS", (Predictions("steps", "speeds", "was_ms", "is_ms", "x"),))
    assert errors_table({"speeds": SPEEDS}).splitlines()[2] == "| steps | 2 | 15.0% | +20% | [x](x.md) |"
    with pytest.raises(DataError, match="has no was_ms with is_ms"):
        errors_table({"speeds": dataclasses.replace(SPEEDS, rows=ROWS[2:])})


def test_the_pages_that_they_link_have_the_tables() -> None:
    results, folder = load_all(ROOT / "docs" / "results"), ROOT / "docs" / "results"
    shown = {(claim.name, claim.page) for claim in CLAIMS} | {(each.name, each.page) for each in PREDICTIONS}
    assert [name for name, page in shown if f"<!-- results: {name}" not in (folder / f"{page}.md").read_text()] == []
    assert {name for name, _ in shown} <= set(results)


def test_a_table_that_is_not_computed_is_refused() -> None:
    with pytest.raises(DataError, match="name one of claims, highlights, prediction_errors"):
        filled("<!-- derived: gains -->\n<!-- end -->\n", {})
