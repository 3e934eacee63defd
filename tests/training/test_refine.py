"""Refinement runs real steps, leaves the model and a given plan alone, and a training has the same numbers as under the same plan typed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import PlanError, ProfileError
from tests.training.setting import cross_entropy, data, net

BATCH = 8
pytestmark = pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibration_budget.CalibrationWarning")  # of budgets of a second


@pytest.fixture(scope="module")
def pair() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0", "cpu:0"]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def model() -> Any:
    return net()


@pytest.fixture(scope="module")
def profile(pair: Any, model: Any) -> hm.Profile:
    return hm.calibrate(pair, model, batch_size=BATCH, budget_s=1.0, optimizer="sgd", verbose=0)


@pytest.fixture(scope="module")
def refinement(pair: Any, model: Any, profile: hm.Profile) -> Any:
    return hm.refine(hm.Plan.batch(model, [5, 3], pair, BATCH), profile, model, pair, loss=cross_entropy(), time_limit_s=20.0)


@pytest.mark.slow
def test_the_best_measured_plan_is_in_force(refinement: Any) -> None:
    assert refinement.best.median_s <= refinement.first.median_s
    assert any(len(run.plan.used) == 1 for run in refinement.runs) and refinement.seconds > 0
    assert len(refinement.profile.corrections.steps) == len(refinement.runs)


@pytest.mark.slow
def test_traces_give_every_layer_a_factor(refinement: Any, profile: hm.Profile) -> None:
    split = {entry.layer for entry in refinement.profile.corrections.layers}
    assert split == {curve.layer for curve in profile.curves}
    assert any(entry.factor != 1.0 for entry in refinement.profile.corrections.layers)
    assert profile.corrections.layers == ()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_training_without_a_plan_has_the_numbers_of_the_same_plan_typed(pair: Any, dtype: str) -> None:
    keras.config.set_floatx(dtype)
    x, y = data(40)
    settings: dict[str, Any] = {"loss": cross_entropy(), "optimizer": "sgd", "seed": 3}
    model = net(rate=0.3)
    measured = hm.calibrate(pair, model, batch_size=BATCH, budget_s=1.0, optimizer="sgd", verbose=0)
    before = [np.array(weight) for weight in model.weights]
    with hm.Trainer(model, None, pair, profile=measured, refine_s=0.5, **settings) as trainer:
        history = trainer.fit(x, y, epochs=2, verbose=0).history
        weights, plan, placement = trainer.to_keras().get_weights(), trainer.plan, trainer.placement()
        assert trainer.refinement is not None and trainer.refinement.plan == plan
    assert all(np.array_equal(was, weight) for was, weight in zip(before, model.weights))
    typed = hm.Plan.from_json(plan.to_json())
    with hm.Trainer(model, typed, pair, **settings) as trainer:
        assert trainer.refinement is None
        assert trainer.fit(x, y, epochs=2, verbose=0).history == history
        assert all(np.array_equal(one, other) for one, other in zip(trainer.to_keras().get_weights(), weights))
        assert trainer.placement() == placement


@pytest.mark.slow
def test_a_profile_of_another_network_is_refused(pair: Any, profile: hm.Profile) -> None:
    with pytest.raises(ProfileError, match=r"digest.*calibrate"):
        hm.refine(None, profile, net(units=4), pair, loss=cross_entropy())


@pytest.mark.slow
def test_a_time_limit_below_zero_is_refused(pair: Any, model: Any, profile: hm.Profile) -> None:
    with pytest.raises(PlanError, match=r"time limit.*0 or more"):
        hm.refine(None, profile, model, pair, loss=cross_entropy(), time_limit_s=-1.0)
