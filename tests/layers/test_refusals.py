"""Nothing is silently ignored: what would not be honoured is refused, and the message names the layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.layer_graph import layer_graph

Build = Callable[[], Any]


def _on(*stack: Any, shape: tuple[int | None, ...] = (8, 8, 4), **options: Any) -> Build:
    """Return what builds a functional model of layers one after another."""

    def build() -> keras.Model:
        i = x = keras.Input(shape, **options)
        for make in stack:
            x = make()(x)
        return keras.Model(i, x)

    return build


L = keras.layers


def _lambda(name: str, *arguments: Any, **options: Any) -> Build:
    """Return what makes the layer `name` of Keras, called "odd"."""
    return lambda: getattr(keras.layers, name)(*arguments, name="odd", **options)


OPTIONS = {
    "quantized from float32": (_lambda("Dense", 4, dtype="int8_from_float32"), "int8_from_float32"),
    "quantized from mixed precision": (_lambda("Dense", 4, dtype="int8_from_mixed_bfloat16"), "int8_from_mixed_bfloat16"),
}


@pytest.mark.parametrize("odd, word", OPTIONS.values(), ids=OPTIONS)
def test_a_precision_that_is_not_supported_is_refused_by_name(odd: Build, word: str) -> None:
    model = _on(lambda: L.Conv2D(4, 1, name="plain"), odd)()
    with pytest.raises(
        UnsupportedError, match=f"^layer odd has the dtype policy {word}; only bfloat16, float16, float32 and float64, and "
    ):
        layer_graph(model)


def _nested_input_of_another_dtype() -> keras.Model:
    i, j = keras.Input((4,)), keras.Input((4,), name="odd", dtype="bfloat16")
    return keras.Model(i, keras.Model(j, L.Dense(2, dtype="float32")(j), name="inner")(i))


def _nested_input_of_another_rank() -> keras.Model:
    i, j = keras.Input((4, 1)), keras.Input((4,), name="odd")
    return keras.Model(i, keras.Model(j, L.Dense(2)(j), name="inner")(i))


class _Own(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = L.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)


class _OwnStep(keras.Model):
    def train_step(self, data: Any) -> dict[str, Any]:
        return {"loss": 0.0}


def _own_train_step() -> keras.Model:
    i = keras.Input((4,))
    return _OwnStep(i, L.Dense(2)(i))


class _Once(L.Embedding):
    def __call__(self, x: Any) -> Any:
        if getattr(self, "is_called", False):
            raise TypeError("once only")
        self.is_called = True
        return super().__call__(x)


def _nested_mask() -> keras.Model:
    i, words = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    inner = keras.Model(words, _Once(4, 3, mask_zero=True)(words), name="inner")
    return keras.Model(i, L.LSTM(3)(inner(i)))


def _look_up() -> keras.Model:
    i = keras.Input((3,), dtype="int64")
    return keras.Model(i, L.Dense(2)(L.IntegerLookup(vocabulary=[3, 5, 7], output_mode="multi_hot")(i)))


MODELS = {
    "look-up table": (_look_up, r"^layer integer_lookup\w* .*IntegerLookup.* looks values up in a table.*; look them up in the data"),
    "mask of a nested model": (_nested_mask, "^masks cannot be followed through the nested model inner, .*; call its layers in"),
    "nested input of another dtype": (
        _nested_input_of_another_dtype,
        "input inner/odd of a nested model has the dtype bfloat16 and is given float32 by layer",
    ),
    "nested input of another rank": (
        _nested_input_of_another_rank,
        r"input inner/odd of a nested model has the shape \(4,\) and is given \(4, 1\) by layer .*; reshape it with a layer",
    ),
    "subclassed model": (_Own, "^_Own has no input shape yet; call it on a batch, or build"),
    "own train_step": (_own_train_step, "^_OwnStep has its own train_step, which would be ignored; let its layers"),
    "unbuilt sequential model": (lambda: keras.Sequential([L.Dense(2)]), "input shape"),
    "empty sequential model": (lambda: keras.Sequential([]), "input shape"),
    "unknown extent": (_on(lambda: L.Conv2D(2, 1), shape=(None, None, 3)), r"input .*None"),
    "complex input": (_on(lambda: L.Rescaling(1.0), shape=(4,), dtype="complex64"), "input .*complex64"),
    "no model": (lambda: "model", "str"),
    "a layer": (lambda: L.Dense(2), "Dense"),
}


@pytest.mark.fast(
    'a layer',
    'complex input',
    'empty sequential model',
    'look-up table',
    'nested input of another dtype',
    'nested input of another rank',
    'no model',
    'own train_step',
    'subclassed model',
    'unbuilt sequential model',
    'unknown extent',
)
@pytest.mark.parametrize("build, words", MODELS.values(), ids=MODELS)
def test_a_model_that_would_not_be_honoured_is_refused(build: Build, words: str) -> None:
    model = build()
    with pytest.raises(UnsupportedError, match=words):
        layer_graph(model)
