"""All benches are run, and a failure stops no other."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shlex

import pytest
from click.testing import CliRunner

from tools.bench import all as every
from tools.bench.all import ROOT, RUNS, BenchRun, chosen, main, overview
from tools.results.pages import names_in


def test_every_bench_and_every_table_of_the_pages_of_results_is_among_the_runs() -> None:
    modules = {shlex.split(run.command)[0] for run in RUNS}
    benches = {f"tools.bench.{path.stem}" for path in (ROOT / "tools" / "bench").glob("*.py")} - {"tools.bench.all"}
    assert benches - modules == set() and all(map(importlib.util.find_spec, modules))
    pages = [ROOT / "docs" / "papers.md", ROOT / "docs" / "evidence.md", *(ROOT / "docs" / "results").glob("*.md")]
    shown = {name for page in pages for name in names_in(page.read_text())}
    assert {name for run in RUNS for name in run.results} == shown


def test_the_readme_of_the_benches_lists_the_runs() -> None:
    assert overview() in (ROOT / "tools" / "bench" / "README.md").read_text()


def test_runs_are_chosen_by_name_and_by_duration() -> None:
    assert {run.minutes <= 10 for run in chosen(10, (), True)} == {True} and len(chosen(None, (), True)) == len(RUNS)
    assert [run.name for run in chosen(None, ["planner", "mri"], False)] == ["planner", "mri"]
    assert chosen(10, ["prediction"], False) == []


def test_comparisons_with_pytorch_are_run_where_there_is_one_or_where_they_are_named() -> None:
    assert not any(run.torch for run in chosen(None, (), False)) and any(run.torch for run in chosen(None, (), True))
    assert [run.name for run in chosen(None, ["uneven_batch"], False)] == ["uneven_batch"]


def bench(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `python -m touching FILE` make a file, and fail where it is "bad"."""
    program = "import pathlib, sys\nif sys.argv[1] == 'bad':\n    sys.exit('no such device')\npathlib.Path(sys.argv[1]).touch()\n"
    (folder / "touching.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def test_a_bench_that_fails_stops_no_other_and_is_named_at_the_end(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench(tmp_path, monkeypatch)
    needs = tmp_path / "needed"
    runs = (
        BenchRun("first", "touching bad", 1, ()),
        BenchRun("second", f"touching {tmp_path / 'ran'}", 1, (), needs=needs, maker=f"touching {needs}"),
    )
    monkeypatch.setattr(every, "RUNS", runs)
    ended = CliRunner().invoke(main, ["--results", str(tmp_path)])
    assert ended.exit_code == 1 and (tmp_path / "ran").exists() and needs.exists()
    assert "first failed: exit code 1\nno such device" in ended.output and "second failed" not in ended.output


def test_a_bench_whose_files_are_to_be_fetched_is_left_out_without_them_unless_it_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench(tmp_path, monkeypatch)
    needs = tmp_path / "fetched"
    monkeypatch.setattr(every, "RUNS", (BenchRun("planner", f"touching {tmp_path / 'ran'}", 1, (), needs=needs),))
    omitted = CliRunner().invoke(main, ["--results", str(tmp_path)])
    assert omitted.exit_code == 0 and not (tmp_path / "ran").exists()
    assert f"planner is left out, {needs} is not there; fetch it as" in omitted.output
    named = CliRunner().invoke(main, ["--results", str(tmp_path), "--only", "planner"])
    assert named.exit_code == 0 and (tmp_path / "ran").exists()
