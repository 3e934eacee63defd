"""A lower bound of J from divisible work, without memory limits.

The work of block i is w_i = min_g seconds[g, i], W = sum_i w_i. Device d does at most r_d units of work a second, each at p_d seconds at
least (`Fluid`). With y_d the work of device d, n(T) the least number of stages of at most T seconds that do W, and C(n) the sum of the
n - 1 least transfers at different boundaries:

    bound = min_{T >= T_0} E(T) + (M - 1) * T + C(n(T)),    T_0 = max(max_i w_i, W / sum_d r_d)
    E(T)  = min { sum_d p_d * y_d : sum_d y_d = W, 0 <= y_d <= r_d * T }

T_0 is a lower bound of L too: a load is at least the seconds of its stage.
"""

from __future__ import annotations

import math

import numpy as np

from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.names import LARGEST_LOAD


class Fluid:
    """The fluid relaxation of a chain: blocks are divisible, in any order, and memory and most transfers are free.

    The work of a block is its seconds on the group that is fastest at it. A group takes at least r_g seconds a unit, r_g the least
    of seconds / work over all blocks, so a stage of at most T seconds does T / r_g units at most; an equal part of that is attributed
    to each device of the group. So a set of devices does at most T * sum of rate_d, rate_d the most over the groups of d of
    1 / (r_g * devices of g), at price_d seconds a unit at least, price_d the least r_g over the groups of d.

    Attributes
    ----------
    work : (blocks + 1,) array of float, seconds of all blocks before each on the groups that are fastest at them.
    order : (devices,) devices by price; those in no group are left out.
    price, rate : (devices,) array of float, in that order.
    group_rate : (groups,) array of float, 1 / r_g, the largest first: n stages of T seconds do at most T times the first n of them.
    sent_s : (blocks + 1,) array of float, least seconds of a transfer at each boundary; 0 before the first block and after the last.
    least_largest_s : T_0, seconds: a lower bound of the largest stage of any allocation.
    """

    def __init__(self, problem: ChainProblem) -> None:
        # w_i; with it r_g = min_i seconds[g, i] / w_i, at least 1, over the blocks with w_i > 0
        fastest = problem.seconds.min(axis=0)
        self.work = np.concatenate([[0.0], np.cumsum(fastest)])
        counted = fastest > 0
        ratios = (problem.seconds[:, counted] / fastest[counted]).min(axis=1, initial=np.inf)
        ratios = np.where(np.isfinite(ratios), ratios, 1.0)
        price, rate = np.full(problem.devices, np.inf), np.zeros(problem.devices)
        # of several groups a device has the least price and the largest rate, though of different groups: that keeps it a bound
        for group, ratio in zip(problem.groups, ratios):
            members = list(group)
            price[members] = np.minimum(price[members], ratio)
            rate[members] = np.maximum(rate[members], 1.0 / (ratio * len(members)))
        order = np.argsort(price, kind="stable")
        self.order = order[np.isfinite(price[order])]
        self.price, self.rate = price[self.order], rate[self.order]
        self.group_rate = np.sort(1.0 / ratios)[::-1]
        self.sent_s = _least_sent_s(problem)
        self.least_largest_s = max(float(fastest.max()), self.work[-1] / self.rate.sum())

    def least_before_s(self, masks: np.ndarray, limit_s: float) -> np.ndarray:
        """Return (masks, blocks + 1) array: least seconds of all blocks before each, done by the devices that a mask lacks.

        Infinite where they cannot be done by stages of at most `limit_s` each; the transfer into the block counts.

        Parameters
        ----------
        masks : (masks,) array of int, sets of devices that are used already.
        limit_s : the most seconds of a stage.
        """
        least_s = np.broadcast_to(self.sent_s, (len(masks), len(self.work))).copy()
        left = np.broadcast_to(self.work, least_s.shape).copy()
        if math.isinf(limit_s):
            cheapest = np.where((masks[:, None] >> self.order) & 1, np.inf, self.price).min(axis=1, initial=np.inf)
            return least_s + np.where(left > 0, cheapest[:, None] * np.where(left > 0, left, 1.0), 0.0)
        # a continuous knapsack: E(T) is reached by filling the devices up to r_d T each, the cheapest first
        for device, price, rate in zip(self.order, self.price, self.rate):
            most = np.where((masks >> device) & 1, 0.0, rate * limit_s)[:, None]
            done = np.minimum(left, most)
            least_s += price * done
            left -= done
        least_s[left > 1e-9 * self.work[-1]] = np.inf
        return least_s


def fluid_bound(problem: ChainProblem, stages: int | None = None) -> float:
    """Return a lower bound of J, or L, seconds; the module states it.

    Parameters
    ----------
    stages : number of stages; None for any.

    Notes
    -----
    Between two T at which one stage more is needed the sum is convex and piecewise linear, so it is least at
    one of the T at which a device becomes full, or one stage fewer is enough, or at T_0. A stage may have all devices of a group:
    stages are counted, not devices. O(devices^2 + groups * devices + blocks * log(blocks)).
    """
    fluid = Fluid(problem)
    work, weight = float(fluid.work[-1]), problem.microbatches - 1
    by_rate = np.cumsum(fluid.group_rate)
    if problem.objective == LARGEST_LOAD:
        return max(float(fluid.least_largest_s), 0.0 if stages is None else work / float(by_rate[stages - 1]))
    # C(n): the n - 1 boundaries of n stages differ, so the n - 1 least transfers take no longer than theirs
    sent = np.concatenate([[0.0], np.cumsum(np.sort(fluid.sent_s[1:-1]))])
    kinks = np.concatenate([work / np.cumsum(fluid.rate), work / by_rate, [fluid.least_largest_s]])
    best = math.inf
    for limit_s in np.unique(kinks[kinks >= fluid.least_largest_s]):
        needed = int(np.searchsorted(by_rate * limit_s, work * (1 - 1e-9))) + 1 if stages is None else stages
        # y_d, devices in order of price: what the first of them can do in T, up to W, less what those before it do
        done = np.diff(np.minimum(np.concatenate([[0.0], np.cumsum(fluid.rate)]) * limit_s, work))
        best = min(best, float((fluid.price * done).sum() + weight * limit_s + sent[min(needed - 1, len(sent) - 1)]))
    return best


def _least_sent_s(problem: ChainProblem) -> np.ndarray:
    """Return the (blocks + 1,) least seconds of a transfer at each boundary between groups that share no device."""
    latency, per_byte = (2.0 * _apart(problem, links) for links in problem.links)
    if not latency.size:
        return np.zeros(problem.blocks + 1)
    unlike = np.unique(np.stack([latency, per_byte]), axis=1)
    least_s = (unlike[0][:, None] + problem.boundary_bytes * unlike[1][:, None]).min(axis=0)
    least_s[[0, -1]] = 0.0
    return np.asarray(least_s)


def _apart(problem: ChainProblem, links: np.ndarray) -> np.ndarray:
    masks = problem.masks
    if problem.disjoint:
        return np.asarray(links[~np.eye(len(masks), dtype=bool)])
    apart = np.array([[not a & b for b in masks] for a in masks])
    return np.asarray(links[apart])
