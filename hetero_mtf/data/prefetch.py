"""Prefetcher: a thread that prepares batches ahead of their use."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator
from typing import Any

from hetero_mtf.data.checked_batch import Batch

AHEAD = 1
CLOSE_LIMIT_S = 5.0


class Prefetcher:
    """Draws batches from an iterator in a background thread, never more than a fixed number ahead.

    With one ahead, one batch lies ready and the next is being made: two buffers beside the batch in use.

    Parameters
    ----------
    batches : what to draw from; touched by the thread only, and closed there if it can be.
    ahead : how many finished batches may lie ready.
    """

    def __init__(self, batches: Iterator[Batch], ahead: int = AHEAD) -> None:
        self._batches = batches
        self._ahead = ahead
        self._ready: collections.deque[Batch] = collections.deque()
        self._change = threading.Condition()
        self._returned = 0
        self._closed = False
        self._ended = False
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="hetero_mtf batches", daemon=True)
        self._thread.start()

    def next(self) -> Batch | None:
        """Return the next batch, waiting for it if need be, or None at the end.

        Raises
        ------
        Whatever the iterator raised, after the batches it had handed over before.
        """
        with self._change:
            self._change.wait_for(lambda: self._ready or self._ended or self._closed)
            if self._ready:
                batch = self._ready.popleft()
                self._returned += 1
                self._change.notify_all()
                return batch
            if self._fault is not None:
                raise self._fault
            return None

    def upcoming(self) -> Callable[[], Batch | None]:
        """Return a function that waits for the batch that `next` will return now, and returns it too.

        It returns None at the end, where the iterator raised, and where `next` has returned that batch meanwhile.
        """
        with self._change:
            returned = self._returned
        return lambda: self._peek(returned)

    def _peek(self, returned: int) -> Batch | None:
        with self._change:
            self._change.wait_for(lambda: self._ready or self._ended or self._closed or self._returned != returned)
            return self._ready[0] if self._ready and self._returned == returned else None

    def close(self) -> None:
        """End the thread; wait for it as long as an iterator can reasonably take, no longer."""
        with self._change:
            self._closed = True
            self._ready.clear()
            self._change.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_LIMIT_S)

    def _work(self) -> None:
        try:
            for batch in self._batches:
                if not self._put(batch):
                    break
        except BaseException as fault:  # also SystemExit in a user's generator: the consumer must get it
            self._fault = fault
        finally:
            self._end()

    def _put(self, batch: Batch) -> bool:
        with self._change:
            self._change.wait_for(lambda: len(self._ready) < self._ahead or self._closed)
            if self._closed:
                return False
            self._ready.append(batch)
            self._change.notify_all()
            return True

    def _end(self) -> None:
        close: Any = getattr(self._batches, "close", None)
        try:
            if close is not None:
                close()
        except BaseException as fault:
            self._fault = self._fault or fault
        with self._change:
            self._ended = True
            self._change.notify_all()
