"""Copies of models in memory: equal, with weights of their own, whatever their layers say of themselves."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from hetero_mtf.training.copying import clone

L = keras.layers


class Mute(L.Layer):
    """A layer that cannot be made from its configuration."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.inner = L.Dense(units)

    def call(self, x: Any) -> Any:
        return self.inner(x)


class Holding(L.Layer):
    """A layer that holds a module, and no configuration."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module, self.inner = module, L.Dense(3)

    def call(self, x: Any) -> Any:
        return self.module.tanh(self.inner(x))


class Own(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [Mute(4), L.Dense(2, activation=lambda x: x * x)]

    def call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x


def _check(model: keras.Model, x: np.ndarray) -> keras.Model:
    copy = clone(model)
    copy.set_weights(model.get_weights())
    before = model.predict(x, verbose=0)
    np.testing.assert_array_equal(copy.predict(x, verbose=0), before)
    copy.set_weights([0 * weight for weight in copy.get_weights()])
    np.testing.assert_array_equal(model.predict(x, verbose=0), before)
    return copy


@pytest.mark.slow
def test_layers_without_a_configuration_are_copied_as_they_are_in_memory() -> None:
    i = keras.Input((3,))
    twice = Mute(3)
    model = keras.Model(i, L.Lambda(lambda x: 2 * x)(L.Dense(2, activation=lambda x: x * x)(twice(twice(i)) + 1.0)))
    copy = _check(model, np.ones((2, 3), "float32"))
    assert len(copy.weights) == len(model.weights) and not {id(w) for w in copy.weights} & {id(w) for w in model.weights}


def test_a_layer_that_holds_a_module_is_copied_with_it() -> None:
    i = keras.Input((3,))
    _check(keras.Model(i, Holding(keras.ops)(i)), np.ones((2, 3), "float32"))


@pytest.mark.slow
def test_a_subclassed_model_is_copied_with_its_class() -> None:
    model = Own()
    x = np.ones((2, 3), "float32")
    model(x)
    assert type(_check(model, x)) is Own
