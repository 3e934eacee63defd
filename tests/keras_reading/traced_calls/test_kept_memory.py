"""What calls of Keras keep for their backward pass, against counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import pytest

from hetero_mtf.keras_reading.live_call import LiveCall
from hetero_mtf.keras_reading.traced_calls.kept_memory import kept_elements

L = keras.layers


class Squares(L.Layer):
    """The square of a sine: its gradient reads the sine, and the cosine of the input."""

    def call(self, x: Any) -> Any:
        return keras.ops.square(keras.ops.sin(x))


def _call(layer: Any, shape: tuple[int, ...]) -> LiveCall:
    y = layer(keras.Input(shape))
    history = y._keras_history
    return LiveCall(layer, history.operation._inbound_nodes[history.node_index])


def test_what_the_gradient_reads_is_counted_once_without_the_input() -> None:
    assert kept_elements(_call(Squares(), (6, 4))) == 24


@pytest.mark.slow
@pytest.mark.fast("<lambda>0")
@pytest.mark.parametrize("make", [lambda: L.LSTM(5, return_sequences=True), lambda: L.GRU(5, return_sequences=True)])
def test_a_loop_keeps_some_tensors_of_its_units_in_each_iteration(make: Callable[[], Any]) -> None:
    short, long = (kept_elements(_call(make(), (steps, 3))) for steps in (10, 20))
    assert 4 * 5 * 20 <= long <= 12 * 5 * 20  # gates, states and what is computed from them
    assert 1.8 * short <= long <= 2.1 * short


@pytest.mark.parametrize("layer", [L.Flatten(), L.Reshape((24,))])
def test_views_of_the_input_keep_nothing(layer: Any) -> None:
    assert kept_elements(_call(layer, (6, 4))) == 0
