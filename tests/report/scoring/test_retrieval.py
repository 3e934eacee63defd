"""Precision, F1 and average precision, against their definitions written out."""

from __future__ import annotations

import numpy as np
import pytest

from hetero_mtf.report.scoring.retrieval import average_precision, f1, precision


def written_out(probability: np.ndarray, own: np.ndarray) -> float:
    """Return the sum over thresholds of precision times the increase of recall."""
    area, recall = 0.0, 0.0
    for threshold in sorted(set(probability), reverse=True):
        chosen = probability >= threshold
        here = own[chosen].sum() / own.sum()
        area, recall = area + own[chosen].mean() * (here - recall), here
    return area


@pytest.mark.parametrize("seed", range(4))
def test_average_precision_is_the_area_under_the_curve_with_ties_too(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true, p = rng.integers(0, 3, 40), rng.integers(0, 8, (40, 3)) / 8
    for c in range(3):
        assert average_precision(p, true, c) == pytest.approx(written_out(p[:, c], true == c))


def test_precision_and_f1_follow_from_counts() -> None:
    true, guess = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 0, 1, 1])
    assert precision(guess, true, 0) == pytest.approx(2 / 3) and f1(guess, true, 0) == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert precision(guess, true, 1) == pytest.approx(1 / 3) and f1(guess, true, 1) == pytest.approx(2 * 1 / (2 * 1 + 2 + 1))


def test_what_is_not_defined_is_none_and_warns_of_nothing() -> None:
    true, guess = np.array([0, 0, 1]), np.array([0, 0, 0])
    assert precision(guess, true, 1) is None and f1(guess, true, 1) == 0.0
    assert precision(guess, true, 2) is None and f1(guess, true, 2) is None
    p = np.full((3, 3), 1 / 3)
    assert average_precision(p, true, 2) is None and average_precision(p, np.zeros(3, int), 0) is None
