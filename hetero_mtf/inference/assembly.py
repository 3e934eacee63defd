"""Assembly: what windows give, put together to volumes in the order of the windows."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from hetero_mtf.inference.windowing import Place, Windowing


class Assembly:
    """Adds up what windows give, each voxel by its importance, and divides by the sum of these.

    Batches of windows may come in any order and more than once; they are added in theirs, so that sums do not depend on it.

    Parameters
    ----------
    windowing : how windows are laid.
    samples : number of volumes.
    extents : (dimensions,) of each.
    places : windows of each.
    size : windows of a batch; one batch may have windows of two volumes.
    """

    def __init__(self, windowing: Windowing, samples: int, extents: Sequence[int], places: Sequence[Place], size: int) -> None:
        self._windowing, self._extents, self._size = windowing, tuple(extents), size
        self._windows = [(sample, place) for sample in range(samples) for place in places]
        self._samples, self._places = samples, places
        self._waiting: dict[int, Sequence[np.ndarray]] = {}
        self._next = 0
        self._sums: list[np.ndarray] = []
        self._weights: list[np.ndarray] = []  # of a window, for each output
        self._lock = threading.Lock()

    @property
    def batches(self) -> int:
        """Number of batches of windows."""
        return -(-len(self._windows) // self._size)

    def windows_of(self, batch: int) -> list[tuple[int, Place]]:
        """Return the windows of a batch: number of the volume, and place.

        Parameters
        ----------
        batch : its number.
        """
        return self._windows[batch * self._size : (batch + 1) * self._size]

    def put(self, batch: int, outputs: Sequence[np.ndarray]) -> None:
        """Take what a batch of windows gives; a batch that was taken already is left out.

        Parameters
        ----------
        batch : its number.
        outputs : (outputs,) arrays (windows or more, *window, channels).
        """
        with self._lock:
            if batch >= self._next:
                self._waiting[batch] = outputs
            while self._next in self._waiting:
                self._add(self._next, self._waiting.pop(self._next))
                self._next += 1

    def outputs(self) -> tuple[np.ndarray, ...]:
        """Return the volumes of each output, (samples, *extents, channels); all batches have been put."""
        importances = []
        for weights, whole in zip(self._weights, self._sums):
            total = np.zeros((*self._extents, 1), whole.dtype)
            for place in self._places:
                total[place.of_volume] += weights[place.of_window]
            importances.append(total)
        for whole, total in zip(self._sums, importances):
            whole /= total
        return tuple(self._sums)

    def _add(self, batch: int, outputs: Sequence[np.ndarray]) -> None:
        if not self._sums:
            for output in outputs:
                dtype: Any = np.result_type(output.dtype, np.float32)
                self._sums.append(np.zeros((self._samples, *self._extents, output.shape[-1]), dtype))
                self._weights.append(self._windowing.importance(output.shape[1:-1], dtype))
        for whole, weights, output in zip(self._sums, self._weights, outputs):
            for (sample, place), given in zip(self.windows_of(batch), output):  # windows that only fill the batch are left out
                whole[sample][place.of_volume] += given[place.of_window] * weights[place.of_window]
