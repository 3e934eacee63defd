"""Every callback of Keras does under the trainer what it does under Keras on one device: history, weights, and what it writes."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm
from tests.program.oracle import worst_error

C = keras.callbacks
Make = Callable[[pathlib.Path], list[Any]]


def _model(optimizer: Callable[[], Any]) -> keras.Model:
    keras.config.set_floatx("float64")
    keras.utils.set_random_seed(1)
    i = keras.Input((6,))
    x = keras.layers.BatchNormalization()(keras.layers.Dense(8, activation="tanh")(i))
    model = keras.Model(i, keras.layers.Dense(3, activation="softmax")(x))
    model.compile(optimizer(), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def _data() -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    return rng.normal(size=(40, 6)), rng.integers(0, 3, 40), (rng.normal(size=(20, 6)), rng.integers(0, 3, 20))


def _adam() -> Any:
    return keras.optimizers.Adam(0.02)


def _averaged() -> Any:
    return keras.optimizers.Adam(0.02, use_ema=True, ema_momentum=0.5)


CALLBACKS: Mapping[str, tuple[Make, Callable[[], Any]]] = {
    "ModelCheckpoint, every epoch": (lambda d: [C.ModelCheckpoint(d / "{epoch:02d}-{val_loss:.4f}.keras")], _adam),
    "ModelCheckpoint, weights": (lambda d: [C.ModelCheckpoint(d / "{epoch:02d}.weights.h5", save_weights_only=True)], _adam),
    "ModelCheckpoint, the best": (
        lambda d: [C.ModelCheckpoint(d / "best.keras", monitor="val_accuracy", mode="max", save_best_only=True)],
        _adam,
    ),
    "ModelCheckpoint, from a threshold": (
        lambda d: [C.ModelCheckpoint(d / "good.keras", save_best_only=True, initial_value_threshold=1.0)],
        _adam,
    ),
    "ModelCheckpoint, every 7 batches": (
        lambda d: [C.ModelCheckpoint(d / "{epoch:02d}-{batch:02d}.weights.h5", save_weights_only=True, save_freq=7)],
        _adam,
    ),
    "BackupAndRestore": (lambda d: [C.BackupAndRestore(d / "backup")], _adam),
    "BackupAndRestore, every 3 batches": (lambda d: [C.BackupAndRestore(d / "backup", save_freq=3)], _adam),
    "EarlyStopping": (lambda d: [C.EarlyStopping(patience=1, min_delta=0.05, restore_best_weights=True)], _adam),
    "EarlyStopping, on a baseline": (lambda d: [C.EarlyStopping("val_accuracy", baseline=0.9, patience=2, start_from_epoch=1)], _adam),
    "ReduceLROnPlateau": (lambda d: [C.ReduceLROnPlateau(factor=0.3, patience=1, min_delta=0.1)], _adam),
    "LearningRateScheduler": (lambda d: [C.LearningRateScheduler(lambda epoch, rate: rate * 0.7)], _adam),
    "CSVLogger": (lambda d: [C.CSVLogger(d / "log.csv")], _adam),
    "TerminateOnNaN": (lambda d: [C.TerminateOnNaN()], _adam),
    "SwapEMAWeights": (lambda d: [C.SwapEMAWeights(swap_on_epoch=True), C.ModelCheckpoint(d / "{epoch}.keras")], _averaged),
    "SwapEMAWeights, tests": (lambda d: [C.SwapEMAWeights()], _averaged),
    "LambdaCallback": (lambda d: [_Notes(d / "notes.txt")], _adam),
    "ProgbarLogger": (lambda d: [C.ProgbarLogger()], _adam),
    "TensorBoard": (lambda d: [C.TensorBoard(d / "logs", histogram_freq=1, write_graph=False, update_freq=2)], _adam),
}


class _Notes(C.LambdaCallback):
    """Writes down which methods are called, with the names of what they are told."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__()
        self._path = path

    def _note(self, name: str, number: Any, logs: Any) -> None:
        with self._path.open("a") as file:
            file.write(f"{name} {number} {sorted(logs or {})}\n")


