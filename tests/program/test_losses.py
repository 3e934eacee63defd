"""Losses: names, functions and objects of Keras, and refusals by name. (Their values are tested in test_every_loss.)"""

from __future__ import annotations

from typing import Any

import keras
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.program.losses import SAMPLEWISE_LOSSES, is_samplewise, loss_elements, read_loss

K = keras.losses


class _Own(K.MeanSquaredError):
    """May do anything."""


@pytest.mark.parametrize(
    "loss, words",
    [
        ("nonsense", "the loss 'nonsense' is unknown to Keras; give a name or object of keras.losses, or a function"),
        (None, "the loss None is no loss; give a name or object"),
        (K.MeanSquaredError, "is no loss; give a name or object"),
        (3.0, "the loss 3.0 is no loss"),
    ],
    ids=str,
)
def test_what_is_no_loss_is_refused(loss: Any, words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        read_loss(loss)


@pytest.mark.parametrize("name", ["mse", "mean_squared_error", "MeanSquaredError", K.mean_squared_error])
def test_a_loss_may_be_named_in_any_way_that_keras_takes(name: Any) -> None:
    assert isinstance(read_loss(name), K.MeanSquaredError)


@pytest.mark.parametrize("name", sorted(SAMPLEWISE_LOSSES))
def test_a_loss_object_is_taken_as_it_is(name: str) -> None:
    loss = getattr(K, name)()
    assert read_loss(loss) is loss and is_samplewise(loss)


@pytest.mark.fast(
    'BinaryCrossentropy',
    'CategoricalCrossentropy',
    'Circle',
    'Dice',
    'MeanSquaredError',
    'SparseCategoricalCrossentropy',
    'Tversky',
    '_Own',
    'function',
)
@pytest.mark.parametrize(
    "loss",
    [
        _Own(),
        K.Dice(),
        K.Tversky(axis=(1, 2)),
        K.Hinge(),
        K.Circle(),
        K.MeanSquaredError(reduction=None),
        K.SparseCategoricalCrossentropy(ignore_class=0),
        K.CategoricalCrossentropy(axis=1),
        K.BinaryCrossentropy(axis=0),
        lambda y, p: p,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_may_look_at_several_samples_is_of_whole_outputs(loss: Any) -> None:
    assert not is_samplewise(read_loss(loss))


@pytest.mark.parametrize("name", sorted(SAMPLEWISE_LOSSES))
def test_every_option_of_a_samplewise_loss_is_known(name: str) -> None:
    known = {"name", "reduction", "from_logits", "label_smoothing", "axis", "ignore_class", "dtype"}
    own = {"alpha", "gamma", "apply_class_balancing", "q", "delta"}
    assert set(getattr(K, name)().get_config()) <= known | own


def test_a_sample_has_a_loss_value_for_each_place_of_its_output() -> None:
    assert loss_elements(K.MeanSquaredError(), (4, 5, 3)) == 20
    assert loss_elements(K.MeanSquaredError(), (3,)) == 1
