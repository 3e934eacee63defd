from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hetero_mtf.report.intervals import area_interval, logit_interval, mean_of_proportions, quantile, wilson

confidences = st.sampled_from([0.5, 0.9, 0.95, 0.99])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.floats(0, 1), confidences)
def test_wilsons_interval_is_that_of_scipy(of: int, share: float, confidence: float) -> None:
    right = round(share * of)
    expected = stats.binomtest(right, of).proportion_ci(confidence, method="wilson")
    np.testing.assert_allclose(wilson(right, of, confidence), expected, atol=1e-12)


@pytest.mark.parametrize("of", [1, 7, 1000])
def test_wilsons_interval_reaches_the_ends_exactly(of: int) -> None:
    assert wilson(0, of)[0] == 0.0 and wilson(of, of)[1] == 1.0
    assert 0.0 < wilson(of, of)[0] < 1.0 and 0.0 < wilson(0, of)[1] < 1.0


def test_the_mean_of_one_proportion_has_its_wilson_interval() -> None:
    for right, of in [(0, 5), (3, 5), (5, 5), (70, 90)]:
        np.testing.assert_allclose(mean_of_proportions([(right, of)]), wilson(right, of), atol=1e-15)


def test_the_interval_of_the_mean_of_two_proportions_is_half_of_newcombes_for_a_difference() -> None:
    # table II of Newcombe 1998, case (a), method 10: 56/70 - 48/80 = 0.2 from 0.0524 to 0.3339; p1 + p2 = 1 + p1 - (1 - p2)
    low, high = mean_of_proportions([(56, 70), (80 - 48, 80)])
    np.testing.assert_allclose([2 * low - 1, 2 * high - 1], [0.0524, 0.3339], atol=5e-5)


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 1), st.integers(1, 60), st.integers(1, 60), confidences)
def test_the_limits_of_an_area_solve_its_equation(area: float, m: int, n: int, confidence: float) -> None:
    area = round(area * m * n) / (m * n)
    z, more = quantile(confidence), (m + n) / 2 - 1
    low, high = area_interval(area, m, n, confidence)
    assert 0.0 <= low <= area <= high <= 1.0
    for limit in (low, high):
        spread = limit * (1 - limit) * (1 + more * ((1 - limit) / (2 - limit) + limit / (1 + limit))) / (m * n)
        assert (area - limit) ** 2 == pytest.approx(z**2 * spread, abs=1e-9)
    np.testing.assert_allclose(area_interval(1 - area, m, n, confidence), (1 - high, 1 - low), atol=1e-9)


def test_an_area_of_one_has_a_lower_limit_below_it_that_rises_with_the_samples() -> None:
    lows = [area_interval(1.0, n, n)[0] for n in (1, 5, 20, 100)]
    assert lows == sorted(lows) and 0.0 < lows[0] and lows[-1] < 1.0
    assert area_interval(0.0, 20, 20)[0] == 0.0


def test_a_logit_interval_is_symmetric_on_its_scale_and_stays_inside() -> None:
    low, high = logit_interval(0.9, 0.05**2)
    odds = [np.log(v / (1 - v)) for v in (low, 0.9, high)]
    assert odds[1] - odds[0] == pytest.approx(odds[2] - odds[1]) == pytest.approx(1.959964 * 0.05 / 0.09)
    assert 0.0 < logit_interval(0.999, 0.01)[0] < logit_interval(0.999, 0.01)[1] <= 1.0
