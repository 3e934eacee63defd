"""Reliability, against scikit-learn and small cases by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from hetero_mtf.report.scoring.reliability import Bin, reliability


def test_four_samples_by_hand() -> None:
    fit = reliability([0.05, 0.25, 0.25, 0.95], [False, True, False, True], bins=4)
    assert fit.bins == (
        Bin(0.0, 0.25, 3, pytest.approx(0.55 / 3), pytest.approx(1 / 3)),  # 0.25 is the limit of the lower one
        Bin(0.25, 0.5, 0),
        Bin(0.5, 0.75, 0),
        Bin(0.75, 1.0, 1, pytest.approx(0.95), 1.0),
    )
    assert fit.brier == pytest.approx((0.05**2 + 0.75**2 + 0.25**2 + 0.05**2) / 4)
    assert fit.error == pytest.approx(3 / 4 * (1 / 3 - 0.55 / 3) + 1 / 4 * 0.05)


@pytest.mark.parametrize("seed", range(5))
def test_the_curve_and_the_brier_score_are_those_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 21, 60) / 20 if seed % 2 else rng.uniform(size=60)
    own = rng.uniform(size=60) < p
    fit = reliability(p, own)
    full = [bin for bin in fit.bins if bin.samples]
    fractions, means = calibration_curve(own, p, n_bins=10)
    np.testing.assert_allclose([bin.fraction for bin in full], fractions)
    np.testing.assert_allclose([bin.mean_probability for bin in full], means)
    assert fit.brier == pytest.approx(brier_score_loss(own, p)) and sum(bin.samples for bin in fit.bins) == 60
    assert [sum((p > bin.low) & (p <= bin.high)) + (bin.low == 0) * sum(p == 0) for bin in fit.bins] == [bin.samples for bin in fit.bins]


@pytest.mark.parametrize("own", [False, True])
def test_one_sample_and_one_class_alone_are_fine(own: bool) -> None:
    fit = reliability([0.75], [own])
    assert fit.brier == pytest.approx((0.75 - own) ** 2) and fit.error == pytest.approx(abs(0.75 - own))
    assert sum(bin.samples for bin in fit.bins) == 1


def test_certain_predictions_that_are_right_have_no_error() -> None:
    fit = reliability([0.0, 1.0, 1.0], [False, True, True])
    assert fit.brier == fit.error == 0.0 and (fit.bins[0].samples, fit.bins[-1].samples) == (1, 2)
