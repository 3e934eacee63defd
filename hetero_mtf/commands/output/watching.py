"""What watches a metric of a training: early stopping and the best epoch; imported after TensorFlow is.

Keras's EarlyStopping compares, so directions and ties are its own. Its best value and its count of epochs without a better one are
stored with the state, under the metric's name, so that a resumed training goes on with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import keras

from hetero_mtf.commands.process.output_file import save_model
from hetero_mtf.commands.process.run_files import best_file
from hetero_mtf.errors import HeteroError

_FOREVER = 2**31
_KEY = "watched"  # in the notes of a state
Before = tuple[float, int, int]  # best value, epochs since it, best epoch


def _noted(trainer: Any, watch: keras.callbacks.EarlyStopping) -> None:
    """Store what a watch has seen with the next states."""
    if watch.best is not None:
        entry = [float(watch.best), int(watch.wait), int(watch.best_epoch)]
        trainer.notes = {**trainer.notes, _KEY: {**trainer.notes.get(_KEY, {}), watch.monitor: entry}}


def _go_on(watch: keras.callbacks.EarlyStopping, before: Before | None) -> None:
    if before is not None:
        watch.best, watch.wait, watch.best_epoch = before


def _go_on_in_first_epoch(watch: keras.callbacks.EarlyStopping, before: Before | None) -> None:
    """Go on once the direction is known: earlier versions of Keras forget the best value when they infer it."""
    if watch.monitor_op is None:
        watch._set_monitor_op()
        _go_on(watch, before)


class StopEarly(keras.callbacks.EarlyStopping):
    """Keras's EarlyStopping, which goes on where a resumed training was and says what it did.

    Parameters
    ----------
    trainer : the Trainer.
    metric : what is watched.
    patience : epochs without a better value before training stops.
    restore : whether training ends with the weights of the best epoch.
    before : what was seen before the state that training goes on from; None for nothing.
    weights : those of the best epoch before, in Keras's order, where they are in a file; None elsewhere.
    """

    def __init__(self, trainer: Any, metric: str, patience: int, restore: bool, before: Before | None = None, weights: Any = None) -> None:
        super().__init__(monitor=metric, patience=patience, restore_best_weights=restore)
        self._trainer, self._before, self._weights = trainer, before, weights
        self._ended = False

    def on_train_begin(self, logs: Any = None) -> None:
        """Go on; a training that had stopped already stops again unless there is more patience now."""
        super().on_train_begin(logs)
        _go_on(self, self._before)
        self.best_weights = self._weights
        if 0 < self.wait >= self.patience:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Look at the metric, and stop where it has not been better for long enough."""
        if self.monitor not in (logs or {}):
            return  # an epoch that was over when its state was saved has no loss
        _go_on_in_first_epoch(self, self._before)
        super().on_epoch_end(epoch, logs)
        if self._is_of_before:  # whose weights are not here: Keras has taken those of the first epoch since
            assert self._before is not None
            self.best_weights, self.best_epoch = self._weights, self._before[2]
        _noted(self._trainer, self)

    def on_train_end(self, logs: Any = None) -> None:
        """Restore the best weights, as Keras does; training that a signal or an error ends does not come here."""
        super().on_train_end(logs)
        self._ended = True

    @property
    def _is_of_before(self) -> bool:
        return self._before is not None and self.best == self._before[0]

    def text(self) -> str:
        """A line on what was done, "" where training goes on or has ended with the weights that it had."""
        stopped = 0 < self.wait >= self.patience
        if not self._ended or self.best is None or not (stopped or (self.restore_best_weights and self.wait)):
            return ""
        best = f"epoch {self.best_epoch + 1} ({self.monitor} {float(self.best):.4f})"
        epochs = f"{self.wait} epoch{'s' * (self.wait > 1)}"
        why = f"early stopping: nothing was better than {best} for {epochs}" if stopped else f"the best epoch is {best}"
        if not self.restore_best_weights:
            return f"{why}; the weights are those of the last epoch"
        if self.best_weights is None:
            return f"{why}; it was before --resume, so the weights are those of the last epoch"
        return f"{why}; its weights are restored"


class BestEpoch(keras.callbacks.Callback):
    """Saves the state and the model whenever an epoch is the best so far; where that fails it is said and training goes on.

    Parameters
    ----------
    trainer : the Trainer.
    metric : what the best epoch is judged by.
    save, output : files of the last state and of the last model, beside which the best are saved; None for none.
    before : as for `StopEarly`; it does not count where the best epoch's file is not there.
    """

    def __init__(self, trainer: Any, metric: str, save: str | None, output: str | None, before: Before | None = None) -> None:
        super().__init__()
        self._trainer = trainer
        self._state, self._model_file = (None if path is None else best_file(path) for path in (save, output))
        self._paths = [path for path in (self._state, self._model_file) if path is not None]
        self._before = before if all(path.exists() for path in self._paths) else None
        self._watch = keras.callbacks.EarlyStopping(monitor=metric, patience=_FOREVER)
        self._saved = self._before is not None

    def on_train_begin(self, logs: Any = None) -> None:
        """Go on where a resumed training was."""
        self._watch.set_model(self.model)
        self._watch.on_train_begin(logs)
        _go_on(self._watch, self._before)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Save if it is the best epoch so far."""
        if self._watch.monitor not in (logs or {}):
            return
        _go_on_in_first_epoch(self._watch, self._before)
        self._watch.on_epoch_end(epoch, logs)
        _noted(self._trainer, self._watch)
        if self._watch.wait == 0:
            try:
                self._save()
            except HeteroError as fault:
                click.echo(f"hetero-mtf: warning: epoch {epoch + 1}, the best so far, is not saved: {fault}; training goes on", err=True)

    def _save(self) -> None:
        if self._state is not None:
            self._trainer.save(self._state, only_finite=True)
        if self._model_file is not None:
            save_model(self._model_file, self._trainer.to_keras())
        self._saved = True

    def text(self) -> str:
        """A line on the best epoch and where it is, "" where there was none."""
        if self._watch.best is None or not self._saved:
            return ""
        value = f"{self._watch.monitor} {float(self._watch.best):.4f}"
        return f"the best epoch is {self._watch.best_epoch + 1} ({value}): saved {' and '.join(map(str, self._paths))}"
