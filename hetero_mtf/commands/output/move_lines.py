"""A line for each move of a training to another plan, when it happens; imported after TensorFlow is."""

from __future__ import annotations

from typing import Any

import click
import keras

from hetero_mtf.training.control.text import move_text


class MoveLines(keras.callbacks.Callback):
    """Prints the moves of a trainer.

    Parameters
    ----------
    trainer : Trainer.
    """

    def __init__(self, trainer: Any) -> None:
        super().__init__()
        self._trainer, self._said = trainer, len(trainer.moves)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Print those of the step."""
        for move in self._trainer.moves[self._said :]:
            click.echo(move_text(move))
            self._said += 1
