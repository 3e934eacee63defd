"""Factors of devices, links and launch overhead, estimated from whole steps and from how predictions change with each factor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

Key = tuple[int, str]
"""Device and split of layers; `LINKS`; or `LAUNCH`."""

LINKS: Key = -1, "links"
LAUNCH: Key = -1, "launch"

# Standard deviations of ln(factor): what all compute has in common, what a device adds to it, and what a split on a device adds. Steps of
# 16 drawn networks (seeds 7001 to 7016, two and three emulated devices) were off by 8 % in the mean, which is that of all three together.
COMPUTE_SPREAD = 0.05
SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)  # times which a cluster may differ from its calibration, as another load makes it
LEAST_EVIDENCE = 2.0  # ln of how many times as probable a larger scale has to make what was measured
LINKS_SPREAD = 0.4
LAUNCH_SPREAD = 0.5
STEP_SPREAD = 0.03  # of a measured step, at least
TRACE_SPREAD = 0.5  # of the traced seconds of a device and split, beside what they take in steps with other waits


class StepResidual(NamedTuple):
    """A measurement beside its prediction.

    Parameters
    ----------
    log_ratio : ln(measured / predicted).
    spread : standard deviation of ln(measured).
    slopes : d ln(predicted) / d ln(factor), by key; 0 for one that is not in it.
    """

    log_ratio: float
    spread: float
    slopes: Mapping[Key, float]


def step_factors(keys: Sequence[Key], residuals: Sequence[StepResidual], at: Mapping[Key, float]) -> dict[Key, float]:
    """Return ln of each factor: the posterior mean, given what some measurements are beside their predictions.

        r + J x_0 = J x + e,    x ~ N(0, K),    e ~ N(0, N)
        x = K J^T (J K J^T + N)^-1 (r + J x_0)

    Parameters
    ----------
    keys : (factors,) what is estimated.
    residuals : (measurements,) the measurements.
    at : ln of the factors with which the predictions r were made, x_0; 0 for one that is not in it.

    Notes
    -----
    Gaussian linear regression. K: factors of compute have a common part, one for each device and one for each split on it, so a
    split that was not run is corrected by what its device and all compute showed; links and launch overhead are independent of them.
    Of several scales of compute in K that with the largest evidence is taken, the first unless another has e^2 times as much.

    References
    ----------
    Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, section 2.1.

    Examples
    --------
    A step of which nine tenths are compute took 20 % longer.

    >>> alone = (0, "alone")
    >>> log_factors = step_factors([alone, LINKS], [StepResidual(0.18, 0.03, {alone: 0.9})], {})
    >>> round(log_factors[alone], 2), log_factors[LINKS]
    (0.17, 0.0)
    """
    if not residuals:
        return dict.fromkeys(keys, 0.0)
    slopes = np.array([[each.slopes.get(key, 0.0) for key in keys] for each in residuals])
    start = np.array([at.get(key, 0.0) for key in keys])
    noise = np.diag([each.spread**2 for each in residuals])
    # r + J x_0: brings the residuals to factors of 1, about which the prior has its mean
    wanted = np.array([each.log_ratio for each in residuals]) + slopes @ start
    priors = [np.array([[_covariance(one, other, scale) for other in keys] for one in keys]) for scale in SCALES]
    evidence = np.array([_log_evidence(slopes @ prior @ slopes.T + noise, wanted) for prior in priors])
    # a handicap in ln: the first scale stays unless another one is e^2 times as probable
    evidence[1:] -= LEAST_EVIDENCE
    prior = priors[int(np.argmax(evidence))]
    log_factors = prior @ slopes.T @ np.linalg.solve(slopes @ prior @ slopes.T + noise, wanted)
    return dict(zip(keys, log_factors.tolist()))


def _log_evidence(covariance: np.ndarray, values: np.ndarray) -> float:
    """Return ln of the probability density of some values, but for a constant."""
    return -0.5 * float(values @ np.linalg.solve(covariance, values) + np.linalg.slogdet(covariance)[1])


def _covariance(one: Key, other: Key, scale: float) -> float:
    """Return the covariance of two factors before anything is measured."""
    apart = {LINKS: LINKS_SPREAD, LAUNCH: LAUNCH_SPREAD}
    if one in apart or other in apart:
        return apart[one] ** 2 if one == other else 0.0
    # equal variances of three parts: common to all compute, of the device, of the split on it
    return (scale * COMPUTE_SPREAD) ** 2 * (1 + (one[0] == other[0]) + (one == other))
