"""A trainer of a compiled model alone: settings, devices and plan are found by itself, and kept for the next time."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from hetero_mtf.errors import DataError, PlanError, UnsupportedError
from hetero_mtf.training import plan_choice
from tests.program.oracle import worst_error

pytestmark = pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibration_budget.CalibrationWarning")  # other tests run beside


@pytest.fixture
def quickly_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are measured as well as two seconds allow."""
    monkeypatch.setattr(plan_choice, "calibrate", functools.partial(plan_choice.calibrate, budget_s=2.0))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv(plan_choice.CACHE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def compiled(metrics: Any = None, weights: Any = None) -> keras.Model:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(1)
    i = keras.Input((6,))
    x = keras.layers.Dense(8, activation="tanh")(i)
    model = keras.Model(i, [keras.layers.Dense(2, name="a")(x), keras.layers.Dense(1, name="b")(x)])
    model.compile(keras.optimizers.Adam(0.01), loss=["mse", "mae"], loss_weights=weights, metrics=metrics)
    return model


def data(samples: int = 40) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(2)
    return rng.normal(size=(samples, 6)), [rng.normal(size=(samples, 2)), rng.normal(size=(samples, 1))]


@pytest.mark.slow
def test_a_compiled_model_brings_its_settings_and_fit_makes_the_plan() -> None:
    model, (x, y) = compiled(metrics=[["mse"], ["mae"]], weights=[1.0, 0.5]), data()
    with hm.Trainer(model) as trainer:
        assert "no plan yet" in repr(trainer)
        with pytest.raises(PlanError, match=r"no plan yet.*prepare\(batch_size\)"):
            trainer.plan  # noqa: B018
        history = trainer.fit(x, y, epochs=2, shuffle=False, verbose=0, validation_split=0.25)
        assert trainer.plan.strategy == "single" and trainer.plan.batch_size == 32
        weights, tested = trainer.to_keras().get_weights(), trainer.evaluate(x, y, batch_size=40, return_dict=False)
    expected = model.fit(x, y, epochs=2, shuffle=False, verbose=0, validation_split=0.25)
    assert worst_error(model.get_weights(), weights) <= 1e-8
    assert set(history.history) == set(expected.history)
    assert np.abs(np.subtract(history.history["loss"], expected.history["loss"])).max() <= 1e-8
    assert abs(tested[0] - model.evaluate(x, y, batch_size=40, verbose=0)[0]) <= 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("steps", [0, 3])
def test_training_goes_on_with_the_state_of_the_compiled_optimizer(steps: int) -> None:
    model, (x, y) = compiled(), data(10)
    rates = keras.optimizers.schedules.ExponentialDecay(0.05, 2, 0.5)
    model.compile(keras.optimizers.Adam(rates, amsgrad=True), loss=["mse", "mae"])
    for _ in range(steps):
        model.train_on_batch(x, y)
    with hm.Trainer(model) as trainer:
        assert trainer.step == steps
        losses, weights = [trainer.train_on_batch(x, y) for _ in range(3)], trainer.to_keras().get_weights()
    expected = [float(np.ravel(model.train_on_batch(x, y))[0]) for _ in range(3)]
    assert worst_error(model.get_weights(), weights) <= 1e-8 and np.isfinite(losses).all() and len(expected) == 3


@pytest.mark.slow
def test_what_is_given_comes_before_what_was_compiled() -> None:
    model, (x, y) = compiled(), data()
    with hm.Trainer(model, optimizer=keras.optimizers.SGD(0.1), loss="mae") as trainer:
        losses = [trainer.train_on_batch(x, y) for _ in range(3)]
        assert trainer.plan.batch_size == 40
    model.compile(keras.optimizers.SGD(0.1), "mae")
    assert np.abs(np.subtract(losses, [np.ravel(model.train_on_batch(x, y))[0] for _ in range(3)])).max() <= 1e-8


def test_a_loss_that_lacks_is_named() -> None:
    i = keras.Input((6,))
    with pytest.raises(UnsupportedError, match="there is no loss to train by; compile the model with one, or give loss"):
        hm.Trainer(keras.Model(i, keras.layers.Dense(2)(i)))


def _stream(form: str, x: np.ndarray, y: list[np.ndarray]) -> Any:
    import tensorflow as tf

    batches = [(x[at : at + 10], tuple(part[at : at + 10] for part in y)) for at in range(0, 40, 10)]

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, at: int) -> Any:
            return batches[at]

    return {
        "tf.data": lambda: tf.data.Dataset.from_tensor_slices((x, tuple(y))).batch(10),
        "PyDataset": Batches,
        "generator": lambda: iter(batches),
    }[form]()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["tf.data", "PyDataset", "generator"])
def test_the_batch_size_of_a_stream_is_that_of_its_first_batch(form: str) -> None:
    model, (x, y) = compiled(), data()
    with hm.Trainer(model) as trainer:
        trainer.fit(_stream(form, x, y), shuffle=False, verbose=0, steps_per_epoch=4 if form == "generator" else None)
        assert trainer.plan.batch_size == 10 and trainer.step == 4
        weights = trainer.to_keras().get_weights()
    model.fit(x, y, batch_size=10, shuffle=False, verbose=0)
    assert worst_error(model.get_weights(), weights) <= 1e-8


