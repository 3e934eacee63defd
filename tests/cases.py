"""Which cases of a parametrised test are fast, beside the marker `covering`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def first_fast(values: Sequence[Any], fast: int) -> list[Any]:
    """Return the values as parameters, all but the first few of them slow: for seeds and other cases that are much alike."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*row, marks=[pytest.mark.slow] if at >= fast else []) for at, row in enumerate(rows)]
