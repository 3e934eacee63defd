"""Dropout: the mask drops, at its rate, and depends on seed, layer and step, never on the plan."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.cases import first_fast
from tests.program.oracle import planned

X = np.abs(np.random.default_rng(0).normal(size=(8, 6, 6, 2))) + 0.5
Y = np.random.default_rng(1).normal(size=(8, 4))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def _net() -> keras.Model:
    L = keras.layers
    i = keras.Input((6, 6, 2))
    x = L.Dropout(0.3, name="early")(L.Conv2D(12, 3, activation="relu", name="first")(i))
    x = L.Conv2D(10, 3, name="second")(x)
    x = L.Dropout(0.5, name="late")(L.Flatten()(x))
    return keras.Model(i, L.Dense(4, name="head")(L.Dropout(0.2)(L.Dense(6, activation="relu", name="hidden")(x))))


def _run(model: keras.Model, plan: hm.Plan, cluster: Any, seed: int = 3, steps: int = 4) -> list[Any]:
    with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.Adam(0.01, epsilon=1e-3), loss="mse", seed=seed) as trainer:
        losses = [trainer.train_on_batch(X, Y) for _ in range(steps)]
        return [np.array(losses), *trainer.to_keras().get_weights()]


def _plans(model: keras.Model, cluster: Any) -> dict[str, hm.Plan]:
    return {
        "pairs": hm.Plan.filters(model, [7, 4, 1], cluster, 8),
        "gather": hm.Plan.filters(model, [1, 3, 1], cluster, 8, pairing="gather"),
        "zeros": planned(model, cluster, [(7, 0, 5), (0, 5, 1), (1, 0, 3)]),
        "last device": hm.Plan.single(model, 2, cluster, 8),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", first_fast(["gather", "zeros", "pairs", "last device"], 2))
def test_dropout_gives_the_same_under_any_plan(name: str, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model = _net()
    expected = _run(model, hm.Plan.single(model, 0, cluster, 8), cluster)
    found = _run(model, _plans(model, cluster)[name], cluster)
    for a, b in zip(expected, found, strict=True):
        assert np.abs(a - b).max() / (np.abs(a).max() + 1e-3) <= 1e-8


def _masks(cluster: Any, seed: int = 0, layer_seed: int | None = None, layers: int = 1, steps: int = 2) -> list[np.ndarray]:
    """Return what dropout of rate 0.4 keeps of a thousand ones a step: a bias that follows it takes its gradient."""
    L = keras.layers
    i = x = keras.Input((1000,))
    for _ in range(layers):
        x = L.Dropout(0.4, seed=layer_seed)(x)
    model = keras.Model(i, L.Dense(1, use_bias=False, kernel_initializer="zeros", name="head")(x))
    optimizer, ones = keras.optimizers.SGD(1.0), np.ones((1, 1000))
    found = []
    with hm.Trainer(model, hm.Plan.filters(model, [2, 1, 0], cluster, 1), cluster, optimizer=optimizer, loss="mse", seed=seed) as trainer:
        before = np.zeros(1000)
        for _ in range(steps):
            trainer.train_on_batch(ones, np.ones((1, 1)) * 1e-3)
            after = np.ravel(trainer.to_keras().get_weights()[0])
            found.append(np.abs(after - before) / np.abs(after - before).max())
            before = after
    return found


@pytest.mark.slow
def test_the_mask_drops_at_its_rate_and_differs_by_step_seed_and_layer(cluster: Any) -> None:
    first, second = _masks(cluster)
    assert set(np.round(np.unique(first), 6)) == {0.0, 1.0}
    assert abs((first == 0).mean() - 0.4) < 0.06
    again, _ = _masks(cluster)
    np.testing.assert_array_equal(first, again)
    others = [second, _masks(cluster, seed=1)[0], _masks(cluster, layer_seed=7)[0]]
    assert all((first > 0).astype(int).tolist() != (other > 0).astype(int).tolist() for other in others)
    twice, _ = _masks(cluster, layers=2)
    assert abs((twice == 0).mean() - 0.64) < 0.06, "two layers draw masks of their own"


@pytest.mark.slow
def test_dropout_is_out_of_force_in_test_and_prediction(cluster: Any) -> None:
    model = _net()
    with hm.Trainer(model, hm.Plan.filters(model, [2, 1, 1], cluster, 8), cluster, loss="mse") as trainer:
        expected = model.predict(X, verbose=0)
        np.testing.assert_allclose(trainer.predict(X), expected, rtol=1e-4, atol=1e-6)
        assert trainer.test_on_batch(X, Y) == pytest.approx(float(np.mean((expected - Y) ** 2)), rel=1e-4)


@pytest.mark.slow
def test_masks_repeat_after_saving_and_restoring(cluster: Any, tmp_path: pathlib.Path) -> None:
    model = _net()
    plans = _plans(model, cluster)
    with hm.Trainer(model, plans["pairs"], cluster, loss="mse", seed=4) as trainer:
        trainer.train_on_batch(X, Y)
        trainer.save(tmp_path / "state")
        expected = trainer.train_on_batch(X, Y)
        trainer.restore(tmp_path / "state")
        assert trainer.train_on_batch(X, Y) == pytest.approx(expected, rel=1e-5)
        trainer.restore(tmp_path / "state")
        trainer.replan(plans["gather"])
        assert trainer.train_on_batch(X, Y) == pytest.approx(expected, rel=1e-5)
