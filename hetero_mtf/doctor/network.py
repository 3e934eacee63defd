"""The networks that the doctor trains: a small one for exactness, one whose steps are long enough to be timed, and a larger one."""

from __future__ import annotations

from typing import Any

import numpy as np

SMALL_BATCH = 64


def exact_network(dtype: str) -> Any:
    """Return a network of two convolutions, a pool and a dense layer.

    Parameters
    ----------
    dtype : of all layers.
    """
    import keras

    layers, image = keras.layers, keras.Input((8, 8, 3), dtype=dtype)
    x = layers.Conv2D(12, 3, padding="same", activation="relu", dtype=dtype, name="first")(image)
    x = layers.Conv2D(16, 3, padding="same", activation="relu", dtype=dtype, name="second")(x)
    x = layers.MaxPooling2D(2, dtype=dtype)(x)
    return keras.Model(image, layers.Dense(5, dtype=dtype, name="logits")(layers.Flatten(dtype=dtype)(x)))


def small_network() -> Any:
    """Return a network whose step takes some tenths of a second on one core: (samples, 8, 8, 1) to 10 logits."""
    return _convolutions((8, 8, 1), (128, 256, 256), 5)


def larger_network() -> Any:
    """Return a network of eight times the operations: (samples, 32, 32, 3) to 10 logits."""
    return _convolutions((32, 32, 3), (64, 128, 256, 256), 3)


def samples(model: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noise with labels for a model.

    Parameters
    ----------
    count : samples.
    """
    generator = np.random.default_rng(0)
    x = generator.normal(size=(count, *model.input_shape[1:])).astype(model.inputs[0].dtype)
    return x, generator.integers(0, model.output_shape[-1], count)


def _convolutions(shape: tuple[int, int, int], filters: tuple[int, ...], kernel: int) -> Any:
    import keras

    layers, image = keras.layers, keras.Input(shape)
    x = image
    for number, width in enumerate(filters, 1):
        x = layers.Conv2D(width, kernel, padding="same", activation="relu", name=f"conv{number}")(x)
        if number % 2 == 0:
            x = layers.MaxPooling2D(2, name=f"pool{number}")(x)
    return keras.Model(image, layers.Dense(10, name="logits")(layers.Flatten(name="flatten")(x)))
