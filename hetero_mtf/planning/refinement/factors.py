"""Factors of layers relative to each other, estimated from traces and shrunk by their spread, and levels of their devices."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from hetero_mtf.planning.profile.corrections import SPLITS, LayerFactor
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.planning.refinement.observations import Observation

GRANULARITY_S = 50e-6  # a trace has microseconds, and a small operation waits for others: its ratio is that uncertain
LEAST_SPREAD = 0.02  # of ln(traced / predicted), where few traces agree by chance
LARGEST_FACTOR = 8.0

Level = tuple[int, str]
"""Device and split, whose layers have a factor in common."""

Cell = tuple[int, int, str, str]
"""Layer, device, split and pass."""

_Group = TypeVar("_Group", bound=Hashable)
_Cells = Mapping[Cell, Sequence[Observation]]


@dataclasses.dataclass(frozen=True)
class _Estimate:
    """A mean of ln(traced / predicted) with the variance of its error."""

    mean: float
    variance: float


def relative_factors(observed: Sequence[Observation]) -> dict[Cell, float]:
    """Return ln of the factor of each traced layer, device, split and pass, relative to all layers of that device, split and pass.

    With y = ln(traced / predicted) of the passes of layers l on device d with split s:

        y_dspl = g_dsp + h_dspl + e,    h ~ N(0, tau^2),    e ~ N(0, v (1 + t0 / predicted)^2)

    g is ln of the ratio of all traced to all predicted seconds of the group. What is returned is the posterior mean
    h = (mean y - g) tau^2 / (tau^2 + variance of mean y). v is the variance between traces of one pass, and tau^2 the
    method-of-moments estimate over the layers of the group, not below zero.

    Parameters
    ----------
    observed : observations of all traces; none gives no factors.

    Notes
    -----
    Empirical Bayes. The level g is left to whole steps, see `step_factors`: a device whose use is limited rests while it waits for
    others, and the operation after it then runs faster than in a step without waits. O(observations).

    References
    ----------
    Morris, "Parametric empirical Bayes inference: theory and applications", J. Am. Stat. Assoc. 78, 1983.
    """
    cells = _cells(observed)
    spread = _spread(cells)
    estimates = {cell: _mean(entries, spread) for cell, entries in cells.items()}
    ratios = _ratios(cells, lambda cell: (cell[1], cell[2], cell[3]))
    between = {group: _between(ratios[group], [e for cell, e in estimates.items() if cell[1:] == group]) for group in ratios}
    return {
        cell: (estimate.mean - ratios[cell[1:]]) * between[cell[1:]] / (between[cell[1:]] + estimate.variance)
        for cell, estimate in estimates.items()
    }


def traced_levels(observed: Sequence[Observation]) -> dict[Level, float]:
    """Return ln of the ratio of all traced to all predicted seconds of each device and split.

    Parameters
    ----------
    observed : observations of all traces.
    """
    return _ratios(_cells(observed), lambda cell: (cell[1], cell[2]))


def device_levels(observed: Sequence[Observation]) -> dict[int, float]:
    """Return ln of the ratio of all traced to all predicted seconds of each device.

    Parameters
    ----------
    observed : observations of all traces.
    """
    return _ratios(_cells(observed), lambda cell: cell[1])


def layer_factors(profile: Profile, levels: Mapping[Level, float], relative: Mapping[Cell, float]) -> tuple[LayerFactor, ...]:
    """Return the factor of every layer with curves, for every device, split and pass of which something is known.

    Parameters
    ----------
    profile : Profile whose curves they correct.
    levels : ln of the factor of all layers by device and split.
    relative : ln of the factor of a layer beside that, by layer, device, split and pass.

    Notes
    -----
    Factors are between 1/8 and 8.
    """
    kinds = sorted({(curve.layer, curve.step_pass) for curve in profile.curves})
    factors = []
    for (layer, step_pass), (device, split) in itertools.product(kinds, sorted(levels)):
        log_factor = levels[device, split] + relative.get((layer, device, split, step_pass), 0.0)
        if log_factor:
            factors.append(LayerFactor(layer, device, split, step_pass, _bounded(log_factor)))
    return tuple(factors)


def all_levels(devices: Sequence[int]) -> list[Level]:
    """Return every pair of a device and a split."""
    return list(itertools.product(devices, SPLITS))


def _cells(observed: Sequence[Observation]) -> _Cells:
    cells: dict[Cell, list[Observation]] = collections.defaultdict(list)
    for entry in observed:
        cells[entry[:4]].append(entry)
    return cells


def _spread(cells: _Cells) -> float:
    """Return the standard deviation of ln(traced / predicted) between traces of one pass, the median over passes."""
    several = [np.array([entry.log_ratio for entry in entries]) for entries in cells.values() if len(entries) > 1]
    return max(LEAST_SPREAD, float(np.median([ratios.std(ddof=1) for ratios in several]))) if several else 5 * LEAST_SPREAD


def _mean(entries: Sequence[Observation], spread: float) -> _Estimate:
    """Return the median of some traces of a pass, which a disturbed one does not move, with the variance of a mean of as many."""
    uncertain = spread * (1 + GRANULARITY_S / entries[0].predicted_s)
    return _Estimate(float(np.median([entry.log_ratio for entry in entries])), uncertain**2 / len(entries))


def _ratios(cells: _Cells, group_of: Callable[[Cell], _Group]) -> dict[_Group, float]:
    """Return ln of the ratio of all traced to all predicted seconds of each group."""
    traced_s: dict[_Group, float] = collections.defaultdict(float)
    predicted_s: dict[_Group, float] = collections.defaultdict(float)
    for cell, entries in cells.items():
        group = group_of(cell)
        traced_s[group] += float(np.median([entry.traced_s / entry.predicted_s for entry in entries])) * entries[0].predicted_s
        predicted_s[group] += entries[0].predicted_s
    return {group: math.log(traced_s[group] / predicted_s[group]) for group in traced_s}


def _between(mean: float, estimates: Sequence[_Estimate]) -> float:
    """Return tau^2: the variance of a group's layers about its mean beyond that of their errors."""
    weights = np.array([1 / estimate.variance for estimate in estimates])
    squares = np.array([(estimate.mean - mean) ** 2 - estimate.variance for estimate in estimates])
    return max(0.0, float((weights * squares).sum() / weights.sum()))


def _bounded(log_factor: float) -> float:
    limit = math.log(LARGEST_FACTOR)
    return math.exp(min(limit, max(-limit, log_factor)))
