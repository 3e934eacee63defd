"""Batches are written for devices ahead of their steps: the numbers are Keras's, whatever happens between steps."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.data.checked_batch import check_batch
from hetero_mtf.program.feeding import feed_choice as choice
from tests.program.oracle import worst_error

CLASSES = 4


@pytest.fixture(scope="module")
def emulated() -> Iterator[hm.Cluster]:
    with hm.Cluster.emulate([0.6, 0.4, 0.3]) as cluster:
        yield cluster


@pytest.fixture(params=["shared", "sent"])
def workers(request: pytest.FixtureRequest, emulated: hm.Cluster, monkeypatch: pytest.MonkeyPatch) -> hm.Cluster:
    """The way that batches take: memory of this host, or, as if the workers were elsewhere, a session with each."""
    if request.param == "sent":
        monkeypatch.setattr(hm.Cluster, "shares_memory", False)
    monkeypatch.setattr(choice, "LEAST_BYTES", 0)
    return emulated


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _net() -> keras.Model:
    keras.utils.set_random_seed(3)
    x = inputs = keras.Input((8, 8, 3))
    x = keras.layers.Rescaling(1 / 255)(x)
    for filters in (6, 5):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(CLASSES, activation="softmax")(x))


def _data(samples: int = 27) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (samples, 8, 8, 3), dtype=np.uint8)
    return x, rng.integers(0, CLASSES, samples), rng.uniform(0.5, 2, samples)


def _trainer(model: keras.Model, plan: hm.Plan, cluster: Any) -> hm.Trainer:
    return hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy")


def _keras_weights(dtype: str, epochs: int = 2) -> list[np.ndarray]:
    model, (x, y, weight) = _net(), _data()
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", jit_compile=False)
    model.fit(x.astype(dtype), y, batch_size=8, epochs=epochs, shuffle=False, verbose=0, sample_weight=weight)
    return list(model.get_weights())


PLANS = {
    "filters": lambda model, cluster: hm.Plan.filters(model, [3, 2, 1], cluster, 8),
    "batch": lambda model, cluster: hm.Plan.batch(model, [3, 2, 1], cluster, 8),
    "pipeline": lambda model, cluster: hm.Plan.pipeline(model, [0, 3], [[0], [1, 2]], [[1], [1, 1]], cluster, 8, 3, split="batch"),
}


def _options() -> dict[str, Any]:
    return {"shuffle": False, "verbose": 0, "sample_weight": _data()[2], "batch_size": 8}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(PLANS))
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_training_is_keras_with_short_last_batches(workers: hm.Cluster, kind: str, dtype: str) -> None:
    model, (x, y, _) = _net(), _data()
    with _trainer(model, PLANS[kind](model, workers), workers) as trainer:
        trainer.fit(x.astype(dtype), y, epochs=2, **_options())
        assert worst_error(_keras_weights(dtype), trainer.to_keras().get_weights()) <= 1e-8


@pytest.mark.slow
def test_a_batch_is_not_changed_where_the_first_layer_computes_in_place(workers: hm.Cluster) -> None:
    model, (x, _, _) = _net(), _data(8)
    with _trainer(model, PLANS["batch"](model, workers), workers) as trainer:
        batch = trainer._run.feed(check_batch(x.astype("float64"), np.zeros(8, int), None, form=trainer._run.network.form))
        losses = [trainer._run.engine.test(batch, False).loss for _ in range(4)]
    assert len(set(losses)) == 1


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_with_the_batch_that_comes_next(workers: hm.Cluster) -> None:
    class Interrupts(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 1:
                raise KeyboardInterrupt

    model, (x, y, weight) = _net(), _data()
    from hetero_mtf.data.array_source import ArraySource

    with (
        _trainer(model, PLANS["batch"](model, workers), workers) as trainer,
        ArraySource(x, y, batch_size=8, shuffle=False, sample_weight=weight) as source,
    ):
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(source, epochs=2, verbose=0, callbacks=[Interrupts()])
        trainer.fit(source, epochs=2, verbose=0)
        assert worst_error(_keras_weights("uint8"), trainer.to_keras().get_weights()) <= 1e-8


@pytest.mark.slow
def test_a_new_plan_between_steps_loses_no_staged_batch(workers: hm.Cluster) -> None:
    model, (x, y, _) = _net(), _data()

    class Replans(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch in (0, 2):
                trainer.replan(PLANS["filters" if batch else "batch"](model, workers))

    with _trainer(model, PLANS["filters"](model, workers), workers) as trainer:
        trainer.fit(x, y, epochs=2, callbacks=[Replans()], **_options())
        assert worst_error(_keras_weights("uint8"), trainer.to_keras().get_weights()) <= 1e-8


@pytest.mark.slow
def test_single_steps_read_arrays_that_the_caller_changed_meanwhile(workers: hm.Cluster) -> None:
    model, (x, y, _) = _net(), _data(8)
    expected = _net()
    expected.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", jit_compile=False)
    with _trainer(model, PLANS["batch"](model, workers), workers) as trainer:
        for number in range(3):
            x[:] = x + number
            assert abs(trainer.train_on_batch(x, y) - float(np.ravel(expected.train_on_batch(x, y))[0])) <= 1e-8
