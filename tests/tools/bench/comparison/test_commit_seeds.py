"""Seeds follow from the last commit of the program, and from nothing else."""

from __future__ import annotations

import doctest
import pathlib
import subprocess

import pytest

from hetero_mtf.errors import DataError
from tools.bench.comparison import commit_seeds
from tools.bench.comparison.commit_seeds import last_commit, seed_of


def _git(folder: pathlib.Path, *words: str) -> str:
    own = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *own, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def _commit(folder: pathlib.Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    _git(folder, "add", "--all")
    _git(folder, "commit", "--message", f"Write {name}")
    return _git(folder, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return a new repository without commits."""
    _git(tmp_path, "init", "--quiet")
    return tmp_path


def test_the_examples_hold() -> None:
    examples = doctest.testmod(commit_seeds)
    assert examples.attempted and not examples.failed


def test_the_commit_is_the_last_one_that_touched_the_program(clone: pathlib.Path) -> None:
    _commit(clone, "hetero_mtf/a.py", "a = 1\n")
    last = _commit(clone, "hetero_mtf/a.py", "a = 2\n")
    _commit(clone, "docs/a.md", "Text.\n")
    (clone / "docs" / "a.md").write_text("Other text.\n")
    assert last_commit(clone) == last


@pytest.mark.parametrize("name", ["a.py", "b.py"])
def test_changes_of_the_program_that_are_not_committed_are_refused(clone: pathlib.Path, name: str) -> None:
    _commit(clone, "hetero_mtf/a.py", "a = 1\n")
    (clone / "hetero_mtf" / name).write_text("a = 3\n")
    with pytest.raises(DataError, match=f"hetero_mtf/{name}.*commit them, or name seeds by --seeds"):
        last_commit(clone)


def test_a_folder_without_history_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(DataError, match="not a git repository.*--seeds"):
        last_commit(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="run in a clone, or name seeds by --seeds"):
        last_commit(tmp_path)


def test_a_clone_without_all_of_the_history_is_refused(clone: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    _commit(clone, "hetero_mtf/a.py", "a = 1\n")
    _commit(clone, "docs/a.md", "Text.\n")
    shallow = tmp_path_factory.mktemp("shallow")
    _git(shallow, "clone", "--quiet", "--depth", "1", clone.as_uri(), "copy")
    with pytest.raises(DataError, match="shallow.*git fetch --unshallow"):
        last_commit(shallow / "copy")


def test_a_program_that_no_commit_has_is_refused(clone: pathlib.Path) -> None:
    _commit(clone, "docs/a.md", "Text.\n")
    with pytest.raises(DataError, match="no commit"):
        last_commit(clone)


def test_seeds_differ_between_commits_and_numbers() -> None:
    commits = ("a" * 40, "b" * 40)
    seeds = {seed_of(commit, number) for commit in commits for number in range(1, 21)}
    assert len(seeds) == 40 and all(0 <= seed < 2**32 for seed in seeds)
