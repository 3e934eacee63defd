"""The loop of fit: what callbacks do to weights is trained on with, as in Keras, or refused."""

from __future__ import annotations

import pathlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.errors import DataError, HeteroError, NotFiniteError
from hetero_mtf.training.loops.trainer_loops import shown_verbosity, steps_ahead
from tests.cases import first_fast
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]


class _Halve(keras.callbacks.Callback):
    """Halves all weights once, when it is told to."""

    def __init__(self, moment: str) -> None:
        super().__init__()
        self._moment = moment

    def _halve(self, moment: str) -> None:
        if moment == self._moment:
            self.model.set_weights([w / 2 for w in self.model.get_weights()])

    def on_train_begin(self, logs: Any = None) -> None:
        self._halve("training begins")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._halve(f"epoch {epoch} begins")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._halve(f"epoch {epoch} ends")


def _trainer(model: keras.Model, cluster: Any, optimizer: Any = None, seed: int = 0) -> hm.Trainer:
    plan = hm.Plan.filters(model, (3, 2, 1), cluster, 8)
    optimizer = optimizer or keras.optimizers.SGD(0.05, momentum=0.9)
    return hm.Trainer(model, plan, cluster, optimizer=optimizer, loss=cross_entropy(), seed=seed)


def _oracle(model: keras.Model, optimizer: Any) -> keras.Model:
    """Return a copy of a model that Keras trains itself."""
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile(optimizer, cross_entropy(), jit_compile=False)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("moment", first_fast(["epoch 1 begins", "epoch 0 ends", "training begins", "epoch 0 begins"], 1))
def test_weights_that_a_callback_changes_are_trained_on_with_as_in_keras(moment: str, cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model, (x, y) = net(), data(16)
    oracle = keras.models.clone_model(model)
    oracle.set_weights(model.get_weights())
    oracle.compile(keras.optimizers.SGD(0.05, momentum=0.9), cross_entropy(), jit_compile=False)
    given = {"epochs": 2, "batch_size": 8, "shuffle": False, "verbose": 0}
    expected = oracle.fit(x, y, callbacks=[_Halve(moment)], **given).history["loss"]
    with _trainer(model, cluster) as trainer:
        assert trainer.fit(x, y, callbacks=[_Halve(moment)], **given).history["loss"] == pytest.approx(expected, rel=1e-8)
        for p, q in zip(oracle.get_weights(), trainer.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_weights_that_are_not_numbers_do_not_pass_for_changed_by_a_callback(cluster: Any) -> None:
    model, (x, y) = net(), data(8)
    model.set_weights([np.full_like(w, np.nan) for w in model.get_weights()])
    with _trainer(model, cluster) as trainer, pytest.warns(UserWarning, match="training goes on although the loss of step 1 is nan"):
        engine = trainer._run.engine
        trainer.fit(x, y, callbacks=[keras.callbacks.Callback()], keep_going=True)
        assert trainer._run.engine is engine


class _Saved(keras.callbacks.Callback):
    """Saves the trainer's state when training ends."""

    def __init__(self, trainer: hm.Trainer, path: pathlib.Path) -> None:
        super().__init__()
        self._trainer, self._path = trainer, path

    def on_train_end(self, logs: Any = None) -> None:
        self._trainer.save(self._path)


@pytest.mark.slow
def test_a_state_that_a_callback_saves_has_what_callbacks_before_it_have_changed(cluster: Any, tmp_path: pathlib.Path) -> None:
    model, (x, y) = net(), data(16)
    with _trainer(model, cluster) as trainer:
        trainer.notes = {"loss": "mse"}
        stop = keras.callbacks.EarlyStopping("loss", mode="max", patience=1, restore_best_weights=True)  # the first epoch is the best
        trainer.fit(x, y, epochs=4, callbacks=[stop, _Saved(trainer, tmp_path / "s.npz")], verbose=0)
        trained = trainer.to_keras().get_weights()
        for one, other in zip(trained, stop.best_weights, strict=True):
            np.testing.assert_array_equal(one, other)
    with _trainer(net(), cluster) as again:
        again.restore(tmp_path / "s.npz")
        assert again.notes == {"loss": "mse"} and again.position is not None and again.position["epoch"] == 2
        for one, other in zip(trained, again.to_keras().get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_steps_ahead_are_those_of_all_epochs_that_are_left() -> None:
    x = np.zeros((10, 1))
    with ArraySource(x, x, batch_size=4) as source:
        assert steps_ahead(source, 3) == 9
        batches = iter(source)
        next(batches), next(batches)
        assert steps_ahead(source, 3) == 7 and steps_ahead(source, 1) == 1 and steps_ahead(source, 0) == 0


@pytest.mark.slow
def test_a_metric_that_counted_elsewhere_before_starts_anew(cluster: Any) -> None:
    model, (x, y) = net(), data(8)
    used = keras.metrics.SparseCategoricalAccuracy(name="right")
    used.update_state(np.zeros(1000, "int32"), np.tile([0.0, 0.0, 1.0], (1000, 1)))
    found = []
    for metric in (keras.metrics.SparseCategoricalAccuracy(name="right"), used):
        plan = hm.Plan.single(model, 0, cluster, 8)
        with hm.Trainer(model, plan, cluster, loss=cross_entropy(), metrics=[metric]) as trainer:
            metric.update_state([0], [[0.0, 0.0, 1.0]])  # between two uses too
            found.append((trainer.fit(x, y, shuffle=False).history["right"], trainer.evaluate(x, y)["right"]))
    assert found[0] == found[1]


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD with momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "AdamW": lambda: keras.optimizers.AdamW(keras.optimizers.schedules.PiecewiseConstantDecay([4], [0.01, 0.005]), weight_decay=0.02),
}


def _check_same(expected: Sequence[Any], found: Sequence[Any]) -> None:
    for number, (p, q) in enumerate(zip(expected, found, strict=True)):
        p, q = np.asarray(p, "float64"), np.asarray(q, "float64")
        assert np.abs(p - q).max() / (np.abs(p).max() + 1e-3) <= 1e-8, number


class _Crash(keras.callbacks.Callback):
    """Ends training in the middle of an epoch, and counts the epochs that are trained."""

    def __init__(self, epoch: int | None) -> None:
        super().__init__()
        self._epoch, self.epochs = epoch, list[int]()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append(epoch)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.epochs[-1] == self._epoch and batch == 1:
            raise RuntimeError("the machine went down")


@pytest.mark.slow
@pytest.mark.parametrize("name", first_fast(sorted(OPTIMIZERS), 1))
def test_backup_and_restore_goes_on_after_a_crash_as_in_keras(name: str, cluster: Any, tmp_path: pathlib.Path) -> None:
    keras.config.set_floatx("float64")
    model, (x, y) = net(second_bias=False), data(21)
    given: dict[str, Any] = {"epochs": 5, "batch_size": 8, "shuffle": False, "verbose": 0}
    undisturbed = _oracle(model, OPTIMIZERS[name]())
    expected = undisturbed.fit(x, y, **given).history["loss"]

    def backed_up(crash: int | None) -> list[Any]:
        return [keras.callbacks.BackupAndRestore(tmp_path / "backup"), _Crash(crash)]

    with _trainer(model, cluster, OPTIMIZERS[name]()) as trainer, pytest.raises(RuntimeError, match="went down"):
        trainer.fit(x, y, callbacks=backed_up(3), **given)
    assert (tmp_path / "backup").exists()
    with _trainer(keras.models.clone_model(model), cluster, OPTIMIZERS[name]()) as trainer:
        callbacks = backed_up(None)
        assert trainer.fit(x, y, callbacks=callbacks, **given).history["loss"] == pytest.approx(expected[3:], rel=1e-8)
        assert callbacks[1].epochs == [3, 4] and trainer.step == 15
        _check_same(undisturbed.get_weights(), trainer.to_keras().get_weights())
        assert not (tmp_path / "backup").exists()
        assert len(trainer.fit(x, y, **given).history["loss"]) == 5  # the epoch to begin with is not kept


@pytest.mark.slow
def test_an_epoch_that_a_callback_begins_with_draws_what_the_undisturbed_run_draws(cluster: Any, tmp_path: pathlib.Path) -> None:
    keras.config.set_floatx("float64")
    model, (x, y) = net(rate=0.4, second_bias=False), data(21)
    with _trainer(model, cluster, "adam", seed=5) as trainer:
        expected = trainer.fit(x, y, epochs=4).history["loss"]
        weights = trainer.to_keras().get_weights()
    for crash, first in ((2, 0), (None, 2)):
        backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
        with _trainer(model, cluster, "adam", seed=5) as trainer:
            try:
                history = trainer.fit(x, y, epochs=4, callbacks=[backup, _Crash(crash)])
            except RuntimeError:
                continue
            assert history.history["loss"] == pytest.approx(expected[first:], rel=1e-8)
            _check_same(weights, trainer.to_keras().get_weights())


@pytest.mark.slow
@pytest.mark.parametrize("name", first_fast(sorted(OPTIMIZERS), 1))
def test_a_model_that_a_callback_saves_has_the_optimizer_as_keras_has_it(name: str, cluster: Any, tmp_path: pathlib.Path) -> None:
    keras.config.set_floatx("float64")
    model, (x, y) = net(second_bias=False), data(21)
    model.get_layer("second").trainable = False
    given: dict[str, Any] = {"epochs": 2, "batch_size": 8, "shuffle": False, "verbose": 0}
    oracle = _oracle(model, OPTIMIZERS[name]())
    oracle.fit(x, y, callbacks=[keras.callbacks.ModelCheckpoint(tmp_path / "keras.keras")], **given)
    with _trainer(model, cluster, OPTIMIZERS[name]()) as trainer:
        trainer.fit(x, y, callbacks=[keras.callbacks.ModelCheckpoint(tmp_path / "ours.keras")], **given)
    expected, found = (keras.models.load_model(tmp_path / name) for name in ("keras.keras", "ours.keras"))
    assert int(found.optimizer.iterations) == 6
    assert [v.name for v in found.optimizer.variables] == [v.name for v in expected.optimizer.variables]
    _check_same([*expected.weights, *expected.optimizer.variables], [*found.weights, *found.optimizer.variables])


def _diverging(cluster: Any) -> hm.Trainer:
    return _trainer(net(), cluster, keras.optimizers.SGD(1e30))


@pytest.mark.filterwarnings("ignore:invalid value", "ignore:overflow")
def test_a_loss_that_is_not_finite_raises_after_callbacks_and_names_step_and_layer(cluster: Any, tmp_path: pathlib.Path) -> None:
    keras.config.set_floatx("float32")
    seen = list[str]()
    watch = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: seen.append(f"batch {batch}"),
        on_epoch_end=lambda epoch, logs: seen.append(f"epoch {epoch}"),
        on_train_end=lambda logs: seen.append("train"),
    )
    x, y = data(40)
    with _diverging(cluster) as trainer:
        with pytest.raises(NotFiniteError, match="the loss of step 2 is .* and first is the first layer whose weights .*; use a smaller"):
            trainer.fit(x, y, epochs=3, callbacks=[watch])
        assert seen == ["batch 0", "batch 1", "epoch 0"] and trainer.step == 2
        assert not np.isfinite(trainer.train_on_batch(x[:8], y[:8]))


@pytest.mark.slow
@pytest.mark.fast("3")
@pytest.mark.parametrize("epochs", [1, 3])
def test_callbacks_that_stop_training_are_not_overruled_by_a_loss_that_is_not_finite(epochs: int, cluster: Any) -> None:
    keras.config.set_floatx("float32")
    stopping = {1: keras.callbacks.TerminateOnNaN(), 3: keras.callbacks.LambdaCallback()}[epochs]
    if epochs == 3:
        stopping.on_epoch_end = lambda epoch, logs: setattr(stopping.model, "stop_training", not np.isfinite(logs["loss"]))
    with _diverging(cluster) as trainer:
        history = trainer.fit(*data(40), epochs=epochs, callbacks=[stopping])
        assert len(history.history["loss"]) == 1 and trainer.step == 2


def test_training_keeps_going_with_a_loss_that_is_not_finite_if_told_to(cluster: Any) -> None:
    keras.config.set_floatx("float32")
    with _diverging(cluster) as trainer, pytest.warns(UserWarning, match="although the loss of step 2") as warned:
        trainer.fit(*data(16), epochs=1, keep_going=True)
        assert trainer.step == 2 and len(warned) == 1


@pytest.mark.slow
def test_samples_that_are_not_finite_are_named_before_training(cluster: Any) -> None:
    x, y = data(16)
    x[5, 2, 2, 1] = np.nan
    with _trainer(net(), cluster) as trainer:
        with pytest.raises(DataError, match="x has NaN or infinite values in 1 of 16 samples, the first at 5; remove them"):
            trainer.fit(x, y)
        with pytest.raises(DataError, match="y has NaN or infinite values in 1 of 16 samples, the first at 0"):
            trainer.fit(np.zeros_like(x), np.where(np.arange(16), 1.0, np.inf))
        with pytest.raises(DataError, match="sample_weight has NaN or infinite values in 16 of 16 samples, the first at 0"):
            trainer.fit(np.zeros_like(x), y, sample_weight=np.full(16, np.nan))
        assert trainer.step == 0
        with pytest.raises(DataError, match="x of batch 1 has NaN or infinite values in 1 of 4 samples, the first at 1"):
            trainer.fit((x[at : at + 4], y[at : at + 4]) for at in range(0, 16, 4))


def test_samples_that_are_not_finite_in_a_source_of_the_users_are_named_by_the_loss(cluster: Any) -> None:
    x, y = data(16)
    x[5] = np.inf
    with _trainer(net(), cluster) as trainer, ArraySource(x, y, batch_size=4, shuffle=False) as source:
        with pytest.raises(NotFiniteError, match="loss of step 2 is nan .*x of its batch has .* in 1 of 4 samples, the first at 1; remove"):
            trainer.fit(source)


class _Told(keras.callbacks.Callback):
    """Remembers what it is told of validation."""

    def __init__(self) -> None:
        super().__init__()
        self.events = list[Any]()

    def on_test_begin(self, logs: Any = None) -> None:
        self.events.append("begin")

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.events.append(("batch begins", batch))

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.events.append(("batch ends", batch, logs["loss"]))

    def on_test_end(self, logs: Any = None) -> None:
        self.events.append(("end", logs["loss"]))


@pytest.mark.slow
def test_callbacks_are_told_of_validation_as_in_keras(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    model, (x, y), given = net(), data(20), {"epochs": 2, "batch_size": 8, "shuffle": False, "verbose": 0}
    expected, found = _Told(), _Told()
    _oracle(model, keras.optimizers.SGD(0.05, momentum=0.9)).fit(x, y, validation_data=(x, y), callbacks=[expected], **given)
    with _trainer(model, cluster) as trainer:
        trainer.fit(x, y, validation_data=(x, y), callbacks=[found], **given)
    assert len(found.events) == len(expected.events) == 16
    for a, b in zip(expected.events, found.events):
        assert a == b if isinstance(a, str) else a[:-1] == b[:-1] and a[-1] == pytest.approx(b[-1], rel=1e-6), (a, b)


@pytest.mark.parametrize("terminal, verbose", [(True, 1), (False, 2)])
def test_auto_is_a_bar_on_a_terminal_and_a_line_an_epoch_in_a_log_file(monkeypatch: Any, terminal: bool, verbose: int) -> None:
    monkeypatch.setattr("sys.stdout", types.SimpleNamespace(isatty=lambda: terminal))
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    assert shown_verbosity("auto") == verbose
    assert [shown_verbosity(given) for given in (0, 1, 2)] == [0, 1, 2]


@pytest.mark.slow
def test_a_log_file_gets_a_line_an_epoch_unless_fit_is_to_be_silent(cluster: Any, capsys: Any) -> None:
    keras.config.set_floatx("float64")
    x, y = data(16)
    with _trainer(net(), cluster) as trainer:
        trainer.fit(x, y, epochs=2)
        lines = capsys.readouterr().out.splitlines()
        trainer.fit(x, y, epochs=3, verbose=0)
        assert capsys.readouterr().out == ""
    assert [line for line in lines if line.startswith("Epoch ")] == ["Epoch 1/2", "Epoch 2/2"]
    assert len([line for line in lines if "loss: " in line]) == 2


def test_another_verbosity_is_refused_before_training(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    x, y = data(16)
    with _trainer(net(), cluster) as trainer, pytest.raises(HeteroError, match="verbose is 'loud'; use 'auto'"):
        trainer.fit(x, y, verbose="loud")


@pytest.mark.slow
def test_the_repr_of_a_trainer_is_one_line_with_its_step_and_plan(cluster: Any) -> None:
    keras.config.set_floatx("float64")
    with _trainer(net(), cluster) as trainer:
        trainer.train_on_batch(*data(8))
        text = repr(trainer)
        assert "\n" not in text and "SGD, step 1" in text and repr(trainer.plan) in text
