"""Everything that a model needs and is not supported is named at once, each with what to do instead."""

from __future__ import annotations

import keras
import pytest

from hetero_mtf.errors import UnsupportedError, UnsupportedModelError
from hetero_mtf.keras_reading.layer_graph import layer_graph

L = keras.layers


def test_all_faults_are_named_at_once() -> None:
    i = keras.Input((8, 8, 3), dtype="complex64", name="images")
    x = L.Dense(4, dtype="int8_from_float32", name="first")(i)
    x = L.Dense(3, name="second")(x)
    model = keras.Model(i, L.Dense(2, dtype="int8_from_float32", name="head")(x))
    with pytest.raises(UnsupportedModelError, match="3 things .* change each") as caught:
        layer_graph(model)
    wanted = ("layer first has the dtype policy int8", "layer head has the dtype policy int8", "input images has the dtype complex64")
    assert len(caught.value.faults) == len(wanted) and all(word in text for word, text in zip(wanted, caught.value.faults))
    assert all("; " in text for text in caught.value.faults) and len(str(caught.value).splitlines()) == 4


def test_a_single_refusal_is_one_sentence() -> None:
    i = keras.Input((4,))
    with pytest.raises(UnsupportedError, match="^layer odd has the dtype policy int8_from_float32; only bfloat16, .* are supported$"):
        layer_graph(keras.Model(i, L.Dense(4, name="odd", dtype="int8_from_float32")(i)))
