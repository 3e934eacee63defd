"""Weights of samples, pixels and classes in every form that Keras takes, under plans of every method: Keras is the oracle."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import DataError
from tests.training.setting import cluster

__all__ = ["cluster"]

COUNT, BATCH = 20, 8
CLASSES = 3
RNG = np.random.default_rng(5)
X = RNG.normal(size=(COUNT, 4, 5, 2))
MAPS = RNG.integers(0, CLASSES, (COUNT, 4, 5))
CLASS_WEIGHT = {0: 0.25, 2: 3.0}
LOSSES = keras.losses
SPARSE, DENSE, BINARY = (  # made in the tests: a loss computes in the dtype that Keras has then
    functools.partial(loss, from_logits=True)
    for loss in (LOSSES.SparseCategoricalCrossentropy, LOSSES.CategoricalCrossentropy, LOSSES.BinaryCrossentropy)
)

PLANS: dict[str, Callable[[keras.Model, Any], hm.Plan]] = {
    "batch": lambda model, on: hm.Plan.batch(model, (3, 2, 1), on, BATCH),
    "filters": lambda model, on: hm.Plan.filters(model, (3, 2, 1), on, BATCH),
    "hybrid": lambda model, on: hm.Plan.hybrid(model, (3, 2, 1), on, BATCH),
    "pipeline": lambda model, on: hm.Plan.pipeline(model, ["first", "last"], [[0, 1], [2]], [[2, 1], [1]], on, BATCH, 3),
}


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _maps(units: int = CLASSES) -> keras.Model:
    """Return a network that gives a value a pixel and class, (4, 5, units)."""
    L = keras.layers
    i = keras.Input((4, 5, 2))
    x = L.Conv2D(6, 3, padding="same", activation="tanh", name="first")(i)
    return keras.Model(i, L.Conv2D(units, 1, name="last")(x))


def _flat(units: int = CLASSES) -> keras.Model:
    """Return a network that gives a value a class, (units,)."""
    L = keras.layers
    i = keras.Input((4, 5, 2))
    x = L.Flatten()(L.Conv2D(6, 3, activation="tanh", name="first")(i))
    return keras.Model(i, L.Dense(units, name="last")(x))


def _oracle(model: keras.Model, loss: Any, **options: Any) -> keras.Model:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss, run_eagerly=True, **options)
    return copy


def _compare(plan: str, on: Any, model: keras.Model, loss: Any, y: Any, expected: Callable[[keras.Model], Any], **weights: Any) -> None:
    """Fit under a plan, and compare the history and the weights with those after `expected(oracle)`."""
    oracle = _oracle(model, loss)
    history = expected(oracle)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    with hm.Trainer(model, PLANS[plan](model, on), on, optimizer=optimizer, loss=loss) as trainer:
        fitted = trainer.fit(X, y, epochs=2, batch_size=BATCH, shuffle=False, verbose=0, **weights)
        np.testing.assert_allclose(fitted.history["loss"], history.history["loss"], rtol=1e-6)  # Keras logs in float32
        for p, q in zip(oracle.get_weights(), trainer.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(q, p, rtol=1e-8, atol=1e-10)


REDUCTIONS = ("sum_over_batch_size", "mean_with_sample_weight", "sum", "mean")
SHAPES = {
    "samples": (),
    "one column": (1,),
    "pixels": (4, 5),
    "pixels and a column": (4, 5, 1),
    "rows": (4, 1),
    "samples of rank 3": (1, 1),
}


@pytest.mark.slow
@pytest.mark.fast("pipeline-one column-sum_over_batch_size")
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("plan", ["batch", "filters", "pipeline"])
def test_weights_of_pixels_are_those_of_keras(plan: str, shape: str, reduction: str, cluster: Any) -> None:
    weight = RNG.uniform(0, 2, (COUNT, *SHAPES[shape]))
    full = weight.reshape(COUNT, 1, 1) if shape in ("samples", "one column") else weight  # Keras wants the rank of the loss's values
    loss = SPARSE(reduction=reduction)
    given = {"epochs": 2, "batch_size": BATCH, "shuffle": False, "verbose": 0}
    _compare(plan, cluster, _maps(), loss, MAPS, lambda oracle: oracle.fit(X, MAPS, sample_weight=full, **given), sample_weight=weight)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [LOSSES.Hinge, LOSSES.Dice, BINARY], ids=["whole", "dice", "own"])
@pytest.mark.parametrize("plan", ["batch", "filters"])  # the value of such a loss is not the sum of those of microbatches
def test_losses_of_whole_outputs_take_weights_as_keras_does(plan: str, loss: Any, cluster: Any) -> None:
    weight = RNG.uniform(0, 2, (COUNT,) if loss is LOSSES.Dice else (COUNT, 4, 5))
    given = {"epochs": 2, "batch_size": BATCH, "shuffle": False, "verbose": 0}
    y = (MAPS[..., np.newaxis] == 1).astype(float)
    _compare(plan, cluster, _maps(1), loss(), y, lambda oracle: oracle.fit(X, y, sample_weight=weight, **given), sample_weight=weight)


NUMBERS = MAPS[:, 0, 0]
ONE_HOT = {"flat": np.eye(CLASSES)[NUMBERS], "maps": np.eye(CLASSES)[MAPS]}
TARGETS: dict[str, tuple[Callable[[], keras.Model], Callable[[], Any], np.ndarray]] = {
    "one-hot": (_flat, DENSE, ONE_HOT["flat"]),
    "numbers": (_flat, SPARSE, NUMBERS),
    "a column of numbers": (_flat, SPARSE, NUMBERS[:, np.newaxis]),
    "one-hot of pixels": (_maps, DENSE, ONE_HOT["maps"]),
    "numbers of pixels": (_maps, SPARSE, MAPS),
    "a channel of numbers": (_maps, SPARSE, MAPS[..., np.newaxis]),
    "masks": (lambda: _maps(1), BINARY, (MAPS[..., np.newaxis] == 0).astype("float32")),
}


@pytest.mark.fast("hybrid-masks")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("plan", ["batch", "filters", "pipeline", "hybrid"])
def test_weights_of_classes_are_those_of_keras(plan: str, target: str, cluster: Any) -> None:
    make, loss, y = TARGETS[target]
    plan = "batch" if plan == "hybrid" and make is not _flat else plan  # a hybrid plan needs a dense layer
    given = {"epochs": 2, "shuffle": False, "verbose": 0}

    def expected(oracle: keras.Model) -> Any:
        if target == "numbers of pixels":  # Keras takes the place of the greatest number of a row for its class
            weight = np.vectorize(lambda number: CLASS_WEIGHT.get(number, 1.0))(y)
            return oracle.fit(X, y, sample_weight=weight, batch_size=BATCH, **given)
        return oracle.fit(tf.data.Dataset.from_tensor_slices((X, y)).batch(BATCH), class_weight=CLASS_WEIGHT, **given)

    _compare(plan, cluster, make(), loss(), y, expected, class_weight=CLASS_WEIGHT)


@pytest.mark.slow
def test_streams_take_weights_of_pixels_and_classes(cluster: Any) -> None:
    weight, model = RNG.uniform(0, 2, (COUNT, 4, 5)), _maps()
    batches = [(X[k : k + BATCH], MAPS[k : k + BATCH], weight[k : k + BATCH]) for k in range(0, COUNT, BATCH)]
    oracle = _oracle(model, SPARSE())
    expected = oracle.fit(X, MAPS, sample_weight=weight, batch_size=BATCH, shuffle=False, verbose=0)
    by_class = np.vectorize(lambda number: CLASS_WEIGHT.get(number, 1.0))(MAPS)
    second = oracle.fit(X, MAPS, sample_weight=by_class, batch_size=BATCH, shuffle=False, verbose=0)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    with hm.Trainer(model, PLANS["batch"](model, cluster), cluster, optimizer=optimizer, loss=SPARSE()) as trainer:
        weighted = trainer.fit(iter(batches), steps_per_epoch=len(batches), verbose=0)
        assert weighted.history["loss"] == pytest.approx(expected.history["loss"], rel=1e-6)
        unweighted = trainer.fit((batch[:2] for batch in batches), steps_per_epoch=len(batches), class_weight=CLASS_WEIGHT, verbose=0)
        assert unweighted.history["loss"] == pytest.approx(second.history["loss"], rel=1e-6)
        found = trainer.evaluate(X, MAPS, sample_weight=weight, batch_size=BATCH)
        assert found["loss"] == pytest.approx(oracle.evaluate(X, MAPS, sample_weight=weight, batch_size=BATCH, verbose=0), rel=1e-6)


def _two() -> keras.Model:
    L = keras.layers
    i = keras.Input((4, 5, 2))
    x = L.Conv2D(6, 3, padding="same", activation="tanh", name="first")(i)
    return keras.Model(i, {"map": L.Conv2D(CLASSES, 1, name="last")(x), "size": L.Dense(1, name="size")(L.Flatten()(x))})


SIZES = RNG.normal(size=(COUNT, 1))
OF_TWO = {
    "one of all": RNG.uniform(0, 2, COUNT),
    "each": {"map": RNG.uniform(0, 2, (COUNT, 4, 5)), "size": RNG.uniform(0, 2, COUNT)},
    "columns": {"map": RNG.uniform(0, 2, (COUNT, 4, 5, 1)), "size": RNG.uniform(0, 2, (COUNT, 1))},
}


@pytest.mark.slow
@pytest.mark.parametrize("form", OF_TWO)
@pytest.mark.parametrize("plan", ["batch", "filters", "hybrid"])
def test_outputs_have_weights_of_their_own_shapes(plan: str, form: str, cluster: Any) -> None:
    y, weight = {"map": MAPS, "size": SIZES}, OF_TWO[form]
    of_keras = {"map": weight[:, None, None], "size": weight} if form == "one of all" else weight
    of_keras = {"map": of_keras["map"].reshape(COUNT, *of_keras["map"].shape[1:3]), "size": of_keras["size"]}
    loss = {"map": SPARSE(), "size": "mse"}
    given = {"epochs": 2, "batch_size": BATCH, "shuffle": False, "verbose": 0}
    _compare(plan, cluster, _two(), loss, y, lambda oracle: oracle.fit(X, y, sample_weight=of_keras, **given), sample_weight=weight)


def test_weights_that_fit_no_loss_are_refused_with_their_shape(cluster: Any) -> None:
    model, two = _maps(), _two()
    with hm.Trainer(model, PLANS["batch"](model, cluster), cluster, loss=SPARSE()) as trainer:
        for shape in ((COUNT, 5), (COUNT, 4, 4), (COUNT, 4, 5, 3), (COUNT, 0, 5)):
            with pytest.raises(DataError, match=r"sample_weight has shape \(20, .*the loss gives \(batch, 4, 5\) values; give one"):
                trainer.train_on_batch(X, MAPS, np.ones(shape))
        with pytest.raises(DataError, match=r"sample_weight has shape \(4, 5\); there must be one weight a sample, or one for each value"):
            trainer.train_on_batch(X, MAPS, np.ones((4, 5)))
        with pytest.raises(DataError, match="sample_weight goes down to -1; weights must not be negative"):
            trainer.train_on_batch(X, MAPS, -np.ones((COUNT, 4, 5)))
    with hm.Trainer(model, PLANS["batch"](model, cluster), cluster, loss=LOSSES.Hinge()) as trainer:
        with pytest.raises(DataError, match=r"takes no sample_weight of shape \(20, 4, 4\).*; give one weight a"):
            trainer.train_on_batch(X, np.eye(CLASSES)[MAPS], np.ones((COUNT, 4, 4)))
    loss = {"map": SPARSE(), "size": "mse"}
    with hm.Trainer(two, PLANS["batch"](two, cluster), cluster, loss=loss) as trainer:
        with pytest.raises(DataError, match=r"sample_weight has shape \(20, 4, 5\) and there are 2 outputs; give one"):
            trainer.fit(X, {"map": MAPS, "size": SIZES}, sample_weight=np.ones((COUNT, 4, 5)), verbose=0)
        with pytest.raises(DataError, match=r"sample_weight of size has shape \(8, 3\) and the loss gives \(batch\) values"):
            trainer.fit(X, {"map": MAPS, "size": SIZES}, sample_weight={"map": None, "size": np.ones((COUNT, 3))}, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [SPARSE, BINARY], ids=["places", "binary"])
@pytest.mark.parametrize("plan", ["batch", "filters"])
def test_weights_of_places_meet_the_mask_of_a_sequence_as_in_keras(plan: str, loss: Any, cluster: Any) -> None:
    L = keras.layers
    i = keras.Input((6,), dtype="int32")
    x = L.LSTM(5, return_sequences=True)(L.Embedding(9, 4, mask_zero=True)(i))
    model = keras.Model(i, L.Dense(CLASSES if loss is SPARSE else 1)(x))
    words = RNG.integers(1, 9, (COUNT, 6)) * (np.arange(6) < RNG.integers(2, 7, (COUNT, 1)))
    y = RNG.integers(0, CLASSES, (COUNT, 6)) if loss is SPARSE else RNG.integers(0, 2, (COUNT, 6, 1))
    weight = RNG.uniform(0, 2, (COUNT, 6))
    given = {"epochs": 2, "batch_size": BATCH, "shuffle": False, "verbose": 0, "sample_weight": weight}
    oracle = _oracle(model, loss())
    expected = oracle.fit(words, y, **given)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    with hm.Trainer(model, PLANS[plan](model, cluster), cluster, optimizer=optimizer, loss=loss()) as trainer:
        found = trainer.fit(words, y, **given)
        np.testing.assert_allclose(found.history["loss"], expected.history["loss"], rtol=1e-6)
        for p, q in zip(oracle.get_weights(), trainer.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(q, p, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.fast("1f1b_2bw")
@pytest.mark.parametrize("schedule", ["1f1b_2bw", "decoupled"])
def test_pipelines_without_a_flush_take_weights_of_pixels(schedule: str, cluster: Any) -> None:
    model, weight = _maps(), RNG.uniform(0, 2, COUNT)
    parts = 2 if schedule == "1f1b_2bw" else 1
    plan = hm.Plan.pipeline(model, ["first", "last"], [[0], [1]], [[1], [1]], cluster, 4, parts, schedule)
    losses = []
    for form in (weight, np.broadcast_to(weight[:, None, None], MAPS.shape)):
        with hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.1), loss=SPARSE(), weighted_metrics=["accuracy"]) as trainer:
            losses.append(trainer.fit(X, MAPS, sample_weight=form, epochs=2, batch_size=4, shuffle=False, verbose=0).history)
    assert losses[0]["loss"] == pytest.approx(losses[1]["loss"], rel=1e-9)
    assert losses[0]["accuracy"] == pytest.approx(losses[1]["accuracy"], rel=1e-6)
