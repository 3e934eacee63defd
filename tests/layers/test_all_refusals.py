"""Everything that a model needs and is not supported is named at once, each with what to use instead."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from hetero_mtf.errors import UnsupportedError, UnsupportedModelError
from hetero_mtf.layers import KINDS, layer_graph
from hetero_mtf.layers.alternatives import _ALTERNATIVES, alternative

L = keras.layers


def refusals(model: Any) -> list[str]:
    """Return a sentence for each thing that is refused."""
    with pytest.raises(UnsupportedError) as caught:
        layer_graph(model)
    return list(caught.value.faults) if isinstance(caught.value, UnsupportedModelError) else [str(caught.value)]


def test_all_layers_and_options_are_refused_at_once() -> None:
    i = keras.Input((8, 8, 3))
    x = L.Conv2D(4, 3, kernel_constraint="non_neg", bias_regularizer="l1", name="first")(i)
    x = L.GaussianNoise(0.1, name="noise")(x)
    x = L.BatchNormalization(axis=1, name="norm")(x)
    x = L.Lambda(lambda t: t * 2, name="twice")(x)
    model = keras.Model(i, L.Dense(2, activation="hard_sigmoid", name="head")(L.Flatten()(x)))
    texts = refusals(model)
    wanted = ("kernel_constraint", "bias_regularizer", "noise is a GaussianNoise", "norm", "twice is a Lambda", "activation 'hard_sigmoid'")
    assert len(texts) == len(wanted) and all(word in text for word, text in zip(wanted, texts))
    assert all("; " in text for text in texts)
    with pytest.raises(UnsupportedModelError, match="6 things .* change each") as caught:
        layer_graph(model)
    assert len(str(caught.value).splitlines()) == 7


def test_a_layer_that_is_not_supported_is_refused_once_however_it_is_called() -> None:
    i = keras.Input((6, 4))
    x = L.MultiHeadAttention(2, 4, name="heads")(i, value=i)
    x = L.LSTM(3, return_state=True, name="recurrent")(x)[1]
    texts = refusals(keras.Model(i, L.Dense(2)(x)))
    assert len(texts) == 2 and "use Dense for query, key and value, and Attention" in texts[0] and "recurrent is a LSTM" in texts[1]


def test_a_single_refusal_is_one_sentence() -> None:
    i = keras.Input((4,))
    with pytest.raises(UnsupportedError, match="^layer odd is a UnitNormalization, which is not supported; use LayerNormalization$"):
        layer_graph(keras.Model(i, L.UnitNormalization(name="odd")(i)))


def test_dtypes_and_layers_are_refused_together() -> None:
    i = keras.Input((4,))
    x = L.Dense(3, dtype="mixed_float16", name="half")(i)
    texts = refusals(keras.Model(i, L.Identity(name="same")(x)))
    assert any("half has the dtype policy mixed_float16" in text for text in texts) and any("same is a Identity" in text for text in texts)


@pytest.mark.parametrize("kind", sorted(_ALTERNATIVES))
def test_an_alternative_is_for_a_layer_of_keras_that_is_not_supported(kind: str) -> None:
    assert kind not in KINDS and hasattr(keras.layers, kind)
    named = [word.strip(",") for word in alternative(kind).split() if hasattr(keras.layers, word.strip(","))]
    assert all(word in KINDS for word in named)
