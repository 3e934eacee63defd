"""BatchSource: gives a batch, prepares the next meanwhile, and has a position that can be saved."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.data.prefetch import Prefetcher
from hetero_mtf.errors import DataError

AnySource = TypeVar("AnySource", bound="BatchSource")


class BatchSource(abc.ABC):
    """Batches of one epoch after another.

    Iterating gives the rest of the present epoch and then steps to the next, so `for batch in source` is an epoch. While a
    batch is worked on, the next one is prepared in a background thread. The position counts what was handed over, not what was
    prepared. After the last batch of an epoch it stays at the epoch's end until the iteration is asked for more; a source
    restored there gives an epoch without batches and then steps on. Leaving an iteration early loses nothing: the next one goes on
    where it stopped.

    It measures the time waited for batches: what the data cost beyond the time in which they were prepared meanwhile.

    Close a source when done with it, or use it in a with-statement: its thread ends then.
    """

    kind: str = ""

    def __init__(self) -> None:
        self._epoch = 0
        self._batch = 0
        self._sample = 0
        self._first = 0  # epoch at which the data begin
        self._feed: Prefetcher | None = None
        self._closed = False
        self._handed_over = 0
        self._waited_s = 0.0

    @property
    def handed_over(self) -> int:
        """Number of batches that were handed over since this source was made."""
        return self._handed_over

    @property
    def waited_s(self) -> float:
        """Seconds that were waited for those batches, all together."""
        return self._waited_s

    @property
    def epoch(self) -> int:
        """Number of epochs that were handed over in full."""
        return self._epoch

    @property
    def batch(self) -> int:
        """Number of batches of the present epoch that were handed over."""
        return self._batch

    @property
    def batches_per_epoch(self) -> int | None:
        """Batches in a whole epoch, or None where that is not known beforehand."""
        return None

    @abc.abstractmethod
    def _prepare(self, epoch: int, batch: int, sample: int) -> Iterator[Batch]:
        """Yield the rest of an epoch, from where `batch` batches and `sample` samples of it were handed over; runs in the thread."""

    def __iter__(self) -> Iterator[Batch]:
        if self._closed:
            raise DataError("this source of batches was closed", "make a new one")
        if self._feed is None:
            self._feed = Prefetcher(self._prepare(self._epoch, self._batch, self._sample))
        return self._hand_over(self._feed)

    def _hand_over(self, feed: Prefetcher) -> Iterator[Batch]:
        while feed is self._feed:
            asked_s = time.perf_counter()
            try:
                batch = feed.next()
            except BaseException:
                self._stop()
                raise
            self._waited_s += time.perf_counter() - asked_s
            if batch is None:
                self._stop()
                self._epoch, self._batch, self._sample = self._epoch + 1, 0, 0
                return
            self._handed_over += 1
            self._batch += 1
            self._sample += batch.size
            yield batch

    def upcoming(self) -> Callable[[], Batch | None]:
        """Return a function that waits for the batch that the present iteration gives next, and returns it without a change of position.

        It returns None at the end of the epoch, and where that batch was handed over meanwhile. Another thread may call it.
        """
        feed = self._feed
        return (lambda: None) if feed is None else feed.upcoming()

    def begin_at(self, epoch: int) -> None:
        """Count epochs from a number on, which changes nothing about the batches that a stream gives first.

        Parameters
        ----------
        epoch : number of the epoch that comes next.
        """
        self._stop()
        self._epoch, self._batch, self._sample, self._first = epoch, 0, 0, epoch

    def _stop(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.close()

    def state(self) -> dict[str, Any]:
        """Return the position as a JSON-able dict: what was handed over so far."""
        first = {"first": self._first} if self._first else {}
        return {"kind": self.kind, "epoch": self._epoch, "batch": self._batch, "sample": self._sample, **first}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to a position that `state` gave, of this source or of one that is equal.

        Parameters
        ----------
        state : what `state()` returned.

        Raises
        ------
        DataError
            If it is damaged (every fault is named), or belongs to another kind of source or other data.
        """
        faults = self._faults(state) if isinstance(state, Mapping) else [f"it is a {type(state).__name__}, not a dict"]
        if faults:
            raise DataError(
                f"the data position does not fit: {'; '.join(faults)}", "restore a checkpoint made with this data, or start again"
            )
        self._stop()
        self._epoch, self._batch, self._sample, self._first = state["epoch"], state["batch"], state["sample"], state.get("first", 0)

    def _faults(self, state: Mapping[str, Any]) -> list[str]:
        faults = [] if state.get("kind") == self.kind else [f"it is of {state.get('kind')!r} and this source is of {self.kind!r}"]
        for name in ("epoch", "batch", "sample", "first"):
            value = state.get(name, 0 if name == "first" else None)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                faults.append(f"{name} is {value!r}, not a whole number from 0")
        return faults

    def close(self) -> None:
        """End the background thread; closing twice is harmless."""
        self._closed = True
        self._stop()

    def __enter__(self: AnySource) -> AnySource:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def checked_steps(steps: Any) -> int | None:
    """Return the batches of an epoch, None where they are not given.

    Raises
    ------
    DataError
        If they are no whole number from 1.
    """
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1):
        raise DataError(f"steps_per_epoch is {steps!r}", "use a whole number from 1, or leave it out")
    return None if steps is None else int(steps)
