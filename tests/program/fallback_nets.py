"""Networks with layers, options, functions and calls that have no description of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

import hetero_mtf as hm

Build = Callable[[], Any]

L = keras.layers
R = keras.regularizers
C = keras.constraints


class Doubled(keras.layers.Conv2D):
    """A subclass may compute anything."""

    def call(self, x: Any) -> Any:
        return 2.0 * super().call(x)


class Counting(keras.layers.Layer):
    """A layer of one's own that counts its calls in training, and multiplies by a trained number and what it has counted."""

    def build(self, shape: Any) -> None:
        self.factor = self.add_weight(shape=(), initializer="ones", name="factor")
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.calls.assign_add(1.0)
        return x * self.factor * (1.0 + 0.1 * self.calls)


class Adding(keras.layers.Layer):
    """A layer of one's own that adds to the loss."""

    def call(self, x: Any) -> Any:
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(x)))
        return x


class Nameless(keras.layers.Layer):
    """A layer of one's own that gives its weight no name, which Keras then numbers."""

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x: Any) -> Any:
        return x * self.scale


class OfSamples(keras.layers.Layer):
    """A layer of one's own that computes each sample by itself, and is declared to."""

    def call(self, x: Any) -> Any:
        return x - keras.ops.mean(x, axis=-1, keepdims=True)


class OfTheBatch(keras.layers.Layer):
    """A layer of one's own that looks at all samples."""

    def call(self, x: Any) -> Any:
        return x - keras.ops.mean(x, axis=0, keepdims=True)


class Mapped(keras.Model):
    """A functional model of a class of one's own."""


hm.layers.declare(OfSamples, samplewise=True)


def _one(make: Build, shape: tuple[int, ...] = (6, 6, 4)) -> Build:
    """Return what builds a network around one layer."""

    def build() -> keras.Model:
        i = keras.Input(shape)
        x = L.Dense(4, name="before")(i)
        return keras.Model(i, L.Dense(3, name="after")(make()(x)))

    return build


def _of(function: Callable[[Any], Any], shape: tuple[int, ...] = (6, 4)) -> Build:
    """Return what builds a network around functions of tensors."""

    def build() -> keras.Model:
        i = keras.Input(shape)
        x = L.Dense(4, name="before")(i)
        return keras.Model(i, L.Dense(3, name="after")(function(x)))

    return build


def _steps(function: Callable[[Any], Any]) -> Build:
    return _of(function, (6, 4))


O = keras.ops  # noqa: E741


def _shared_in_two_towers() -> keras.Model:
    i, j = keras.Input((4, 4, 3)), keras.Input((2, 4, 3))
    twice = L.Conv2D(3, 3, padding="same", activation="tanh", activity_regularizer="l2")
    return keras.Model([i, j], [twice(i), twice(j)])


def _nested() -> keras.Model:
    i, j = keras.Input((4,)), keras.Input((4,))
    inner = Mapped(j, O.softmax(L.Dense(4)(j) * 2.0))
    return keras.Model(i, L.Dense(2)(inner(i)))


def _embedded(*stack: Any) -> Build:
    def build() -> keras.Model:
        i = keras.Input((7,), dtype="int32")
        x = L.Embedding(9, 4, mask_zero=True)(i)
        for make in stack:
            x = make()(x)
        return keras.Model(i, L.Dense(2, activation="softmax")(x))

    return build


def _states() -> keras.Model:
    i = keras.Input((6, 4))
    y, h, c = L.LSTM(3, return_sequences=True, return_state=True)(i)
    return keras.Model(i, L.Dense(2)(L.Flatten()(y)) + L.Dense(2)(h * c))


def _keywords() -> keras.Model:
    i = keras.Input((6, 4))
    return keras.Model(i, L.MultiHeadAttention(2, 3)(i, value=i, use_causal_mask=True))


def _batchless() -> keras.Model:
    i = keras.Input((6, 4))
    x = L.Dense(4)(i)
    return keras.Model(i, L.Dense(2)((x - O.mean(x)) / (1.0 + O.std(x, axis=0, keepdims=True))))


