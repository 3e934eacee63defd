"""One piece of work at a time beside the training: building a plan, solving for plans."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from hetero_mtf.keras_reading.thread_policy import with_policy_of_caller


class Finished(NamedTuple):
    """What a piece of work came to.

    Parameters
    ----------
    result : what it returned; None where it raised.
    fault : what it raised; None where it returned.
    seconds : seconds that it took.
    """

    result: Any
    fault: BaseException | None
    seconds: float


class Background:
    """A thread that works beside the training.

    Parameters
    ----------
    clock : gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._future: concurrent.futures.Future[Finished] | None = None

    def begin(self, work: Callable[[], Any]) -> None:
        """Begin a piece of work; no other one may be under way.

        Parameters
        ----------
        work : it.
        """
        assert self._future is None
        self._pool = self._pool or concurrent.futures.ThreadPoolExecutor(1, "hetero_mtf-exploration")
        self._future = self._pool.submit(self._timed, with_policy_of_caller(work))

    def poll(self, wait: bool = False) -> Finished | None:
        """Return what the work came to, once; None while it is under way, and where there is none.

        Parameters
        ----------
        wait : whether to wait for its end.
        """
        if self._future is None or not (wait or self._future.done()):
            return None
        finished, self._future = self._future.result(), None
        return finished

    def close(self) -> None:
        """End the thread; work that is under way is waited for."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _timed(self, work: Callable[[], Any]) -> Finished:
        start_s = self._clock()
        try:
            return Finished(work(), None, self._clock() - start_s)
        except BaseException as fault:  # noqa: BLE001 - handed to the training's thread
            return Finished(None, fault, self._clock() - start_s)
