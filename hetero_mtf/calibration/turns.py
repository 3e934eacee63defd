"""Turns: when a calibration may measure. Beside a training it does so between steps, a second or so at a time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator


class Abandoned(Exception):
    """A calibration is not needed any more."""


class Turns:
    """Lets a calibration measure at any time."""

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a turn; within the statement one measurement is made."""
        yield

    def clock(self) -> float:
        """Return seconds that go on while there are turns."""
        return time.monotonic()


class GivenTurns(Turns):
    """Lets a calibration measure while turns are given; several threads may measure at the same time.

    Parameters
    ----------
    clock : gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = clock
        self._changed = threading.Condition()
        self._is_open = self._is_abandoned = False
        self._measuring = 0  # threads
        self._before_s, self._began_s = 0.0, 0.0  # of turns before this one; when this one began

    @contextlib.contextmanager
    def take(self) -> Iterator[None]:
        """Wait for a turn; within the statement one measurement is made, to its end also where the turn ends before.

        Raises
        ------
        Abandoned
            If there will be none.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_open or self._is_abandoned)
            if self._is_abandoned:
                raise Abandoned
            self._measuring += 1
        try:
            yield
        finally:
            with self._changed:
                self._measuring -= 1
                self._changed.notify_all()

    def clock(self) -> float:
        """Return the seconds of all turns so far."""
        with self._changed:
            return self._before_s + (self._now() - self._began_s if self._is_open or self._measuring else 0.0)

    def give(self, seconds: float, ended: Callable[[], bool]) -> float:
        """Let measurements begin for some seconds, and return how many it took until none went on.

        Parameters
        ----------
        seconds : for so long.
        ended : whether the calibration has; it calls `wake` when it does.
        """
        with self._changed:
            self._is_open, self._began_s = True, self._now()
            self._changed.notify_all()
            self._changed.wait_for(ended, seconds)
            self._is_open = False
            self._changed.wait_for(lambda: not self._measuring)
            taken_s = self._now() - self._began_s
            self._before_s += taken_s
            return taken_s

    def wake(self) -> None:
        """Look again whether the calibration has ended."""
        with self._changed:
            self._changed.notify_all()

    def abandon(self) -> None:
        """Give no turns any more."""
        with self._changed:
            self._is_abandoned = True
            self._changed.notify_all()
