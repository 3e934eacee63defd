"""Shortest paths along a chain whose devices may have several stages: a coarse relaxation, for chains of very many groups."""

from __future__ import annotations

import math

import numpy as np

from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.solvers.sliding_window import time_reach


class CoarsePaths:
    """The stages of least sum with none, and no transfer, above a limit, where each use of a device has a price.

    Devices may have several stages, two in a row too. A transfer is taken as the fastest out of its group, and memory as for the last
    stage (or all microbatches, for fill_drain). O(blocks * groups * blocks of a stage) a path.
    """

    def __init__(self, problem: ChainProblem) -> None:
        self.problem = problem
        self.prefix_s = np.ascontiguousarray(problem.prefix_s.T)
        self.out_s = np.ascontiguousarray(_fastest_out_s(problem).T)

    def reach(self, limit_s: float) -> np.ndarray:
        """Return (blocks + 1, groups) array of int, the last end of a stage that begins at each block.

        Parameters
        ----------
        limit_s : the most seconds of a stage.
        """
        return np.ascontiguousarray(np.minimum(time_reach(self.problem.prefix_s, limit_s), self.problem.reach(1)).T)

    def path(self, reach: np.ndarray, limit_s: float, price: np.ndarray) -> tuple[float, list[int]]:
        """Return the least sum, prices included, and the groups of its stages; infinite and none if there is no path.

        Parameters
        ----------
        reach : of the limit.
        limit_s : the most seconds of a transfer.
        price : (groups,) array of float, seconds that a stage of each group costs besides.
        """
        blocks, groups = self.problem.blocks, len(self.problem.groups)
        # V(i) = min over g of price_g - P(g, i) + min over j of { P(g, j) + out(g, j) + V(j) }, P prefix sums and out(g, j) the fastest
        # transfer of g at j: it does not depend on the group behind, so each block has one V and not one for every group
        out_s = np.where(self.out_s <= limit_s, self.out_s, np.inf)
        behind = np.full((blocks + 1, groups), np.inf)
        behind[blocks] = self.prefix_s[blocks]
        first, chosen = np.zeros(blocks + 1, int), np.zeros(blocks + 1, int)
        furthest, places, every = reach.max(axis=1), np.arange(blocks + 1)[:, None], np.arange(groups)
        sums = np.zeros(blocks + 1)
        for block in range(blocks - 1, -1, -1):
            last = furthest[block]
            if last <= block:
                sums[block] = np.inf
                behind[block] = np.inf
                continue
            window = np.where(places[block + 1 : last + 1] <= reach[block], behind[block + 1 : last + 1], np.inf)
            at = window.argmin(axis=0)
            total = window[at, every] - self.prefix_s[block] + price
            group = int(total.argmin())
            sums[block], first[block], chosen[block] = total[group], group, block + 1 + at[group]
            behind[block] = self.prefix_s[block] + out_s[block] + total[group]
        used: list[int] = []
        block = 0
        while block < blocks and math.isfinite(sums[0]):
            used.append(int(first[block]))
            block = int(chosen[block])
        return float(sums[0]), used


def _fastest_out_s(problem: ChainProblem) -> np.ndarray:
    """Return (groups, blocks + 1) array: the least seconds of a transfer from each group at each boundary."""
    groups = range(len(problem.groups))
    fastest_s = np.zeros((len(groups), problem.blocks + 1))
    for group in groups:
        others = np.array([g for g in groups if not problem.masks[g] & problem.masks[group]], dtype=int)
        if len(others):
            fastest_s[group] = problem.transfer_s(group, others[:, None], np.arange(problem.blocks + 1)).min(axis=0)
    return fastest_s
