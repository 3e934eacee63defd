"""Models that people train, small."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.training.setting import data

L = keras.layers
X, Y = data(22)


def network() -> keras.Model:
    """Return a compiled Sequential model with batch norm and metrics of both kinds."""
    model = keras.Sequential(
        [
            keras.Input((5, 5, 2)),
            L.Conv2D(6, 3, activation="relu", use_bias=False, kernel_regularizer=keras.regularizers.L2(0.01)),
            L.BatchNormalization(),
            L.Flatten(),
            L.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["sparse_categorical_crossentropy"])
    return model


def two_heads() -> keras.Model:
    """Return a compiled functional model with two outputs by name, losses and weights of their own."""
    i = keras.Input((5, 5, 2), name="scan")
    x = L.Flatten()(L.Conv2D(4, 3, activation="relu")(i))
    model = keras.Model(i, {"kind": L.Dense(3, name="kind")(x), "size": L.Dense(1, name="size")(x)})
    loss = {"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"}
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss, loss_weights={"kind": 1.0, "size": 0.3}, metrics={"kind": ["accuracy"]})
    return model


def two_heads_out_of_order() -> keras.Model:
    """Return a compiled functional model whose outputs are in another order than their names."""
    i = keras.Input((5, 5, 2), name="scan")
    x = L.Flatten()(L.Conv2D(4, 3, activation="relu")(i))
    model = keras.Model(i, {"size": L.Dense(1, name="size")(x), "kind": L.Dense(3, name="kind")(x)})
    loss = {"size": "mse", "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    model.compile(keras.optimizers.SGD(0.05), loss, metrics={"size": ["mae"], "kind": ["accuracy"]})
    return model


def regression() -> keras.Model:
    """Return a compiled model of one number."""
    model = keras.Sequential([keras.Input((5, 5, 2)), L.Flatten(), L.Dense(4, activation="tanh"), L.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae", "r2_score"])
    return model


class Twice(keras.Model):
    """A subclassed model."""

    def __init__(self) -> None:
        super().__init__()
        self.flat, self.inner, self.last = L.Flatten(), L.Dense(4, activation="relu"), L.Dense(3, activation="softmax")

    def call(self, x: Any) -> Any:
        return self.last(self.inner(self.flat(x)))


class Scaled(L.Layer):
    """A layer that says nothing of how it is made again."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, x: Any) -> Any:
        return x * self.scale * self.factor


def _compiled(model: keras.Model, loss: Any = "sparse_categorical_crossentropy") -> keras.Model:
    model.compile("adam", loss, metrics=["accuracy"])
    return model


def subclassed() -> keras.Model:
    """Return a compiled model of a class of one's own that was called."""
    model = Twice()
    model(X[:1])
    return _compiled(model)


def nested() -> keras.Model:
    """Return a compiled model with a layer of one's own within a model within it."""
    inner = keras.Sequential([keras.Input((5, 5, 2)), L.Flatten(), Scaled(0.5), L.Dense(4, activation="relu")])
    return _compiled(keras.Sequential([keras.Input((5, 5, 2)), inner, L.Dense(3, activation="softmax")]))


def gray() -> keras.Model:
    """Return a compiled model of images with one channel."""
    model = keras.Sequential([keras.Input((5, 5, 1)), L.Conv2D(4, 3, activation="relu"), L.Flatten(), L.Dense(3, activation="softmax")])
    return _compiled(model)


def one_of_many() -> keras.Model:
    """Return a compiled model of sparse inputs."""
    return _compiled(keras.Sequential([keras.Input((50,), sparse=True), L.Dense(4, activation="relu"), L.Dense(3, activation="softmax")]))


def of_words() -> keras.Model:
    """Return a compiled model that looks up texts and categories, beside numbers that it normalizes."""
    lookup, texts, scaled = L.StringLookup(vocabulary=["a", "b"]), L.TextVectorization(output_sequence_length=4), L.Normalization()
    texts.adapt(["a b c d"])
    scaled.adapt(X[:, 0, 0])
    kind, text = keras.Input((1,), dtype="string", name="kind"), keras.Input((1,), dtype="string", name="text")
    numbers = keras.Input((2,), name="numbers")
    parts = [L.Flatten()(L.Embedding(4, 3)(lookup(kind))), L.GlobalAveragePooling1D()(L.Embedding(20, 3)(texts(text))), scaled(numbers)]
    model = keras.Model({"kind": kind, "text": text, "numbers": numbers}, L.Dense(3, activation="softmax")(L.Concatenate()(parts)))
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def with_a_loss_of_its_own() -> keras.Model:
    """Return a model compiled with a function as its loss."""

    def loss(y_true: Any, y_pred: Any) -> Any:
        hot = keras.ops.one_hot(keras.ops.cast(keras.ops.reshape(y_true, (-1,)), "int32"), 3)
        return keras.ops.mean(keras.ops.square(hot - y_pred), -1)

    model = keras.Sequential([keras.Input((5, 5, 2)), L.Flatten(), L.Dense(3, activation="softmax")])
    return _compiled(model, loss)


def of_pixels() -> keras.Model:
    """Return a compiled model of a number a pixel."""
    layers = [L.Conv2D(4, 3, padding="same", activation="relu"), L.Conv2D(1, 1, activation="sigmoid")]
    model = keras.Sequential([keras.Input((5, 5, 2)), *layers])
    model.compile("sgd", "binary_crossentropy", metrics=["mae"])
    return model


class Masked(L.Layer):
    """A layer that writes its kernel in each call, also outside of training."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = L.Conv2D(4, 3, padding="same", activation="relu")

    def build(self, shape: Any) -> None:
        self.conv.build(shape)
        self.mask = np.zeros(self.conv.kernel.shape)
        self.mask[:2] = 1.0

    def call(self, x: Any) -> Any:
        self.conv.kernel.assign(self.conv.kernel * self.mask)
        return self.conv(x)


def masked() -> keras.Model:
    """Return a compiled model with it."""
    return _compiled(keras.Sequential([keras.Input((5, 5, 2)), Masked(), L.Flatten(), L.Dense(3, activation="softmax")]))


def unreduced() -> keras.Model:
    """Return a compiled model whose loss is not reduced."""
    model = keras.Sequential([keras.Input((5, 5, 2)), L.Flatten(), L.Dense(3, activation="softmax")])
    return _compiled(model, keras.losses.SparseCategoricalCrossentropy(reduction=None))


def by_key() -> keras.Model:
    """Return a compiled model with two inputs by name."""
    inputs = {"left": keras.Input((5, 5, 2), name="left"), "right": keras.Input((5, 5, 2), name="right")}
    joined = L.Concatenate()([L.Flatten()(inputs["left"]), L.Flatten()(inputs["right"])])
    return _compiled(keras.Model(inputs, L.Dense(3, activation="softmax")(joined)))


class Penalty(L.Layer):
    """A layer that adds a loss."""

    def call(self, x: Any) -> Any:
        self.add_loss(keras.ops.mean(keras.ops.square(x - 1.0)))
        return x


def endpoint() -> keras.Model:
    """Return a compiled model whose only loss is the one that a layer adds."""
    model = keras.Sequential([keras.Input((5, 5, 2)), L.Flatten(), L.Dense(3), Penalty()])
    model.compile("adam")
    return model
