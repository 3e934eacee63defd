"""Cases of the papers' scripts are computed once, and their tables follow from figures that are given here."""

from __future__ import annotations

import pathlib
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tools.bench.comparison.side_by_side import Pace
from tools.papers.experiment import Experiment, experiment_options, float64, step_rows, steps_form
from tools.results.output import Output
from tools.results.publication import shown

QUICK, FULL = Pace(2, 1, 1.0), Pace(5, 1, 1.0)


def experiment(path: pathlib.Path, resume: bool = False, extent: str = "quick") -> Experiment:
    return Experiment(extent, QUICK, Output(None, str(path), resume))


def test_a_case_is_computed_once_and_kept_for_the_next_run_of_the_same_extent(tmp_path: pathlib.Path) -> None:
    path, calls = tmp_path / "cases.json", list[str]()

    def compute() -> dict[str, Any]:
        calls.append("computed")
        return {"step_s": 0.5}

    first = experiment(path)
    assert first.case("steps", compute)["step_s"] == first.case("steps", compute)["step_s"] == 0.5
    assert experiment(path, resume=True).case("steps", compute)["step_s"] == 0.5 and len(calls) == 1
    experiment(path, resume=True, extent="full").case("steps", compute)
    assert len(calls) == 2
    experiment(path).case("steps", compute)
    assert len(calls) == 3


def test_a_case_that_fails_leaves_those_before_it(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "cases.json"
    begun = experiment(path)
    begun.case("first", lambda: {"value": 1})
    with pytest.raises(ZeroDivisionError):
        begun.case("second", lambda: {"value": 1 // 0})
    assert experiment(path, resume=True).case("first", lambda: {"value": 2})["value"] == 1


def test_the_options_choose_extent_and_rounds(tmp_path: pathlib.Path) -> None:
    chosen: list[Experiment] = []

    @click.command()
    @experiment_options
    def command(**options: Any) -> None:
        chosen.append(Experiment.of(options, QUICK, FULL))

    for words in ([], ["--quick"], ["--quick", "--rounds", "7", "--results", str(tmp_path)]):
        assert CliRunner().invoke(command, words).exit_code == 0
    assert [(each.extent, each.pace.rounds, each.is_quick) for each in chosen] == [
        ("full", 5, False),
        ("quick", 2, True),
        ("quick", 7, True),
    ]
    assert chosen[2].output.results == tmp_path


def test_efficiency_counts_every_device_where_alike_ones_were_measured_once() -> None:
    times = {name: {"rounds_s": [step_s] * 3} for name, step_s in {"alone 0": 1.0, "alone 2": 2.0, "batch": 0.5}.items()}
    cells = {"network": "net", "cluster": "2,2,1", "batch": 10}
    alone, slow, batch = step_rows(cells, times, 100, alike=[0, 0, 2])
    assert batch.numbers["efficiency"] == pytest.approx(1 / (1 + 1 + 0.5) / 0.5)
    assert batch.numbers["times"] == 2.0 and batch.numbers["epoch_s"] == 5.0
    assert "efficiency" not in alone and slow.numbers["times"] == 0.5
    assert "worker:2 alone" in shown(steps_form("t", "T"), [alone, slow, batch])


def test_models_are_of_float64_within_the_context_alone() -> None:
    import keras

    before = keras.config.floatx(), keras.config.dtype_policy().name
    with float64():
        inside = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    assert {str(weight.dtype) for weight in inside.weights} == {"float64"}
    assert (keras.config.floatx(), keras.config.dtype_policy().name) == before
