"""What every test leans on: a quiet TensorFlow, a float type that is put back, seeded numbers, and which cases are run."""

from __future__ import annotations

import gc
import os
import pathlib
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["KERAS_BACKEND"] = "tensorflow"

import hypothesis
import numpy as np
import pytest

from hetero_mtf.runtime import ports
from tests import older_keras
from tests.cases import Draw, covering_subset

# `make test` draws the same few examples each time, `make test-all` more and new ones (--hypothesis-profile=thorough)
hypothesis.settings.register_profile("fast", deadline=None, print_blob=True, max_examples=25, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fast")


_SERIAL_FOLDERS = frozenset({"calibration", "runtime", "tools"})  # their slow tests time devices, or watch processes
_SERIAL_FIXTURES = frozenset({"processes"})  # so do the slow tests that use these
_HOSTS = pathlib.Path(__file__).resolve().parent / "hosts"


_CHOSEN = ("fast", "few", "covering")  # marks by which few cases of a test are fast
_SLOW_UNTIL = "SLOW_TESTS_UNTIL"  # the time, in seconds since 1970, after which no slow test is started
_LEFT_OUT = "left out, as the time for slow tests is over"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of which tests are run."""
    parser.addoption("--hosts", action="store_true", help="Run the tests of several hosts, which are left out else.")
    parser.addoption("--drawn", metavar="LANDING:COMMIT", type=Draw.parse, help="Run the slow tests and the laws drawn by these alone.")


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker that tests get by themselves."""
    config.addinivalue_line("markers", "law: a law of Hypothesis, which more examples may break")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what slow tests were drawn by, and how many were not started in time."""
    draw = config.getoption("--drawn")
    if draw is not None:
        terminalreporter.write_line(f"slow tests drawn by --drawn={draw.landing}:{draw.commit}")
    left = sum(_LEFT_OUT in str(report.longrepr) for report in terminalreporter.getreports("skipped"))
    if left:
        terminalreporter.write_line(f"{left} slow tests {_LEFT_OUT}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start no slow test once the time for them is over."""
    until = os.environ.get(_SLOW_UNTIL)
    if until and time.time() > float(until) and (item.get_closest_marker("slow") or item.get_closest_marker("law")):
        pytest.skip(_LEFT_OUT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the cases that are slow, put them last, so that what fails fast fails first, and mark those that are run one at a time."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("law")
    _mark_rest_of_cases_slow(items)
    if not config.getoption("--hosts"):
        config.hook.pytest_deselected(items=[item for item in items if _HOSTS in item.path.parents])
        items[:] = [item for item in items if _HOSTS not in item.path.parents]
    config.hook.pytest_deselected(items=_leave_out_undrawn(config.getoption("--drawn"), items))
    for item in items:
        watches = _SERIAL_FOLDERS.intersection(item.path.parts) or _SERIAL_FIXTURES.intersection(getattr(item, "fixturenames", ()))
        if watches and item.get_closest_marker("slow") is not None:
            item.add_marker("serial")
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def _mark_rest_of_cases_slow(items: Sequence[pytest.Item]) -> None:
    """Leave few of the cases of some tests fast.

    These are, of a test marked `fast(NAME, ...)`, the cases named; of one marked `covering`, few cases that have every value of each
    parameter; of one marked `few(n)`, n cases drawn by its name.
    """
    tests: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if isinstance(item, pytest.Function) and any(map(item.get_closest_marker, _CHOSEN)) and not item.get_closest_marker("slow"):
            tests[item.nodeid.partition("[")[0]].append(item)
    for name, cases in tests.items():
        for case in _rest(cases, random.Random(name)):
            case.add_marker("slow")


def _leave_out_undrawn(draw: Draw | None, items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that a draw leaves out, slow ones and laws, and take them out of the list."""
    undrawn = {id(item) for item in items if draw and not draw.has(item.nodeid) and any(map(item.get_closest_marker, ("slow", "law")))}
    left_out = [item for item in items if id(item) in undrawn]
    items[:] = [item for item in items if id(item) not in undrawn]
    return left_out


def _rest(cases: Sequence[pytest.Function], generator: random.Random) -> list[pytest.Function]:
    """Return the cases of a test that are not among those that its mark leaves fast."""
    named, few = cases[0].get_closest_marker("fast"), cases[0].get_closest_marker("few")
    if named is not None:
        unknown = sorted(set(named.args) - {case.callspec.id for case in cases})
        if unknown and not any("[" in argument for argument in cases[0].config.args):  # else other cases were not asked for
            raise pytest.UsageError(f"{cases[0].originalname} has no case {', '.join(unknown)} that could be fast")
        return [case for case in cases if case.callspec.id not in named.args]
    if few is not None:
        drawn = generator.sample(range(len(cases)), min(few.args[0], len(cases)))
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Skip what an older Keras cannot do by itself."""
    try:
        return (yield)
    except Exception as fault:
        reason = older_keras.skip_reason(fault)
        if reason is None:
            raise
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def _keras_put_back() -> Iterator[None]:
    """After each test Keras makes float32 layers again, so a test may call `keras.config.set_floatx("float64")`."""
    older_keras.adapt()
    yield
    _forget_keras()


@pytest.fixture(autouse=True, scope="session")
def _ports_of_its_own() -> None:
    """Let test processes that run beside each other choose ports from ranges of their own."""
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    place = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % count  # one that starts again has a higher number
    length = (ports.LAST_PORT - ports.FIRST_PORT) // count
    ports.FIRST_PORT += place * length
    ports.LAST_PORT = ports.FIRST_PORT + length


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a random generator with a fixed seed."""
    return np.random.default_rng(20260101)