def test_an_empty_stream_is_refused() -> None:
    with hm.Trainer(compiled()) as trainer, pytest.raises(DataError, match="gives no batch of arrays"):
        trainer.fit(iter([]), verbose=0)


@pytest.mark.usefixtures("quickly_calibrated")
def test_the_plan_of_several_devices_is_measured_once_and_kept(own_cache: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, (x, y) = compiled(), data(64)
    with hm.Cluster.local(["cpu:0"] * 2) as cluster:
        with hm.Trainer(model, cluster=cluster, refine_s=3.0, measure="first") as trainer:
            trainer.fit(x, y, batch_size=16, verbose=2)
            first, refinement = trainer.plan, trainer.refinement
            assert trainer.controller is not None and refinement is not None and trainer.controller.profile == refinement.profile
        said = capsys.readouterr().err
        assert refinement is not None and f"strategy {first.strategy} on " in said and f"kept in {own_cache}" in said
        with hm.Trainer(model, cluster=cluster) as again:
            again.prepare(16)
            assert again.plan.built_from == first.built_from and again.refinement is None and again.controller is not None
        with hm.Trainer(model, cluster=cluster, rebalance=False) as steady:
            steady.prepare(16, verbose=0)
            assert steady.controller is None and steady.moves == ()
        assert "measured 20" in capsys.readouterr().err
        (plan_file,), (profile_file,) = own_cache.glob("*.plan.json"), own_cache.glob("*.profile.json")
        plan_file.write_text("{")
        profile_file.write_text("{}")
        task = trainer._run.network.task(16)
        choice = plan_choice._kept_profile(profile_file, task), plan_choice._kept_plan(plan_file, task)
        assert choice == (None, None)


@pytest.mark.slow
@pytest.mark.usefixtures("quickly_calibrated")
def test_a_folder_that_cannot_be_written_is_no_fault(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(plan_choice.CACHE, str(tmp_path / "file" / "folder"))
    model = compiled()
    with hm.Cluster.local(["cpu:0"] * 2) as cluster, hm.Trainer(model, cluster=cluster, refine_s=1.0) as trainer:
        trainer.prepare(8, verbose=0)
        assert trainer.plan.batch_size == 8


@pytest.mark.slow
def test_validation_options_are_those_of_keras() -> None:
    model, (x, y) = compiled(), data()
    options = {"epochs": 5, "initial_epoch": 1, "batch_size": 10, "validation_data": (x[:30], [part[:30] for part in y])}
    options |= {"validation_freq": [2, 5], "validation_batch_size": 7, "validation_steps": 2, "shuffle": False, "verbose": 0}
    with hm.Trainer(model) as trainer:
        history = trainer.fit(x, y, **options)
        limited = trainer.evaluate(x, y, batch_size=10, steps=2)
        whole = trainer.evaluate(x[:20], [part[:20] for part in y], batch_size=10)
    expected = model.fit(x, y, **options)
    assert history.epoch == expected.epoch == [1, 2, 3, 4] and limited == whole
    for name in ("loss", "val_loss"):
        assert np.abs(np.subtract(history.history[name], expected.history[name])).max() <= 1e-8


@pytest.mark.fast("1")
@pytest.mark.parametrize("verbose", [0, 1, 2, "auto"])
def test_tests_and_predictions_take_verbosity_steps_and_callbacks(verbose: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model, (x, y) = compiled(), data()
    told: list[str] = []

    class Telling(keras.callbacks.Callback):
        def on_test_end(self, logs: Any = None) -> None:
            told.append(f"tested {sorted(logs or {})}")

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            told.append(f"predicted {batch} {len(logs['outputs'])}")

    with hm.Trainer(model) as trainer:
        trainer.evaluate(x, y, batch_size=10, verbose=verbose, callbacks=[Telling()])
        a, b = trainer.predict(x, batch_size=10, verbose=verbose, steps=2, callbacks=[Telling()])
    assert bool(capsys.readouterr().out) == (verbose != 0) and (len(a), len(b)) == (20, 20)
    assert told[0].startswith("tested ['a_loss', 'b_loss', 'loss']") and told[1:] == ["predicted 0 2", "predicted 1 2"]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"validation_split": 1.5}, "validation_split is 1.5"),
        ({"validation_split": 0.99}, "leaves nothing on one side of 40 samples"),
        ({"validation_freq": 0}, "validation_freq is 0"),
        ({"validation_steps": 0}, "validation_steps is 0"),
        ({"validation_batch_size": -1}, "validation_batch_size is -1"),
        ({"batch_size": 0}, "the batch size is 0"),
    ],
)
def test_a_wrong_option_of_validation_is_refused_before_anything_is_measured(options: dict[str, Any], words: str) -> None:
    x, y = data()
    with hm.Trainer(compiled()) as trainer:
        with pytest.raises(DataError, match=words):
            trainer.fit(x, y, verbose=0, **options)
        assert "no plan yet" in repr(trainer)
