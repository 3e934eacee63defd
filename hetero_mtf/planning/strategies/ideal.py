"""A lower bound of the step of any plan: every device computes all the time, and there is no communication."""

from __future__ import annotations

import collections
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from hetero_mtf.layers import kind_of
from hetero_mtf.planning.cost.layer_cost import Costs
from hetero_mtf.planning.cost.step_cost import launch_s
from hetero_mtf.planning.layout.arrangement import splits_batch


def least_step_s(costs: Costs, devices: Sequence[int]) -> float:
    """Return seconds that no plan on some devices can be predicted below, whatever its layouts, sizes and mesh.

    A device d does at most r_kd of a layer's pass k a second, over all its sizes. Let w_d be weights of sum 1, and T_d the seconds of
    compute of device d. The slowest device takes at least sum_d w_d T_d, and each pass adds at least min_d w_d / r_kd to that, as the
    devices' parts make up all of it.
    So a step takes at least

        max_w sum_k min_d w_d / r_kd    subject to    w >= 0, sum_d w_d = 1.

    Parameters
    ----------
    costs : Costs of a profile.
    devices : indices of the devices.

    Notes
    -----
    A linear program, solved by HiGHS, with one variable a device and one a kind of pass. Communication, idle time and
    the updates are not in it, so the step of the best plan may be well above. O(kinds * devices) constraints.
    """
    seconds, counts = _least_seconds(costs, devices)
    if not len(counts):
        return launch_s(costs)
    # variables w_d, and u_k = min_d w_d / r_kd as u_k - w_d / r_kd <= 0 for all d; the goal -sum_k n_k u_k has n_k passes of kind k
    scale = seconds.sum(axis=0).max()
    kinds, count = seconds.shape
    rows = np.zeros((kinds * count, count + kinds))
    at = np.arange(kinds * count)
    rows[at, at % count] = -seconds.reshape(-1) / scale
    rows[at, count + at // count] = 1.0
    goal = np.concatenate([np.zeros(count), -counts])
    sum_row = np.concatenate([np.ones(count), np.zeros(kinds)])[None]
    solved = linprog(goal, A_ub=rows, b_ub=np.zeros(kinds * count), A_eq=sum_row, b_eq=[1.0], bounds=(0, None))
    # for any weights the sum is a lower bound: so it is taken from the weights and not from the solver's optimum, which has a tolerance
    weights = np.full(count, 1 / count) if solved.status != 0 else np.clip(solved.x[:count], 0, None)
    return launch_s(costs) + float((counts * (weights / weights.sum() * seconds).min(axis=1)).sum())


def _least_seconds(costs: Costs, devices: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the (passes, devices) seconds of each kind of pass at a device's best rate, and how many passes are of that kind."""
    counted = collections.Counter(costs.alike)
    undisturbed = costs.undisturbed(devices)
    least_s, counts = [], []
    for layer, count in counted.items():
        for step_pass in ("forward", "backward") if costs.trains_before[layer] else ("forward",):
            rates = _rates(costs, layer, step_pass)[list(devices)]
            if np.isfinite(rates).all():
                alone_part = np.min([costs.tables.alone_part(layer, step_pass, layout) for layout in ("split", "replicated")], axis=0)
                least_s.append(np.where(undisturbed, alone_part[list(devices)], 1.0) / rates)
                counts.append(count)
    return np.array(least_s), np.array(counts, float)


def _rates(costs: Costs, layer: int, step_pass: str) -> np.ndarray:
    """Return the (devices,) largest part of a layer's pass that each device does a second; infinite where it takes no time."""
    entry, rows = costs.graph.layers[layer], costs.tables.rows
    by_channels = np.max([_best(rows(layer, layout, step_pass), layout) for layout in sorted(kind_of(entry).layouts(entry))], axis=0)
    if not splits_batch(entry):
        return np.asarray(by_channels)
    batch = rows(layer, "batch", step_pass)
    full_s = batch[:, -1]
    by_samples = _best(batch, "batch")
    gain = np.where(full_s > 0, by_samples * np.where(full_s > 0, full_s, 1.0), 1.0)
    rates: np.ndarray = np.maximum(by_channels * np.maximum(gain, 1.0), by_samples)
    return rates


def _best(rows: np.ndarray, layout: str) -> np.ndarray:
    """Return the largest part of a layer done a second, over all sizes."""
    if layout == "replicated":
        rows = np.column_stack([np.zeros(len(rows)), rows[:, -1]])
    parts = np.arange(rows.shape[1]) / (rows.shape[1] - 1)
    with np.errstate(divide="ignore"):
        best_rates: np.ndarray = np.where(rows[:, 1:] > 0, parts[1:] / np.where(rows[:, 1:] > 0, rows[:, 1:], 1.0), np.inf).max(axis=1)
    return best_rates
