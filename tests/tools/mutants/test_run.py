"""Drawing changes on lines that tests run, and what is said of those whose verdict is another than before."""

from __future__ import annotations

import json
import pathlib

import pytest

from tools.mutants import run
from tools.mutants.changes import Change


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A package of which the second line of `f` has a test, and the only line of `g` none."""
    for package in run.PACKAGES:
        folder = tmp_path / "hetero_mtf" / package
        folder.mkdir(parents=True)
        (folder / "it.py").write_text("def f(a):\n    return a + 1 < 3\ndef g(a): return a - 1\n")
    (tmp_path / "test_it.py").write_text(
        "import pathlib\n"
        "def test_f():\n"
        "    names = {}\n"
        "    exec(pathlib.Path('hetero_mtf/data/it.py').read_text(), names)\n"
        "    assert names['f'](1) is True and names['f'](2) is False\n"
    )
    monkeypatch.setattr(run, "ROOT", tmp_path)
    return tmp_path


def _lines() -> run.Lines:
    return {f"hetero_mtf/{package}/it.py": {2: ["test_it.py::test_f"]} for package in run.PACKAGES}


def test_changes_are_drawn_of_each_package_on_lines_that_a_test_runs_the_same_by_a_seed(tree: pathlib.Path) -> None:
    drawn = run.draw(_lines(), seed=1, of_each=3)
    assert len(drawn) == 3 * len(run.PACKAGES) and {row["line"] for row in drawn} == {2}
    assert drawn == run.draw(_lines(), seed=1, of_each=3) != run.draw(_lines(), seed=2, of_each=3)


def test_a_change_that_a_test_notices_is_killed_and_a_run_goes_on_where_it_stopped(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = "hetero_mtf/data/it.py"
    drawn = [row for row in run.draw(_lines(), seed=1, of_each=4) if row["file"] == file]
    verdicts = tmp_path / "verdicts.json"
    run.run(drawn[:1], _lines(), verdicts, limit_s=60.0)
    (first,) = json.loads(verdicts.read_text())
    assert first["verdict"] == "killed" and "test_it.py::test_f" in first["by"] and first["tests"] == 1
    verdicts.write_text(json.dumps([first | {"by": "earlier"}]))
    run.run(drawn[:1], _lines(), verdicts, limit_s=60.0)
    assert json.loads(verdicts.read_text())[0]["by"] == "earlier"
    run.run([_row(file, "a - 1", 3)], _lines(), tmp_path / "other.json", limit_s=60.0)
    assert json.loads((tmp_path / "other.json").read_text())[0]["by"] == "no fast test runs the line"
    assert (tree / file).read_text() == "def f(a):\n    return a + 1 < 3\ndef g(a): return a - 1\n"


def test_a_source_that_has_changed_since_is_refused(tree: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(SystemExit, match="it.py:3 is no longer 'b - 1'; draw again"):
        run.run([_row("hetero_mtf/data/it.py", "a - 1", 3) | {"before": "b - 1"}], _lines(), tmp_path / "v.json", limit_s=60.0)


def test_other_verdicts_than_before_are_listed(tmp_path: pathlib.Path) -> None:
    row = _row("hetero_mtf/data/it.py", "a - 1", 3)
    for name, verdict in (("before", "killed"), ("after", "survived")):
        (tmp_path / name).write_text(json.dumps([row | {"verdict": verdict}]))
    assert list(run.compared(tmp_path / "before", tmp_path / "after")) == [
        "hetero_mtf/data/it.py:3 arithmetic 'a - 1': killed, then survived"
    ]


def _row(file: str, before: str, line: int) -> dict[str, object]:
    source = (run.ROOT / file).read_text() if (run.ROOT / file).exists() else before
    start = source.index(before)
    return {"file": file, **Change(line, 0, start, start + len(before), "arithmetic", before, "(a + 1)")._asdict()}
