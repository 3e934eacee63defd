"""TrainerLoops: Keras's loops of a trainer's own model, over sources of batches that have a position."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from hetero_mtf.data.array_source import ArraySource
from hetero_mtf.data.batch import Batch
from hetero_mtf.data.factory import batch_source
from hetero_mtf.data.source import BatchSource
from hetero_mtf.errors import NotFiniteError
from hetero_mtf.planning.memory.optimizer_slots import AVERAGE
from hetero_mtf.training.finite import loss_fault
from hetero_mtf.training.loops.callback_hooks import first_callback, last_callback, saves_between_batches
from hetero_mtf.training.loops.keras_loops import KerasLoops
from hetero_mtf.training.loops.model_metrics import ModelMetrics
from hetero_mtf.training.loops.own_weights import OwnWeights
from hetero_mtf.training.loops.source_adapter import SourceBatches, source_adapter
from hetero_mtf.training.trained import shown_losses


class _Stop:
    """A reason to leave Keras's loop over batches that is none to end the training: true, as `stop_training` has to be."""


_EPOCH_ENDS, _NOT_FINITE = _Stop(), _Stop()


@dataclasses.dataclass(frozen=True)
class Fit:
    """The options of `Trainer.fit` that are not about its data.

    Parameters
    ----------
    epochs, initial_epoch, callbacks, keep_going : as there.
    verbose : 0, 1 or 2, as there.
    validation : gives the source to validate on, anew for each validation where it is not the user's; None for none.
    every, steps : after how many epochs to validate, or the numbers of these epochs, from 1, and batches at most.
    """

    epochs: int
    initial_epoch: int
    callbacks: tuple[Any, ...]
    verbose: int
    keep_going: bool
    validation: Tested | None = None
    every: int | Collection[int] = 1
    steps: int | None = None


@dataclasses.dataclass(frozen=True)
class Tested:
    """What is tested or predicted on.

    Parameters
    ----------
    source : batches.
    again : gives the source of another pass from the one before; None where it goes on with the same.
    """

    source: BatchSource
    again: Callable[[BatchSource], BatchSource] | None = None

    @property
    def adapter(self) -> Any:
        """What Keras's loops take."""
        return source_adapter(self.source, self.again, left=self.again is None)


@contextlib.contextmanager
def opened_test(x: Any, y: Any = None, **options: Any) -> Iterator[Tested]:
    """Yield what is tested or predicted on; each pass begins at the beginning, unless it is a source of the user's, which stays open.

    Parameters
    ----------
    x, y, options : as for `batch_source`.
    """
    source = batch_source(x, y, shuffle=False, **options)
    if source is x:
        yield Tested(source)
        return
    opened = [source]

    def again(before: BatchSource) -> BatchSource:
        if isinstance(before, ArraySource):
            before.begin_at(0)
            return before
        before.close()
        opened[0] = batch_source(x, y, shuffle=False, **options)
        return opened[0]

    try:
        yield Tested(source, again)
    finally:
        opened[0].close()


def shown_verbosity(verbose: str | int) -> int:
    """Return the verbosity that "auto" stands for: 1, a bar, where standard output is a terminal or a notebook, else 2, a line an epoch.

    Keras takes 1 everywhere, which writes a line a step into a log file.

    Parameters
    ----------
    verbose : as for `Trainer.fit`; numbers are returned as they are.
    """
    if isinstance(verbose, int):
        return verbose
    return 1 if sys.stdout.isatty() or "ipykernel" in sys.modules else 2


def steps_ahead(source: BatchSource, epochs: int) -> int | None:
    """Return the steps until all epochs are done; None where that is not known.

    Parameters
    ----------
    source : batches, at the present position.
    epochs : the last epoch.
    """
    an_epoch = source.batches_per_epoch
    return None if an_epoch is None else max(0, (epochs - source.epoch) * an_epoch - source.batch)


