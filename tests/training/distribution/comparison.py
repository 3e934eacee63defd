"""What the tests of distributed models compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

ATOL = 1e-11


def made(make: Callable[[], keras.Model]) -> keras.Model:
    """Return a model from the same random numbers, with the same names, each time."""
    keras.utils.clear_session(free_memory=False)  # names of metrics are counted
    keras.utils.set_random_seed(1)
    return make()


def state(model: keras.Model) -> Any:
    """Return a model's weights, and its optimizer's slots and steps."""
    variables = [np.array(variable.value) for variable in model.optimizer.variables if np.array(variable.value).dtype.kind == "f"]
    return model.get_weights(), variables, int(model.optimizer.iterations)


def compare(found: Any, expected: Any) -> None:
    """Assert that nested values are the same."""
    keras.tree.assert_same_structure(found, expected)
    for one, other in zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True):
        if isinstance(other, str):
            assert one == other
        else:
            assert np.shape(one) == np.shape(other)
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-10, atol=ATOL)
