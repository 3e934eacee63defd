"""TrainerLoops: Keras's loops of a trainer's own model, which have a position in their data."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
import types
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import keras

from hetero_mtf.data.checked_batch import Batch, add_class_weight, check_batch
from hetero_mtf.data.source import BatchSource
from hetero_mtf.errors import NotFiniteError
from hetero_mtf.keras_reading.private_names import begin_at, get_data_adapter
from hetero_mtf.planning.memory.optimizer_slots import AVERAGE
from hetero_mtf.training.finite import loss_fault
from hetero_mtf.training.loops.callback_hooks import first_callback, last_callback, saves_between_batches
from hetero_mtf.training.loops.given import Given
from hetero_mtf.training.loops.keras_batches import arrays_of
from hetero_mtf.training.loops.keras_loops import KerasLoops
from hetero_mtf.training.loops.model_metrics import ModelMetrics
from hetero_mtf.training.loops.own_weights import OwnWeights
from hetero_mtf.training.loops.plan_events import plan_events
from hetero_mtf.training.loops.source_adapter import SourceBatches
from hetero_mtf.training.run.run import Run
from hetero_mtf.training.trained import shown_losses


class _Stop:
    """A reason to leave Keras's loop over batches that is none to end the training: true, as `stop_training` has to be."""


_EPOCH_OVER, _NOT_FINITE = _Stop(), _Stop()


@dataclasses.dataclass(frozen=True)
class Fit:
    """The options of `Trainer.fit` that are not about its data.

    Parameters
    ----------
    epochs, initial_epoch, callbacks, keep_going : as there.
    verbose : 0, 1 or 2, as there.
    validation : what is validated on; None for nothing.
    every, steps : after how many epochs to validate, or the numbers of these epochs, from 1, and batches at most.
    """

    epochs: int
    initial_epoch: int
    callbacks: tuple[Any, ...]
    verbose: int
    keep_going: bool
    validation: Given | None = None
    every: int | Collection[int] = 1
    steps: int | None = None


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


