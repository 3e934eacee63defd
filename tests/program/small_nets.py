"""Small networks, each with one difficulty; every function returns a new Keras model with its own random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

SHAPE = (9, 7, 3)
CLASSES = 5


def _layers() -> Any:
    return keras.layers


def _scatter(model: keras.Model) -> keras.Model:
    """Give every weight values of its own: a bias or moving mean of zero would hide mistakes."""
    rng = np.random.default_rng(7)
    for variable in model.weights:
        size = variable.shape
        value = rng.normal(0.0, 0.2, size)
        variable.assign(np.abs(value) + 0.5 if "variance" in variable.name or "gamma" in variable.name else value)
    return model


def convs(strides: int | tuple[int, int] = 1, padding: str = "same", filters: tuple[int, ...] = (12, 10), **options: Any) -> keras.Model:
    """Two convolutions, flatten, two dense layers."""
    L = _layers()
    i = keras.Input(SHAPE)
    x = L.Conv2D(filters[0], 3, padding=padding, activation="relu", name="first", **options)(i)
    x = L.Conv2D(filters[1], (3, 2), strides=strides, padding=padding, activation="tanh", name="second", **options)(x)
    x = L.Flatten(name="flat")(x)
    x = L.Dense(6, activation="relu", name="hidden", **options)(x)
    return _scatter(keras.Model(i, L.Dense(CLASSES, name="head", **options)(x)))


def wide() -> keras.Model:
    """Sixty filters, as the paper's sizes need."""
    return convs(filters=(60, 10))


def pools() -> keras.Model:
    """Overlapping maximum and mean pools, both paddings, zero padding and rescaling between columns and rows."""
    L = _layers()
    i = keras.Input(SHAPE)
    x = L.Rescaling(1 / 3.0, 0.1)(i)
    x = L.Conv2D(12, 3, name="first")(L.ZeroPadding2D(((1, 2), (0, 1)))(x))
    x = L.MaxPooling2D(3, strides=2, padding="same")(x)
    x = L.AveragePooling2D(3, strides=1, padding="same")(x)
    x = L.MaxPooling2D(2, strides=1, padding="valid")(L.ReLU(max_value=1.0, negative_slope=0.1, threshold=0.05)(x))
    x = L.Conv2D(10, 3, padding="same", name="second")(x)
    x = L.AveragePooling2D((2, 1), padding="valid")(L.Activation("gelu")(x))
    return _scatter(keras.Model(i, L.Dense(CLASSES, name="head")(L.GlobalAveragePooling2D()(x))))


def norms(frozen: bool = False, **options: Any) -> keras.Model:
    """Batch normalisation behind a column, behind a row, and behind a dense layer."""
    L = _layers()
    i = keras.Input(SHAPE)
    x = L.Conv2D(12, 3, padding="same", use_bias=False, name="first")(i)
    x = L.ReLU()(L.BatchNormalization(name="norm1", momentum=0.9, **options)(x))
    x = L.Conv2D(10, 3, padding="same", name="second")(x)
    x = L.BatchNormalization(name="norm2", scale=False, epsilon=1e-2, trainable=not frozen, **options)(x)
    x = L.Dense(6, activation="silu", name="hidden")(L.GlobalAveragePooling2D()(x))
    x = L.BatchNormalization(name="norm3", center=False, **options)(x)
    return _scatter(keras.Model(i, L.Dense(CLASSES, name="head")(x)))


def residual() -> keras.Model:
    """A block whose branches meet in an Add while split, one with a projection, and an input added to itself."""
    L = _layers()
    i = keras.Input(SHAPE)
    a = L.Conv2D(12, 3, padding="same", name="left")(i)
    b = L.Conv2D(12, 1, name="right")(i)
    x = L.ReLU()(L.Add(name="meet")([a, b]))
    y = L.Conv2D(12, 3, padding="same", name="inner")(x)
    x = L.Add(name="around")([x, y, x])
    x = L.Conv2D(10, 3, strides=2, padding="same", name="last")(L.Activation("elu")(x))
    return _scatter(keras.Model(i, L.Dense(CLASSES, name="head")(L.Flatten()(x))))


def branches() -> keras.Model:
    """Two split branches joined by Concatenate, one of them twice, and dense features joined again."""
    L = _layers()
    i = keras.Input(SHAPE)
    a = L.Conv2D(7, 3, padding="same", activation="relu", name="left")(i)
    b = L.Conv2D(5, 1, activation="sigmoid", name="right")(i)
    x = L.Concatenate(name="join")([a, b, a])
    x = L.Conv2D(10, 3, padding="valid", name="mix")(x)
    flat = L.Flatten()(x)
    mean = L.GlobalAveragePooling2D()(x)
    x = L.Concatenate(name="features")([L.Dense(6, name="hidden")(flat), mean])
    return _scatter(keras.Model(i, L.Dense(CLASSES, name="head")(x)))


