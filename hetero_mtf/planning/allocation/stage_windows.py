"""Where stages within a limit of seconds and within memory may end, and minima over these ends."""

from __future__ import annotations

import numpy as np

from hetero_mtf.planning.allocation.problem import ChainProblem
from hetero_mtf.planning.solvers.sliding_window import WindowMinimum, time_reach


class StageWindows:
    """The ends of stages, by the number of stages from one to the last; each is computed once.

    Parameters
    ----------
    limit_s : the most seconds of a stage.
    """

    def __init__(self, problem: ChainProblem, limit_s: float) -> None:
        self._problem, self._within_limit = problem, time_reach(problem.prefix_s, limit_s)
        self._by_flight: dict[int, list[WindowMinimum]] = {}

    def reach(self, count: int) -> np.ndarray:
        """Return the (groups, blocks + 1) last end of a stage that begins at each block, by time and by memory.

        Parameters
        ----------
        count : stages from this one to the last, itself included.
        """
        return np.asarray(np.minimum(self._within_limit, self._problem.reach(count)))

    def minima(self, count: int) -> list[WindowMinimum]:
        """Return the (groups,) minima over the ends of a stage.

        Parameters
        ----------
        count : as for `reach`.
        """
        flying = self._problem.in_flight(count)
        if flying not in self._by_flight:
            self._by_flight[flying] = [WindowMinimum(reach) for reach in self.reach(count)]
        return self._by_flight[flying]
