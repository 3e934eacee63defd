"""A distributed model does what the same script sees of the model under Keras alone."""

from __future__ import annotations

import os
import pathlib
import pickle
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter

import hetero_mtf as hm
from hetero_mtf.errors import DataError, UnsupportedError, WorkerError
from hetero_mtf.runtime import emulation
from hetero_mtf.training.distribution.client_layers import divided
from tests.training.distribution.comparison import compare, made, state
from tests.training.distribution.networks import Twice, X, Y, network, two_heads
from tests.training.distribution.scripts import QUIET, SCRIPTS
from tests.training.setting import cluster
from tools.model_members import DIFFERS, verdicts

__all__ = ["cluster"]


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _distributed(make: Callable[[], keras.Model], cluster: Any, batch: int = 8) -> keras.Model:
    model = made(make)
    return hm.distribute(model, cluster, plan=hm.Plan.batch(divided(model).rest, [3, 1, 2], cluster, batch))


@pytest.mark.filterwarnings("ignore:The structure of `inputs` doesn")  # of a key too many
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.fast("whole")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_sees_what_it_sees_under_keras_alone(name: str, cluster: Any, tmp_path: pathlib.Path) -> None:
    script, make = SCRIPTS[name]
    seen = []
    for kind in ("alone", "distributed"):
        (tmp_path / kind).mkdir()
        model = made(make) if kind == "alone" else _distributed(make, cluster)
        seen.append((script(model, tmp_path / kind), state(model)))
    assert "make_train_function" in vars(model)
    compare(seen[1], seen[0])


def test_what_is_returned_is_the_model(cluster: Any) -> None:
    model = made(network)
    assert hm.distribute(model, cluster) is model and hm.distribute(model, cluster) is model and hm.distribute(model) is model
    first = hm.distribution(model)
    assert hm.distribution(hm.distribute(model, measure="steps")) is first and first is not None
    other = hm.distribution(hm.distribute(model, measure="first"))
    assert other is not first and other is not None and other.cluster is cluster and hm.distribution(hm.distribute(model)) is other
    assert type(model) is keras.Sequential and hm.undistribute(model) is model and hm.undistribute(model) is model
    assert not {"fit", "make_train_function", "get_metrics_result"} & set(vars(model))


def test_datasets_of_arrays_are_not_tuned_while_a_distributed_model_trains(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned: list[bool | None] = []
    original = ArrayDataAdapter.get_tf_dataset
    distribute_dataset = type(tf.distribute.get_strategy()).experimental_distribute_dataset

    def seen(strategy: Any, dataset: Any, *others: Any) -> Any:
        tuned.append(dataset.options().autotune.enabled)
        return distribute_dataset(strategy, dataset, *others)

    monkeypatch.setattr(type(tf.distribute.get_strategy()), "experimental_distribute_dataset", seen)
    model = _distributed(network, cluster)
    model.fit(X, Y, batch_size=8, validation_data=(X, Y), verbose=0)
    assert tuned == [False, False] and ArrayDataAdapter.get_tf_dataset is original
    with pytest.raises(ValueError, match="at every end"):
        model.fit(X, Y, batch_size=8, verbose=0, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=_refuse)])
    hm.undistribute(model).fit(X, Y, batch_size=8, verbose=0)
    assert tuned == [False, False, False, None] and ArrayDataAdapter.get_tf_dataset is original


def _refuse(epoch: int, logs: Any) -> None:
    raise ValueError("refused at every end of an epoch")


@pytest.mark.slow
def test_random_numbers_outside_are_not_drawn(cluster: Any) -> None:
    model = made(network)
    before = random.getstate(), pickle.dumps(np.random.get_state())
    hm.distribute(model, cluster, plan=hm.Plan.batch(model, [3, 1, 2], cluster, 8))
    model.train_on_batch(X[:8], Y[:8])
    assert (random.getstate(), pickle.dumps(np.random.get_state())) == before


