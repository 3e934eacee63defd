"""Mirror: what a run begins again from where workers are lost: its values in the program's memory, and the steps since."""

from __future__ import annotations

import collections
import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.training.control.step_call import StepCall

COST_PART = 0.02  # of the time, that reading values takes at most
LAST_STEPS = 9
KEPT_BYTES = 1 << 29  # of batches, after which values are read although that is not due


class Mirror:
    """Holds the values of a run as they were after one of its steps, and the steps that were taken since.

    Parameters
    ----------
    clock : seconds, increasing.

    Attributes
    ----------
    values : variable or slot key -> whole array; None where they have to be read.
    steps : the steps since then, with batches of their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.values: Mapping[str, np.ndarray] | None = None
        self.steps: list[StepCall] = []
        self._bytes = 0
        self._step_s: collections.deque[float] = collections.deque(maxlen=LAST_STEPS)
        self._read_at_s = self._read_s = 0.0

    @property
    def is_due(self) -> bool:
        """Whether values are to be read before the next step."""
        waited_s = self._clock() - self._read_at_s
        return self.values is None or (bool(self.steps) and (waited_s * COST_PART >= self._read_s or self._bytes > KEPT_BYTES))

    def take(self, read: Callable[[], Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
        """Return the present values, which are what is begun again from.

        Parameters
        ----------
        read : returns them.
        """
        start_s = self._clock()
        values = read()
        self._read_at_s = self._clock()
        self._read_s = self._read_at_s - start_s
        self.values, self.steps, self._bytes = values, [], 0
        return values

    @property
    def step_s(self) -> float:
        """Median seconds of the last steps; 0 where none was taken."""
        return statistics.median(self._step_s) if self._step_s else 0.0

    def add(self, step: StepCall, seconds: float) -> None:
        """Keep a step that was taken.

        Parameters
        ----------
        step : it; its batch is copied, as data may come in arrays that are used again.
        seconds : that it took.
        """
        self._step_s.append(seconds)
        batch = _copied(step.batch)
        self._bytes += sum(array.nbytes for array in (*batch.x, *batch.y, *batch.weight) if array is not None)
        self.steps.append(step._replace(batch=batch, want_outputs=False))

    def forget(self) -> None:
        """Forget the values, as others were written."""
        self.values, self.steps, self._bytes = None, [], 0


def _copied(batch: BatchArrays) -> BatchArrays:
    def copies(arrays: tuple[np.ndarray | None, ...]) -> tuple[np.ndarray | None, ...]:
        return tuple(None if array is None else array.copy() for array in arrays)

    x, y, weight = copies(batch.x), copies(batch.y), copies(batch.weight)
    return dataclasses.replace(batch, x=x, y=y, weight=weight, metric_weight=())  # type: ignore[arg-type]
