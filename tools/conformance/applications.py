"""Every constructor of keras.applications at its smallest legal input, cut in depth where that is a parameter."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np

from tools.conformance.compare import Batches, sgd

SAMPLES = 3
_SMALLEST = {"inception_v3": 75, "inception_resnet_v2": 75, "xception": 71}


def names() -> list[str]:
    """Return the names of all constructors."""
    return sorted(name for name, make in vars(keras.applications).items() if inspect.isfunction(make))


def case(name: str, rng: np.random.Generator) -> tuple[keras.Model, Batches]:
    """Return a model with weights as they are made, and one batch."""
    make = getattr(keras.applications, name)
    size = _SMALLEST.get(make.__module__.rpartition(".")[2], 32)
    options: dict[str, Any] = {"weights": None, "classes": 5, "input_shape": (size, size, 3)}
    parameters = inspect.signature(make).parameters
    if "include_preprocessing" in parameters:
        options["include_preprocessing"] = True
    model = make(**options)
    x, y = rng.random((SAMPLES, size, size, 3)) * 255.0, rng.integers(0, 5, SAMPLES)
    return model, Batches([x], [y], lambda: "sparse_categorical_crossentropy", sgd)
