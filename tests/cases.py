"""Which cases of a parametrised test are fast, and which of the slow ones are run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest


def first_fast(values: Sequence[Any], fast: int) -> list[Any]:
    """Return the values as parameters, all but the first few of them slow: for seeds and other cases that are much alike."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*row, marks=[pytest.mark.slow] if at >= fast else []) for at, row in enumerate(rows)]


def drawn_half(names: Sequence[str], seed: str) -> set[str]:
    """Return half of the names of a test's cases, rounded up, another half for another seed.

    Parameters
    ----------
    names : identifiers of cases, of one test.
    seed : what the draw depends on, besides the names; such as a commit.
    """
    ordered = sorted(names)
    return set(random.Random(f"{seed} {ordered[:1]}").sample(ordered, (len(ordered) + 1) // 2))


def covering_subset(cases: Sequence[tuple[tuple[str, int], ...]], generator: random.Random) -> set[tuple[tuple[str, int], ...]]:
    """Return few of the cases, such that every (parameter, value) of them occurs, each value about as often as the others."""
    uncovered = {pair for case in cases for pair in case}
    order = generator.sample(cases, len(cases))
    uses: Counter[tuple[str, int]] = Counter()
    subset = set()
    while uncovered:
        best = max(order, key=lambda case: (len(uncovered.intersection(case)), -sum(uses[pair] for pair in case)))
        subset.add(best)
        uncovered.difference_update(best)
        uses.update(best)
    return subset
