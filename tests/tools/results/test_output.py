"""A bench records its figures in one piece, and a run that goes on from an earlier one measures the other cases only."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tools.results.output import Cases, Output, output_options, tables_option
from tools.results.publication import RESULTS, TableForm, table_row
from tools.results.records import Column, ResultSet

FORM = TableForm("steps", "Steps", (Column("cluster", "cluster"), Column("step_ms", "step ms", ".0f")), case=("cluster",))
ROWS = [table_row({"cluster": "a", "step_ms": 1.0})]


def given(command: Any, *words: str) -> Output:
    """Return the output that the options of a command ask for."""
    outputs: list[Output] = []
    ended = CliRunner().invoke(click.command()(command(lambda output: outputs.append(output))), words, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return outputs[0]


def test_the_options_say_where_a_bench_writes() -> None:
    assert given(tables_option) == Output(RESULTS) and given(tables_option, "--results", "-") == Output(None)
    assert given(output_options(), "--results", "x", "--json", "y") == Output(pathlib.Path("x"), "y")
    assert given(output_options("case", resumes=True), "--json", "y", "--resume") == Output(RESULTS, "y", True)


def test_a_table_is_printed_and_written_at_once(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    Output(tmp_path).report(FORM, ROWS, ["A note."])
    assert "| a | 1 |\n\nA note." in capsys.readouterr().out
    assert ResultSet.load(tmp_path / "steps.json").rows == tuple(ROWS)


def test_figures_are_recorded_with_the_command_in_a_folder_that_is_made(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "new" / "all.json"
    Output(None, str(path)).record({"steps": [1.0]})
    document = json.loads(path.read_text())
    assert document["steps"] == [1.0] and document["command"].startswith("python ") and document["machine"]["cores"] >= 1
    assert list(path.parent.iterdir()) == [path]
    Output(None).record({"steps": [2.0]})


def test_a_case_is_recorded_at_once_and_not_measured_again(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "all.json"
    first = Cases(Output(None, str(path)), further=lambda cases: {"count": len(cases)})
    assert first.find(network="a") is None
    first.measure("network a", lambda: {"network": "a", "step_s": 0.5})
    assert json.loads(path.read_text())["count"] == 1 and "network a: measured, 0 s" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        first.measure("network b", lambda: {"network": "b", "step_s": 1 / 0})
    again = Cases(Output(None, str(path), resumes=True))
    case = again.find(network="a")
    assert case is not None and case["step_s"] == 0.5 and again.find(network="b") is None and len(again.done) == 1
    assert Cases(Output(None, str(path))).done == []


def test_of_an_earlier_run_only_the_cases_that_are_asked_for_may_count(tmp_path: pathlib.Path) -> None:
    output = Output(None, str(tmp_path / "all.json"), resumes=True)
    earlier = Cases(output)
    for network in ("a", "b"):
        earlier.add({"network": network})
    cases = Cases(output, all_earlier=False)
    assert cases.done == [] and cases.find(network="b") == {"network": "b"} and cases.find(network="b") in cases.done
    cases.add({"network": "c"})
    assert [case["network"] for case in json.loads(pathlib.Path(str(output.path)).read_text())["cases"]] == ["b", "c"]


def test_a_case_that_fails_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    Cases(Output(None)).measure("1 of 2", lambda: {"failure": "ValueError: too small"})
    assert capsys.readouterr().err.startswith("1 of 2: ValueError: too small, ")
