"""Upcoming: the next batch of an iterator, drawn and prepared while a step runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any


class Upcoming:
    """Prepares one batch ahead of its step, on a thread.

    It belongs to its iterator: with `steps_per_epoch` Keras goes on with the same one in the next epoch, and the batch is used there.
    An iterator with a method `upcoming`, as `SourceBatches` has, is looked into, so that its position stays that of the steps; from others
    the batch is drawn.
    """

    def __init__(self) -> None:
        self._iterator: Any = None
        self._thread: threading.Thread | None = None
        self._drawn: tuple[Any, Any] | None = None
        self._fault: BaseException | None = None

    def begin(self, iterator: Iterator[Any], prepare: Callable[[Any], Any]) -> None:
        """Begin to prepare the batch that comes next.

        Parameters
        ----------
        iterator : it is not used elsewhere until `take`.
        prepare : returns what the step needs of a batch. What it raises is left to the step itself, which calls it again.
        """
        look = iterator.upcoming() if hasattr(iterator, "upcoming") else None

        def work() -> None:
            try:
                data = next(iterator) if look is None else look()
            except BaseException as fault:  # noqa: BLE001 - raised where the batch is taken
                self._fault = fault
                return
            if look is not None and data is None:  # the end, or a fault, which is raised where the batch is taken
                return
            try:
                self._drawn = data, prepare(data)
            except Exception:  # noqa: BLE001 - raised by the step of this batch
                self._drawn = data, None

        self._iterator, self._drawn, self._fault = iterator, None, None
        self._thread = threading.Thread(target=work, name="hetero_mtf next batch", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until what was begun is drawn and prepared; it is kept for `take`."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def drop(self) -> None:
        """Forget what was prepared."""
        self.wait()
        self._iterator = self._drawn = self._fault = None

    def take(self, iterator: Iterator[Any]) -> tuple[Any, Any]:
        """Return the next batch of an iterator, and what was prepared of it; None where it has to be prepared yet.

        Raises
        ------
        StopIteration
            If there is none, or what else the iterator raises.
        """
        self.wait()
        mine, drawn, fault = self._iterator is iterator, self._drawn, self._fault
        self._iterator = self._drawn = self._fault = None
        if mine and fault is not None:
            raise fault
        if not hasattr(iterator, "upcoming"):
            return drawn if mine and drawn is not None else (next(iterator), None)
        data = next(iterator)
        return data, drawn[1] if mine and drawn is not None and drawn[0] is data else None
