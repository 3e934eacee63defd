"""SaveTimes: after which steps a training saves its state on the way."""

from __future__ import annotations

import time
from collections.abc import Callable

SAVED_PART = 0.02  # of the time, that saving takes at most where no number of steps is given
APART_S = 60.0  # then, at least, from one save to the next


class SaveTimes:
    """When the state is saved on the way: every so many steps, or by time.

    By time a state is saved a minute after the one before, or later where saves of that length would take more than 2 % of the time.

    Parameters
    ----------
    every : steps between saves; None for by time.
    clock : seconds, increasing.
    """

    def __init__(self, every: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.every = every
        self._clock = clock
        self._begun_at_s = self._next_s = clock()
        self._next_s += APART_S

    def is_due(self, step: int) -> bool:
        """Return whether to save now.

        Parameters
        ----------
        step : steps taken.
        """
        return self._clock() >= self._next_s if self.every is None else step % self.every == 0

    def begin(self) -> None:
        """Note that a save begins."""
        self._begun_at_s = self._clock()

    def end(self) -> None:
        """Note that a save has ended, well or not."""
        now_s = self._clock()
        self._next_s = now_s + max(APART_S, (now_s - self._begun_at_s) / SAVED_PART)

    def next_text(self, step: int) -> str:
        """Return when the next save comes, for a sentence.

        Parameters
        ----------
        step : steps taken.

        Examples
        --------
        >>> SaveTimes(10).next_text(20)
        'after step 30'
        """
        return f"in {self._next_s - self._clock():.0f} s" if self.every is None else f"after step {step + self.every}"
