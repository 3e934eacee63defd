"""A BatchSource as Keras's loops draw from it, batch by batch as it is, and at its own position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.data.source import BatchSource
from hetero_mtf.keras_reading.private_names import DataAdapter


class SourceBatches:
    """The rest of a source's present epoch, as an iterator that can be looked ahead of.

    Parameters
    ----------
    opened : gives the source, and is called when the first batch is asked for.
    """

    def __init__(self, opened: Callable[[SourceBatches], BatchSource]) -> None:
        self._opened = opened
        self._source: BatchSource | None = None
        self._batches: Iterator[Batch] = iter(())

    def __iter__(self) -> SourceBatches:
        return self

    def __next__(self) -> Batch:
        if self._source is None:
            self._source = self._opened(self)
            self._batches = iter(self._source)
        return next(self._batches)

    def upcoming(self) -> Callable[[], Batch | None]:
        """Return a function that gives the batch that comes next, as `BatchSource.upcoming`."""
        return (lambda: None) if self._source is None else self._source.upcoming()

    def is_over(self) -> bool:
        """Return whether the epoch has no further batch, waiting for that; the source steps to the next epoch then.

        Raises
        ------
        Exception
            What the source raises instead of a batch.
        """
        if self._source is None or self.upcoming()() is not None:
            return False
        return next(self._batches, None) is None


def source_adapter(source: BatchSource, again: bool = False, left: bool = False) -> Any:
    """Return a keras DataAdapter of a source; its batches are `Batch`.

    It has the `source`, and as `batches` the SourceBatches that are drawn from.

    Parameters
    ----------
    source : batches.
    again : whether each pass begins at the beginning of the source, rather than where the one before ended.
    left : whether the number of batches is that of the rest of the present epoch, rather than of a full one.
    """
    class SourceAdapter(DataAdapter):  # type: ignore[misc]
        def __init__(self) -> None:
            self.source = source
            self.batches: SourceBatches | None = None

        def get_tf_dataset(self) -> Any:
            return self  # which Keras only iterates over

        def __iter__(self) -> SourceBatches:  # Keras calls it at the end of an epoch, too, for the next one
            return SourceBatches(self._opened)

        def _opened(self, batches: SourceBatches) -> BatchSource:
            if self.batches is not None and again:
                source.begin_at(0)
            self.batches = batches
            return source

        @property
        def num_batches(self) -> int | None:
            count = source.batches_per_epoch
            return count if count is None or not left else max(0, count - source.batch)

        @property
        def batch_size(self) -> None:
            return None

        @property
        def has_partial_batch(self) -> bool:
            return False

        @property
        def partial_batch_size(self) -> None:
            return None

    return SourceAdapter()
