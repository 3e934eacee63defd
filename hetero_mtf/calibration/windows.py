"""Windows: how long something takes, repeated back to back until the clock can be trusted."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Measurement:
    """Seconds of one repetition.

    Parameters
    ----------
    seconds : median over the windows.
    spread : inter-quartile range relative to the median; 0 for one window.
    """

    seconds: float
    spread: float


@dataclasses.dataclass(frozen=True)
class Windows:
    """How to measure.

    Parameters
    ----------
    window_s : least seconds of back-to-back work in a window. A limited core lets the first few
        milliseconds after a wait run at full speed, so a window must be long beside them.
    count : number of windows.
    """

    window_s: float
    count: int

    def measure(
        self, runs: Mapping[str, Callable[[int], object]], clock: Callable[[], float] = time.perf_counter
    ) -> dict[str, Measurement]:
        """Return the seconds of one repetition of each work, without the launch overhead of the session call.

        Parameters
        ----------
        runs : name -> function that repeats the work a given number of times and returns when it is done.
        clock : seconds.

        Notes
        -----
        The first calls warm up and determine the number of repetitions that fills a window; the call
        without repetitions is timed too and subtracted. The windows of all works alternate, so that
        a disturbance from outside affects all of them equally. Where one repetition of each is longer than a window, there are as
        few windows as take the seconds of `count`, and the call that showed it is the first of them.
        """
        return {name: _summary(each) for name, each in self.times(runs, clock).items()}

    def times(self, runs: Mapping[str, Callable[[int], object]], clock: Callable[[], float] = time.perf_counter) -> dict[str, np.ndarray]:
        """Return (windows,) seconds of one repetition of each work in each window; entries of one index were measured side by side.

        There are `count` windows, or fewer of repetitions that are longer.

        Parameters
        ----------
        runs, clock : as for `measure`.
        """
        empty = {name: self._empty(run, clock) for name, run in runs.items()}
        once = {name: _timed(run, 1, clock) for name, run in runs.items()}
        repeats = {name: self._repeats(run, once[name], clock) for name, run in runs.items()}
        shortest_s = min(once.values(), default=0.0)
        is_window = shortest_s >= self.window_s
        times = {name: [seconds] if is_window else [] for name, seconds in once.items()}
        count = math.ceil(self.count * (self.window_s / shortest_s)) if is_window else self.count
        for _ in range(count - is_window):
            for name, run in runs.items():
                times[name].append(_timed(run, repeats[name], clock))
        return {name: np.maximum((np.array(times[name]) - empty[name]) / repeats[name], 0.0) for name in runs}

    @staticmethod
    def _empty(run: Callable[[int], object], clock: Callable[[], float]) -> float:
        run(1)
        return min(_timed(run, 0, clock) for _ in range(3))

    def _repeats(self, run: Callable[[int], object], once_s: float, clock: Callable[[], float]) -> int:
        """Return how often the work, which took some seconds once, fits into a window, at least once."""
        repeats, spent = 1, once_s
        while spent < self.window_s / 4:
            repeats *= 2 if spent > self.window_s / 16 else 4
            spent = _timed(run, repeats, clock)
        return max(1, math.ceil(self.window_s * repeats / spent))


def together(measurements: Sequence[Measurement]) -> Measurement:
    """Return the seconds of several works one after another, with the largest of their spreads.

    Parameters
    ----------
    measurements : at least one.
    """
    return Measurement(sum(each.seconds for each in measurements), max(each.spread for each in measurements))


def repeated_run(session: Any, fetches: Any, feed: Mapping[Any, Any], steps: int = 1) -> Callable[[int], None]:
    """Return the function of a count that runs `steps` session calls so many times, one after another.

    Parameters
    ----------
    fetches, feed : of each call.
    steps : session calls that count as one repetition.
    """

    def run(count: int) -> None:
        for _ in range(steps * count):
            session.run(fetches, feed)

    return run


def _summary(each: np.ndarray) -> Measurement:
    low, middle, high = np.percentile(each, [25, 50, 75])
    return Measurement(float(middle), float((high - low) / middle) if middle > 0 else 0.0)


def _timed(run: Callable[[int], object], repeats: int, clock: Callable[[], float]) -> float:
    start = clock()
    run(repeats)
    return clock() - start
