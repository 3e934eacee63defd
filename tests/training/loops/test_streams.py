"""Streams in a trainer: Keras draws from them, as for a model of its own."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import hetero_mtf as hm
from hetero_mtf.errors import DataError
from tests.training.setting import cluster, cross_entropy, data, net

__all__ = ["cluster"]

SIZE = 4


def _keras(model: keras.Model) -> keras.Model:
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile(keras.optimizers.SGD(0.05), cross_entropy(), metrics=["accuracy"], jit_compile=False)
    return copy


def _trainer(model: keras.Model, cluster: Any) -> hm.Trainer:
    plan = hm.Plan.batch(model, [2, 1, 1], cluster, SIZE)
    return hm.Trainer(model, plan, cluster, optimizer=keras.optimizers.SGD(0.05), loss=cross_entropy(), metrics=["accuracy"])


def _finite() -> Any:
    return tf.data.Dataset.from_tensor_slices(data(18)).batch(SIZE)


def _endless() -> Any:
    return _finite().repeat()


def _generator() -> Iterator[Any]:
    x, y = data(18)
    while True:
        yield from ((x[k : k + SIZE], y[k : k + SIZE]) for k in range(0, 18, SIZE))


FITS = {
    "finite, fewer steps than a pass": (_finite, {"epochs": 3, "steps_per_epoch": 2}),
    "finite, more steps than a pass": (_finite, {"epochs": 2, "steps_per_epoch": 7}),
    "finite": (_finite, {"epochs": 2}),
    "endless": (_endless, {"epochs": 2, "steps_per_epoch": 3, "validation_data": _endless(), "validation_steps": 2}),
    "generator": (_generator, {"epochs": 2, "steps_per_epoch": 3, "validation_data": _generator(), "validation_steps": 2}),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("case", FITS)
def test_an_epoch_has_the_batches_that_it_has_in_keras_and_ends_as_there(case: str, cluster: Any) -> None:
    make, options = FITS[case]
    options = {"shuffle": False, "verbose": 0, **options}
    model = net()
    oracle, texts = _keras(model), []
    with _trainer(model, cluster) as trainer:
        histories = []
        for each in (oracle, trainer):
            if "validation_data" in options:
                options["validation_data"] = make()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                histories.append(each.fit(make(), **options))
            texts.append([str(warning.message) for warning in caught if "ran out of data" in str(warning.message)])
        assert texts[0] == texts[1] and histories[0].epoch == histories[1].epoch
        for name, expected in histories[0].history.items():
            np.testing.assert_allclose(histories[1].history[name], expected, rtol=1e-5, err_msg=name)
        for p, q in zip(oracle.get_weights(), trainer.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("make", [_endless, _generator])
def test_endless_streams_are_tested_and_predicted_on_for_some_steps(make: Any, cluster: Any) -> None:
    model = net()
    oracle = _keras(model)
    with _trainer(model, cluster) as trainer:
        expected = oracle.evaluate(make(), steps=3, return_dict=True, verbose=0)
        assert trainer.evaluate(make(), steps=3) == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(trainer.predict(make(), steps=3), oracle.predict(make(), steps=3, verbose=0), rtol=1e-4, atol=1e-6)
        with pytest.raises(DataError, match="the stream of batches never ends; pass steps"):
            trainer.evaluate(_endless())


class _Save(keras.callbacks.Callback):
    """Saves a trainer's state after a batch, and at the end of an epoch."""

    def __init__(self, trainer: hm.Trainer, folder: pathlib.Path) -> None:
        super().__init__()
        self._trainer, self._folder = trainer, folder

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._trainer.step == 7:
            self._trainer.save(self._folder / "within.npz")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._trainer.save(self._folder / f"{epoch}.npz")


@pytest.mark.slow
def test_a_stream_goes_on_at_the_beginning_of_an_epoch_and_says_so_where_that_is_not_where_it_ended(
    cluster: Any, tmp_path: pathlib.Path
) -> None:
    model = net()
    with _trainer(model, cluster) as trainer:
        trainer.fit(_finite(), epochs=3, callbacks=[_Save(trainer, tmp_path)], verbose=0)
        expected = trainer.to_keras().get_weights()
    with _trainer(model, cluster) as again:
        again.restore(tmp_path / "0.npz")
        assert again.position == {"kind": "stream", "epoch": 1, "batch": 0}
        again.fit(_finite(), epochs=3, verbose=0)
        for p, q in zip(expected, again.to_keras().get_weights(), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-6, atol=1e-7)
        again.restore(tmp_path / "within.npz")
        with pytest.warns(UserWarning, match="epoch 1 begins again, after 2 of its batches were trained on before"):
            assert again.fit(_finite(), epochs=2, verbose=0).epoch == [1]
        again.restore(tmp_path / "0.npz")
        with pytest.raises(DataError, match="it is of 'stream' and this source is of 'arrays'"):
            again.fit(*data(18), epochs=2, verbose=0)


@pytest.mark.slow
def test_faults_of_a_stream_name_the_batch(cluster: Any) -> None:
    def batches() -> Iterator[Any]:
        x, y = data(SIZE)
        yield from ((x, y), (x, y), (np.full_like(x, np.nan), y))

    with _trainer(net(), cluster) as trainer, pytest.raises(DataError, match="x of batch 2 has NaN or infinite values"):
        trainer.fit(batches(), steps_per_epoch=3, verbose=0)
