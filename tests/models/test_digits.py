from __future__ import annotations

import keras
import pytest

from hetero_mtf.data import load
from models.digits import wide_digits


def test_the_layers_are_as_wide_as_asked() -> None:
    model = wide_digits()
    assert model.count_params() == sum((25 * 128 + 128, 25 * 128 * 256 + 256, 25 * 256 * 256 + 256, 4096 * 10 + 10))
    assert model.get_layer("conv2").output.shape == (None, 8, 8, 256)
    assert model.get_layer("conv3").output.shape == (None, 4, 4, 256)
    assert wide_digits((8, 4, 6), 3).count_params() == sum((9 * 8 + 8, 9 * 8 * 4 + 4, 9 * 4 * 6 + 6, 96 * 10 + 10))


@pytest.mark.slow
def test_it_learns_the_digits_in_a_few_epochs() -> None:
    data = load("digits")
    keras.utils.set_random_seed(0)
    model = wide_digits()
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(data.x_train, data.y_train, batch_size=64, epochs=8, verbose=0)
    assert model.evaluate(data.x_test, data.y_test, verbose=0)[1] > 0.97
