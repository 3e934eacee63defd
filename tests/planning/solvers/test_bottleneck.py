from __future__ import annotations

import math

import numpy as np

from hetero_mtf.planning.solvers.bottleneck import LeastSum, minimise
from tests.cases import each


def table(seed: int) -> list[tuple[float, ...]]:
    rng = np.random.default_rng(seed)
    return [tuple(rng.integers(1, 40, rng.integers(1, 5)).astype(float).tolist()) for _ in range(30)]


@each("weight", [0.0, 1.0, 7.0, 100.0])
@each("seed", range(12))
def test_the_least_is_found_whatever_weighs_the_largest(seed: int, weight: float) -> None:
    answers = table(seed)

    def solve(limit: float, below: float) -> LeastSum[tuple[float, ...]] | None:
        return min((LeastSum(sum(a), max(a), a) for a in answers if max(a) <= limit and sum(a) < below), default=None)

    terms = np.unique(np.concatenate([np.array(a) for a in answers]))
    found = minimise(solve, weight, terms)
    assert found.value == found.bound == min(sum(a) + weight * max(a) for a in answers)
    assert found.answer is not None and sum(found.answer) + weight * max(found.answer) == found.value


def test_nothing_is_found_where_nothing_is() -> None:
    found = minimise(lambda limit, below: None, 1.0, np.array([1.0]))
    assert found.answer is None and math.isinf(found.value) and math.isinf(found.bound)
