"""fit, evaluate and predict take what Keras's take, in the same places, with the same meaning."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import DataError
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]

COUNT, BATCH = 22, 8


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _keras(model: keras.Model) -> keras.Model:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile(keras.optimizers.SGD(0.05), cross_entropy(), metrics=["accuracy"])
    return copy


def _trainer(model: keras.Model, on: Any) -> hm.Trainer:
    plan = hm.Plan.batch(model, (3, 2, 1), on, BATCH)
    return hm.Trainer(model, plan, on, optimizer=keras.optimizers.SGD(0.05), loss=cross_entropy(), metrics=["accuracy"])


@pytest.mark.parametrize("name", ["fit", "evaluate", "predict", "train_on_batch", "test_on_batch", "predict_on_batch"])
def test_every_argument_of_keras_is_there_and_in_its_place(name: str) -> None:
    def names(owner: Any) -> list[str]:
        kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD,)
        return [p.name for p in inspect.signature(getattr(owner, name)).parameters.values() if p.kind in kinds]

    assert names(hm.Trainer) == names(keras.Model)


STEPS = {"two a pass": 2, "one": 1, "all of a pass": 3, "given": (2, 4), "more than a pass": (5, 8)}


@pytest.mark.slow
@pytest.mark.parametrize("steps", STEPS)
def test_steps_of_arrays_go_on_where_the_epoch_before_ended(steps: str, cluster: Any) -> None:
    model, (x, y), given = net(), data(COUNT), STEPS[steps]
    count, size = given if isinstance(given, tuple) else (given, None)
    options = {"epochs": 5, "shuffle": False, "verbose": 0, "steps_per_epoch": count, "batch_size": size, "initial_epoch": 1}
    oracle = _keras(model)
    with warnings.catch_warnings(record=True) as of_keras:
        warnings.simplefilter("always")
        expected = oracle.fit(x, y, validation_data=data(11, 4), validation_steps=2, **options)
    with _trainer(model, cluster) as trainer, warnings.catch_warnings(record=True) as own:
        warnings.simplefilter("always")
        found = trainer.fit(x, y, validation_data=data(11, 4), validation_steps=2, **options)
        assert found.epoch == expected.epoch
        for name in expected.history:
            np.testing.assert_allclose(found.history[name], expected.history[name], rtol=1e-6, err_msg=name)
        for p, q in zip(oracle.get_weights(), trainer.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(q, p, rtol=1e-8, atol=1e-10)
    assert sum("ran out of data" in str(w.message) for w in of_keras) == sum("left for the" in str(w.message) for w in own)


@pytest.mark.slow
def test_steps_of_shuffled_arrays_take_each_sample_once_a_pass(cluster: Any) -> None:
    model, (x, y) = net(), data(COUNT)
    x[:, 0, 0, 0] = np.arange(COUNT)
    seen: list[float] = []
    with _trainer(model, cluster) as trainer:
        step = trainer._run.advance
        trainer._run.advance = lambda feed, *rest: (seen.extend(feed.x[0][:, 0, 0, 0]), step(feed, *rest))[1]  # type: ignore[method-assign]
        trainer.fit(x, y, batch_size=4, steps_per_epoch=3, epochs=4, verbose=0)
    assert sorted(seen[:COUNT]) == sorted(seen[COUNT:]) == list(range(COUNT)) and seen[:COUNT] != seen[COUNT:]


@pytest.mark.slow
def test_a_checkpoint_within_the_steps_of_a_pass_goes_on_there(cluster: Any, tmp_path: Any) -> None:
    model, (x, y), options = net(), data(COUNT), {"batch_size": 4, "steps_per_epoch": 3, "verbose": 0}

    class Save(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if trainer.step == 4:
                trainer.save(tmp_path / "state.npz")

    with _trainer(model, cluster) as trainer:
        trainer.fit(x, y, epochs=4, callbacks=Save(), **options)
        expected = trainer.to_keras().get_weights()
    with _trainer(model, cluster) as again:
        again.restore(tmp_path / "state.npz")
        with pytest.raises(DataError, match=r"steps_per_epoch and batch_size were \[3, 4\] and are \[2, 4\]"):
            again.fit(x, y, epochs=4, **{**options, "steps_per_epoch": 2})
        again.restore(tmp_path / "state.npz")
        again.fit(x, y, epochs=4, **options)
        for p, q in zip(expected, again.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(q, p, rtol=1e-12)


@pytest.mark.slow
def test_tests_and_predictions_of_some_steps_take_all_samples_unless_a_batch_size_is_given(cluster: Any) -> None:
    model, (x, y) = net(), data(COUNT)
    oracle = _keras(model)
    with _trainer(model, cluster) as trainer:
        for options in ({"steps": 3}, {"steps": 2, "batch_size": 5}):
            expected = oracle.evaluate(x, y, verbose=0, return_dict=True, **options)
            assert trainer.evaluate(x, y, **options) == pytest.approx(expected, rel=1e-6)
            np.testing.assert_allclose(trainer.predict(x, **options), oracle.predict(x, verbose=0, **options), rtol=1e-8)


@pytest.mark.slow
def test_a_generator_gives_its_first_batch_to_the_initial_epoch_as_in_keras(cluster: Any) -> None:
    model, (x, y) = net(), data(24)

    def endless() -> Iterator[Any]:
        while True:
            yield from ((x[k : k + 8], y[k : k + 8]) for k in (0, 8, 16))

    options = {"steps_per_epoch": 2, "epochs": 4, "initial_epoch": 1, "verbose": 0}
    oracle = _keras(model)
    expected = oracle.fit(endless(), shuffle=False, **options)
    with _trainer(model, cluster) as trainer:
        found = trainer.fit(endless(), shuffle=False, **options)
        np.testing.assert_allclose(found.history["loss"], expected.history["loss"], rtol=1e-6)


class _Stop(keras.callbacks.Callback):
    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_evaluating = True

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self.model.stop_predicting = batch == 1


def test_callbacks_are_taken_in_each_form_of_keras_and_may_stop(cluster: Any) -> None:
    model, (x, y) = net(), data(COUNT)
    oracle = _keras(model)
    with _trainer(model, cluster) as trainer:
        for callbacks in (_Stop(), [_Stop()], ([_Stop()],), keras.callbacks.CallbackList([_Stop()])):
            assert trainer.evaluate(x, y, callbacks=callbacks)["loss"] == pytest.approx(trainer.test_on_batch(x[:8], y[:8]), rel=1e-9)
            expected = oracle.predict(x, batch_size=8, verbose=0, callbacks=[_Stop()])
            np.testing.assert_allclose(trainer.predict(x, callbacks=callbacks), expected, rtol=1e-8)
        with pytest.raises(DataError, match="callbacks has 'early', which is no callback; give objects of keras.callbacks.Callback"):
            trainer.fit(x, y, callbacks=["early"], verbose=0)
        with pytest.raises(DataError, match="shuffle is 'batch'; give True for an order of samples"):
            trainer.fit(x, y, shuffle="batch", verbose=0)  # type: ignore[arg-type]
        for steps in (0, 2.5, True, "3"):
            with pytest.raises(DataError, match=f"steps_per_epoch is {steps!r}; use a whole number from 1, or leave it out"):
                trainer.fit(x, y, steps_per_epoch=steps, verbose=0)  # type: ignore[arg-type]
        with pytest.raises(DataError, match="batches cannot be drawn from a NoneType"):
            trainer.fit()


@pytest.mark.parametrize("form", ["samples", "weighted", "endless"])
def test_loaders_of_torch_are_taken_as_in_keras(form: str, cluster: Any) -> None:
    torch = pytest.importorskip("torch")
    model, (x, y) = net(), data(COUNT)
    loader = torch.utils.data.DataLoader
    if form != "endless":
        weights = [np.linspace(0, 2, COUNT)] if form == "weighted" else []
        source = loader(torch.utils.data.TensorDataset(*map(torch.as_tensor, (x, y, *weights))), batch_size=BATCH)
    else:

        class Endless(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Iterator[Any]:
                while True:
                    yield from zip(x, y)

        source = loader(Endless(), batch_size=BATCH)
    options = {"epochs": 2, "shuffle": False, "verbose": 0, **({"steps_per_epoch": 3} if form == "endless" else {})}
    oracle = _keras(model)
    expected = oracle.fit(source, **options)
    with _trainer(model, cluster) as trainer:
        found = trainer.fit(source, **options)
        np.testing.assert_allclose(found.history["loss"], expected.history["loss"], rtol=1e-6)
        if form == "samples":
            np.testing.assert_allclose(trainer.predict(source), oracle.predict(source, verbose=0), rtol=1e-8)
        with pytest.raises(DataError, match="x is a DataLoader and y cannot go with it"):
            trainer.fit(source, y, verbose=0)
