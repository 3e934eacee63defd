"""Which cases of a parametrised test are fast, and which of the slow ones are run."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hypothesis
import pytest

TURNS = 10  # landings in which every slow test is run once at least
DRAWN_BY_COMMIT = 0.03  # of the slow tests, besides those whose turn it is


def each(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that calls a test with each of many values, such as seeds, in one case, which names the value that fails.

    For tests of a millisecond: to collect and report a case of its own takes several.

    Parameters
    ----------
    names : of the arguments, as for `pytest.mark.parametrize`.
    values : of one argument, or a tuple of values for several.
    """
    arguments, rows = [name.strip() for name in names.split(",")], list(values)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def with_each(**others: Any) -> None:
            for row in rows:
                given = dict(zip(arguments, row if len(arguments) > 1 else (row,)))
                try:
                    test(**given, **others)
                except Exception as fault:
                    raise AssertionError(f"with {', '.join(f'{name}={value!r}' for name, value in given.items())}: {fault}") from fault

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in arguments]
        with_each.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return with_each

    return decorate


def examples(fast: int, thorough: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that sets how many examples a law has: `fast` in `make test`, `thorough` with the slow tests."""
    return hypothesis.settings(max_examples=fast if hypothesis.settings.default.derandomize else thorough)


def first_fast(values: Sequence[Any], fast: int) -> list[Any]:
    """Return the values as parameters, all but the first few of them slow: for seeds and other cases that are much alike."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*row, marks=[pytest.mark.slow] if at >= fast else []) for at, row in enumerate(rows)]


@dataclasses.dataclass(frozen=True)
class Draw:
    """Which slow tests a landing runs: those whose turn it is, and others drawn by its commit.

    Each test has its turn at every tenth landing, by a digest of its own name alone, so whatever is added or removed beside it, ten
    landings in a row run it once at least. Should a landing keep the number of the one before, the tests of its commit are others.

    Parameters
    ----------
    landing : number of the landing, which counts up.
    commit : what the other tests are drawn by.
    """

    landing: int
    commit: str

    @classmethod
    def parse(cls, text: str) -> Draw:
        """Return the draw of "LANDING:COMMIT"."""
        landing, _, commit = text.partition(":")
        return cls(int(landing), commit)

    def has(self, name: str) -> bool:
        """Return whether the test of a name is run."""
        return _number(name) % TURNS == self.landing % TURNS or _number(f"{self.commit} {name}") % 1000 < 1000 * DRAWN_BY_COMMIT


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


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
