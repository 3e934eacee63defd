"""A plugin of pytest: coverage.py's records name the test that ran each line.

Load it under coverage with `-p tools.mutants.contexts`; in every process of pytest-xdist the name is that of the test that runs there.
"""

from __future__ import annotations

from collections.abc import Iterator

import coverage
import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Name the test while it runs, its fixtures included, and nothing between two tests."""
    running = coverage.Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)
    try:
        return (yield)
    finally:
        if running is not None:
            running.switch_context("")
