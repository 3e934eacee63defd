"""What Keras's loops are run for: whose batches they draw, and what their metrics are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.program.engine import Finished
from hetero_mtf.training.run.run import Run


class LoopMetrics(Protocol):
    """Metrics of a model that are updated with what steps gave."""

    needs_outputs: bool
    """Whether predictions are read."""

    @property
    def updating(self) -> bool:
        """Whether a batch is being counted now."""

    def build(self, data: Any) -> None:
        """Make what metrics need with the first batch."""

    def update(self, data: Any, size: int, step_result: Any, graph: Any = None) -> dict[str, Any]:
        """Count a batch and return the logs so far."""


class LoopSide(Protocol):
    """Whose loops they are: it knows the forms of batches, has the run, and is told of steps."""

    def is_left_to_keras(self, what: str, force: bool) -> bool:
        """Return whether Keras is to make its own function, and the run takes no such steps.

        Parameters
        ----------
        what : "train", "test" or "predict".
        force : whether it is to be made again.
        """

    def calling(self, what: str, iterator: Iterator[Any]) -> contextlib.AbstractContextManager[None]:
        """Return a context that is open while a function runs.

        Parameters
        ----------
        what : "train" or "test".
        iterator : of batches.
        """

    def begin_step(self, data: Any) -> None:
        """Take note of a step of training that begins.

        Parameters
        ----------
        data : its batch, as it came from the iterator.
        """

    def given(self, data: Any) -> Any:
        """Return a batch as it came from the iterator with arrays."""

    def run_for(self, data: Any) -> Run:
        """Return the run, which may be made for the first batch.

        Parameters
        ----------
        data : a batch, with arrays.
        """

    def checked(self, data: Any, run: Run, predicts: bool = False) -> Batch:
        """Return a batch whose arrays fit each other.

        Parameters
        ----------
        data : with arrays.
        run : the run.
        predicts : whether it is a list with samples alone.
        """

    def counts(self, data: Any) -> Any:
        """Return what metrics take of a batch with arrays: (x, y, sample_weight)."""

    def note_counted(self, finished: Sequence[Finished]) -> None:
        """Take note of batches that were counted in the metrics.

        Parameters
        ----------
        finished : what a step gave.
        """

    def note_end(self) -> None:
        """Take note that data ended, of which Keras did not know the length."""
