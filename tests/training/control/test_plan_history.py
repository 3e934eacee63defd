"""The plans of a training as a file, and what else than moves changes them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import keras
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import HeteroError, PlanError
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]

BATCH = 8


@pytest.fixture(scope="module")
def plans(cluster: Any) -> list[hm.Plan]:
    model = net()
    return [hm.Plan.single(model, 0, cluster, BATCH), hm.Plan.batch(model, (2, 1, 1), cluster, BATCH)]


def test_a_file_gives_back_what_was_written(plans: list[hm.Plan], tmp_path: pathlib.Path) -> None:
    history = PlanHistory((PlanSpan(0, plans[0]), PlanSpan(7, plans[1])))
    history.save(tmp_path / "plans.json")
    assert PlanHistory.load(tmp_path / "plans.json") == history
    assert [history.at(step) is plans[1] for step in (0, 6, 7, 100)] == [False, False, True, True]


@pytest.mark.parametrize("steps", [(), (3, 3), (5, 2), (-1,)])
def test_steps_that_do_not_increase_are_refused(steps: tuple[int, ...], plans: list[hm.Plan]) -> None:
    with pytest.raises(PlanError, match="the plans of a training begin at the steps"):
        PlanHistory(tuple(PlanSpan(step, plans[0]) for step in steps))


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda document: document.pop("spans"), "has no list of spans"),
        (lambda document: document.update(more=1), "has no list of spans"),
        (lambda document: document["spans"].append(3), r"spans\[1\] is no plan with the step that it begins at"),
        (lambda document: document["spans"][0].update(step=True), r"spans\[0\].step is True, must be a whole number"),
        (lambda document: document["spans"][0]["plan"].update(batch_size=0), r"spans\[0\].plan"),
        (lambda document: document.update(version=2), "version 2"),
        (lambda document: document.update(kind="plan"), "plan"),
    ],
)
def test_a_damaged_file_is_told_where(change: Any, sentence: str, plans: list[hm.Plan], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plans.json"
    PlanHistory((PlanSpan(0, plans[0]),)).save(path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(HeteroError, match=sentence):
        PlanHistory.load(path)


def test_plans_of_another_network_or_batch_size_are_not_repeated(plans: list[hm.Plan], cluster: Any) -> None:
    options = {"optimizer": "sgd", "loss": cross_entropy()}
    history = PlanHistory((PlanSpan(0, plans[0]),))
    with hm.Trainer(net(), None, cluster, **options, measure=history) as trainer:
        with pytest.raises(PlanError, match="are for batches of 8 samples, and these have 4"):
            trainer.fit(*data(16), batch_size=4, verbose=0)
    other = keras.Sequential([keras.Input((5, 5, 2)), keras.layers.Flatten(), keras.layers.Dense(3)])
    with hm.Trainer(other, None, cluster, **options, measure=history) as trainer:
        with pytest.raises(PlanError):
            trainer.fit(*data(16), batch_size=BATCH, verbose=0)


def test_a_plan_that_was_given_meanwhile_is_part_of_the_history(plans: list[hm.Plan], cluster: Any) -> None:
    with hm.Trainer(net(), plans[0], cluster, optimizer="sgd", loss=cross_entropy()) as trainer:
        trainer.replan(plans[1])
        assert trainer.plan_history == PlanHistory((PlanSpan(0, plans[1]),))
        for _ in range(2):
            trainer.train_on_batch(*data(BATCH))
        trainer.replan(plans[0])
        assert trainer.plan_history == PlanHistory((PlanSpan(0, plans[1]), PlanSpan(2, plans[0])))


def test_without_a_plan_there_is_no_history(cluster: Any) -> None:
    with hm.Trainer(net(), None, cluster, optimizer="sgd", loss=cross_entropy()) as trainer:
        with pytest.raises(PlanError, match="there is no plan yet"):
            trainer.plan_history  # noqa: B018


@pytest.mark.parametrize("measure", ["sometimes", 3, 0.5])
def test_what_is_no_way_to_measure_is_refused(measure: Any, cluster: Any) -> None:
    with pytest.raises(PlanError, match="give one of steps, first, never"):
        hm.Trainer(net(), None, cluster, optimizer="sgd", loss=cross_entropy(), measure=measure)


def test_nothing_is_measured_where_that_is_asked_for(cluster: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HETERO_MTF_CACHE", str(tmp_path))
    with hm.Trainer(net(), None, cluster, optimizer="sgd", loss=cross_entropy(), measure="never") as trainer:
        with pytest.raises(PlanError, match="there is no plan for this network, and none is measured"):
            trainer.fit(*data(16), batch_size=BATCH, verbose=0)
