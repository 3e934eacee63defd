"""A move of the controller takes weights, slots and draws along, though the engine was built from other values."""

from __future__ import annotations

import pathlib
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.planning.exploration.actions import Action, BuildPlan, MoveTo, TakeStep
from hetero_mtf.planning.exploration.records import Knowledge
from hetero_mtf.training.control import controller
from hetero_mtf.training.control.background import Background
from tests.program.oracle import worst_error
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]

BATCH, STEPS = 8, 14


def trained(model: keras.Model, cluster: Any, plan: hm.Plan | None) -> Any:
    """Return losses, weights and the plans of some steps."""
    options = {"optimizer": keras.optimizers.Adam(0.01), "loss": cross_entropy(), "seed": 3}
    with hm.Trainer(model, plan, cluster, **options, measure="steps") as trainer:
        losses = [trainer.train_on_batch(*data(BATCH, step)) for step in range(STEPS)]
        return losses, trainer.to_keras().get_weights(), [span.plan.strategy for span in trainer.plan_history.spans]


def test_moves_and_returns_change_no_number(cluster: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(1)
    model = net(0.3, second_bias=False)
    tried = [hm.Plan.batch(model, (2, 1, 1), cluster, BATCH), hm.Plan.filters(model, (3, 2, 1), cluster, BATCH)]

    def scripted(known: Knowledge) -> Action:
        if known.settling or known.busy or len(known.trial.step_s) < 2:
            return TakeStep()
        if known.built is not None:
            return MoveTo(known.built)
        if known.present:
            return MoveTo(known.trials[0].plan)
        return BuildPlan(tried[len(known.trials) - 1]) if len(known.trials) <= len(tried) else TakeStep()

    poll = Background.poll
    monkeypatch.setenv("HETERO_MTF_CACHE", str(tmp_path))
    monkeypatch.setattr(controller, "next_action", scripted)
    monkeypatch.setattr(Background, "poll", lambda self, wait=False: poll(self, True))  # whatever the machine's load
    losses, weights, strategies = trained(model, cluster, None)
    expected_losses, expected, _ = trained(model, cluster, hm.Plan.single(model, 0, cluster, BATCH))
    assert strategies == ["single", "batch", "single", "filters", "single"]
    assert worst_error(expected, weights) <= 1e-8 and np.abs(np.subtract(losses, expected_losses)).max() <= 1e-8
