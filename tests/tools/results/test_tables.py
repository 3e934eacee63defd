"""Tables of results: figures, what is wanted of them, and where they come from."""

from __future__ import annotations

import dataclasses

import pytest

from tools.results.records import Column, Machine, Note, ResultSet, Row, Run
from tools.results.tables import note_text, number_text, provenance, table

COLUMNS = (
    Column("cluster", "cluster"),
    Column("alone_ms", "alone ms", ".0f"),
    Column("speed", "x equal", ".2f", "at_least"),
    Column("efficiency", "efficiency", ".2f", "at_least", 0.9),
    Column("gap", "gap", ".1%", "at_most", 0.05),
    Column("unused", "unused"),
)
MEASURED = Run("python a.py", "2026-11-22", Machine("a CPU", 2, "2.21.0"), "0123456789abcdef-dirty")
COPIED = Run("python b.py", "2026-11-21", Machine("a CPU", 2), None, True, "fedcba9876543210")


def test_what_is_wanted_stands_behind_a_figure_with_a_tick_or_a_cross() -> None:
    rows = [
        Row(0, {"cluster": "1.0|0.5"}, {"speed": 1.3, "efficiency": 0.95, "gap": 0.06}, {"alone_ms": (10.4, 20.0)}, {"speed": 1.35}),
        Row(0, {"cluster": "b", "gap": "same"}, {"speed": 1.0, "efficiency": 0.7}),
    ]
    assert table(COLUMNS, rows).splitlines() == [
        "| cluster | alone ms | x equal | target | efficiency | target | gap | target |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        r"| 1.0\|0.5 | 10 / 20 | 1.30 | ≥ 1.35 ✗ | 0.95 | ≥ 0.9 ✓ | 6.0% | ≤ 5% ✗ |",
        "| b | - | 1.00 | - | 0.70 | ≥ 0.9 ✗ | same | - |",
    ]
    assert table(COLUMNS, rows, targets=False).splitlines()[2] == r"| 1.0\|0.5 | 10 / 20 | 1.30 | 0.95 | 6.0% |"


@pytest.mark.parametrize("value, text", [(0.8996, "0.900"), (0.894, "0.894"), (0.88, "0.88"), (0.95, "0.95")])
def test_a_near_miss_has_another_digit(value: float, text: str) -> None:
    assert number_text(COLUMNS[3], value, 0.9, missed=value < 0.9) == text


def test_each_row_says_which_run_it_is_from() -> None:
    rows = tuple(Row(run, {"cluster": "x"}) for run in (0, 1, 0, 0))
    results = ResultSet("steps", "Steps", COLUMNS, rows, (MEASURED, COPIED))
    measured, copied = provenance(results, range(4))
    assert measured == "- Rows 1, 3-4: `python a.py`. Measured 2026-11-22 at commit `012345678-dirty` on a CPU, 2 cores, TensorFlow 2.21.0."
    assert copied.startswith("- Row 2: `python b.py`. Transcribed from the README of commit `fedcba987` (2026-11-21)")
    assert provenance(results, [1]) == [copied.partition("`. ")[2]]


def test_what_all_runs_have_in_common_is_said_once() -> None:
    other = dataclasses.replace(MEASURED, command="python c.py")
    rows = (Row(0, {"cluster": "x"}), Row(1, {"cluster": "y"}))
    lines = provenance(ResultSet("steps", "Steps", COLUMNS, rows, (MEASURED, other)), [0, 1])
    assert lines[:3] == ["- Row 1: `python a.py`", "- Row 2: `python c.py`", ""] and lines[3].startswith("Measured 2026-11-22")


def test_a_note_of_another_run_says_of_which() -> None:
    results = ResultSet("steps", "Steps", COLUMNS, (Row(0, {"cluster": "x"}),), (MEASURED, COPIED))
    assert note_text(results, Note("Quiet.", 0), [0]) == "Quiet."
    assert note_text(results, Note("Loud.", 1), [0]).startswith("Loud. (`python b.py`; transcribed from")
