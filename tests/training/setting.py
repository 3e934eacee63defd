"""A cluster of three local processors, small networks and batches for the tests of training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

import hetero_mtf as hm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with hm.Cluster.local(["cpu:0"] * 3) as made:
        yield made


def net(rate: float = 0.0, units: int = 3, second_bias: bool = True) -> keras.Model:
    """Return a small convolutional network, with dropout of `rate`.

    The gradient of the bias before batch norm is rounding error, which Adam scales to steps of full size; without it Adam compares.
    """
    L = keras.layers
    i = keras.Input((5, 5, 2))
    x = L.Conv2D(6, 3, activation="relu", name="first")(i)
    x = L.Dropout(rate)(x) if rate else x
    x = L.BatchNormalization(name="norm")(L.Conv2D(4, 2, name="second", use_bias=second_bias)(x))
    return keras.Model(i, L.Dense(units, name="head")(L.Flatten()(x)))


def data(samples: int, seed: int = 0, units: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return random images and labels."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(samples, 5, 5, 2)), rng.integers(0, units, samples)


def cross_entropy(**options: Any) -> Any:
    """Return the loss of `net`."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)
