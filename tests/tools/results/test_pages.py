"""Blocks of pages are written from results, and the pages of this clone are up to date."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys

import pytest
from click.testing import CliRunner

from hetero_mtf.errors import DataError
from tools.render_results import main, outdated
from tools.results.pages import ABSENT, Selection, block, filled, load_all, names_in, outside_blocks, selection
from tools.results.records import Column, Machine, Note, ResultSet, Row, Run

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOPICS = sorted((ROOT / "docs" / "results").glob("*.md"))
PAPERS = ROOT / "docs" / "papers.md"
RUN = Run("python -m tools.bench.steps", "2026-11-22", Machine("a CPU", 2), "0123")
ROWS = (Row(0, {"cluster": "a"}, {"step_ms": 1.0}), Row(0, {"cluster": "b"}, {"step_ms": 2.0}))
STEPS = ResultSet(
    "steps", "Steps", (Column("cluster", "cluster"), Column("step_ms", "step ms")), ROWS, (RUN,), ("Two rows.",), (Note("Quiet."),)
)


def test_the_pages_of_this_clone_are_up_to_date() -> None:
    assert [page.relative_to(ROOT).as_posix() for page in outdated(ROOT)] == [], "run python -m tools.render_results"


def test_every_result_of_this_clone_is_on_a_page_of_results_and_no_table_is_written_by_hand() -> None:
    own = [PAPERS.parent / f"{name}.md" for name in ("conformance", "versions", "distribute", "keras_io", "evidence")]
    shown = {name for page in (PAPERS, *TOPICS, *own) for name in names_in(page.read_text())}
    assert sorted(set(load_all(ROOT / "docs" / "results")) - shown) == []
    assert [line for page in TOPICS for line in outside_blocks(page.read_text()).splitlines() if line.startswith("|")] == []


@pytest.mark.slow
def test_every_table_of_a_bench_has_a_block_on_a_page_of_results() -> None:
    program = (
        "import importlib, pathlib, sys\n"
        "from tools.results.publication import TableForm\n"
        "names = [path.stem for path in pathlib.Path('tools/bench').glob('*.py')]\n"
        "modules = [importlib.import_module(f'tools.bench.{name}') for name in names]\n"
        "modules += [importlib.import_module(f'tools.{name}') for name in ('mri', 'voxels')]\n"
        "names = [path.stem for path in pathlib.Path('tools/papers').glob('*.py')]\n"
        "modules += [importlib.import_module(f'tools.papers.{name}') for name in names]\n"
        "print(*sorted({each.name for module in modules for each in vars(module).values() if isinstance(each, TableForm)}))\n"
        "print('tensorflow' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    shown = {name for page in (PAPERS, *TOPICS) for name in names_in(page.read_text())}
    assert sorted(set(printed[0].split()) - shown) == [] and len(printed[0].split()) > 20
    assert printed[1] == "False"


def test_a_block_has_the_command_the_table_the_run_and_the_notes() -> None:
    lines = block(STEPS, Selection("steps")).splitlines()
    assert lines[0] == "Steps: `python -m tools.bench.steps`" and "| b | 2 |" in lines
    assert lines[-5].startswith("Measured 2026-11-22") and lines[-3:] == ["Two rows.", "", "Quiet."]


def test_a_note_that_two_runs_of_the_shown_rows_left_stands_once() -> None:
    second = dataclasses.replace(RUN, date="2026-11-23")
    rows = (ROWS[0], dataclasses.replace(ROWS[1], run=1))
    both = dataclasses.replace(STEPS, rows=rows, runs=(RUN, second), notes=(Note("Quiet."), Note("Quiet.", 1), Note("Loud.", 1)))
    assert block(both, Selection("steps")).splitlines()[-3:] == ["Quiet.", "", "Loud."]


def test_a_mark_chooses_columns_rows_and_parts() -> None:
    text = filled("before\n<!-- results: steps columns=step_ms rows=2 parts=table -->\nold\n<!-- end -->\nafter\n", {"steps": STEPS})
    assert text == (
        "before\n<!-- results: steps columns=step_ms rows=2 parts=table -->\n\n| step ms |\n| ---: |\n| 2 |\n\n<!-- end -->\nafter\n"
    )
    assert filled(text, {"steps": STEPS}) == text
    assert ABSENT in filled(text, {})


@pytest.mark.parametrize("mark", ["steps rows=last", "steps parts=all", "steps sort=step_ms"])
def test_a_mark_that_is_not_understood_is_refused(mark: str) -> None:
    with pytest.raises(DataError, match="not understood; write NAME"):
        selection(mark)


@pytest.mark.parametrize("chosen", [Selection("steps", ("speed",)), Selection("steps", (), (3,))])
def test_a_column_or_row_that_is_not_there_is_refused(chosen: Selection) -> None:
    with pytest.raises(DataError, match="there are columns cluster, step_ms and 2 rows"):
        block(STEPS, chosen)


def test_a_block_that_does_not_end_is_refused() -> None:
    with pytest.raises(DataError, match="does not end; write"):
        filled("<!-- results: steps -->\n| a |\n", {"steps": STEPS})


def test_the_command_writes_the_pages_of_a_clone_or_checks_them(tmp_path: pathlib.Path) -> None:
    (tmp_path / "docs" / "results").mkdir(parents=True)
    STEPS.save(tmp_path / "docs" / "results" / "steps.json")
    (tmp_path / "README.md").write_text("# x\n<!-- results: steps parts=table -->\n<!-- end -->\n")
    check = CliRunner().invoke(main, ["--check", "--root", str(tmp_path)])
    assert check.exit_code == 1 and "README.md is not up to date" in check.output and "run python -m tools.render_results" in check.output
    assert CliRunner().invoke(main, ["--root", str(tmp_path)]).exit_code == 0
    assert "| b | 2 |" in (tmp_path / "README.md").read_text()
    assert CliRunner().invoke(main, ["--check", "--root", str(tmp_path)]).exit_code == 0
