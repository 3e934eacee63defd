"""Ahead: the next batch is prepared, and written where devices read it, while a step runs."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hetero_mtf.data.batch import Batch
from hetero_mtf.data.source import BatchSource
from hetero_mtf.program.batch_arrays import BatchArrays


class Ahead:
    """Prepares one batch ahead of its step, on a thread.

    What it prepared is used where the next step is for that very batch, and dropped otherwise: after an interruption, a stop or a new
    plan the next step prepares its own batch.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._ready: tuple[Batch, BatchArrays] | None = None

    def begin(self, source: BatchSource, prepare: Callable[[Batch], BatchArrays]) -> None:
        """Begin to prepare the batch that a source gives next; the source keeps it.

        Parameters
        ----------
        source : it is not iterated meanwhile.
        prepare : returns a batch as a program takes it. What it raises is left to the step itself, which calls it again.
        """

        upcoming = source.upcoming()

        def work() -> None:
            batch = upcoming()
            if batch is not None:
                try:
                    self._ready = batch, prepare(batch)
                except Exception:  # noqa: BLE001 - raised by the step of this batch
                    self._ready = None

        self.take(None)
        self._thread = threading.Thread(target=work, name="hetero_mtf next batch", daemon=True)
        self._thread.start()

    def take(self, batch: Batch | None) -> BatchArrays | None:
        """Return what was prepared of a batch, waiting until it is; None if it was another batch.

        Parameters
        ----------
        batch : the one that the next step is for; None to drop what was prepared.
        """
        if self._thread is not None:
            self._thread.join()
        ready, self._thread, self._ready = self._ready, None, None
        return ready[1] if ready is not None and ready[0] is batch else None
