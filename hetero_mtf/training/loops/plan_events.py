"""The moves of a training as events of TensorBoard, in the log folder of Keras's own callback, by its own writer."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import keras

from hetero_mtf.keras_reading.private_names import train_writer
from hetero_mtf.training.control.move import Move
from hetero_mtf.training.control.text import split_text

PLAN, STEPS_PER_S = "plan", "plan_steps_per_s"
MOST_STEPS = 50  # of a plan whose seconds are kept, the latest
SETTLING = 2  # steps after a move that do not count


class PlanEvents(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes a text for each move, and the steps/s of each plan at the step that it ends with.

    Parameters
    ----------
    boards : where to write.
    moves : returns the moves so far.
    steps : returns the number of steps taken.
    clock : gives seconds.
    """

    def __init__(
        self,
        boards: Sequence[keras.callbacks.TensorBoard],
        moves: Callable[[], Sequence[Move]],
        steps: Callable[[], int],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__()
        self._boards, self._moves, self._steps, self._clock = tuple(boards), moves, steps, clock
        self._written = 0  # number of moves
        self._step_s: deque[float] = deque(maxlen=MOST_STEPS)  # of the plan in force
        self._settling = SETTLING
        self._begin = 0.0, 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Leave out the moves of earlier trainings."""
        self._written, self._settling = len(self._moves()), SETTLING
        self._step_s.clear()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Look at the clock."""
        self._begin = self._clock(), self._steps()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Write the moves of the step, and note what it took."""
        begin_s, before = self._begin
        seconds, taken = self._clock() - begin_s, self._steps() - before
        for move in self._moves()[self._written :]:
            self._write(move.step, self._rate(move.before_s), f"moved to {split_text(move.after)} after {move.step} steps")
            self._written, self._settling = self._written + 1, SETTLING
            self._step_s.clear()
        if self._settling:
            self._settling -= 1
        elif taken > 0:
            self._step_s.append(seconds / taken)

    def on_train_end(self, logs: Any = None) -> None:
        """Write the steps/s of the last plan, where there were others."""
        if self._moves():
            self._write(self._steps(), self._rate(0.0))

    def _rate(self, measured_s: float) -> float | None:
        """Return the steps/s of a plan: by what a move tells of it, else by the clock."""
        seconds = [measured_s] if 0 < measured_s < float("inf") else self._step_s
        return 1 / statistics.median(seconds) if seconds else None

    def _write(self, step: int, rate: float | None, text: str = "") -> None:
        for board in self._boards:
            writer = train_writer(board)
            with writer.as_default(), board.summary.record_if(True):  # whatever batches the callback leaves out
                if text:
                    board.summary.text(PLAN, text, step=step)
                if rate is not None:
                    board.summary.scalar(STEPS_PER_S, rate, step=step)
            writer.flush()


def plan_events(callbacks: Sequence[Any], moves: Callable[[], Sequence[Move]], steps: Callable[[], int]) -> list[PlanEvents]:
    """Return what writes moves where some callbacks write for TensorBoard, to be called before them; else nothing.

    Parameters
    ----------
    callbacks : keras.callbacks.Callback.
    moves, steps : as for `PlanEvents`.
    """
    boards = [each for each in callbacks if isinstance(each, keras.callbacks.TensorBoard)]
    return [PlanEvents(boards, moves, steps)] if boards else []
