from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from sklearn.metrics import roc_auc_score

from hetero_mtf.report.intervals import area_interval, quantile
from hetero_mtf.report.roc import area, areas, mean_area


def drawn(seed: int, sizes: tuple[int, ...], ties: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    true = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    p = special.softmax(rng.normal(size=(len(true), len(sizes))) + 1.2 * np.eye(len(sizes))[true], axis=1)
    return (np.round(p, 1) if ties else p), true


def variance(value: float, limits: tuple[float, float]) -> float:
    """Return the variance that a logit interval was made of."""
    return ((special.logit(limits[1]) - special.logit(value)) * value * (1 - value) / quantile(0.95)) ** 2


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 999), st.lists(st.integers(1, 9), min_size=2, max_size=4), st.booleans())
def test_areas_and_components_are_those_of_counting_pairs(seed: int, sizes: list[int], ties: bool) -> None:
    p, true = drawn(seed, tuple(sizes), ties)
    each, components = areas(p, true)
    for c in range(len(sizes)):
        beats = (p[:, None, c] > p[None, :, c]) + 0.5 * (p[:, None, c] == p[None, :, c])
        for i in range(len(true)):
            expected = beats[i, true != c].mean() if true[i] == c else beats[true == c, i].mean()
            assert components[i, c] == pytest.approx(expected)
        assert each[c] == pytest.approx(roc_auc_score(true == c, p[:, c]))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("sizes", [(2, 3), (20, 12), (7, 40)])
def test_the_variance_of_an_area_is_delongs(sizes: tuple[int, int], ties: bool) -> None:
    p, true = drawn(3, sizes, ties)
    value, limits = area(p, true, 1)
    assert value == pytest.approx(roc_auc_score(true, p[:, 1]))
    x, y = p[true == 1, 1], p[true == 0, 1]
    beats = np.array([[(a > b) + 0.5 * (a == b) for b in y] for a in x])
    delong = beats.mean(axis=1).var(ddof=1) / len(x) + beats.mean(axis=0).var(ddof=1) / len(y)
    assert variance(value, limits) == pytest.approx(delong)


def test_the_area_of_the_other_class_is_the_same_of_two() -> None:
    p, true = drawn(0, (9, 14), ties=False)
    np.testing.assert_allclose(area(p, true, 0)[1], area(p, true, 1)[1])
    np.testing.assert_allclose(mean_area(p, true)[1], area(p, true, 1)[1])


@pytest.mark.slow
def test_the_mean_area_of_three_classes_is_scikit_learns_and_varies_as_drawing_again_within_classes_does() -> None:
    p, true = drawn(1, (40, 60, 50), ties=False)
    value, limits = mean_area(p, true)
    assert value == pytest.approx(roc_auc_score(true, p, multi_class="ovr", average="macro"))
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(true == c) for c in range(3)]
    again = [np.concatenate([rng.choice(m, len(m)) for m in members]) for _ in range(500)]
    assert np.sqrt(variance(value, limits)) == pytest.approx(np.std([areas(p[i], true[i])[0].mean() for i in again]), rel=0.12)


@pytest.mark.slow
def test_its_intervals_hold_the_true_area_about_as_often_as_they_say() -> None:
    true_area = special.ndtr(1.5 / np.sqrt(2))
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        true = np.repeat([0, 1], [20, 25])
        score = rng.normal(size=45) + 1.5 * true
        low, high = area(np.stack([-score, score], axis=1), true, 1)[1]
        held += low <= true_area <= high
    assert 0.92 <= held / 300 <= 0.985


@pytest.mark.parametrize(
    ("score", "true", "value"),
    [
        ([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], 1.0),
        ([0.9, 0.8, 0.2, 0.1], [0, 0, 1, 1], 0.0),
        ([0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1], 0.5),
        ([0.1, 0.3, 0.2], [0, 0, 1], 0.5),
        ([0.1, 0.2], [0, 1], 1.0),
    ],
)
def test_where_nothing_varies_the_interval_is_newcombes(score: list[float], true: list[int], value: float) -> None:
    p = np.stack([1 - np.array(score), np.array(score)], axis=1)
    found, limits = area(p, np.array(true), 1)
    assert found == pytest.approx(value)
    np.testing.assert_allclose(limits, area_interval(value, sum(true), len(true) - sum(true)))
    assert limits[0] < limits[1]


def test_three_classes_that_are_all_told_apart_have_the_mean_of_newcombes_limits() -> None:
    true = np.repeat([0, 1, 2], [3, 4, 5])
    value, limits = mean_area(np.eye(3)[true], true)
    expected = [area_interval(1.0, m, 12 - m)[0] for m in (3, 4, 5)]
    assert value == 1.0 and limits[1] == 1.0 and limits[0] == pytest.approx(np.mean(expected))


def test_areas_do_not_change_under_what_keeps_the_order() -> None:
    p, true = drawn(5, (8, 8), ties=False)
    for turned, (a, b) in itertools.product([lambda v: v**3, lambda v: special.logit(v)], [(0, 1)]):
        np.testing.assert_allclose(area(turned(p), true, b)[1], area(p, true, b)[1])
        np.testing.assert_allclose(area(turned(p), true, a)[0], area(p, true, a)[0])
