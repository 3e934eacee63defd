"""Several inputs and outputs, shared layers and nested models never change a result: Keras on one device is the oracle, in float64."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.keras_reading.layer_graph import layer_graph
from hetero_mtf.training import keras_side
from tests.program.branching_nets import NETWORKS, Ended, _encoder, _scatter, batch_of
from tests.program.oracle import expected_placement, worst_error

SIZES = (8, 3, 8)


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[int, Any]]:
    made = {count: hm.Cluster.local(["cpu:0"] * count) for count in (3, 4)}
    yield made
    for cluster in made.values():
        cluster.close()


@pytest.fixture(scope="module")
def cluster(clusters: dict[int, Any]) -> Any:
    return clusters[3]


def _clone(model: keras.Model) -> keras.Model:
    """Return a copy with its weights, in which layers of several models are shared too."""
    copy = keras_side.clone(model)
    copy.set_weights(model.get_weights())
    return copy


PLANS: dict[str, Callable[[keras.Model, Any], hm.Plan]] = {
    "single": lambda model, cluster: hm.Plan.single(model, 0, cluster, 8),
    "filters": lambda model, cluster: hm.Plan.filters(model, [5, 2, 1], cluster, 8),
    "batch": lambda model, cluster: hm.Plan.batch(model, [4, 1, 2], cluster, 8),
    "hybrid": lambda model, cluster: hm.Plan.hybrid(model, [4, 1, 2], cluster, 8),
    "grid": lambda model, cluster: hm.Plan.grid(model, [2, 1], [3, 1], cluster, 8),
}
HARDEST = ("two outputs", "one encoder, two images", "by name")
TABLE = [(name, plan) for name in NETWORKS for plan in PLANS if plan not in ("hybrid", "grid") or name in HARDEST]


@functools.cache
def _oracle(name: str) -> tuple[keras.Model, list[dict[str, float]], list[np.ndarray], dict[str, float], Any]:
    """Return a network, Keras's logs of each step, its final weights, and what evaluate and predict give then."""
    keras.config.set_floatx("float64")
    ended = NETWORKS[name]
    model = ended.build()
    copy = _clone(model)
    copy.compile(ended.optimizer(), **ended.compiled(), run_eagerly=True, jit_compile=False)
    logs = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Gradients do not exist for variables")
        for step, size in enumerate(SIZES):
            x, y, weight = batch_of(model, ended, size, step)
            copy.reset_metrics()
            logs.append(copy.train_on_batch(x, y, sample_weight=weight, return_dict=True))
        weights = copy.get_weights()
        x, y, _ = batch_of(model, ended, 5, 99)
        return model, logs, weights, copy.evaluate(x, y, batch_size=3, verbose=0, return_dict=True), copy.predict(x, verbose=0)


def _trainer(model: keras.Model, plan: hm.Plan, cluster: Any, ended: Ended) -> hm.Trainer:
    return hm.Trainer(model, plan, cluster, optimizer=ended.optimizer(), **ended.compiled())


@pytest.mark.fast("two outputs, one sample weight-single")
@pytest.mark.parametrize(("name", "plan"), TABLE)
def test_a_plan_gives_the_losses_weights_metrics_and_predictions_of_keras(name: str, plan: str, clusters: dict[int, Any]) -> None:
    keras.config.set_floatx("float64")
    cluster = clusters[4 if plan == "grid" else 3]
    model, logs, weights, evaluated, predicted = _oracle(name)
    ended = NETWORKS[name]
    made = PLANS[plan](model, cluster)
    with _trainer(model, made, cluster, ended) as trainer:
        found = [trainer.train_on_batch(*batch_of(model, ended, size, step)) for step, size in enumerate(SIZES)]
        assert np.abs(np.subtract(found, [log["loss"] for log in logs])).max() <= 1e-8
        assert worst_error(weights, trainer.to_keras().get_weights()) <= 1e-8
        assert trainer.placement() == expected_placement(layer_graph(model), made)
        x, y, _ = batch_of(model, ended, 5, 99)
        ours = trainer.evaluate(x, y, batch_size=3)
        assert set(ours) == set(evaluated) and ours == pytest.approx(evaluated, rel=1e-6, abs=1e-9)
        guessed = trainer.predict(x)
        keras.tree.assert_same_structure(guessed, predicted)
        assert worst_error(keras.tree.flatten(predicted), keras.tree.flatten(guessed)) <= 1e-8


def test_every_splitting_plan_splits_something(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    for name in ("two inputs", "two outputs", "models within models", "by name"):
        model = NETWORKS[name].build()
        assert {layout.layout for layout in PLANS["filters"](model, cluster).stages[0].layouts} & {"column", "row"}, name


@pytest.mark.slow
@pytest.mark.parametrize("plan", ["filters", "batch"])
def test_dropout_in_a_shared_layer_has_a_mask_of_its_own_in_each_call_and_the_same_under_every_plan(plan: str, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    left, right = keras.Input((5, 4, 2)), keras.Input((5, 4, 2))
    encoder = _encoder(rate=0.5)
    model = _scatter(keras.Model([left, right], keras.layers.Subtract()([encoder(left), encoder(right)])))
    x = np.random.default_rng(0).normal(size=(8, 5, 4, 2))
    found = []
    for kind in ("single", plan):
        with hm.Trainer(model, PLANS[kind](model, cluster), cluster, optimizer="sgd", loss="mse", seed=3) as trainer:
            found.append([trainer.train_on_batch([x, x], np.zeros((8, 48))) for _ in range(2)])
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[0][0] > 1e-3, "equal masks would make equal halves"


@pytest.mark.slow
def test_weights_go_back_into_nested_models_and_on_under_another_plan(cluster: Any, tmp_path: Any) -> None:
    keras.config.set_floatx("float64")
    name = "one encoder, two images"
    model, logs, weights, _, _ = _oracle(name)
    ended = NETWORKS[name]
    batches = [batch_of(model, ended, size, step) for step, size in enumerate(SIZES)]
    with _trainer(model, PLANS["filters"](model, cluster), cluster, ended) as trainer:
        trainer.train_on_batch(*batches[0])
        trainer.replan(PLANS["batch"](model, cluster))
        trainer.train_on_batch(*batches[1])
        trainer.save(tmp_path / "state")
    fresh = keras.models.clone_model(model)
    with _trainer(fresh, PLANS["single"](fresh, cluster), cluster, ended) as trainer:
        trainer.restore(tmp_path / "state")
        assert trainer.train_on_batch(*batches[2]) == pytest.approx(logs[2]["loss"], rel=1e-9)
        trained = trainer.to_keras()
    assert worst_error(weights, trained.get_weights()) <= 1e-8
    assert [w.path for w in trained.weights] == [w.path for w in _clone(model).weights]
    x = batch_of(model, ended, 4, 5)[0]
    assert trained.predict(x, verbose=0).shape == (4, 1)