for _name in ("epoch_begin", "epoch_end", "train_batch_begin", "train_batch_end", "test_batch_begin", "test_batch_end"):
    setattr(_Notes, f"on_{_name}", lambda self, number, logs=None, _name=_name: self._note(_name, number, logs))
for _name in ("train_begin", "train_end", "test_begin", "test_end"):
    setattr(_Notes, f"on_{_name}", lambda self, logs=None, _name=_name: self._note(_name, "", logs))


@pytest.mark.slow
@pytest.mark.parametrize("distributed", [False, True])
@pytest.mark.parametrize("name", CALLBACKS)
def test_every_callback_does_what_it_does_in_keras(name: str, distributed: bool, tmp_path: pathlib.Path) -> None:
    make, optimizer = CALLBACKS[name]
    x, y, held = _data()
    options = {"epochs": 5, "batch_size": 8, "validation_data": held, "validation_batch_size": 10, "shuffle": False, "verbose": 0}
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with hm.Cluster.local(["cpu:0"] * 3) as cluster:
        model = _model(optimizer)
        plan = hm.Plan.filters(model, (2, 1, 1), cluster, 8)
        if distributed:
            keras.utils.clear_session(free_memory=False)  # names of layers are counted
            own = hm.distribute(_model(optimizer), cluster, plan=plan)
            history, weights = own.fit(x, y, callbacks=make(here), **options).history, own.get_weights()
        else:
            with hm.Trainer(model, plan, cluster) as trainer:
                history, weights = trainer.fit(x, y, callbacks=make(here), **options).history, trainer.to_keras().get_weights()
    expected = model.fit(x, y, callbacks=make(there), **options).history
    assert set(history) == set(expected)
    for key, values in expected.items():
        assert np.abs(np.subtract(values, history[key])).max() <= 1e-8, (key, values, history[key])
    assert worst_error(model.get_weights(), weights) <= 1e-8
    if name == "TensorBoard":
        return _compare_curves(here / "logs", there / "logs")
    written = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    assert {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()} == written
    for path in written:
        _compare(here / path, there / path, model)


def _compare_curves(ours: pathlib.Path, theirs: pathlib.Path) -> None:
    """Parse event files back, and compare every curve and histogram in them."""
    for part in ("train", "validation"):
        one, other = _curves(ours / part), _curves(theirs / part)
        assert one.keys() == other.keys() and (part == "validation" or any("kernel" in tag for tag in one))
        for tag in other:
            assert [step for step, _ in one[tag]] == [step for step, _ in other[tag]]
            for (_, value), (_, expected) in zip(one[tag], other[tag]):
                np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6, err_msg=tag)  # the files have float32


def _curves(folder: pathlib.Path) -> dict[str, list[tuple[int, np.ndarray]]]:
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    tags = [tag for tag in events.Tags()["tensors"] if "per_second" not in tag and "_duration" not in tag]
    return {tag: [(event.step, tf.make_ndarray(event.tensor_proto)) for event in events.Tensors(tag)] for tag in tags}


def _compare(ours: pathlib.Path, theirs: pathlib.Path, model: keras.Model) -> None:
    if ours.suffix == ".csv":
        one, other = ([list(map(float, row)) for row in list(csv.reader(path.read_text().splitlines()))[1:]] for path in (ours, theirs))
        assert np.abs(np.subtract(one, other)).max() <= 1e-8
    elif ours.suffix == ".txt":
        assert ours.read_text() == theirs.read_text()
    elif ours.suffix == ".keras":
        one, other = (keras.models.load_model(path) for path in (ours, theirs))
        assert worst_error(other.get_weights(), one.get_weights()) <= 1e-8
        slots = [[np.array(v) for v in loaded.optimizer.variables if "seed" not in v.path] for loaded in (one, other)]
        assert worst_error(slots[1], slots[0]) <= 1e-8
    elif ours.suffix == ".h5":
        found = []
        for path in (ours, theirs):
            model.load_weights(path)
            found.append(model.get_weights())
        assert worst_error(found[1], found[0]) <= 1e-8
