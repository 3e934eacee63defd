"""What every test leans on: a quiet TensorFlow, a float type that is put back, seeded numbers, and which cases are fast."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import hypothesis
import numpy as np
import pytest

from tests.cases import covering_subset

# `make test` draws the same few examples each time, `make test-all` more and new ones (--hypothesis-profile=thorough)
hypothesis.settings.register_profile("fast", deadline=None, print_blob=True, max_examples=25, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fast")


_SERIAL_FOLDERS = frozenset({"calibration", "runtime", "tools"})  # their slow tests time devices, or watch processes
_SERIAL_FIXTURES = frozenset({"start", "processes"})  # so do the slow tests that use these


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that are slow, put them last, so that what fails fast fails first, and mark those that are run one at a time."""
    for item in items:
        watches = _SERIAL_FOLDERS.intersection(item.path.parts) or _SERIAL_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if watches and item.get_closest_marker("slow") is not None:
            item.add_marker("serial")
    _mark_rest_of_cases_slow(items)
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def _mark_rest_of_cases_slow(items: Sequence[pytest.Item]) -> None:
    """Leave fast, of the cases of a test marked `covering`, a subset with every value of each parameter; mark the others slow."""
    tests = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("covering") and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for name, cases in tests.items():
        values = [tuple((argument, id(value)) for argument, value in case.callspec.params.items()) for case in cases]
        fast = covering_subset(values, random.Random(name))
        for case, chosen in zip(cases, values):
            if chosen not in fast:
                case.add_marker("slow")


def pytest_collection_finish() -> None:
    """Forget the layer type that modules fixed while they were collected, as the first test may want another; keep what is imported."""
    _forget_keras()
    gc.freeze()  # else every full collection goes through all of TensorFlow and all tests again


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
