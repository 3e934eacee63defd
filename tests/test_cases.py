"""Which cases are fast: all values of all parameters, in few cases, the same in every process; and which of many slow ones are run."""

from __future__ import annotations

import inspect
import itertools
import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

from tests.cases import TURNS, Draw, covering_subset, each, first_fast


def test_a_subset_has_every_value_of_each_parameter_in_as_few_cases_as_the_longest_has_values() -> None:
    cases = list(itertools.product([("kind", n) for n in range(7)], [("size", n) for n in range(3)]))
    subset = covering_subset(cases, random.Random("name"))
    assert len(subset) == 7 and {pair for case in subset for pair in case} == {pair for case in cases for pair in case}
    for seed in range(10):
        drawn = covering_subset(cases, random.Random(seed))
        assert all(sum(("size", n) in case for case in drawn) in (2, 3) for n in range(3))
    assert subset == covering_subset(cases, random.Random("name"))


def test_a_subset_of_one_parameter_is_all_of_it_and_of_none_is_none() -> None:
    cases = [(("seed", n),) for n in range(4)]
    assert covering_subset(cases, random.Random("name")) == set(cases)
    assert covering_subset([], random.Random("name")) == set()


def test_all_but_the_first_are_slow_and_a_tuple_is_several_arguments() -> None:
    parameters = first_fast([(1, "a"), (2, "b"), (3, "c")], 1)
    assert [parameter.values for parameter in parameters] == [(1, "a"), (2, "b"), (3, "c")]
    assert [[mark.name for mark in parameter.marks] for parameter in parameters] == [[], ["slow"], ["slow"]]
    assert [parameter.values for parameter in first_fast(range(2), 2)] == [(0,), (1,)]


def test_each_value_is_tried_in_one_case_and_the_one_that_fails_is_named(rng: np.random.Generator) -> None:
    seen: list[tuple[int, str, float]] = []

    @each("number, letter", [(1, "a"), (2, "b")])
    def test(number: int, letter: str, drawn: float) -> None:
        seen.append((number, letter, drawn))
        assert number == 1

    assert list(inspect.signature(test).parameters) == ["drawn"]
    with pytest.raises(AssertionError, match="with number=2, letter='b'"):
        test(drawn=float(rng.random()))
    assert [row[:2] for row in seen] == [(1, "a"), (2, "b")]


def test_of_cases_that_are_marked_fast_the_others_are_slow(tmp_path: pathlib.Path) -> None:
    marked = 'import pytest\n@pytest.mark.fast("b", "c-1")\n@pytest.mark.parametrize("n", list("abc"))\ndef test_marked(n): pass\n'
    wrong = _run(tmp_path, "-m", "not slow", text=marked, code=4)
    assert "test_marked has no case c-1 that could be fast" in wrong
    assert "1 passed, 2 deselected" in _run(tmp_path, "-m", "not slow", text=marked.replace(', "c-1"', ""))


NAMES = [f"tests/test_it.py::test_many[{n}]" for n in range(1000)]


def test_ten_landings_in_a_row_run_every_slow_test_whatever_is_added_meanwhile() -> None:
    for first in (3, 38):
        run = {name for n in range(TURNS) for name in NAMES[: 500 + 50 * n] if Draw(first + n, f"commit {n}").has(name)}
        assert run >= set(NAMES[:500])


def test_a_landing_runs_an_eighth_of_the_slow_tests_and_another_commit_other_ones() -> None:
    draws = [{name for name in NAMES if Draw(38, f"commit {n}").has(name)} for n in range(20)]
    assert all(90 < len(draw) < 170 for draw in draws)
    assert len(set.intersection(*draws)) < 110 and len(set.union(*draws)) > 400  # also where the number of the landing stays


TESTS = """
import pytest, time
from hypothesis import given, strategies
@pytest.mark.slow
@pytest.mark.parametrize("n", range(100))
def test_many(n): pass
def test_fast(): pass
@given(strategies.integers())
def test_law(n): pass
"""


def _run(folder: pathlib.Path, *options: str, text: str = TESTS, code: int = 0, **variables: str) -> str:
    """Return the output of pytest over some tests, with this project's hooks; it must end with an exit code."""
    hooks = ("addoption", "collection_modifyitems", "configure", "runtest_setup", "terminal_summary")
    (folder / "conftest.py").write_text(f"from tests.conftest import {', '.join(f'pytest_{name}' for name in hooks)}\n")
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), "-W", "ignore", str(folder), *options]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1]), **variables}
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120)
    assert run.returncode == code, run.stdout + run.stderr
    return run.stdout + run.stderr


def test_slow_tests_and_laws_are_left_out_by_the_draw_and_after_their_time_and_that_is_said(tmp_path: pathlib.Path) -> None:
    count = sum(Draw(3, "here").has(name) for name in ["test_it.py::test_law", *(f"test_it.py::test_many[{n}]" for n in range(100))])
    drawn = _run(tmp_path, "--drawn=3:here")
    assert f"{count + 1} passed, {101 - count} deselected" in drawn and "slow tests drawn by --drawn=3:here" in drawn
    late = _run(tmp_path, SLOW_TESTS_UNTIL="1")
    assert "1 passed, 101 skipped" in late and "101 slow tests left out, as the time for slow tests is over" in late