def rows_into_dense() -> keras.Model:
    """Split channels through a Flatten into the rows of a dense layer, by way of a pool."""
    L = _layers()
    i = keras.Input(SHAPE)
    x = L.Conv2D(12, 3, strides=2, padding="same", activation="relu", name="first")(i)
    x = L.Flatten()(L.MaxPooling2D(2, padding="same")(x))
    x = L.Dense(8, activation="relu", name="hidden")(L.Activation("softplus")(x))
    return _scatter(keras.Model(i, L.Dense(CLASSES, name="head")(x)))


def probabilities(activation: str = "softmax", units: int = CLASSES) -> keras.Model:
    """A head that gives probabilities, so that its loss is not from logits."""
    L = _layers()
    i = keras.Input(SHAPE)
    x = L.Conv2D(12, 3, strides=2, activation="relu", name="first")(i)
    x = L.Conv2D(8, 2, activation="selu", name="second")(x)
    return _scatter(keras.Model(i, L.Dense(units, activation=activation, name="head")(L.Flatten()(x))))


def softmax_layer() -> keras.Model:
    """A Softmax layer and a Rescaling behind it: the loss must see the rescaled probabilities."""
    L = _layers()
    i = keras.Input(SHAPE)
    x = L.Dense(CLASSES, name="head")(L.GlobalAveragePooling2D()(L.Conv2D(12, 3, name="first")(i)))
    return _scatter(keras.Model(i, L.Rescaling(0.5, 0.05)(L.Softmax()(x))))


def partly_frozen() -> keras.Model:
    """The first and third layers do not learn."""
    model = convs()
    for name in ("first", "hidden"):
        model.get_layer(name).trainable = False
    return model


def sequential() -> keras.Model:
    """A sequential model of dense layers on images: the last dimension alone is mixed."""
    L = _layers()
    stack = [
        keras.Input(SHAPE),
        L.Dense(12, activation="relu", name="first"),
        L.Dense(10, name="second"),
        L.Flatten(),
        L.Dense(CLASSES, name="head"),
    ]
    return _scatter(keras.Sequential(stack))


Build = Callable[[], keras.Model]


def pixels() -> keras.Model:
    """A class for every position: the loss has many values a sample."""
    L = _layers()
    i = keras.Input((4, 3, 2))
    x = L.Concatenate()([i, L.Conv2D(6, 3, padding="same", activation="relu", name="first")(i), i])
    return _scatter(keras.Model(i, L.Dense(3, name="head")(x)))


def linear() -> keras.Model:
    """One dense layer, its input added to it."""
    L = _layers()
    i = keras.Input((6,))
    return _scatter(keras.Model(i, L.Add()([i, L.Dense(6, use_bias=False, name="head")(i), i])))


def unlearning() -> keras.Model:
    """Nothing but moving averages changes."""
    L = _layers()
    i = keras.Input(SHAPE)
    x = L.Conv2D(12, 3, name="first", trainable=False)(i)
    x = L.BatchNormalization(name="norm", center=False, scale=False, momentum=0.5)(x)
    return _scatter(keras.Model(i, L.Dense(CLASSES, name="head", trainable=False)(L.Flatten()(x))))


def norm_of_points() -> keras.Model:
    """Batch norm of one position, behind a flatten, and of raw input, and dropout of rate zero."""
    L = _layers()
    i = keras.Input((2, 2, 3))
    x = L.Conv2D(6, 2, name="first")(L.BatchNormalization(name="norm0")(i))
    x = L.Flatten()(L.BatchNormalization(name="norm1")(x))
    x = L.BatchNormalization(name="norm2")(L.Dropout(0.0)(x))
    return _scatter(keras.Model(i, L.Dense(4, name="head")(x)))


def one_flatten_two_readers() -> keras.Model:
    """A flatten that rows, a column and a join read."""
    L = _layers()
    i = keras.Input((4, 3, 2))
    flat = L.Flatten()(L.Conv2D(6, 2, activation="relu", name="first")(i))
    a = L.Dense(5, name="left")(flat)
    b = L.Dense(5, activation="softmax", name="right")(flat)
    return _scatter(keras.Model(i, L.Dense(4, name="head")(L.Concatenate()([L.Add()([a, b]), flat]))))
