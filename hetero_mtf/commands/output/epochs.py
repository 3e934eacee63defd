"""What a training command shows and saves while it trains; imported after TensorFlow is."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import click
import keras

from hetero_mtf.commands.output.kept_states import KeptStates
from hetero_mtf.commands.output.save_times import SaveTimes
from hetero_mtf.commands.process.interruption import Interrupted, StopRequest
from hetero_mtf.data.source import BatchSource
from hetero_mtf.errors import HeteroError, NotFiniteError
from hetero_mtf.report.progress import Advance, progress
from hetero_mtf.training.timing import WARM_UP_STEPS
from hetero_mtf.units import seconds_text

_COLUMN = 12  # characters at least


@dataclasses.dataclass(frozen=True)
class Saving:
    """Where and when the state is saved.

    Parameters
    ----------
    path : path of the file, or None.
    times : when to save on the way; None for the end only.
    keep_going : whether training goes on where its numbers are NaN or infinite.
    kept : keeps the states on the way in numbered files; where no number of steps is between them, those at the ends of epochs. None
        keeps none.
    plans : path of the file for the plans so far, which is written with each state; None for none.
    """

    path: str | None
    times: SaveTimes | None = None
    keep_going: bool = False
    kept: KeptStates | None = None
    plans: str | None = None


class Epochs(keras.callbacks.Callback):
    """Shows a bar during each epoch and prints a row at its end; saves on the way, at the end, and where a signal stops it.

    A save on the way that fails is said on the error stream, and training goes on; the one at the end raises. A state with NaN or
    infinity is not saved: it raises, or fails like the others where training is to keep going.

    Use it in a with-statement, so that a bar ends whatever happens and a training that stops on the way tells where to go on.

    Parameters
    ----------
    trainer : the Trainer.
    epochs : epochs in all.
    source : what it is trained on, of known length.
    saving : where and when to save.
    stop : looked at after each step, each batch of validation and each epoch: the state is saved there and `Interrupted` raised.

    Attributes
    ----------
    step_s : seconds of the steps so far, without the first two, which build the graph, and the last of each epoch, whose batch
        may be short.
    timed_steps : of the same steps, the number of steps taken before, and their seconds.
    """

    def __init__(self, trainer: Any, epochs: int, source: BatchSource, saving: Saving, stop: StopRequest) -> None:
        super().__init__()
        self._stop = stop
        self._trainer, self._epochs, self._source = trainer, epochs, source
        self._batches = source.batches_per_epoch or 1
        self._trained_s, self._waited_s, self._waited_before_s, self._fed_before_s = 0.0, 0.0, 0.0, 0.0
        self._path, self._times, self._keep_going, self._saved = saving.path, saving.times, saving.keep_going, 0
        self._kept, self._plans = saving.kept, saving.plans
        self._keeps_epochs = saving.kept is not None and (saving.times is None or saving.times.every is None)
        self._bar = contextlib.ExitStack()
        self._advance: Advance = lambda step: None
        self._columns, self._widths = list[str](), list[int]()
        stop.saved = self.saved
        self._steps, self._first, self._start_s = 0, 0, 0.0
        self._warm_up, self._begin_s = WARM_UP_STEPS, 0.0
        self.timed_steps: list[tuple[int, float]] = []

    @property
    def step_s(self) -> list[float]:
        """Seconds of the steps."""
        return [seconds for _, seconds in self.timed_steps]

    @property
    def waiting(self) -> float | None:
        """What part of the time of all steps but the first two was waited for their data, or None if there were no more."""
        total_s = self._trained_s + self._waited_s
        return self._waited_s / total_s if total_s > 0 else None

    @property
    def saved(self) -> str:
        """What is saved and how to go on, as part of a sentence."""
        what, goes_on = "nothing is saved", self._stop.goes_on
        if self._path is None:
            what = "nothing is saved, because there is no --save FILE to save to"
        elif self._saved:
            what = f"the state after step {self._saved} is in {self._path}"
            what += "" if goes_on else f": go on from there with --resume {self._path}"
        return f"{what}; {goes_on}" if goes_on else what

    def __enter__(self) -> Epochs:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.close()
        if kind is not None and self._saved and not issubclass(kind, Interrupted):  # which says so itself
            click.echo(self.saved)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start the epoch's bar, at the place where a resumed epoch goes on."""
        self._steps, self._start_s = 0, time.monotonic()
        self._first = self._source.state()["batch"]
        left = max(self._batches - self._first, 1)
        self._advance = self._bar.enter_context(progress(f"epoch {epoch + 1} of {self._epochs}", left))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Look at the clock."""
        self._begin_s = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Mapping[str, float] | None = None) -> None:
        """Count and time the step, and save if it is time."""
        spent_s, waited_s = time.perf_counter() - self._begin_s, self._source.waited_s - self._waited_before_s
        fed_s = max(0.0, self._trainer.fed_wait_s - self._fed_before_s)  # part of the step, whose clock a move to another plan resets
        self._waited_before_s, self._fed_before_s = self._source.waited_s, self._trainer.fed_wait_s
        if self._warm_up > 0:
            self._warm_up -= 1
        else:
            self._trained_s, self._waited_s = self._trained_s + spent_s - fed_s, self._waited_s + waited_s + fed_s
            self.timed_steps += [(self._trainer.step - 1, spent_s)] if (self._first + self._steps + 1) % self._batches else []
        self._steps += 1
        self._advance(f"loss {logs['loss']:.4f}" if logs else "")
        if self._times is not None and self._times.is_due(self._trainer.step):
            self._save_on_the_way(self._times)
        self._end_if_asked()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Stop between two batches of validation if a signal asked for it."""
        self._end_if_asked()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Print the epoch's row; an epoch that was over when its checkpoint was made has none."""
        self._bar.close()
        if self._steps and logs:
            self._show(epoch, logs)
            if self._keeps_epochs:
                self._try_to_save(self._kept, lambda: "after the next epoch")
        self._end_if_asked()

    def _show(self, epoch: int, logs: Mapping[str, float]) -> None:
        if not self._columns:
            self._columns = sorted(logs, key=lambda name: (name != "loss", name))
            self._widths = [max(_COLUMN, len(name) + 2) for name in self._columns]
            click.echo(self._row("epoch", "steps", [name.replace("_", " ") for name in self._columns], "time"))
        numbers = [f"{logs[name]:.4f}" for name in self._columns]
        spent = seconds_text(time.monotonic() - self._start_s)
        click.echo(self._row(f"{epoch + 1}/{self._epochs}", f"{self._steps}/{self._batches}", numbers, spent))

    def on_train_end(self, logs: Any = None) -> None:
        """Save what has been reached, with the place to go on from."""
        self._save()
        self._end_if_asked()
        if not self._columns and not self.model.stop_training:
            click.echo(f"nothing was left to train: the checkpoint has reached epoch {self._epochs}")

    def _save(self) -> None:
        if self._path is not None:
            self._trainer.save(self._path, only_finite=True)
            if self._plans is not None:
                self._trainer.plan_history.save(self._plans)
            self._saved = self._trainer.step
        self._stop.saved = self.saved

    def _save_on_the_way(self, times: SaveTimes) -> None:
        times.begin()
        try:
            self._try_to_save(None if self._keeps_epochs else self._kept, lambda: times.next_text(self._trainer.step))
        finally:
            times.end()

    def _try_to_save(self, kept: KeptStates | None, then: Callable[[], str]) -> None:
        """Save, or say why not and when next, and go on."""
        try:
            self._save()
            if kept is not None:
                kept.add(self._trainer.step)
        except HeteroError as fault:
            if isinstance(fault, NotFiniteError) and not self._keep_going:
                raise
            wrong = str(fault) if isinstance(fault, NotFiniteError) else f"the state after step {self._trainer.step} is not saved: {fault}"
            click.echo(f"hetero-mtf: warning: {wrong}; training goes on and saves next {then()}, or at its end", err=True)

    def _end_if_asked(self) -> None:
        """Save what has been reached and end, if a signal asked for it."""
        if not self._stop.asked:
            return
        step, failure = self._trainer.step, ""
        if self._path is not None and self._saved != step:
            try:
                self._save()
            except HeteroError as fault:
                failure = f"the state after step {step} could not be saved ({fault}); "
        raise self._stop.interrupted(f"{failure}{self.saved}")

    def _row(self, epoch: str, steps: str, cells: list[str], spent: str) -> str:
        wide = "".join(cell.rjust(width) for cell, width in zip(cells, self._widths))
        return f"{epoch:>7}  {steps:>9}  {wide}  {spent:>10}"
