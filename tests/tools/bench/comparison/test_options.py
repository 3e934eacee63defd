"""The options that benches share."""

from __future__ import annotations

from typing import Any

import click
from click.testing import CliRunner

from tools.bench.comparison.measured import cluster_text, shares_of
from tools.bench.comparison.options import pace_options, shares_option
from tools.bench.comparison.side_by_side import Pace


def given(*words: str, budget_s: float | None = 90.0) -> dict[str, Any]:
    """Return what a bench gets of the words of a command line."""
    arguments: dict[str, Any] = {}

    @click.command()
    @shares_option
    @pace_options(7, 2, budget_s)
    def bench(**options: Any) -> None:
        arguments.update(options)

    ended = CliRunner().invoke(bench, words, catch_exceptions=False)
    return arguments or {"output": ended.output}


def test_how_long_to_measure_is_one_argument() -> None:
    assert given() == {"shares": (1.0, 0.5), "pace": Pace(7, 2, 90.0)}
    words = ("--shares", "0.8,0.4,0.4", "--rounds", "3", "--steps", "1", "--budget", "4")
    assert given(*words) == {"shares": (0.8, 0.4, 0.4), "pace": Pace(3, 1, 4.0)}
    assert given(budget_s=None)["pace"].budget_s is None
    assert "as calibrate" in given("--help", budget_s=None)["output"] and "as calibrate" not in given("--help")["output"]


def test_shares_that_are_no_numbers_are_refused_in_a_sentence() -> None:
    assert "'a,b' is not a list of numbers" in given("--shares", "a,b")["output"]


def test_shares_are_read_as_they_are_written() -> None:
    assert shares_of(cluster_text([1, 0.5])) == [1.0, 0.5]