class TrainerLoops(KerasLoops):
    """Runs Keras's loops of the model that a trainer's metrics and callbacks have, a copy of the user's.

    The copy has the trainer's weights only where there are callbacks to see it.

    Parameters
    ----------
    trainer : Trainer.
    """

    def __init__(self, trainer: Any) -> None:
        super().__init__(trainer._keras.model)
        self._trainer = trainer
        self._source: BatchSource | None = None  # that is trained on
        self._batches: SourceBatches | None = None
        self._last: Batch | None = None
        self._keep_going = self._warned = False
        self._fault: NotFiniteError | None = None
        self._resumed = False  # within an epoch
        self._testing: Any = None  # what Keras's loop tests or predicts on
        self._epochs = 0
        self.bind()

    @property
    def source(self) -> BatchSource | None:
        """The source of batches that is trained on now."""
        return self._source

    def take_over(self) -> None:
        """Go on with what callbacks have changed so far, while they see the present weights."""
        if self._weights is not None and self._calls_begin:
            self._weights.read_changes()

    def fit(self, source: BatchSource, fit: Fit) -> Any:
        """Train until all epochs are done and return Keras's History.

        Parameters
        ----------
        source : batches, at the position to start from.
        fit : the options.

        Raises
        ------
        NotFiniteError
            If the loss of a step was NaN or infinite, and no callback stopped training at the end of the epoch that this step ended.
        """
        import keras

        model, trainer = self._model, self._trainer
        if source.batch and source.batch == source.batches_per_epoch:
            next(iter(source), None)  # the position is the end of an epoch
        elif fit.initial_epoch > source.epoch:
            source.begin_at(fit.initial_epoch)
        self._source, self._keep_going, self._epochs, self._fault = source, fit.keep_going, fit.epochs, None
        self._looked_at = any(map(saves_between_batches, fit.callbacks))
        tested, data = None, {"epochs": fit.epochs, "initial_epoch": source.epoch, "verbose": fit.verbose}
        if fit.validation is not None:
            tested = fit.validation.adapter
            data |= {"validation_data": tested, "validation_freq": fit.every, "validation_steps": fit.steps}
        listeners = self._listeners(fit.callbacks, fit.verbose, fit.epochs, source.batches_per_epoch, add_history=True)
        model._initial_epoch = None
        with self._open(bool(fit.callbacks) or AVERAGE in trainer._rule.all_slots):  # Keras makes averages the weights at the end
            self._fitting, self._testing = True, tested
            try:
                history = keras.Model.fit(model, source_adapter(source), callbacks=listeners, **data)
                self._begin_call()
            finally:
                self._fitting = self._looked_at = False
                self._steps_ahead, self._source, self._batches, self._last = None, None, None, None
                self._upcoming.drop()
                self._begun.clear()
        return history

    def evaluate(self, tested: Tested, callbacks: Sequence[Any], verbose: str | int, steps: int | None) -> dict[str, Any]:
        """Return the mean loss and the metrics over the batches of a source, by name.

        Parameters
        ----------
        tested : what is tested on.
        callbacks, verbose, steps : as for `Trainer.evaluate`.
        """
        import keras

        shown = shown_verbosity(verbose)
        listeners = self._listeners(callbacks, shown, 1, steps or tested.source.batches_per_epoch)
        with self._open(bool(callbacks)):
            self._testing = tested.adapter
            given: dict[str, Any] = {"steps": steps, "callbacks": listeners, "verbose": shown}
            logs: dict[str, Any] = keras.Model.evaluate(self._model, self._testing, **given, return_dict=True)
            order = list(self.get_metrics_result())
            self._begin_call()
        return {name: logs[name] for name in order if name in logs}

    def predict(self, tested: Tested, callbacks: Sequence[Any], verbose: str | int, steps: int | None) -> Any:
        """Return the outputs, packed as the model's.

        Parameters
        ----------
        tested : what is predicted for.
        callbacks, verbose, steps : as for `Trainer.predict`.
        """
        import keras

        shown = shown_verbosity(verbose)
        listeners = self._listeners(callbacks, shown, 1, steps or tested.source.batches_per_epoch)
        with self._open(bool(callbacks)):
            self._testing = tested.adapter
            outputs = keras.Model.predict(self._model, self._testing, steps=steps, callbacks=listeners, verbose=shown)
            self._begin_call()
        return outputs

    @contextlib.contextmanager
    def _open(self, watched: bool) -> Iterator[None]:
        """Keep the model equal to the trainer's state meanwhile, where someone sees it; a callback may test within `fit`."""
        outer = self._weights
        if outer is None or (watched and not outer.watched):
            self._weights = OwnWeights(self._trainer, self._trainer._keras, watched)
            self._weights.note_step()
        if self._metrics is None:
            graph, form, objective = self._trainer._graph, self._trainer._form, self._trainer._objective
            self._metrics = ModelMetrics(self._model, graph, form.outputs, objective)
        if outer is None:
            self._trainer._engine.drain(False)  # of single steps
            self._trainer._keras.reset_metrics()
        testing = self._testing
        try:
            yield
        finally:
            self._weights, self._testing = outer, testing

    def _listeners(self, callbacks: Sequence[Any], verbose: int, epochs: int, steps: int | None, add_history: bool = False) -> Any:
        """Return the callbacks as one, with those that Keras adds, between a first and a last one."""
        import keras

        first = first_callback(self._at_epoch_begin, self._at_epoch_end)
        last = last_callback(self._after_batch, self._after_epoch, self._after_test_batch, self._after_test)
        params = {"verbose": verbose, "epochs": epochs, "steps": steps}
        each = [first, *callbacks, last]
        listeners = keras.callbacks.CallbackList(each, add_history=add_history, add_progbar=bool(verbose), model=self._model, **params)
        listeners.callbacks.remove(last)
        listeners.callbacks.append(last)
        return listeners

    def _counts(self, data: Batch) -> Any:
        form = self._trainer._form
        x, y, sample_weight = (part if part is None or isinstance(part, tuple) else (part,) for part in data)
        if sample_weight is not None and len(sample_weight) < form.outputs.count:
            sample_weight = sample_weight * form.outputs.count  # the same for all
        return (
            form.inputs.pack(x),
            None if y is None else form.outputs.pack(y),
            None if sample_weight is None or all(each is None for each in sample_weight) else form.outputs.pack(sample_weight),
        )

    def _checked(self, data: Batch, trainer: Any, predicts: bool = False) -> Batch:
        return data

    def _train_on(self, data: Batch, feed: Any, iterator: Any) -> Any:
        self._last = data
        return super()._train_on(data, feed, iterator)

    def _train(self, iterator: Any) -> Any:
        self._batches = iterator
        return super()._train(iterator)

    def _counted(self, finished: Sequence[Any]) -> Any:
        logs = super()._counted(finished)
        trainer = self._trainer
        for feed, step_result in finished:
            loss, _ = shown_losses(trainer._objective, feed.graph or trainer._graph, feed.size, step_result)
            if not math.isfinite(loss) and self._fault is None and not self._warned and self._last is not None:
                self._fault = loss_fault(trainer._graph, trainer._engine.read(), trainer.step, loss, self._last)
        return logs

    def _at_epoch_begin(self, epoch: int, params: Any) -> None:
        source = self._source
        assert source is not None
        if source.epoch != epoch:  # a callback has set where to begin
            source.restore({**source.state(), "epoch": epoch, "batch": 0, "sample": 0})
        self._resumed, self._warned = bool(source.batch), False
        self._steps_ahead = steps_ahead(source, self._epochs)

    def _after_batch(self) -> None:
        """Leave the loop over batches where the loss is not finite, or where the epoch ends and Keras cannot know it."""
        model, source = self._model, self._source
        if model.stop_training or source is None or self._batches is None:
            return
        if self._fault is not None and self._keep_going:
            warnings.warn(f"training goes on although {self._fault}", stacklevel=2)
            self._fault, self._warned = None, True
        if self._fault is not None:
            model.stop_training = _NOT_FINITE
        elif (self._resumed or source.batches_per_epoch is None) and self._batches.ends():
            model.stop_training = _EPOCH_ENDS

    def _at_epoch_end(self) -> None:
        super()._at_epoch_end()
        if self._model.stop_training is _EPOCH_ENDS:
            self._model.stop_training = False
        if not self._model.stop_training and self._batches is not None:
            self._batches.ends()  # the source steps to the next epoch

    def _after_epoch(self) -> None:
        """Raise where the loss was not finite and no callback has stopped the training."""
        if self._fault is not None and not self._keep_going and self._model.stop_training in (False, _NOT_FINITE):
            raise self._fault

    def _after_test_batch(self) -> None:
        """Leave the loop over the batches of a test where Keras cannot know their number."""
        if self._testing is not None and self._testing.source.batches_per_epoch is None and self._test_ends():
            self._model.stop_evaluating = self._model.stop_predicting = True

    def _after_test(self) -> None:
        self._test_ends()  # the source steps to the next epoch

    def _test_ends(self) -> bool:
        return self._testing is not None and self._testing.batches is not None and self._testing.batches.ends()
