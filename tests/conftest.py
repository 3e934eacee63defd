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


_SERIAL = frozenset({"calibration", "commands", "runtime", "tools"})  # folders whose slow tests time devices, or watch processes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slow tests last, so that what fails fast fails first, and mark those that are run one at a time."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)
    for item in items:
        if item.get_closest_marker("slow") is not None and _SERIAL.intersection(item.path.parts):
            item.add_marker("serial")


def pytest_collection_finish() -> None:
    """Forget the layer type that modules fixed while they were collected: the first test may want another."""
    _forget_keras()


def _forget_keras() -> None:
    keras = sys.modules.get("keras")
    if keras is None:
        return
    keras.config.set_floatx("float32")
    keras.utils.clear_session(free_memory=False)  # forgets the policy made from the old float type, and layer names


@pytest.fixture(autouse=True)
def _keras_put_back() -> Iterator[None]:
    """After each test Keras makes float32 layers again, so a test may call `keras.config.set_floatx("float64")`."""
    yield
    _forget_keras()


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(20260101)
