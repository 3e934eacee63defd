"""A state carries the plans of the steps before it, and a training that goes on from it has the plans of all steps."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import CheckpointError, HeteroError, PlanError
from hetero_mtf.planning.exploration.plan_history import PlanHistory, PlanSpan
from hetero_mtf.training import checkpoint
from hetero_mtf.training.array_archive import read_archive, write_archive
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]

BATCH, SAMPLES = 8, 32
OPTIONS: dict[str, Any] = {"optimizer": "adam", "loss": cross_entropy(), "metrics": ["accuracy"], "seed": 3}


@pytest.fixture(scope="module")
def plans(cluster: Any) -> list[hm.Plan]:
    model = _net()
    return [hm.Plan.single(model, 0, cluster, BATCH), hm.Plan.batch(model, (2, 1, 1), cluster, BATCH)]


def _net() -> Any:
    keras.utils.set_random_seed(1)
    return net(0.3)


class Save(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves the state after a step."""

    def __init__(self, trainer: hm.Trainer, path: pathlib.Path, step: int) -> None:
        super().__init__()
        self.trainer, self.path, self.step = trainer, path, step

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.trainer.step == self.step:
            self.trainer.save(self.path)


def _history(plans: list[hm.Plan]) -> PlanHistory:
    return PlanHistory((PlanSpan(0, plans[0]), PlanSpan(3, plans[1]), PlanSpan(6, plans[0])))


def _fitted(trainer: Any, epochs: int) -> tuple[list[np.ndarray], dict[str, list[float]]]:
    history = trainer.fit(*data(SAMPLES), batch_size=BATCH, epochs=epochs, verbose=0)
    return list(trainer.to_keras().get_weights()), history.history


def _changed(path: pathlib.Path, spans: Any) -> None:
    """Write a state again with other plans, None for none, under a checksum that fits."""
    meta, values = read_archive(path)
    meta = {name: value for name, value in meta.items() if name not in ("checksum", "plans")} | ({} if spans is None else {"plans": spans})
    with open(path, "wb") as file:
        write_archive(file, {**meta, "checksum": checkpoint.checksum(meta, values)}, values)


def test_a_state_carries_the_plans_so_far_and_one_of_an_earlier_version_none(
    plans: list[hm.Plan], cluster: Any, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "state.npz"
    with hm.Trainer(_net(), plans[0], cluster, **OPTIONS) as trainer:
        trainer.train_on_batch(*data(BATCH))
        trainer.replan(plans[1])
        trainer.save(path)
        assert checkpoint.load_state(path).plans == PlanHistory((PlanSpan(0, plans[0]), PlanSpan(1, plans[1]))) == trainer.plan_history
    _changed(path, None)
    assert checkpoint.load_state(path).plans is None
    with hm.Trainer(_net(), plans[1], cluster, **OPTIONS) as trainer:
        trainer.restore(path)
        assert trainer.step == 1 and trainer.plan_history == PlanHistory((PlanSpan(0, plans[1]),))


@pytest.mark.parametrize("spans", [3, [], [3], [{"step": 0}], [{"step": -1, "plan": {}}], {"spans": []}])
def test_plans_that_are_none_are_refused_in_one_sentence(spans: Any, plans: list[hm.Plan], cluster: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.npz"
    with hm.Trainer(_net(), plans[0], cluster, **OPTIONS) as trainer:
        trainer.save(path)
    _changed(path, spans)
    with pytest.raises(CheckpointError, match=r"is not a complete checkpoint \(plans: "):
        checkpoint.load_state(path)


def test_seconds_of_steps_are_kept_with_their_plan_and_make_it_no_other(plans: list[hm.Plan], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "plans.json"
    PlanHistory((PlanSpan(0, plans[0], 0.25), PlanSpan(3, plans[1]))).save(path)
    assert [span.step_s for span in PlanHistory.load(path).spans] == [0.25, None]
    assert PlanHistory.load(path) == PlanHistory((PlanSpan(0, plans[0]), PlanSpan(3, plans[1])))
    document = json.loads(path.read_text())
    for seconds in (0, -1.0, True, "x", float("inf")):
        document["spans"][0]["step_s"] = seconds
        path.write_text(json.dumps(document))
        with pytest.raises(HeteroError, match=r"spans\[0\].step_s|is not JSON|Infinity"):
            PlanHistory.load(path)


@pytest.mark.parametrize("at", [2, 5])
def test_plans_that_are_repeated_go_on_where_a_state_was_saved(
    at: int, plans: list[hm.Plan], cluster: Any, tmp_path: pathlib.Path
) -> None:
    path, history = tmp_path / "state.npz", _history(plans)

    with hm.Trainer(_net(), None, cluster, **OPTIONS, measure=history) as trainer:
        trainer.fit(*data(SAMPLES), batch_size=BATCH, epochs=2, verbose=0, callbacks=[Save(trainer, path, at)])
        expected, whole = list(trainer.to_keras().get_weights()), trainer.plan_history
    assert whole == history
    with hm.Trainer(_net(), None, cluster, **OPTIONS, measure=history) as trainer:
        trainer.restore(path)
        assert trainer.plan == history.at(at)
        weights, _ = _fitted(trainer, 2)
        assert trainer.plan_history == history
    assert all(np.array_equal(one, other) for one, other in zip(weights, expected, strict=True))


def test_training_goes_on_under_the_plan_that_was_in_force_and_tries_others(
    plans: list[hm.Plan], cluster: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HETERO_MTF_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "state.npz"
    with hm.Trainer(_net(), None, cluster, **OPTIONS, measure=PlanHistory(_history(plans).spans[:2])) as trainer:
        trainer.fit(*data(SAMPLES), batch_size=BATCH, epochs=2, verbose=0, callbacks=[Save(trainer, path, 4)])
    with hm.Trainer(_net(), None, cluster, **OPTIONS, measure="steps") as trainer:
        trainer.restore(path)
        assert trainer.plan == plans[1] and trainer.step == 4
        assert "its steps try other plans" in capsys.readouterr().err
        weights, _ = _fitted(trainer, 6)
        resumed = trainer.plan_history
    assert resumed.spans[:2] == _history(plans).spans[:2] and all(span.step >= 4 for span in resumed.spans[2:])
    with hm.Trainer(_net(), None, cluster, **OPTIONS, measure=resumed) as trainer:
        repeated, _ = _fitted(trainer, 6)
        assert trainer.plan_history == resumed
    assert all(np.array_equal(one, other) for one, other in zip(weights, repeated, strict=True))


def test_a_plan_for_other_devices_is_not_gone_on_with(plans: list[hm.Plan], cluster: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "state.npz"
    with hm.Trainer(_net(), plans[1], cluster, **OPTIONS) as trainer:
        trainer.save(path)
    with hm.Cluster.local(["cpu:0"]) as single, hm.Trainer(_net(), None, single, **OPTIONS, measure="steps") as trainer:
        trainer.restore(path)
        assert trainer.plan_history == PlanHistory((PlanSpan(0, trainer.plan),)) and trainer.plan.devices == ("cpu:0",)
    _changed(path, None)  # an earlier version has not said what size of batches it had
    with hm.Trainer(_net(), None, cluster, **OPTIONS, measure="steps") as trainer:
        with pytest.raises(PlanError, match="there is no plan yet"):
            trainer.restore(path)