class Subclassed(keras.Model):
    """A model whose call works on symbolic tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = L.Dense(4, activation="relu"), L.BatchNormalization(), L.Dense(3)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.last(self.norm(self.first(x), training=training) + x)


class LookingAtValues(Subclassed):
    """A model whose call does not."""

    def call(self, x: Any, training: bool = False) -> Any:
        if isinstance(x, keras.KerasTensor):
            raise TypeError("not symbolic")
        return super().call(x * 2.0, training)

    def compute_output_shape(self, shape: Any) -> Any:
        return (shape[0], 3)


def _built(model: keras.Model) -> keras.Model:
    Subclassed.call(model, keras.Input((4,)))  # the layers take their shapes
    model.build((None, 4))
    return model


def _spectral(make: Build) -> Any:
    return L.SpectralNormalization(make(), power_iterations=2)


def _spectral_twice() -> keras.Model:
    i = keras.Input((6, 4))
    shared = _spectral(lambda: L.Dense(4, kernel_regularizer="l2"))
    return keras.Model(i, L.Dense(3)(shared(L.Dense(4, activation="tanh")(shared(i)))))


# What is compared with Keras: nothing here draws at random.
NETS: Mapping[str, Build] = {
    "separable, constraint": _one(lambda: L.SeparableConv2D(4, 3, pointwise_constraint="non_neg")),
    "separable, L1": _one(lambda: L.SeparableConv2D(4, 3, depthwise_regularizer="l1")),
    "bicubic": _one(lambda: L.UpSampling2D(2, interpolation="bicubic")),
    "layer norm over rows": _one(lambda: L.LayerNormalization(axis=1)),
    "layer norm, constraint": _one(lambda: L.LayerNormalization(gamma_constraint="non_neg")),
    "group norm over rows": _one(lambda: L.GroupNormalization(2, axis=1)),
    "prelu, constraint": _one(lambda: L.PReLU(alpha_initializer="ones", alpha_constraint=C.MaxNorm(0.5))),
    "unit norm": _one(lambda: L.UnitNormalization()),
    "rms norm": _one(lambda: L.RMSNormalization()),
    "cropping": _one(lambda: L.Cropping2D(1)),
    "lambda": _one(lambda: L.Lambda(lambda x: x * 2)),
    "subclass": _one(lambda: Doubled(4, 3)),
    "L1": _one(lambda: L.Conv2D(4, 3, kernel_regularizer=R.L1(0.1))),
    "L1L2": _one(lambda: L.Conv2D(4, 3, kernel_regularizer=R.L1L2(0.1, 0.1), bias_regularizer="l1")),
    "activity": _one(lambda: L.Dense(4, activity_regularizer="l2")),
    "activity of a pool": _one(lambda: L.ActivityRegularization(l1=0.1)),
    "kernel constraint": _one(lambda: L.Conv2D(4, 3, kernel_constraint=C.MaxNorm(0.3, axis=[0, 1, 2]))),
    "unit norm of kernels": _one(lambda: L.Dense(4, kernel_constraint=C.UnitNorm(), bias_constraint="non_neg")),
    "batch norm over rows": _one(lambda: L.BatchNormalization(axis=1)),
    "batch norm, constraint": _one(lambda: L.BatchNormalization(gamma_constraint=C.MaxNorm(0.5))),
    "softmax over rows": _one(lambda: L.Softmax(axis=1)),
    "rescaling": _one(lambda: L.Rescaling([[1.0, 2.0, 3.0, 4.0]])),
    "another activation": _one(lambda: L.Dense(4, activation="hard_sigmoid")),
    "own activation": _one(lambda: L.Dense(4, activation=lambda x: x * x)),
    "parametric activation": _one(lambda: L.Activation("leaky_relu")),
    "own layer that writes": _one(Counting),
    "own layer that adds to the loss": _one(Adding),
    "own layer, declared": _one(OfSamples),
    "own layer with a weight without a name": _one(Nameless),
    "own layer of the batch": _one(OfTheBatch),
    "time distributed batch norm": _one(lambda: L.TimeDistributed(L.BatchNormalization())),
    "convolutions of steps": _one(lambda: L.Conv1D(5, 3, activation="relu"), (6, 4)),
    "einsum": _one(lambda: L.EinsumDense("abc,cd->abd", (6, 5), bias_axes="d"), (6, 4)),
    "recurrent": _one(lambda: L.Bidirectional(L.GRU(3, return_sequences=True)), (6, 4)),
    "recurrent convolutions": _one(lambda: L.ConvLSTM1D(2, 3), (5, 6, 4)),
    "states of a recurrent layer": _states,
    "heads with a causal mask": _keywords,
    "masks to a recurrent layer": _embedded(lambda: L.Dropout(0.0), lambda: L.LSTM(3)),
    "masks to a mean": _embedded(lambda: L.Dense(3), lambda: L.GlobalAveragePooling1D()),
    "masks to heads": _embedded(lambda: _SelfAttention(), lambda: L.GlobalAveragePooling1D()),
    "batch norm of masked steps": _embedded(lambda: L.BatchNormalization(), lambda: L.GlobalAveragePooling1D()),
    "operators": _steps(lambda x: 3.0 - x * 2.0 + x**2 / 4.0),
    "an array": _steps(lambda x: x + np.arange(24.0).reshape(1, 6, 4) / 24),
    "a concatenation of rows": _steps(lambda x: L.Concatenate(axis=1)([x, x])),
    "functions": _steps(lambda x: O.where(x > 0.1, O.sin(x), O.minimum(x, 0.3)) + O.gelu(x)),
    "reductions": _steps(lambda x: x - O.max(x, axis=-1, keepdims=True) + O.mean(x, axis=(1, 2), keepdims=True)),
    "spectral norm of a convolution": _one(lambda: _spectral(lambda: L.Conv2D(4, 3)), (6, 6, 3)),
    "spectral norm of a layer called twice": _spectral_twice,
    "a weight that is halved": _of(lambda x: Halving()(x)),
    "comparisons": _of(lambda x: Comparing()(x)),
    "slices": _steps(lambda x: x[:, 1:5:2, ::-1] + x[:, 2:4]),
    "parts": _steps(lambda x: O.concatenate(O.split(x, [1, 3], axis=1)[::-1], axis=1)),
    "shapes": _steps(lambda x: O.transpose(O.reshape(x, (-1, 3, 8)), (0, 2, 1))),
    "matrices": _steps(lambda x: O.matmul(O.softmax(O.matmul(x, O.transpose(x, (0, 2, 1)))), x)),
    "einsum of tensors": _steps(lambda x: O.einsum("bij,bkj->bik", x, x)),
    "sums of a sample": _steps(lambda x: x * O.tanh(O.expand_dims(O.expand_dims(O.sum(x, axis=(1, 2)), -1), -1))),
    "a number for the whole batch": _batchless,
    "two towers": _shared_in_two_towers,
    "a nested model of one's own class": _nested,
    "a subclassed model": lambda: _built(Subclassed()),
    "a subclassed model that looks at values": lambda: _built(LookingAtValues()),
}


class Comparing(keras.layers.Layer):
    """Compares tensors by Python's operators: with numbers, with each other, and with themselves, as one finds NaN."""

    def call(self, x: Any) -> Any:
        y = O.relu(x)
        return O.cast(y == 0, x.dtype) + O.where(y != x, 0.5 * x, y) + O.where(x != x, O.zeros_like(x), x)


