"""What every test leans on: a quiet TensorFlow, a float type that is put back, seeded numbers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import hypothesis
import numpy as np
import pytest

hypothesis.settings.register_profile("project", deadline=None, print_blob=True)
hypothesis.settings.load_profile("project")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow tests last, so that what fails fast fails first."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


@pytest.fixture(autouse=True)
def _same_float_type() -> Iterator[None]:
    keras = sys.modules.get("keras")
    before = keras.config.floatx() if keras else "float32"
    yield
    keras = sys.modules.get("keras")
    if keras and keras.config.floatx() != before:
        keras.config.set_floatx(before)


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(20260101)
