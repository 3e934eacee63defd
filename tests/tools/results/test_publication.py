"""A run of some cases replaces only their rows, and says what it ran."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import click
import pytest
from click.testing import CliRunner

from tools.results.publication import RESULTS, ROOT, TableForm, command_text, merged, publish, results_option, shown, table_row, this_run
from tools.results.records import Column, Machine, Note, ResultSet, Row, Run

COLUMNS = (Column("cluster", "cluster"), Column("plan", "plan"), Column("step_ms", "step ms", ".0f"))


def _total(rows: Sequence[Row]) -> list[str]:
    return [f"{sum(row.numbers['step_ms'] for row in rows):g} ms."]


FORM = TableForm("steps", "Steps", COLUMNS, case=("cluster",), summarise=_total)
OLD = Run("python old.py", "2026-11-01", Machine("a CPU", 2), None, True, "0123")
OTHER, NEW = dataclasses.replace(OLD, command="python other.py"), dataclasses.replace(OLD, command="python new.py")


def _row(cluster: str, plan: str, step_ms: float, run: int = 0) -> Row:
    return dataclasses.replace(table_row({"cluster": cluster, "plan": plan, "step_ms": step_ms}), run=run)


def _plans(results: ResultSet) -> list[tuple[str, str, str]]:
    return [(row.texts["cluster"], row.texts["plan"], results.runs[row.run].command) for row in results.rows]


BEFORE = ResultSet(
    "steps", "Steps", COLUMNS, (_row("a", "x", 1), _row("a", "y", 2), _row("b", "x", 3)), (OLD, OTHER), notes=(Note("o", 1),)
)


def _fresh(*rows: Row) -> ResultSet:
    return ResultSet("steps", "Steps", COLUMNS, rows, (NEW,), notes=(Note("n"),))


def test_new_rows_of_a_case_stand_where_its_old_ones_stood() -> None:
    results = merged(BEFORE, _fresh(_row("a", "z", 5), _row("c", "x", 7)), FORM)
    new, old = NEW.command, OLD.command
    assert _plans(results) == [("a", "z", new), ("b", "x", old), ("c", "x", new)]
    assert results.summary == ("15 ms.",)


def test_a_run_stays_as_long_as_one_of_its_rows_and_a_note_as_long_as_its_run() -> None:
    before = dataclasses.replace(BEFORE, notes=(Note("of the rows", 0), Note("of a run without rows", 1)))
    part = merged(before, _fresh(_row("a", "z", 5)), FORM)
    assert [note.text for note in part.notes] == ["of the rows", "of a run without rows", "n"]
    full = merged(before, _fresh(_row("a", "z", 5), _row("b", "z", 6)), FORM)
    assert [note.text for note in full.notes] == ["of a run without rows", "n"]
    assert [run.command for run in full.runs] == [OTHER.command, NEW.command]


def test_a_run_that_publishes_all_its_rows_again_replaces_its_notes() -> None:
    first = merged(BEFORE, _fresh(_row("a", "x", 9)), FORM)
    ended = (Note("ended"),)
    full = merged(first, dataclasses.replace(_fresh(_row("a", "x", 9), _row("b", "x", 8)), notes=ended), FORM)
    assert [note.text for note in full.notes] == ["o", "ended"]
    part = merged(first, dataclasses.replace(_fresh(_row("b", "x", 8)), notes=ended), FORM)
    assert [note.text for note in part.notes] == ["o", "n", "ended"]


def test_a_table_without_cases_is_replaced_as_one() -> None:
    results = merged(BEFORE, _fresh(_row("c", "x", 7)), dataclasses.replace(FORM, case=()))
    assert _plans(results) == [("c", "x", NEW.command)]


def test_entries_of_columns_that_are_gone_are_dropped() -> None:
    form = dataclasses.replace(FORM, columns=(COLUMNS[0], COLUMNS[2]))
    fresh = dataclasses.replace(_fresh(table_row({"cluster": "a", "step_ms": 5.0})), columns=form.columns)
    assert [row.texts for row in merged(BEFORE, fresh, form).rows] == [{"cluster": "a"}, {"cluster": "b"}]


def test_what_is_published_is_what_is_shown(tmp_path: pathlib.Path) -> None:
    rows = [_row("a", "x", 12.4)]
    publish(tmp_path / "new", FORM, rows, ["A note."])
    results = ResultSet.load(tmp_path / "new" / "steps.json")
    assert results.rows == tuple(rows) and results.summary == ("12.4 ms.",) and [note.text for note in results.notes] == ["A note."]
    assert shown(FORM, rows, ["A note."]).splitlines()[-4:] == ["| a | x | 12 |", "", "12.4 ms.", "A note."]
    publish(None, FORM, rows)
    publish(tmp_path / "none", FORM, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


def test_a_run_is_recorded_with_its_machine_and_commit() -> None:
    run = this_run()
    assert run.machine.cpu and run.machine.cores >= 1 and run.machine.tensorflow and not run.transcribed
    assert run.commit is None or len(run.commit.removesuffix("-dirty")) == 40


def test_a_command_names_no_folder_of_the_machine() -> None:
    home = os.path.expanduser("~")
    words = [str(ROOT / "tools" / "bench" / "x.py"), "--torch-python", f"{home}/env/python", "--json", "a.json", "--shares", "1.0,0.5"]
    assert command_text(words) == "python -m tools.bench.x --torch-python ~/env/python --shares 1.0,0.5"
    elsewhere = [words[0], "--torch-python", "/opt/some/where/env/bin/python"]
    assert command_text(elsewhere) == "python -m tools.bench.x --torch-python .../bin/python"
    assert command_text(["/elsewhere/y.py", "--results", "z", "--folder=f", "a b"]) == "python y.py 'a b'"


@pytest.mark.parametrize("arguments, folder", [([], RESULTS), (["--results", "x"], pathlib.Path("x")), (["--results", "-"], None)])
def test_results_go_to_the_clone_unless_another_folder_or_none_is_named(arguments: list[str], folder: pathlib.Path | None) -> None:
    @click.command()
    @results_option
    def bench(results: pathlib.Path | None) -> None:
        assert results == folder

    assert CliRunner().invoke(bench, arguments, catch_exceptions=False).exit_code == 0
