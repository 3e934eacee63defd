"""Every loss of Keras, and losses as users write them, with targets that go with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

K = keras.losses
O = keras.ops  # noqa: E741
Make = Callable[[], Any]


def soft_dice(y: Any, p: Any) -> Any:
    """A loss as users write it: one number for the whole batch."""
    return 1.0 - (2.0 * O.sum(y * p) + 1.0) / (O.sum(y) + O.sum(p) + 1.0)


def of_ones(y: Any, p: Any) -> Any:
    """A loss as users write it, that compares by Python's operators."""
    return O.mean(O.where(y == 1, O.square(p), O.abs(p)), axis=-1)


class OfPixels(K.Loss):
    """A loss of one's own, a value for each pixel."""

    def call(self, y: Any, p: Any) -> Any:
        return O.mean(O.abs(y - p) ** 1.5, axis=-1)


# name -> (loss, its targets, the network's last activation)
LOSSES: Mapping[str, tuple[Make, str, str]] = {
    **{
        name: (lambda name=name: getattr(K, name)(), "probabilities", "softmax")
        for name in ("CategoricalCrossentropy", "CategoricalFocalCrossentropy", "CategoricalHinge", "KLDivergence", "Dice", "Tversky")
    },
    **{
        name: (lambda name=name: getattr(K, name)(), "numbers", "softplus")
        for name in ("CosineSimilarity", "Huber", "LogCosh", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredError")
    },
    **{name: (lambda name=name: getattr(K, name)(), "numbers", "softplus") for name in ("MeanSquaredLogarithmicError", "Poisson")},
    **{name: (lambda name=name: getattr(K, name)(), "signs", "tanh") for name in ("Hinge", "SquaredHinge")},
    "BinaryCrossentropy": (lambda: K.BinaryCrossentropy(label_smoothing=0.1), "bits", "sigmoid"),
    "BinaryFocalCrossentropy": (lambda: K.BinaryFocalCrossentropy(apply_class_balancing=True), "bits", "sigmoid"),
    "CategoricalGeneralizedCrossEntropy": (lambda: K.CategoricalGeneralizedCrossEntropy(), "classes", "softmax"),
    "SparseCategoricalCrossentropy": (lambda: K.SparseCategoricalCrossentropy(), "classes", "softmax"),
    "a class left out": (lambda: K.SparseCategoricalCrossentropy(ignore_class=1), "classes", "softmax"),
    "Dice of samples": (lambda: K.Dice(axis=(1, 2)), "probabilities", "softmax"),
    "rows of classes": (lambda: K.CategoricalCrossentropy(axis=1), "probabilities", "softmax"),
    "a sum": (lambda: K.Dice(reduction="sum"), "probabilities", "softmax"),
    "weighted mean": (lambda: K.Hinge(reduction="mean_with_sample_weight"), "signs", "tanh"),
    "a function": (lambda: soft_dice, "bits", "sigmoid"),
    "a function that compares": (lambda: of_ones, "bits", "sigmoid"),
    "a function of keras": (lambda: K.mean_absolute_error, "numbers", "softplus"),
    "one's own": (lambda: OfPixels(), "numbers", "softplus"),
    "a name": (lambda: "huber", "numbers", "softplus"),
}
FLAT: Mapping[str, tuple[Make, str, str]] = {
    "Circle": (lambda: K.Circle(), "labels", "linear"),
}


def targets(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return targets of a kind for outputs of a shape, the batch first."""
    if kind == "classes":
        return rng.integers(0, shape[-1], shape[:-1])
    if kind == "labels":
        return rng.integers(0, 2, shape[:1])
    numbers = rng.random(shape)
    return {
        "probabilities": numbers / numbers.sum(-1, keepdims=True),
        "numbers": numbers,
        "bits": numbers > 0.5,
        "signs": np.sign(numbers - 0.5),
    }[kind] * np.ones(())
