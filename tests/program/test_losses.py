"""Losses: names and objects of Keras, and refusals by name. (Their values are tested in test_transparency.)"""

from __future__ import annotations

from typing import Any

import keras
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.program.losses import SUPPORTED_LOSSES, loss_elements, read_loss

K = keras.losses


class _Own(K.MeanSquaredError):
    """May do anything."""


@pytest.mark.parametrize(
    "loss, words",
    [
        (K.Huber(), "is not supported; supported are SparseCategoricalCrossentropy"),
        ("mae", "is not supported"),
        (_Own(), "is not supported"),
        (lambda y, p: p, "is not supported"),
        (K.mean_squared_error, "is not supported"),
        ("nonsense", "the loss 'nonsense' is unknown to Keras; supported are SparseCategoricalCrossentropy"),
        (None, "the loss None is not supported"),
        (K.MeanSquaredError(reduction=None), "MeanSquaredError has reduction=None; supported are sum_over_batch_size, sum, mean_with"),
        (K.MeanSquaredError(reduction="none"), "has reduction="),
        (K.SparseCategoricalCrossentropy(ignore_class=0), "has ignore_class=0; only None is supported"),
        (K.CategoricalCrossentropy(axis=1), "has axis=1; only -1 is supported"),
        (K.BinaryCrossentropy(axis=0), "has axis=0"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_loss_or_option_that_is_not_supported_is_refused(loss: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        read_loss(loss)


@pytest.mark.parametrize("name", ["mse", "mean_squared_error", "MeanSquaredError"])
def test_a_loss_may_be_named_in_any_way_that_keras_takes(name: str) -> None:
    assert isinstance(read_loss(name), K.MeanSquaredError)


@pytest.mark.parametrize("name", SUPPORTED_LOSSES)
def test_a_loss_object_is_taken_as_it_is(name: str) -> None:
    loss = getattr(K, name)()
    assert read_loss(loss) is loss


@pytest.mark.parametrize("name", SUPPORTED_LOSSES)
def test_every_option_of_a_supported_loss_is_known(name: str) -> None:
    known = {"name", "reduction", "from_logits", "label_smoothing", "axis", "ignore_class", "dtype"}
    assert set(getattr(K, name)().get_config()) <= known


def test_a_sample_has_a_loss_value_for_each_place_of_its_output() -> None:
    assert loss_elements(K.MeanSquaredError(), (4, 5, 3)) == 20
    assert loss_elements(K.MeanSquaredError(), (3,)) == 1
