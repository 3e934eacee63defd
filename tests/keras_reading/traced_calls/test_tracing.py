"""What the operations of a call of the user's own say about samples: verdicts, and that those on samples are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from hetero_mtf.keras_reading.layer_graph import layer_graph

L = keras.layers
O = keras.ops  # noqa: E741


def _layer(function: Callable[[Any, Any], Any], shape: tuple[int, ...] = (), **options: Any) -> Any:
    """Return a layer of one's own with a weight w."""

    class Own(L.Layer):
        def build(self, input_shape: Any) -> None:
            self.w = self.add_weight(shape=shape or (input_shape[-1],), initializer="ones")

        def call(self, x: Any) -> Any:
            return function(x, self.w)

    return Own(**options)


def _drawing(function: Callable[[Any, Any], Any]) -> Any:
    """Return a layer of one's own with seeds."""

    class Drawing(L.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.seeds = keras.random.SeedGenerator(1)

        def call(self, x: Any) -> Any:
            return function(x, self.seeds)

    return Drawing()


class _InTraining(L.Layer):
    def call(self, x: Any, training: bool = False) -> Any:
        return x - O.mean(x, axis=0, keepdims=True) if training else x


def _with_token(x: Any, w: Any) -> Any:
    return O.concatenate([O.broadcast_to(w, (O.shape(x)[0], 1, 4)), x], axis=1)


class _Holding(L.Layer):
    """Adds a tensor of the present."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = tf.range(6.0)[:, tf.newaxis]

    def call(self, x: Any) -> Any:
        return x + self.numbers


class _Blocks(L.Layer):
    """A block as people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dense, self.heads = L.LayerNormalization(), L.Dense(4, activation="gelu"), L.MultiHeadAttention(2, 2)

    def call(self, x: Any) -> Any:
        y = self.norm(x)
        return self.dense(self.heads(y, y)) + x


VERDICTS: dict[str, tuple[Callable[[], Any], str]] = {
    "a scale of channels": (lambda: _layer(lambda x, w: x * w), "elements"),
    "a scale and a function": (lambda: _layer(lambda x, w: O.silu(x * w + 1.0)), "elements"),
    "a scale of positions": (lambda: _layer(lambda x, w: x * w, (6, 1)), "elements"),
    "an array of channels": (lambda: _layer(lambda x, w: x * w * np.arange(4.0, dtype="float32")), "samples"),
    "a product": (lambda: _layer(lambda x, w: O.matmul(x, w), (4, 4)), "samples"),
    "a shape": (lambda: L.Lambda(lambda x: O.reshape(x, (-1, 4, 6))), "samples"),
    "a shape by extents": (lambda: L.Lambda(lambda x: tf.reshape(x, [tf.shape(x)[0], 24])), "samples"),
    "a mean of channels": (lambda: L.Lambda(lambda x: x - O.mean(x, axis=-1, keepdims=True)), "samples"),
    "slices": (lambda: L.Lambda(lambda x: x[:, 1:5:2]), "samples"),
    "the last position": (lambda: L.Lambda(lambda x: x[..., -1:]), "samples"),
    "blocks": (_Blocks, "samples"),
    "a token before the rest": (lambda: _layer(_with_token, (1, 1, 4)), "samples"),
    "zeros beside": (lambda: L.Lambda(lambda x: O.concatenate([x, O.zeros_like(x)], axis=1)), "samples"),
    "repeated channels": (lambda: L.Lambda(lambda x: O.repeat(x, 3, axis=-1)), "samples"),
    "positions by their numbers": (lambda: L.Lambda(lambda x: x * O.reshape(O.arange(6, dtype="float32"), (6, 1))), "elements"),
    "a transform of positions": (lambda: L.Lambda(lambda x: O.fft2((x, O.zeros_like(x)))[0]), "samples"),
    "a tensor that is held": (_Holding, "elements"),
    "a different token for each sample": (lambda: _layer(lambda x, w: O.concatenate([w[: O.shape(x)[0]], x], axis=1), (11, 1, 4)), ""),
    "a mean of the batch": (lambda: L.Lambda(lambda x: x - O.mean(x, axis=0, keepdims=True)), ""),
    "a mean of everything": (lambda: L.Lambda(lambda x: x / O.mean(x)), ""),
    "the first sample": (lambda: L.Lambda(lambda x: x + x[:1]), ""),
    "the batch turned": (lambda: L.Lambda(lambda x: x[::-1]), ""),
    "samples by their numbers": (lambda: L.Lambda(lambda x: x * O.reshape(O.cast(O.arange(O.shape(x)[0]), "float32"), (-1, 1, 1))), ""),
    "samples in one row": (lambda: L.Lambda(lambda x: O.reshape(O.cumsum(O.reshape(x, (-1, 4)), axis=0), (-1, 6, 4))), ""),
    "the batch by chance": (lambda: _drawing(lambda x, s: keras.random.shuffle(x, seed=s)), ""),
    "a mean of draws": (lambda: _drawing(lambda x, s: x + O.mean(keras.random.normal(O.shape(x), seed=s), axis=0)), ""),
    "draws of another kind": (lambda: _drawing(lambda x, s: x * keras.random.gamma(O.shape(x), 1.0, seed=s)), ""),
    "the batch in training": (_InTraining, ""),
}


# what is drawn -> rows a sample of each draw
DRAWS: dict[str, tuple[Callable[[], Any], list[int]]] = {
    "for all samples": (lambda: _drawing(lambda x, s: x + keras.random.normal((6, 4), seed=s)), [0]),
    "as many as a number of samples": (lambda: _drawing(lambda x, s: x + O.sum(keras.random.normal((77,), seed=s))), []),
    "for each sample": (lambda: _drawing(lambda x, s: x * keras.random.uniform((O.shape(x)[0], 1, 1), seed=s)), [1]),
    "for each position": (
        lambda: _drawing(lambda x, s: O.reshape(O.reshape(x, (-1, 4)) + keras.random.normal((6 * O.shape(x)[0], 4), seed=s), (-1, 6, 4))),
        [6],
    ),
    "both": (lambda: _drawing(lambda x, s: keras.random.dropout(x, 0.3, seed=s) + keras.random.truncated_normal((4,), seed=s)), [1, 0]),
}


@pytest.mark.fast("for all samples")
@pytest.mark.parametrize("name", DRAWS)
def test_what_a_call_draws_for_each_sample_is_read_off_its_shapes(name: str) -> None:
    make, rows = DRAWS[name]
    i = keras.Input((6, 4))
    option = layer_graph(keras.Model(i, make()(i))).layers[1].attributes["keras"]
    assert option["split"] == ("samples" if rows else "") and option.get("draws", [[], []]) == [rows, rows]


@pytest.mark.fast(
    'a different token for each sample',
    'a mean of draws',
    'a mean of everything',
    'a mean of the batch',
    'a scale and a function',
    'a scale of channels',
    'a scale of positions',
    'a tensor that is held',
    'a token before the rest',
    'a transform of positions',
    'blocks',
    'repeated channels',
    'samples by their numbers',
    'the batch in training',
    'the batch turned',
    'the last position',
    'zeros beside',
)
@pytest.mark.parametrize("name", VERDICTS)
def test_what_a_call_acts_on_is_read_off_its_operations(name: str) -> None:
    make, verdict = VERDICTS[name]
    i = keras.Input((6, 4))
    layer = make()
    model = keras.Model(i, layer(i))
    assert layer_graph(model).layers[1].attributes["keras"]["split"] == verdict
    if verdict:
        x = np.random.default_rng(0).normal(size=(7, 6, 4)).astype("float32")
        apart = np.concatenate([layer(x[:2]), layer(x[2:3]), layer(x[3:])])
        np.testing.assert_allclose(apart, layer(x), rtol=1e-6, atol=1e-6)