class TrainerLoops:
    """Runs Keras's loops of the model that a trainer's metrics and callbacks have, a copy of the user's.

    The copy has the trainer's weights only where there are callbacks to see it.

    Parameters
    ----------
    run : of the trainer.
    """

    def __init__(self, run: Run) -> None:
        self._model, self._run = run.keras_side.model, run
        self._loops = KerasLoops(self._model, self, run)
        self._training: Given | None = None  # what is trained on
        self._batches: SourceBatches | None = None  # of a source, in the present epoch
        self._last: Batch | None = None
        self._keep_going = self._warned = False
        self._fault: NotFiniteError | None = None
        self._resumed = False  # within an epoch
        self._testing: Any = None  # what Keras's loop tests or predicts on
        self._tests = False  # whether a batch is tested on now
        self._epochs = 0
        self._converted: tuple[Any, Any] = (None, None)  # the last batch of a stream, as it was given and with arrays
        self._batch: tuple[Any, Batch | None] = (None, None)  # the same with arrays, and checked
        self._loops.bind()

    @property
    def position(self) -> Mapping[str, Any] | None:
        """The position in the data that are trained on now; None where nothing is."""
        return None if self._training is None else self._training.at.state()

    @property
    def steps_ahead(self) -> int | None:
        """Steps until the present call of `fit` ends; None where that is not known."""
        return self._loops.steps_ahead

    def take_over(self) -> None:
        """Go on with what callbacks have changed so far, while they see the present weights."""
        if self._loops.weights is not None and self._loops.calls_begin:
            self._loops.weights.read_changes()

    def fit(self, given: Given, fit: Fit) -> Any:
        """Train until all epochs are done and return Keras's History.

        Parameters
        ----------
        given : what is trained on, at the position to start from.
        fit : the options.

        Raises
        ------
        NotFiniteError
            If the loss of a step was NaN or infinite, and no callback stopped training at the end of the epoch that this step ended.
        """
        model, loops, at = self._model, self._loops, given.at
        if given.source is not None and at.batch and at.batch == given.batches_per_epoch:
            next(iter(given.source), None)  # the position is the end of an epoch
        elif fit.initial_epoch > at.epoch:
            at.begin_at(fit.initial_epoch)
        self._training, self._keep_going, self._epochs, self._fault = given, fit.keep_going, fit.epochs, None
        loops.looked_at = any(map(saves_between_batches, fit.callbacks))
        data: dict[str, Any] = {"epochs": fit.epochs, "initial_epoch": at.epoch, "verbose": fit.verbose}
        if given.source is None:
            data |= {"steps_per_epoch": given.steps, "shuffle": given.shuffle}
        tested = None if fit.validation is None else fit.validation.taken(tests=True)
        if tested is not None:
            data |= {"validation_data": tested, "validation_freq": fit.every, "validation_steps": fit.steps}
        taken = given.taken(tests=False)
        listeners = self._listeners(fit.callbacks, fit.verbose, fit.epochs, given.steps or _count_of(taken), add_history=True)
        begin_at(model, None)
        with self._open(bool(fit.callbacks) or AVERAGE in self._run.network.rule.all_slots):  # Keras makes averages the weights at the end
            loops.fitting, self._testing = True, tested
            try:
                history = keras.Model.fit(model, taken, callbacks=listeners, **data)
                loops.begin_call()
            finally:
                loops.fitting = loops.looked_at = False
                loops.end()
                loops.steps_ahead, self._training, self._batches, self._last = None, None, None, None
                self._converted = self._batch = (None, None)
        return history

    def evaluate(self, tested: Given, callbacks: Sequence[Any], verbose: str | int, steps: int | None) -> dict[str, Any]:
        """Return the mean loss and the metrics over the batches of a source, by name.

        Parameters
        ----------
        tested : what is tested on.
        callbacks, verbose, steps : as for `Trainer.evaluate`.
        """
        with self._opened_for(tested, callbacks, verbose, steps) as options:
            logs: dict[str, Any] = keras.Model.evaluate(self._model, return_dict=True, **options)
            order = ["loss", *self._loops.get_metrics_result()]  # older versions of Keras sort by name
        return {name: logs[name] for name in order if name in logs}

    def predict(self, tested: Given, callbacks: Sequence[Any], verbose: str | int, steps: int | None) -> Any:
        """Return the outputs, packed as the model's.

        Parameters
        ----------
        tested : what is predicted for.
        callbacks, verbose, steps : as for `Trainer.predict`.
        """
        with self._opened_for(tested, callbacks, verbose, steps) as options:
            return keras.Model.predict(self._model, **options)

    @contextlib.contextmanager
    def _opened_for(self, tested: Given, callbacks: Sequence[Any], verbose: str | int, steps: int | None) -> Iterator[dict[str, Any]]:
        """Yield what Keras's `evaluate` or `predict` is called with; what callbacks changed meanwhile is trained on with."""
        shown, taken = shown_verbosity(verbose), tested.taken(tests=True)
        listeners = self._listeners(callbacks, shown, 1, steps or _count_of(taken))
        with self._open(bool(callbacks)):
            self._testing = taken
            yield {"x": taken, "steps": steps, "callbacks": listeners, "verbose": shown}
            self._loops.begin_call()

    @contextlib.contextmanager
    def _open(self, watched: bool) -> Iterator[None]:
        """Keep the model equal to the trainer's state meanwhile, where someone sees it; a callback may test within `fit`."""
        loops, run = self._loops, self._run
        outer = loops.weights
        if outer is None or (watched and not outer.watched):
            loops.weights = OwnWeights(run, watched)
            loops.weights.note_step()
        if loops.metrics is None:
            loops.metrics = ModelMetrics(self._model, run.network.graph, run.network.form.outputs, run.network.objective)
        if outer is None:
            run.engine.drain(False)  # of single steps
            run.keras_side.reset_metrics()
        testing = self._testing
        try:
            yield
        finally:
            loops.weights, self._testing = outer, testing

    def _listeners(self, callbacks: Sequence[Any], verbose: int, epochs: int, steps: int | None, add_history: bool = False) -> Any:
        """Return the callbacks as one, with those that Keras adds, between a first and a last one."""
        first = first_callback(self._at_epoch_begin, self._at_epoch_end)
        last = last_callback(self)
        params = {"verbose": verbose, "epochs": epochs, "steps": steps}
        events = plan_events(callbacks, lambda: self._run.plans.moves, lambda: self._run.state.step) if add_history else []
        each = [first, *events, *callbacks, last]
        listeners = keras.callbacks.CallbackList(each, add_history=add_history, add_progbar=bool(verbose), model=self._model, **params)
        listeners.callbacks.remove(last)
        listeners.callbacks.append(last)
        return listeners

    # the side of Keras's loops: see LoopSide

    def is_left_to_keras(self, what: str, force: bool) -> bool:
        """Return False: the run takes all steps."""
        return False

    @contextlib.contextmanager
    def calling(self, what: str, iterator: Any) -> Iterator[None]:
        """Know the batches that are trained on, and whether a batch is tested on, while a function runs."""
        if what == "train":
            self._batches = iterator if isinstance(iterator, SourceBatches) else None
        self._tests = what == "test"
        try:
            yield
        finally:
            self._tests = False

    def begin_step(self, data: Any) -> None:
        """Count the batch in the position."""
        self._last = self.checked(self.given(data), self._run)
        if self._training is not None:
            self._training.position.batch += 1

    def given(self, data: Any) -> Any:
        """Return a batch with arrays; one that was prepared ahead comes again with its step."""
        if isinstance(data, Batch):
            return data
        if self._converted[0] is not data:
            self._converted = data, arrays_of(data)
        return self._converted[1]

    def run_for(self, data: Any) -> Run:
        """Return the run."""
        return self._run

    def checked(self, data: Any, run: Run, predicts: bool = False) -> Batch:
        """Return a batch whose arrays fit each other, with class weights."""
        if isinstance(data, Batch):
            return data
        if self._batch[0] is not data or self._batch[1] is None:
            x, y, sample_weight = data if not predicts else (data[0], None, None)
            trained = None if self._tests or predicts else self._training
            where = "" if trained is None else f" of batch {trained.position.batch}"
            form = run.network.form
            batch = check_batch(x, y, sample_weight, where, form, finite=trained is not None)
            if trained is not None and trained.class_weight is not None:
                batch = add_class_weight(batch, trained.class_weight, where, form)
            self._batch = data, batch
            return batch
        return self._batch[1]

    def counts(self, data: Any) -> Any:
        """Return the batch as metrics take it, packed."""
        form, data = self._run.network.form, self.checked(data, self._run)
        parts: list[Any] = [part if part is None or isinstance(part, tuple) else (part,) for part in data]
        x, y, sample_weight = parts
        if sample_weight is not None and len(sample_weight) < form.outputs.count:
            sample_weight = sample_weight * form.outputs.count  # the same for all
        return (
            form.inputs.pack(x),
            None if y is None else form.outputs.pack(y),
            None if sample_weight is None or all(each is None for each in sample_weight) else form.outputs.pack(sample_weight),
        )

    def note_counted(self, finished: Sequence[Any]) -> None:
        """Take note of the first loss that is not finite."""
        run, network = self._run, self._run.network
        for feed, step_result in finished:
            loss, _ = shown_losses(network.objective, feed.graph or network.graph, feed.size, step_result)
            if not math.isfinite(loss) and self._fault is None and not self._warned and self._last is not None:
                self._fault = loss_fault(network.graph, run.values(), run.state.step, loss, self._last)

    def note_end(self) -> None:
        """Do nothing: the copy's optimizer counts as the run does."""

    # first and last of the callbacks

    def _at_epoch_begin(self, epoch: int, params: Any) -> None:
        given, self._warned = self._training, False
        assert given is not None
        if given.source is None:
            given.position.begin_at(epoch)
            self._loops.at_epoch_begin(epoch, params)
            return
        source = given.source
        if source.epoch != epoch:  # a callback has set where to begin
            source.restore({**source.state(), "epoch": epoch, "batch": 0, "sample": 0})
        self._resumed = bool(source.batch)
        self._loops.steps_ahead = steps_ahead(source, self._epochs)

    def after_begin(self) -> None:
        """Train for no epoch where a callback has stopped the training; Keras would train on one batch."""
        if self._model.stop_training:
            begin_at(self._model, self._epochs)

    def after_batch(self) -> None:
        """Leave the loop over batches where the loss is not finite, or where the epoch ends and Keras cannot know it."""
        model = self._model
        if model.stop_training or self._training is None:
            return
        if self._fault is not None and self._keep_going:
            warnings.warn(f"training goes on although {self._fault}", stacklevel=2)
            self._fault, self._warned = None, True
        if self._fault is not None:
            model.stop_training = _NOT_FINITE
        elif self._batches is not None and (self._resumed or self._training.batches_per_epoch is None) and self._batches.is_over():
            model.stop_training = _EPOCH_OVER

    def _at_epoch_end(self) -> None:
        self._loops.at_epoch_end()
        if self._model.stop_training is _EPOCH_OVER:
            self._model.stop_training = False
        if not self._model.stop_training and self._training is not None:
            self._training.position.begin_at(self._training.position.epoch + 1)
            if self._batches is not None:
                self._batches.is_over()  # the source steps to the next epoch

    def after_epoch(self) -> None:
        """Raise where the loss was not finite and no callback has stopped the training."""
        if self._fault is not None and not self._keep_going and self._model.stop_training in (False, _NOT_FINITE):
            raise self._fault

    def after_test_batch(self) -> None:
        """Leave the loop over the batches of a test where Keras cannot know their number."""
        if getattr(self._testing, "num_batches", 0) is None and self._test_is_over():
            self._model.stop_evaluating = self._model.stop_predicting = True

    def after_test(self) -> None:
        """Let the source step to the next epoch where all its batches were tested on."""
        self._test_is_over()

    def _test_is_over(self) -> bool:
        batches = getattr(self._testing, "batches", None)
        return isinstance(batches, SourceBatches) and batches.is_over()


def _count_of(taken: Any) -> int | None:
    """Return the number of batches of what Keras's loops take, None where that is not known."""
    if hasattr(taken, "num_batches"):
        count = taken.num_batches
        return None if count is None else int(count)
    return None if isinstance(taken, types.GeneratorType) else get_data_adapter(taken).num_batches
