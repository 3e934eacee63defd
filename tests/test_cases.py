"""Which cases are fast: all values of all parameters, in few cases, the same in every process; and which of many slow ones are run."""

from __future__ import annotations

import itertools
import os
import pathlib
import random
import subprocess
import sys

import pytest

from tests.cases import covering_subset, drawn_half, first_fast


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


def test_half_of_many_slow_cases_is_drawn_another_half_by_another_seed() -> None:
    names = [f"test[{n}]" for n in range(21)]
    halves = [drawn_half(names, f"commit {n}") for n in range(20)]
    assert all(len(half) == 11 and half <= set(names) for half in halves)
    assert set.union(*halves) == set(names) and len({frozenset(half) for half in halves}) == 20
    assert drawn_half(names[::-1], "commit 1") == halves[1]


TESTS = """
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("n", range(20))
def test_many(n): pass
@pytest.mark.slow
@pytest.mark.parametrize("n", range(8))
def test_few(n): pass
@pytest.mark.parametrize("n", range(20))
def test_fast(n): pass
"""


@pytest.mark.parametrize(("options", "count"), [((), 48), (("--drawn=here",), 38)])
def test_half_is_left_out_of_many_slow_cases_only_and_only_on_request(options: tuple[str, ...], count: int, tmp_path: pathlib.Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_terminal_summary\n"
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        "-W",
        "ignore",
        str(tmp_path),
        *options,
    ]
    root = pathlib.Path(__file__).parents[1]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{count} passed" in run.stdout
    assert ("10 deselected" in run.stdout) == bool(options) == ("--drawn=here" in run.stdout)
