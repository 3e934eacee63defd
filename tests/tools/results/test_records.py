"""Files of results are checked as they are read, and a miss is a number worse than what is wanted."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import pytest

from hetero_mtf.errors import HeteroError
from tools.results.records import Column, Machine, Note, ResultSet, Row, Run

RUN = Run("python -m tools.bench.memory", "2026-11-22", Machine("a CPU", 2, "2.21.0"), "0123456789abcdef")
COLUMNS = (Column("cluster", "cluster"), Column("step_ms", "step ms", ".0f"), Column("efficiency", "efficiency", ".2f", "at_least", 0.9))
ROW = Row(0, {"cluster": "1.0,0.5"}, {"step_ms": 12.0, "efficiency": 0.95})
RESULTS = ResultSet("steps", "Steps", COLUMNS, (ROW,), (RUN,), ("One row.",), (Note("Quiet."),))


def test_results_are_read_as_they_were_written(tmp_path: pathlib.Path) -> None:
    RESULTS.save(tmp_path / "steps.json")
    assert ResultSet.load(tmp_path / "steps.json") == RESULTS
    assert '"step_ms": 12,' in (tmp_path / "steps.json").read_text()


def test_all_faults_of_a_file_are_named_with_their_paths(tmp_path: pathlib.Path) -> None:
    RESULTS.save(tmp_path / "steps.json")
    document = json.loads((tmp_path / "steps.json").read_text())
    document["rows"][0]["numbers"]["speed"] = 1.0
    document["rows"][0]["run"] = 3
    document["columns"][2]["target"] = "about"
    document["runs"][0]["transcribed"] = True
    (tmp_path / "steps.json").write_text(json.dumps(document))
    with pytest.raises(HeteroError, match="run its bench again") as caught:
        ResultSet.load(tmp_path / "steps.json")
    assert all(text in str(caught.value) for text in ("rows[0].run", "'speed'", "columns[2].target", "runs[0].transcribed_from"))


@pytest.mark.parametrize("change", [{"columns": (*COLUMNS, COLUMNS[0])}, {"name": "Two words"}, {"notes": (Note("x", 1),)}])
def test_results_that_do_not_fit_together_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(HeteroError, match="the results have 1 fault"):
        dataclasses.replace(RESULTS, **change)


@pytest.mark.parametrize(
    "target, wanted, value, missed",
    [
        ("at_least", 0.9, 0.89, True),
        ("at_least", 0.9, 0.9, False),
        ("at_most", 5.0, 5.01, True),
        ("at_most", 5.0, -9.0, False),
        ("within", 0.25, -0.26, True),
        ("within", 0.25, -0.24, False),
        ("", None, 0.0, False),
    ],
)
def test_a_number_worse_than_wanted_is_a_miss(target: str, wanted: float | None, value: float, missed: bool) -> None:
    assert Row(numbers={"x": value}).misses(Column("x", "x", "g", target, wanted)) is missed


def test_what_a_row_wants_precedes_what_its_column_wants() -> None:
    column = Column("x", "x", "g", "at_least", 0.9)
    assert Row(numbers={"x": 0.8}).misses(column) and not Row(numbers={"x": 0.8}, wanted={"x": 0.7}).misses(column)
    assert not Row(texts={"x": "none"}).misses(column)
