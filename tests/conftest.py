"""What every test leans on: a quiet TensorFlow, a float type that is put back, seeded numbers, and which cases are run."""

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

from tests.cases import covering_subset, drawn_half

# `make test` draws the same few examples each time, `make test-all` more and new ones (--hypothesis-profile=thorough)
hypothesis.settings.register_profile("fast", deadline=None, print_blob=True, max_examples=25, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fast")


_SERIAL_FOLDERS = frozenset({"calibration", "runtime", "tools"})  # their slow tests time devices, or watch processes
_SERIAL_FIXTURES = frozenset({"processes"})  # so do the slow tests that use these


_FEW_SLOW = 8  # slow cases of one test that are all run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of how slow cases are drawn."""
    parser.addoption("--drawn", metavar="SEED", help=f"Of a test's slow cases, if more than {_FEW_SLOW}, run half, drawn by this seed.")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the seed by which slow cases were drawn."""
    seed = config.getoption("--drawn")
    if seed is not None:
        terminalreporter.write_line(f"slow cases drawn by --drawn={seed}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases that are slow, put them last, so that what fails fast fails first, and mark those that are run one at a time."""
    _mark_rest_of_cases_slow(items)
    _leave_out_undrawn(config, items)
    for item in items:
        watches = _SERIAL_FOLDERS.intersection(item.path.parts) or _SERIAL_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if watches and item.get_closest_marker("slow") is not None:
            item.add_marker("serial")
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def _mark_rest_of_cases_slow(items: Sequence[pytest.Item]) -> None:
    """Leave few of the cases of some tests fast: marked `covering`, with every value of each parameter; marked `few(n)`, n of them."""
    tests: dict[tuple[str, int], list[pytest.Function]] = defaultdict(list)
    for item in items:
        few = item.get_closest_marker("few")
        if isinstance(item, pytest.Function) and (few or item.get_closest_marker("covering")) and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0], few.args[0] if few else 0].append(item)
    for (name, count), cases in tests.items():
        for case in _rest(cases, count, random.Random(name)):
            case.add_marker("slow")


def _leave_out_undrawn(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep half of the slow cases of tests that have many, where the command says by which seed."""
    seed = config.getoption("--drawn")
    if seed is None:
        return
    tests: dict[str, list[str]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") is not None:
            tests[item.nodeid.partition("[")[0]].append(item.nodeid)
    undrawn = {name for cases in tests.values() if len(cases) > _FEW_SLOW for name in {*cases} - drawn_half(cases, seed)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in undrawn])
    items[:] = [item for item in items if item.nodeid not in undrawn]


def _rest(cases: Sequence[pytest.Function], count: int, generator: random.Random) -> list[pytest.Function]:
    """Return the cases that are not among `count` drawn ones; with a count of 0, not among those that have every value."""
    if count:
        drawn = generator.sample(range(len(cases)), min(count, len(cases)))
        return [case for at, case in enumerate(cases) if at not in drawn]
    values = [tuple((argument, id(value)) for argument, value in case.callspec.params.items()) for case in cases]
    subset = covering_subset(values, generator)
    return [case for case, chosen in zip(cases, values) if chosen not in subset]


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