@pytest.mark.slow
def test_after_the_cluster_closes_the_model_is_keras_s_again() -> None:
    alone, model = made(network), made(network)
    alone.fit(X, Y, batch_size=8, epochs=2, **QUIET)
    with hm.Cluster.local(["cpu:0"] * 2) as own:
        hm.distribute(model, own, plan=hm.Plan.batch(model, [2, 1], own, 8)).fit(X, Y, batch_size=8, **QUIET)
    model.fit(X, Y, batch_size=8, **QUIET)
    compare(state(model), state(alone))
    assert "fit" not in vars(model)


@pytest.mark.slow
def test_an_exception_leaves_the_weights_of_the_last_step(cluster: Any) -> None:
    class Fail(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                raise KeyError("mine")

    alone, model = made(network), _distributed(network, cluster)
    alone.fit(X, Y, batch_size=8, epochs=1, **QUIET)
    with pytest.raises(KeyError, match="mine"):
        model.fit(X, Y, batch_size=8, epochs=2, callbacks=[Fail()], **QUIET)
    compare(state(model), state(alone))


def test_predictions_before_training_are_keras_s_own_and_measure_nothing(cluster: Any) -> None:
    model = made(network)
    expected = model.predict(X, verbose=0)
    hm.distribute(model, cluster)
    np.testing.assert_array_equal(model.predict(X, verbose=0), expected)
    found = hm.distribution(model)
    assert found is not None and found.plan is None and found.placement() == {}


@pytest.mark.slow
def test_a_schedule_without_a_flush_trains_as_its_trainer_does() -> None:
    def deep() -> keras.Model:
        keras.utils.set_random_seed(3)
        names = [keras.layers.Dense(6, activation="tanh", name=f"dense{number}") for number in range(3)]
        model = keras.Sequential([keras.Input((6,)), *names])
        model.compile(keras.optimizers.SGD(0.01, momentum=0.5), "mse", metrics=["mae"])
        return model

    x, y = np.random.default_rng(0).normal(size=(2, 40, 6))
    with hm.Cluster.local(["cpu:0"] * 3) as own:
        one, model = deep(), deep()
        plan = hm.Plan.pipeline(model, ["dense0", "dense1", "dense2"], [[0], [1], [2]], [[1]] * 3, own, 4, schedule="decoupled")
        with hm.Trainer(one, plan, own) as trainer:
            expected = trainer.fit(x, y, epochs=2, batch_size=4, **QUIET).history
            weights = trainer.to_keras().get_weights()
        hm.distribute(model, own, plan=plan)
        found = model.fit(x, y, epochs=2, batch_size=4, **QUIET).history
        compare(model.get_weights(), weights)
        compare(found, expected)


@pytest.mark.slow
def test_where_a_worker_dies_fit_raises_and_the_model_has_the_weights_of_the_epoch_before() -> None:
    class Kill(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                os.kill(own._backend.process_ids()[1], signal.SIGKILL)

    alone, model = made(network), made(network)
    alone.fit(X, Y, batch_size=8, epochs=1, **QUIET)
    with hm.Cluster.emulate([0.5, 0.5]) as own:
        hm.distribute(model, own, plan=hm.Plan.batch(model, [2, 1], own, 8))
        with pytest.raises(WorkerError):
            model.fit(X, Y, batch_size=8, epochs=3, callbacks=[Kill()], **QUIET)
    compare(state(model), state(alone))
    model.fit(X, Y, batch_size=8, **QUIET)


@pytest.mark.slow
@pytest.mark.parametrize("make", [Twice, lambda: keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])])
def test_a_model_that_is_not_built_is_built_with_the_first_batch(make: Callable[[], keras.Model]) -> None:
    seen = []
    with hm.Cluster.local(["cpu:0"]) as own:
        for distributed in (False, True):
            model = made(make)
            model.compile("adam", keras.losses.SparseCategoricalCrossentropy())
            if distributed:
                hm.distribute(model, own)
            seen.append((model.fit(X, Y, batch_size=8, epochs=2, **QUIET).history, model.predict(X, verbose=0)))
    compare(seen[1], seen[0])


