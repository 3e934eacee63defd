"""Small changes of a source text: each is another program that compiles, and none is of what only people read."""

from __future__ import annotations

import pathlib

import pytest

from tools.mutants.changes import changes

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("a < b", "(a <= b)"),
        ("a is not b", "(a is b)"),
        ("x = a + 1", "x = (a - 1)"),
        ("x = a and not b", "x = (a or not b)"),
        ("x = not a", "x = (a)"),
        ("x = -a", "x = (a)"),
        ("if a:\n    f()", "if (not a):\n    f()"),
        ("x = 3", "x = 4"),
        ("x = True", "x = False"),
        ("x = min(a)", "x = max(a)"),
        ("f(a)", "None"),
        ("def f():\n    return [a]", "def f():\n    return None"),
        ("x -= a", "x += a"),
        ("é = 'ü'; x = 0.5", "é = 'ü'; x = 1.5"),
    ],
)
def test_a_change_stands_in_its_place(source: str, after: str) -> None:
    assert after in [change.applied(source) for change in changes(source)]


def test_what_only_people_or_checkers_read_is_left_alone() -> None:
    source = 'import a.b\n"""1 < 2"""\nx: "1 + 2" = y\nassert x == 1\nraise Fault(f"{1 + 2}")\n@mark(1)\ndef f(): pass\nt = "a" + u\n'
    assert changes(source) == []


def test_every_change_of_a_file_compiles_and_is_in_its_line() -> None:
    for path in (ROOT / "hetero_mtf" / "units.py", ROOT / "hetero_mtf" / "devices" / "host.py"):
        source = path.read_text()
        for change in changes(source):
            assert source[change.start : change.end] == change.before
            assert source.count("\n", 0, change.start) + 1 == change.line
            assert compile(change.applied(source), str(path), "exec")
