"""The trainer's face: Keras's fit is the oracle of its history, and state outlives plans, interruptions and files."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import CheckpointError, ClusterError, DataError, HeteroError, PlanError
from tests.cases import first_fast
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]


@pytest.fixture(autouse=True)
def _float64() -> None:
    keras.config.set_floatx("float64")


def _copy(model: keras.Model) -> keras.Model:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    return copy


def _trainer(model: keras.Model, cluster: Any, shares: Any = (3, 2, 1), **options: Any) -> hm.Trainer:
    plan = hm.Plan.filters(model, shares, cluster, 8)
    return hm.Trainer(model, plan, cluster, **{"optimizer": keras.optimizers.SGD(0.05, momentum=0.9), "loss": cross_entropy(), **options})


def _keras(model: keras.Model, **options: Any) -> keras.Model:
    copy = _copy(model)
    copy.compile(**{"optimizer": keras.optimizers.SGD(0.05, momentum=0.9), "loss": cross_entropy(), "jit_compile": False, **options})
    return copy


def _same_weights(a: keras.Model, b: keras.Model) -> None:
    for p, q in zip(a.get_weights(), b.get_weights(), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-8, atol=1e-10)


def _same_history(expected: Any, found: Any) -> None:
    assert list(expected.history) == list(found.history)
    assert expected.epoch == found.epoch
    for name in expected.history:
        np.testing.assert_allclose(expected.history[name], found.history[name], rtol=1e-6, err_msg=name)


FITS: dict[str, dict[str, Any]] = {
    "sample weights": {"sample_weight": np.random.default_rng(9).uniform(0, 2, 21)},
    "validation with weights": {"validation_data": (*data(11, 4), np.linspace(0, 1, 11))},
    "plain": {},
    "class weights": {"class_weight": {0: 0.5, 1: 2.0}},
    "one batch": {"batch_size": 32},
}


@pytest.mark.few(1)
@pytest.mark.parametrize("options", first_fast(list(FITS.values()), 2), ids=FITS)
def test_fit_gives_the_history_and_weights_of_keras_fit(options: dict[str, Any], cluster: Any) -> None:
    model, (x, y) = net(), data(21)
    given = {"validation_data": data(11, 4), "epochs": 3, "batch_size": 8, "shuffle": False, "verbose": 0, **options}
    oracle = _keras(model, metrics=["accuracy", "sparse_categorical_crossentropy"])
    expected = oracle.fit(x, y, **given)
    with _trainer(model, cluster, metrics=["accuracy", "sparse_categorical_crossentropy"]) as trainer:
        _same_history(expected, trainer.fit(x, y, **given))
        _same_weights(oracle, trainer.to_keras())


@pytest.mark.slow
@pytest.mark.parametrize("form", first_fast(["generator", "tf.data", "PyDataset"], 1))
def test_fit_takes_every_form_of_data_that_keras_takes(form: str, cluster: Any) -> None:
    model, (x, y) = net(), data(20)

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return x[8 * index : 8 * index + 8], y[8 * index : 8 * index + 8]

    def endless() -> Iterator[Any]:
        while True:
            yield from ((x[k : k + 8], y[k : k + 8]) for k in range(0, 20, 8))

    make = {
        "generator": lambda: (endless(), {"steps_per_epoch": 3}),
        "tf.data": lambda: (tf.data.Dataset.from_tensor_slices((x, y)).batch(8), {}),
        "PyDataset": lambda: (Batches(), {}),
    }[form]
    oracle = _keras(model)
    stream, options = make()
    expected = oracle.fit(stream, epochs=2, shuffle=False, verbose=0, **options)
    stream, options = make()
    with _trainer(model, cluster) as trainer:
        _same_history(expected, trainer.fit(stream, epochs=2, shuffle=False, **options))
        _same_weights(oracle, trainer.to_keras())


@pytest.mark.slow
def test_callbacks_of_keras_act_as_in_keras(cluster: Any, tmp_path: pathlib.Path) -> None:
    model, (x, y) = net(), data(24)

    def callbacks(folder: str) -> list[Any]:
        (tmp_path / folder).mkdir()
        return [
            keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.2 if epoch < 2 else rate * 20),
            keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
            keras.callbacks.ModelCheckpoint(str(tmp_path / folder / "{epoch}.weights.h5"), save_weights_only=True),
        ]

    oracle = _keras(model)
    given = {"validation_data": data(9, 5), "epochs": 8, "batch_size": 8, "shuffle": False, "verbose": 0}
    expected = oracle.fit(x, y, callbacks=callbacks("keras"), **given)
    with _trainer(model, cluster) as trainer:
        found = trainer.fit(x, y, callbacks=callbacks("ours"), **given)
        assert found.epoch == expected.epoch and len(found.epoch) < 8
        np.testing.assert_allclose(expected.history["val_loss"], found.history["val_loss"], rtol=1e-6)
        np.testing.assert_allclose(expected.history["learning_rate"], found.history["learning_rate"])
        _same_weights(oracle, trainer.to_keras())
    a, b = _copy(model), _copy(model)
    a.load_weights(tmp_path / "keras" / "2.weights.h5")
    b.load_weights(tmp_path / "ours" / "2.weights.h5")
    _same_weights(a, b)


@pytest.mark.slow
def test_a_callback_may_stop_in_the_middle_of_an_epoch(cluster: Any) -> None:
    model, (x, y) = net(), data(24)

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch == 1

    with _trainer(model, cluster) as trainer:
        trainer.fit(x, y, epochs=3, callbacks=[Stop()])
        assert trainer.step == 2


@pytest.mark.slow
@pytest.mark.fast("1")
@pytest.mark.parametrize("count", first_fast([1, 21, 7, 8, 9], 2))
def test_predict_and_evaluate_serve_any_number_of_samples(count: int, cluster: Any) -> None:
    model, (x, y) = net(), data(count)
    oracle = _keras(model, metrics=["accuracy"])
    with _trainer(model, cluster, metrics=["accuracy"]) as trainer:
        np.testing.assert_allclose(trainer.predict(x), model.predict(x, verbose=0), rtol=1e-9)
        found = trainer.evaluate(x, y, sample_weight=np.linspace(0, 1, count))
        expected = oracle.evaluate(x, y, batch_size=8, sample_weight=np.linspace(0, 1, count), verbose=0, return_dict=True)
        assert found == pytest.approx(expected, rel=1e-6)
        assert trainer.test_on_batch(x, y) == pytest.approx(oracle.test_on_batch(x, y)[0], rel=1e-9)
        assert trainer.step == 0


@pytest.mark.slow
def test_training_does_not_touch_the_users_model_or_optimizer(cluster: Any) -> None:
    model, (x, y) = net(), data(8)
    before, optimizer = model.get_weights(), keras.optimizers.SGD(0.05)
    with _trainer(model, cluster, optimizer=optimizer) as trainer:
        trainer.fit(x, y)
    assert all(np.array_equal(a, b) for a, b in zip(before, model.get_weights()))
    assert int(np.asarray(optimizer.iterations)) == 0


class _SaveAt(keras.callbacks.Callback):
    """Saves the trainer at one step, as --save-every does, and may interrupt it there."""

    def __init__(self, trainer: hm.Trainer, path: pathlib.Path, step: int) -> None:
        super().__init__()
        self.trainer, self.path, self.step = trainer, path, step

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.trainer.step == self.step:
            self.trainer.save(self.path)
            raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("step", first_fast([2, 3, 5, 6], 1))
def test_resuming_in_the_middle_of_an_epoch_equals_never_having_stopped(step: int, cluster: Any, tmp_path: pathlib.Path) -> None:
    model, (x, y) = net(rate=0.4), data(21)
    with _trainer(model, cluster, seed=5, optimizer="adam") as trainer:
        trainer.fit(x, y, epochs=3)
        whole = trainer.to_keras()
    with _trainer(model, cluster, seed=5, optimizer="adam") as trainer, pytest.raises(KeyboardInterrupt):
        trainer.fit(x, y, epochs=3, callbacks=[_SaveAt(trainer, tmp_path / "state", step)])
    fresh = keras.models.clone_model(model)
    with _trainer(fresh, cluster, (1, 0, 4), seed=0, optimizer="adam") as trainer:
        trainer.restore(tmp_path / "state")
        assert trainer.step == step
        trainer.fit(x, y, epochs=3)
        assert trainer.step == 9
        _same_weights(whole, trainer.to_keras())


@pytest.mark.slow
def test_dropout_goes_on_with_the_seed_of_the_checkpoint(cluster: Any, tmp_path: pathlib.Path) -> None:
    model, (x, y) = net(rate=0.5), data(8)
    with _trainer(model, cluster, seed=11) as trainer:
        trainer.save(tmp_path / "state")
        with pytest.raises(CheckpointError, match=r"call trainer.export\('.*a.keras'\)"):
            trainer.save(tmp_path / "a.keras")
        expected = [trainer.train_on_batch(x, y) for _ in range(3)]
    with _trainer(model, cluster, seed=12) as trainer:
        assert trainer.train_on_batch(x, y) != pytest.approx(expected[0])
        trainer.restore(tmp_path / "state")
        assert [trainer.train_on_batch(x, y) for _ in range(3)] == pytest.approx(expected, rel=1e-10)


def test_replanning_keeps_weights_slots_and_counters(cluster: Any) -> None:
    model, (x, y) = net(rate=0.3), data(8)
    options = {"optimizer": keras.optimizers.Adam(0.01, amsgrad=True)}
    with _trainer(model, cluster, **options) as trainer:
        expected = [trainer.train_on_batch(x, y) for _ in range(6)]
        whole = trainer.to_keras()
    with _trainer(model, cluster, **options) as trainer:
        found = []
        for plan in [hm.Plan.single(model, 2, cluster, 8), hm.Plan.filters(model, [1, 5, 1], cluster, 8, pairing="gather"), trainer.plan]:
            trainer.replan(plan)
            assert trainer.plan == plan
            found += [trainer.train_on_batch(x, y) for _ in range(2)]
        assert found == pytest.approx(expected, rel=1e-9)
        _same_weights(whole, trainer.to_keras())


def test_a_checkpoint_of_another_network_or_optimizer_changes_nothing(cluster: Any, tmp_path: pathlib.Path) -> None:
    model, (x, y) = net(), data(8)
    with _trainer(net(units=4), cluster) as other:
        other.save(tmp_path / "network")
    with _trainer(model, cluster, optimizer="adam") as other:
        other.save(tmp_path / "optimizer")
    with _trainer(model, cluster, optimizer=keras.optimizers.SGD(0.05)) as other:
        other.train_on_batch(x, y)
        other.save(tmp_path / "options")
    (tmp_path / "text").write_text("nothing of the kind")
    with _trainer(model, cluster) as trainer:
        before = trainer.test_on_batch(x, y)
        for name, words in [
            ("network", "is of a network with digest"),
            ("optimizer", "was made with Adam"),
            ("options", "was made by 1 steps of SGD without momentum"),
            ("text", "not a complete"),
            ("no", "cannot read"),
        ]:
            with pytest.raises(CheckpointError, match=words):
                trainer.restore(tmp_path / name)
        assert trainer.test_on_batch(x, y) == before and trainer.step == 0


@pytest.mark.slow
def test_a_checkpoint_in_the_middle_of_other_data_is_refused(cluster: Any, tmp_path: pathlib.Path) -> None:
    model, (x, y) = net(), data(21)
    with _trainer(model, cluster) as trainer, pytest.raises(KeyboardInterrupt):
        trainer.fit(x, y, epochs=2, callbacks=[_SaveAt(trainer, tmp_path / "state", 1)])
    with _trainer(model, cluster) as trainer:
        trainer.restore(tmp_path / "state")
        with pytest.raises(DataError, match="the data position does not fit"):
            trainer.fit(*data(20), epochs=2)


@pytest.mark.slow
def test_two_trainers_on_one_cluster_do_not_see_each_other(cluster: Any) -> None:
    first, second, (x, y) = net(), net(), data(8)
    with _trainer(first, cluster) as a:
        expected = [a.train_on_batch(x, y) for _ in range(3)]
    with _trainer(first, cluster) as a, _trainer(second, cluster, (1, 1, 1)) as b:
        found = []
        for _ in range(3):
            found.append(a.train_on_batch(x, y))
            b.train_on_batch(x, y)
        b.close()
        assert found == pytest.approx(expected, rel=1e-12)
        a.predict(x)


@pytest.mark.slow
def test_two_trainers_on_emulated_devices_do_not_see_each_other() -> None:
    first, second, (x, y) = net(), net(), data(8)
    with hm.Cluster.emulate([1.0, 0.5]) as pair, _trainer(first, pair, (2, 1)) as a, _trainer(second, pair, (1, 1)) as b:
        oracle = _keras(first)
        expected = [float(oracle.train_on_batch(x, y)) for _ in range(3)]
        found = []
        for _ in range(3):
            b.train_on_batch(x, y)
            found.append(a.train_on_batch(x, y))
        assert found == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_a_plan_for_another_structure_or_cluster_is_refused(cluster: Any) -> None:
    model = net()
    with pytest.raises(PlanError, match="the plan is for a network of .* plan again"):
        hm.Trainer(model, hm.Plan.filters(net(units=4), (1, 1, 1), cluster, 8), cluster, loss="mse")
    with hm.Cluster.local(["cpu:0"] * 2) as pair:
        with pytest.raises(PlanError, match="the plan is for the devices cpu:0, cpu:0, this cluster has cpu:0, cpu:0, cpu:0; plan again"):
            hm.Trainer(model, hm.Plan.filters(model, (1, 1), pair, 8), cluster, loss="mse")
        with _trainer(model, cluster) as trainer:
            before = trainer.plan
            with pytest.raises(PlanError, match="the plan is for the devices"):
                trainer.replan(hm.Plan.filters(model, (1, 1), pair, 8))
            assert trainer.plan is before
            trainer.predict(data(2)[0])


@pytest.mark.slow
def test_a_plan_fits_a_clone_and_a_rebuilt_copy(cluster: Any) -> None:
    plan = hm.Plan.filters(net(), (2, 1, 1), cluster, 8)
    for model in (net(), keras.models.clone_model(net())):
        with hm.Trainer(model, plan, cluster, loss=cross_entropy()) as trainer:
            trainer.train_on_batch(*data(8))


@pytest.mark.slow
def test_closing_twice_is_harmless_and_a_closed_trainer_says_so(cluster: Any) -> None:
    model, (x, y) = net(), data(8)
    with _trainer(model, cluster) as trainer:
        trainer.train_on_batch(x, y)
    trainer.close()
    for work in (lambda: trainer.train_on_batch(x, y), lambda: trainer.predict(x), trainer.to_keras, lambda: trainer.replan(trainer.plan)):
        with pytest.raises(HeteroError, match="the trainer is closed and its values are gone; save or read them"):
            work()


def test_a_closed_cluster_says_so() -> None:
    model = net()
    with hm.Cluster.local(["cpu:0"] * 2) as gone:
        plan = hm.Plan.filters(model, (1, 1), gone, 8)
    with pytest.raises(ClusterError, match="closed"):
        hm.Trainer(model, plan, gone, loss="mse").predict(data(2)[0])


@pytest.mark.fast("0.5")
@pytest.mark.parametrize("seed", [-1, 0.5, "a", None, True])
def test_a_seed_that_is_no_whole_number_from_zero_is_refused(seed: Any, cluster: Any) -> None:
    with pytest.raises(DataError, match="seed is .*; use a whole number from 0"):
        _trainer(net(), cluster, seed=seed)


def test_fewer_epochs_than_one_are_refused(cluster: Any) -> None:
    with _trainer(net(), cluster) as trainer, pytest.raises(DataError, match="epochs is 0; train for at least 1"):
        trainer.fit(*data(8), epochs=0)


@pytest.mark.slow
def test_validation_data_of_one_part_is_refused(cluster: Any) -> None:
    with _trainer(net(), cluster) as trainer, pytest.raises(DataError, match=r"validation_data has 1 parts; give \(x, y\)"):
        trainer.fit(*data(8), validation_data=(data(8)[0],))


@pytest.mark.fast("fit")
@pytest.mark.parametrize("work", ["fit", "evaluate", "predict"])
def test_a_batch_size_of_zero_is_refused_and_not_taken_for_the_plans(work: str, cluster: Any) -> None:
    x, y = data(8)
    with _trainer(net(), cluster) as trainer, pytest.raises(DataError, match="batch_size is 0; use a whole number from 1"):
        getattr(trainer, work)(*((x,) if work == "predict" else (x, y)), batch_size=0)


@pytest.mark.slow
def test_a_traced_step_trains_like_any_other_and_tells_what_the_device_did(cluster: Any) -> None:
    model, (x, y) = net(), data(8)
    with _trainer(model, cluster) as plain, _trainer(model, cluster) as watched:
        for trainer in (plain, watched):
            trainer.train_on_batch(x, y)
        plain.train_on_batch(x, y)
        trace = watched.trace_on_batch(x, y)
        assert plain.step == watched.step == 2
        _same_weights(plain.to_keras(), watched.to_keras())
    (part,) = trace.parts
    assert 0 < part.compute_s <= trace.step_s == pytest.approx(part.compute_s + part.communication_s + part.idle_s)


@pytest.mark.slow
def test_a_trace_of_emulated_devices_tells_working_from_sending() -> None:
    x, y = data(8)
    with hm.Cluster.emulate([0.6, 0.3]) as cluster, _trainer(net(), cluster, (2, 1)) as trainer:
        trainer.train_on_batch(x, y)
        trace = trainer.trace_on_batch(x, y)
        assert [part.device for part in trace.parts] == [device.name for device in cluster.devices]
    assert all(part.compute_s > 0 and part.communication_s > 0 for part in trace.parts)
