"""Samples to validate on."""

import keras
import numpy as np
import pytest

from hetero_mtf.data import Dataset, load
from hetero_mtf.errors import DataError


def _data(count=10, **more):
    x, y = np.arange(count, dtype=float)[:, None], np.arange(count) % 3
    return Dataset("d", x, y, x[:2], y[:2], 3, **more)


@pytest.mark.slow
@pytest.mark.fast("0.3")
@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.3, 0.99 / 2])
def test_the_last_samples_are_split_off_as_keras_does(fraction):
    data = _data(11).with_validation(fraction)
    seen = []
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", lambda y, p: keras.ops.mean(p), run_eagerly=True)
    watch = keras.callbacks.LambdaCallback(on_test_batch_end=lambda batch, logs: seen.append(batch))
    model.fit(_data(11).x_train, np.zeros(11), batch_size=1, validation_split=fraction, callbacks=[watch], verbose=0)
    assert data.counts == {"train": 11 - len(seen), "test": 2, "validation": len(seen)}
    with data.testing(20, "validation") as source:
        (batch,) = source
    np.testing.assert_array_equal(batch.x, _data(11).x_train[11 - len(seen) :])


def test_nothing_on_one_side_and_a_second_split_are_refused():
    with pytest.raises(DataError, match="leaves nothing on one side of the 1 training samples"):
        _data(1).with_validation(0.5)
    with pytest.raises(DataError, match="has 3 samples to validate on; leave out --validation-split"):
        _data().with_validation(0.3).with_validation(0.3)


def test_arrays_of_other_shapes_and_halves_are_refused():
    with pytest.raises(DataError, match="one of x_validation and y_validation is missing"):
        _data(x_validation=np.zeros((2, 1)))
    with pytest.raises(DataError, match="a sample has shape .* in x_validation"):
        _data(x_validation=np.zeros((2, 3)), y_validation=np.zeros(2, int))


def test_an_npz_file_may_have_them(tmp_path):
    arrays = {"x": np.zeros((10, 2)), "y": np.arange(10) % 2, "x_validation": np.ones((4, 2)), "y_validation": np.array([0, 1, 2, 1])}
    np.savez(tmp_path / "a.npz", **arrays)
    data = load(f"npz:{tmp_path / 'a.npz'}", dtype="float64")
    assert data.counts == {"train": 8, "test": 2, "validation": 4} and data.classes == 3
    arrays.pop("y_validation")
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match="lacks y_validation"):
        load(f"npz:{tmp_path / 'a.npz'}")