def test_data_are_looked_at_before_anything_is_measured(cluster: Any) -> None:
    model = hm.distribute(made(network), cluster)
    with pytest.raises(DataError, match=r"x has samples of shape \(4, 5, 2\), the network's input is \(5, 5, 2\); reshape x"):
        model.train_on_batch(X[:8, :4], Y[:8])
    with pytest.raises((DataError, ValueError), match="structure|2 arrays and the model 1 of them"):
        model.fit(X, (Y, Y), batch_size=8, **QUIET)
    found = hm.distribution(model)
    assert found is not None and found.plan is None


@pytest.mark.slow
def test_rows_that_keras_updates_in_another_way_are_said(cluster: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def make(optimizer: Any) -> keras.Model:
        layers = [keras.layers.Embedding(9, 4, name="words"), keras.layers.Flatten(), keras.layers.Dense(3)]
        model = keras.Sequential([keras.Input((5,)), *layers])
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    x = np.random.default_rng(0).integers(0, 9, (8, 5))
    said = []
    for optimizer in ("adamax", "adam", keras.optimizers.SGD(0.1, clipnorm=1.0)):
        model = made(lambda optimizer=optimizer: make(optimizer))
        hm.distribute(model, cluster, plan=hm.Plan.batch(model, [3, 1, 2], cluster, 8)).train_on_batch(x, Y[:8])
        said.append(capsys.readouterr().err)
    assert said[0].startswith("hetero_mtf: Adamax takes the gradients of words row by row") and "percent" in said[0]
    assert said[1] == "" and "SGD that clips takes the gradients of words" in said[2]


@pytest.mark.slow
def test_a_loop_that_builds_models_draws_the_same_random_numbers() -> None:
    def seen(cluster: Any) -> Any:
        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(1)
        histories = []
        for _ in range(2):
            model = Twice()
            model.compile("sgd", "sparse_categorical_crossentropy")
            if cluster is not None:
                hm.distribute(model, cluster)
            histories.append((model.fit(X, Y, batch_size=8, verbose=0).history, np.random.random(), random.random()))
        return histories

    with hm.Cluster.local(["cpu:0"]) as alone:
        compare(seen(alone), seen(None))


def test_where_a_worker_does_not_start_fit_says_why_and_another_cluster_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(emulation, "available_cores", lambda: (1023,))
        model = hm.distribute(made(network), [0.25], measure="steps")
        first = hm.distribution(model).cluster
    with pytest.raises(WorkerError, match="worker:0 ended with exit code 1 while it started, end of its log: "):
        model.fit(X, Y, batch_size=8, **QUIET)
    with hm.distribution(hm.distribute(made(network), [0.25])).cluster as second:
        assert second is not first and first.closed and second.fault() is None


@pytest.mark.slow
def test_shares_and_texts_name_one_cluster_a_process() -> None:
    def trained(given: Any) -> Any:
        model = made(network)
        hm.distribute(model, given)
        found = hm.distribution(model)
        assert found is not None
        return found.cluster

    first = trained([0.5, 0.25])
    try:
        assert trained((0.5, 0.25)) is first and trained("emulate:0.5,0.25") is first and trained("local") is trained(None) is trained(None)
        os.kill(first.process_ids()[0], signal.SIGKILL)
        until_s = time.monotonic() + 30
        while first.fault() is None and time.monotonic() < until_s:
            time.sleep(0.05)
        other = trained([0.5, 0.25])
        assert other is not first and first.closed
        other.close()
        again = trained([0.5, 0.25])
        assert again is not other and not again.closed
        again.close()
    finally:
        first.close()
    with pytest.raises(UnsupportedError, match=r"the cluster is \{\}; give a Cluster, shares of cores such as \[1.0, 0.5\], or a text"):
        hm.distribute(made(network), {})


class Falling(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule that does not say its options."""

    def __call__(self, step: Any) -> Any:
        return 0.1 / (1.0 + keras.ops.cast(step, "float64"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hetero_mtf.calibration.calibration_budget.CalibrationWarning")
@pytest.mark.parametrize("optimizer", [keras.optimizers.AdamW, keras.optimizers.Nadam])
def test_a_schedule_that_cannot_be_written_down_is_planned_and_trained_with(optimizer: Any) -> None:
    def make() -> keras.Model:
        model = network()
        model.compile(optimizer(Falling()), "sparse_categorical_crossentropy")
        return model

    with hm.Cluster.local(["cpu:0"] * 2) as two:
        model = hm.distribute(made(make), two, refine_s=0.5)
        history = model.fit(X, Y, batch_size=8, epochs=2, **QUIET).history
    other = made(make)
    compare(history, other.fit(X, Y, batch_size=8, epochs=2, **QUIET).history)


@pytest.mark.slow
def test_models_that_are_compiled_in_a_scope_are_distributed() -> None:
    with hm.Cluster.local(["cpu:0"]) as alone:
        with hm.scope(alone, seed=3) as given:
            model, threaded = made(network), []
            thread = threading.Thread(target=lambda: threaded.append(network()))
            thread.start()
            thread.join()
            assert given is alone and hm.distribution(model) is not None and hm.distribution(threaded[0]) is None
            with pytest.raises(UnsupportedError, match="OwnFit has fit"):
                type("OwnFit", (keras.Model,), {"fit": OwnFit.fit})().compile("sgd", "mse")  # Keras changes OwnFit where it is functional
        later = made(network)
        assert hm.distribution(later) is None and hm.distribution(model) is not None
        compare(model.fit(X, Y, batch_size=8, **QUIET).history, later.fit(X, Y, batch_size=8, **QUIET).history)


def test_every_other_member_of_the_model_is_what_it_was(cluster: Any) -> None:
    model = made(network)
    found = verdicts(cluster, hm.Plan.batch(model, [3, 1, 2], cluster, 8), model)
    assert len(found) > 80 and "summary" in found and [name for name, verdict in found.items() if verdict == DIFFERS] == []


class OwnFit(keras.Model):
    """A model with a loop of its own."""

    def fit(self, *arguments: Any, **options: Any) -> Any:
        return super().fit(*arguments, **options)

    def get_metrics_result(self) -> Any:
        return super().get_metrics_result()


def test_what_would_not_run_on_the_cluster_is_refused(cluster: Any) -> None:
    i = keras.Input((3,))
    with pytest.raises(UnsupportedError, match="OwnFit has fit and get_metrics_result of its own, which would not run on the cluster"):
        hm.distribute(OwnFit(i, keras.layers.Dense(1)(i)), cluster)
    with pytest.raises(UnsupportedError, match="int is no Keras model"):
        hm.distribute(3, cluster)


MEMBERS = (
    *("summary", "layers", "get_layer", "inputs", "outputs", "input_shape", "output_shape", "weights", "trainable_weights", "count_params"),
    *("get_weights", "set_weights", "load_weights", "save_weights", "save", "export", "to_json", "get_config", "compile", "compiled"),
    *(
        "optimizer",
        "loss",
        "metrics",
        "metrics_names",
        "trainable",
        "name",
        "dtype",
        "built",
        "call",
        "stop_training",
        "evaluate",
        "predict",
    ),
    *("train_on_batch", "test_on_batch", "predict_on_batch", "reset_metrics", "get_compile_config", "add_loss", "losses", "variables"),
)


def test_the_members_of_the_model_are_keras_s_own(cluster: Any) -> None:
    model = made(two_heads)
    before, json = {name: getattr(model, name) for name in MEMBERS}, model.to_json()
    hm.distribute(model, cluster)
    for name in MEMBERS:
        found, expected = getattr(model, name), before[name]
        assert found is expected or found == expected, name
    assert model.to_json() == json
    assert keras.Model(model.inputs, model.layers[1].output)([X[:2]]).shape == (2, 3, 3, 4)
    assert type(keras.models.clone_model(model)) is type(model)
