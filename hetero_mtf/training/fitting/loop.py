"""The loop of `Trainer.fit`: epochs, validation, callbacks, history."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hetero_mtf.data.source import BatchSource
from hetero_mtf.errors import DataError, NotFiniteError
from hetero_mtf.planning.memory.optimizer_slots import AVERAGE
from hetero_mtf.training import batches
from hetero_mtf.training.finite import loss_fault
from hetero_mtf.training.fitting.ahead import Ahead
from hetero_mtf.training.fitting.mirror import BatchesEnd, Mirror, Tests
from hetero_mtf.training.fitting.validation import Validation
from hetero_mtf.training.keras_side import KerasSide, with_averages


@dataclasses.dataclass(frozen=True)
class Fit:
    """The options of `Trainer.fit` that are not about its data.

    Parameters
    ----------
    validation : what is validated on, and when.
    epochs, initial_epoch, callbacks, keep_going : as there.
    verbose : 0, 1 or 2, as there.
    """

    validation: Validation
    epochs: int
    initial_epoch: int
    callbacks: tuple[Any, ...]
    verbose: int
    keep_going: bool


def listed(callbacks: Any) -> tuple[Any, ...]:
    """Return callbacks in the forms that Keras takes as a tuple.

    Parameters
    ----------
    callbacks : a keras.callbacks.Callback, a list of them, a keras.callbacks.CallbackList, or None.

    Raises
    ------
    DataError
        If one is no callback.
    """
    import keras

    inner = callbacks.callbacks if isinstance(callbacks, keras.callbacks.CallbackList) else callbacks
    each = () if inner is None else tuple(keras.tree.flatten(inner))
    wrong = [callback for callback in each if not hasattr(callback, "set_model")]
    if wrong:
        raise DataError(f"callbacks has {wrong[0]!r}, which is no callback; give objects of keras.callbacks.Callback")
    return each


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


def run_epochs(trainer: Any, keras_side: KerasSide, source: BatchSource, fit: Fit) -> Any:
    """Train until all epochs are done and return Keras's History.

    What a callback does to the model's weights, slots and iterations when an epoch or the training begins or ends is trained on with,
    as in Keras; so is the epoch to begin with that a callback sets (`model._initial_epoch`, by BackupAndRestore).

    Parameters
    ----------
    keras_side : its Keras side.
    source : batches, at the position to start from.

    Raises
    ------
    NotFiniteError
        If the loss of a step was NaN or infinite, and no callback stopped training at the end of the epoch that this step ended.
    """
    listeners = _listeners(keras_side, source, fit)
    mirror = Mirror(trainer, keras_side, bool(fit.callbacks))
    model = keras_side.model
    model.stop_training, model._initial_epoch = False, None
    with mirror.shown():
        listeners.on_train_begin()
    if model._initial_epoch:
        source.restore({**source.state(), "epoch": model._initial_epoch, "batch": 0, "sample": 0})
    elif fit.initial_epoch > source.epoch:
        source.begin_at(fit.initial_epoch)
    logs: dict[str, float] = {}
    while source.epoch < fit.epochs and not model.stop_training:
        epoch = source.epoch
        listeners.on_epoch_begin(epoch)
        mirror.take_back()
        batches_end = BatchesEnd(listeners, mirror) if _saves_between_batches(fit.callbacks) else listeners
        logs, fault = _run_epoch(trainer, keras_side, source, batches_end, fit.keep_going)
        if fit.validation.is_due(epoch):
            tested = _validate(trainer, fit.validation, Tests(listeners, mirror))
            logs.update({f"val_{name}": value for name, value in tested.items()})
        with mirror.shown():
            listeners.on_epoch_end(epoch, logs)
        if fault is not None and not model.stop_training:
            raise fault
    if AVERAGE in trainer._rule.all_slots:  # as in Keras, they are the weights when `fit` ends
        trainer._overwrite(with_averages(trainer._engine.read()))
    with mirror.shown():
        listeners.on_train_end(logs)
    return model.history


def testing_listeners(trainer: Any, keras_side: KerasSide, callbacks: Sequence[Any], verbose: str | int, steps: int | None) -> Any:
    """Return callbacks of a test or prediction as one, which see the present weights when it begins and ends.

    Parameters
    ----------
    callbacks, verbose : as for `Trainer.evaluate`.
    steps : number of batches, None where it is not known.
    """
    import keras

    shown = shown_verbosity(verbose)
    params = {"verbose": shown, "epochs": 1, "steps": steps}
    listed = keras.callbacks.CallbackList(list(callbacks), add_progbar=bool(shown), model=keras_side.model, **params)
    return Tests(listed, Mirror(trainer, keras_side, bool(callbacks)))


def _listeners(keras_side: KerasSide, source: BatchSource, fit: Fit) -> Any:
    """Return the callbacks as one, with those that Keras adds."""
    import keras

    return keras.callbacks.CallbackList(
        list(fit.callbacks),
        add_history=True,
        add_progbar=bool(fit.verbose),
        model=keras_side.model,
        verbose=fit.verbose,
        epochs=fit.epochs,
        steps=source.batches_per_epoch,
    )


def _saves_between_batches(callbacks: Sequence[Any]) -> bool:
    """Return whether a callback saves what its model has between batches, which costs reading all weights after each."""
    return any(isinstance(getattr(callback, "save_freq", None), int) for callback in callbacks)


def _run_epoch(
    trainer: Any, keras_side: KerasSide, source: BatchSource, listeners: Any, keep_going: bool
) -> tuple[dict[str, float], NotFiniteError | None]:
    """Train on the rest of the present epoch and return its mean loss and metrics.

    A loss that is not finite ends the epoch, and its error is returned; where training is to keep going, it is warned of once.
    """
    keras_side.reset_metrics()
    means = Means()
    logs: dict[str, float] = {}
    warned, batch, ahead = False, None, Ahead()
    for number, batch in enumerate(source):
        listeners.on_train_batch_begin(number)
        prepared = ahead.take(batch)
        ahead.begin(source, functools.partial(trainer._next, step=trainer._batches + 1))
        finished = trainer._train(batch, keras_side.has_metrics, prepared)
        for trained in finished:
            logs = {**means.add(trained.losses, trained.size), **trained.metrics}
        fault = None
        strange = [trained.losses["loss"] for trained in finished if not math.isfinite(trained.losses["loss"])]
        if strange and not warned:
            fault = loss_fault(trainer._graph, trainer._engine.read(), trainer.step, strange[0], batch)
        listeners.on_train_batch_end(number, logs)
        if keras_side.model.stop_training:
            break
        if fault is not None and not keep_going:
            return logs, fault
        if fault is not None:
            warnings.warn(f"training goes on although {fault}", stacklevel=2)
            warned = True
    fault = None
    for trained in trainer._drain(keras_side.has_metrics):
        logs = {**means.add(trained.losses, trained.size), **trained.metrics}
        if batch is not None and fault is None and not math.isfinite(trained.losses["loss"]) and not keep_going:
            fault = loss_fault(trainer._graph, trainer._engine.read(), trainer.step, trained.losses["loss"], batch)
    return logs, fault


def run_test(trainer: Any, keras_side: KerasSide, source: BatchSource, listeners: Any = None, steps: int | None = None) -> dict[str, float]:
    """Return the mean loss and the metrics over the batches of a source, by name.

    Parameters
    ----------
    keras_side : its Keras side.
    listeners : keras.callbacks.CallbackList that is called at the test and its batches, or None.
    steps : batches at most; None for all.
    """
    import keras

    listeners = keras.callbacks.Callback() if listeners is None else listeners  # the base class does nothing
    keras_side.reset_metrics()
    keras_side.model.stop_evaluating = False
    means = Means()
    logs: dict[str, float] = {}
    listeners.on_test_begin()
    for number, batch in enumerate(itertools.islice(source, steps)):
        listeners.on_test_batch_begin(number)
        tested = trainer._test(batch)
        logs = {**means.add(tested.losses, tested.size), **tested.metrics}
        listeners.on_test_batch_end(number, logs)
        if keras_side.model.stop_evaluating:
            break
    listeners.on_test_end(logs)
    return logs


def run_predictions(trainer: Any, keras_side: KerasSide, source: BatchSource, listeners: Any, steps: int | None) -> list[list[np.ndarray]]:
    """Return the outputs of each batch.

    Parameters
    ----------
    keras_side, source, listeners, steps : as for `run_test`.
    """
    outputs: list[list[np.ndarray]] = []
    keras_side.model.stop_predicting = False
    listeners.on_predict_begin()
    for number, batch in enumerate(itertools.islice(source, steps)):
        listeners.on_predict_batch_begin(number)
        outputs.append(trainer._engine.predict(batches.samples(trainer._graph, batch.x)))
        listeners.on_predict_batch_end(number, {"outputs": trainer._form.outputs.pack(outputs[-1])})
        if keras_side.model.stop_predicting:
            break
    listeners.on_predict_end()
    return outputs


def _validate(trainer: Any, validation: Validation, listeners: Any) -> dict[str, float]:
    data, limits = validation.data, {"batch_size": validation.batch_size, "steps": validation.steps}
    if not isinstance(data, tuple):
        return dict(trainer._evaluate(data, listeners=listeners, **limits))
    if len(data) not in (2, 3):
        raise DataError(f"validation_data has {len(data)} parts; give (x, y) or (x, y, sample_weight)")
    x, y, *weight = data
    return dict(trainer._evaluate(x, y, listeners, sample_weight=weight[0] if weight else None, **limits))


class Means:
    """Running means over samples."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count = 0

    def add(self, values: Mapping[str, float], size: int) -> dict[str, float]:
        """Count the means of a batch and return those so far.

        Parameters
        ----------
        values : name -> mean over the batch.
        size : samples in the batch.
        """
        self._count += size
        self._sums = {name: self._sums.get(name, 0.0) + value * size for name, value in values.items()}
        return {name: total / self._count for name, total in self._sums.items()}
