"""What callbacks see and change: the model of the Keras side, kept equal to the trainer's state."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from hetero_mtf.training.keras_side import KerasSide


class Mirror:
    """Keeps the callbacks' model and its optimizer equal to the trainer's state, in both directions, where there are callbacks."""

    def __init__(self, trainer: Any, keras_side: KerasSide, watched: bool) -> None:
        self._trainer, self._keras_side, self._watched = trainer, keras_side, watched
        self._shown: dict[str, np.ndarray] = {}

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Put the present weights, slots and number of steps into the model that callbacks see, and take back what they change."""
        if self._watched:
            self._keras_side.write(self._trainer._engine.read(), self._trainer.step, self._trainer.loss_scale)
            self._shown = self._keras_side.read()
        self._trainer._take_back = self.take_back
        try:
            yield
        finally:
            self._trainer._take_back = None
        self.take_back()

    def take_back(self) -> None:
        """Train on with the model's weights, slots and number of steps where a callback has changed them."""
        if not self._watched:
            return
        self._trainer._step = self._keras_side.step
        before, present = self._trainer.loss_scale, self._keras_side.loss_scale
        if before is not None and present is not None:
            self._trainer._loss_scale = dataclasses.replace(present, skipped=before.skipped)
        now = self._keras_side.read()
        changed = {key: value for key, value in now.items() if not np.array_equal(value, self._shown[key], equal_nan=True)}
        if changed:
            self._shown = now
            self._trainer._overwrite(changed)


class Shown:
    """Listeners, some of whose methods see the present weights in their model, and may change them."""

    def __init__(self, listeners: Any, mirror: Mirror) -> None:
        self._listeners, self._mirror = listeners, mirror

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listeners, name)


class BatchesEnd(Shown):
    """Listeners that see the weights after every batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        with self._mirror.shown():
            self._listeners.on_train_batch_end(batch, logs)


class Tests(Shown):
    """Listeners that see the weights when a test or prediction begins and ends."""

    def on_test_begin(self, logs: Any = None) -> None:
        with self._mirror.shown():
            self._listeners.on_test_begin(logs)

    def on_test_end(self, logs: Any = None) -> None:
        with self._mirror.shown():
            self._listeners.on_test_end(logs)

    def on_predict_begin(self, logs: Any = None) -> None:
        with self._mirror.shown():
            self._listeners.on_predict_begin(logs)

    def on_predict_end(self, logs: Any = None) -> None:
        with self._mirror.shown():
            self._listeners.on_predict_end(logs)