class Halving(keras.layers.Layer):
    """Halves its trained weight in each call, after it has used it, and uses it again."""

    def build(self, shape: Any) -> None:
        self.w = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x: Any, training: bool = False) -> Any:
        before = x * self.w
        if training:
            self.w.assign(0.5 * self.w)
        return before + x * x * self.w


class _SelfAttention(keras.layers.Layer):
    """Heads that attend to what they read, with its mask."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = L.MultiHeadAttention(2, 3)
        self.supports_masking = True

    def call(self, x: Any, mask: Any = None) -> Any:
        return self.heads(x, x, query_mask=mask)


class Encoder(keras.layers.Layer):
    """A block as people write it: dropout on the heads and behind them, and each sample's whole branch dropped at times."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.dropout = L.MultiHeadAttention(2, 3, dropout=0.2), L.Dropout(0.2)
        self.dense, self.seeds = L.Dense(4, activation="gelu"), keras.random.SeedGenerator(5)

    def call(self, x: Any, training: bool = False) -> Any:
        y = self.dropout(self.heads(x, x, training=training), training=training)
        if training:
            y = y * O.cast(keras.random.uniform((O.shape(x)[0], 1, 1), seed=self.seeds) > 0.3, y.dtype)
        return self.dense(x + y)


class Jitter(keras.layers.Layer):
    """Noise of each sample, in inference too, and noise that all samples share; seeds of Keras's own."""

    def call(self, x: Any) -> Any:
        own = keras.random.normal(O.shape(x), 0.0, 0.1, dtype=x.dtype)
        return x + own + keras.random.truncated_normal((1, *x.shape[1:]), 0.0, 0.1, dtype=x.dtype)


def _noisy(make: Build) -> Build:
    return _one(make, (6, 6, 3))


# What draws at random: equal under every plan.
RANDOM: Mapping[str, Build] = {
    "gaussian noise": _noisy(lambda: L.GaussianNoise(0.1)),
    "gaussian dropout": _noisy(lambda: L.GaussianDropout(0.2)),
    "alpha dropout": _noisy(lambda: L.AlphaDropout(0.2)),
    "spatial dropout": _noisy(lambda: L.SpatialDropout2D(0.3)),
    "flips": _noisy(lambda: L.RandomFlip()),
    "heads with dropout": _of(lambda x: L.MultiHeadAttention(2, 3, dropout=0.3)(x, x)),
    "recurrent dropout": _of(lambda x: L.LSTM(3, dropout=0.2, recurrent_dropout=0.2)(x)),
    "dropout both ways": _of(lambda x: L.Bidirectional(L.GRU(3, dropout=0.2, return_sequences=True))(x)),
    "dropout at each step": _of(lambda x: L.TimeDistributed(L.Dropout(0.3))(x)),
    "an encoder of one's own": _of(lambda x: Encoder()(x)),
    "jitter of one's own": _of(lambda x: Jitter()(x)),
}
SLICED = ("heads with dropout", "recurrent dropout", "dropout both ways", "an encoder of one's own", "jitter of one's own")
