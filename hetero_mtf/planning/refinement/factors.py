"""Factors of layers, estimated from traces and shrunk towards those of their device by their spread."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np

from hetero_mtf.planning.profile.corrections import SPLITS, LayerFactor
from hetero_mtf.planning.profile.curve import ALONE
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.observations import Observation

GRANULARITY_S = 50e-6  # a trace has microseconds, and a small operation waits for others: its ratio is that uncertain
LEAST_SPREAD = 0.02  # of ln(traced / predicted), where few traces agree by chance
LARGEST_FACTOR = 8.0

_Group = tuple[int, str, str]  # device, split, pass
_Cell = tuple[int, int, str, str]  # layer, device, split, pass


@dataclasses.dataclass(frozen=True)
class _Estimate:
    """A mean of ln(traced / predicted) with the variance of its error."""

    mean: float
    variance: float


def layer_factors(profile: Profile, observed: Sequence[Observation]) -> tuple[LayerFactor, ...]:
    """Return the factor of every layer with curves, on every device, for every split and pass.

    With y = ln(traced / predicted) of the passes of layers l on device d with split s:

        y_dspl = g_dsp + h_dspl + e,    h ~ N(0, tau^2),    e ~ N(0, v (1 + t0 / predicted)^2)

    g is ln of the ratio of all traced to all predicted seconds of the group. h is shrunk by its posterior mean,
    h = (mean y - g) tau^2 / (tau^2 + variance of mean y). v is the variance between traces of one pass, and tau^2 the
    method-of-moments estimate over the layers of the group, not below zero. A layer that was not traced has h = 0; a group that was
    not traced has the mean g of the other splits of its device and pass, else of its device, half of it, as shrunk towards 0; that of
    a device alone has 0, as what other devices do to a step tells nothing of one without them.

    Parameters
    ----------
    profile : Profile that was observed.
    observed : observations of all traces; none gives no factors.

    Notes
    -----
    Empirical Bayes. Factors are between 1/8 and 8. O(observations + factors).

    References
    ----------
    Morris, "Parametric empirical Bayes inference: theory and applications", J. Am. Stat. Assoc. 78, 1983.
    """
    if not observed:
        return ()
    cells: dict[_Cell, list[Observation]] = collections.defaultdict(list)
    for entry in observed:
        cells[entry[:4]].append(entry)
    spread = _spread(cells)
    estimates = {cell: _mean(entries, spread) for cell, entries in cells.items()}
    groups = _groups(cells)
    between = {group: _between(groups[group], [e for cell, e in estimates.items() if cell[1:] == group]) for group in groups}
    devices = sorted({entry.device for entry in observed})
    kinds = sorted({(curve.layer, curve.step_pass) for curve in profile.curves})
    factors = []
    for (layer, step_pass), device, split in itertools.product(kinds, devices, SPLITS):
        group = device, split, step_pass
        log_factor = _group_or_like(groups, group)
        cell = layer, *group
        if cell in estimates:
            estimate = estimates[cell]
            weight = between[group] / (between[group] + estimate.variance)
            log_factor += (estimate.mean - log_factor) * weight
        factors.append(LayerFactor(layer, device, split, step_pass, _bounded(log_factor)))
    return tuple(factors)


def _spread(cells: Mapping[_Cell, Sequence[Observation]]) -> float:
    """Return the standard deviation of ln(traced / predicted) between traces of one pass, the median over passes."""
    several = [np.array([entry.log_ratio for entry in entries]) for entries in cells.values() if len(entries) > 1]
    return max(LEAST_SPREAD, float(np.median([ratios.std(ddof=1) for ratios in several]))) if several else 5 * LEAST_SPREAD


def _mean(entries: Sequence[Observation], spread: float) -> _Estimate:
    """Return the median of some traces of a pass, which a disturbed one does not move, with the variance of a mean of as many."""
    uncertain = spread * (1 + GRANULARITY_S / entries[0].predicted_s)
    return _Estimate(float(np.median([entry.log_ratio for entry in entries])), uncertain**2 / len(entries))


def _groups(cells: Mapping[_Cell, Sequence[Observation]]) -> dict[_Group, float]:
    """Return g of each group that was traced."""
    traced_s: dict[_Group, float] = collections.defaultdict(float)
    predicted_s: dict[_Group, float] = collections.defaultdict(float)
    for cell, entries in cells.items():
        traced_s[cell[1:]] += float(np.median([entry.traced_s / entry.predicted_s for entry in entries])) * entries[0].predicted_s
        predicted_s[cell[1:]] += entries[0].predicted_s
    return {group: math.log(traced_s[group] / predicted_s[group]) for group in traced_s}


def _between(mean: float, estimates: Sequence[_Estimate]) -> float:
    """Return tau^2: the variance of a group's layers about its mean beyond that of their errors."""
    weights = np.array([1 / estimate.variance for estimate in estimates])
    squares = np.array([(estimate.mean - mean) ** 2 - estimate.variance for estimate in estimates])
    return max(0.0, float((weights * squares).sum() / weights.sum()))


def _group_or_like(groups: Mapping[_Group, float], group: _Group) -> float:
    if group in groups:
        return groups[group]
    device, split, step_pass = group
    if split == ALONE:
        return 0.0
    like = [g for other, g in groups.items() if other[0] == device and other[2] == step_pass]
    like = like or [g for other, g in groups.items() if other[0] == device]
    return 0.5 * float(np.mean(like)) if like else 0.0


def _bounded(log_factor: float) -> float:
    limit = math.log(LARGEST_FACTOR)
    return math.exp(min(limit, max(-limit, log_factor)))
