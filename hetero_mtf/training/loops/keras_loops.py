"""KerasLoops: what is bound to a Keras model, so that Keras's own loops run their steps by a trainer."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import tensorflow as tf

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.training.batches import samples
from hetero_mtf.training.loops.own_weights import OwnWeights
from hetero_mtf.training.loops.upcoming import Upcoming

FUNCTIONS = ("make_train_function", "make_test_function", "make_predict_function", "get_metrics_result")
"""What is set on the model itself; its class stays as it is, or Keras could not load and clone the model."""


class LoopMetrics(Protocol):
    """Metrics of a model that are updated with what steps gave."""

    needs_outputs: bool
    """Whether predictions are read."""

    @property
    def updating(self) -> bool:
        """Whether a batch is being counted now."""

    def build(self, data: Any) -> None:
        """Make what metrics need with the first batch."""

    def update(self, data: Any, size: int, step_result: Any, graph: Any = None) -> dict[str, Any]:
        """Count a batch and return the logs so far."""


def exhausted() -> tuple[type[BaseException], ...]:
    """Return what iterators of batches raise at their end."""
    return StopIteration, tf.errors.OutOfRangeError


class KerasLoops:
    """Runs the steps of Keras's `fit`, `evaluate`, `predict` and their forms for one batch by a trainer.

    These loops draw the batches, call the functions that are made here, and read the model's metrics.

    Parameters
    ----------
    model : keras.Model, compiled.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._trainer: Any = None
        self._weights: OwnWeights | None = None
        self._metrics: LoopMetrics | None = None
        self._upcoming = Upcoming()
        self._calls_begin = False  # whether weights may have been assigned since the last step
        self._fitting = self._looked_at = False
        self._steps_ahead: int | None = None  # of the present call of fit; None where that is not known
        self._begun: deque[Any] = deque()  # what metrics take of batches that no step has finished yet

    def bind(self) -> None:
        """Set the functions on the model."""
        for name in FUNCTIONS:
            object.__setattr__(self._model, name, getattr(self, name))
        self._forget_functions()

    def make_train_function(self, force: bool = False) -> Any:
        """Make what Keras calls with an iterator for each step of training."""
        return self._make("train", force)

    def make_test_function(self, force: bool = False) -> Any:
        """Make what Keras calls with an iterator for each step of a test."""
        return self._make("test", force)

    def make_predict_function(self, force: bool = False) -> Any:
        """Make what Keras calls with a list of batches to predict."""
        return self._make("predict", force)

    def get_metrics_result(self) -> Any:
        """Return the model's metrics; a schedule without a flush ends what it has begun before."""
        if self._fitting and self._trainer is not None and not (self._metrics is not None and self._metrics.updating):
            self._drain()
        return type(self._model).get_metrics_result(self._model)

    @property
    def steps_ahead(self) -> int | None:
        """Steps until the present call of `fit` ends; None where that is not known."""
        return self._steps_ahead

    # what the two kinds of loops do in their own way

    def _begun_with(self, data: Any) -> Any:
        """Return the trainer, which may be made for the first batch."""
        return self._trainer

    def _given(self, data: Any) -> Any:
        """Return a batch as it came from an iterator with arrays."""
        return data

    def _counts(self, data: Any) -> Any:
        """Return what metrics take of a batch: (x, y, sample_weight)."""
        return data

    def _checked(self, data: Any, trainer: Any, predicts: bool = False) -> Batch:
        """Return a batch whose arrays fit each other."""
        raise NotImplementedError

    def _count_end(self) -> None:
        """Note that data ended that Keras did not know the length of."""

    # the steps

    def _make(self, what: str, force: bool) -> Any:
        attribute = f"{what}_function"
        self._settle()
        self._calls_begin = True
        if getattr(self._model, attribute) is None or force:
            setattr(self._model, attribute, getattr(self, f"_{what}"))
        return getattr(self._model, attribute)

    def _train(self, iterator: Iterator[Any]) -> Any:
        logs = None
        for _ in range(self._model.steps_per_execution):
            try:
                data, feed = self._upcoming.take(iterator)
            except exhausted():
                break
            logs = self._train_on(data, feed, iterator)
        if logs is None:
            self._count_end()
            raise StopIteration
        return logs

    def _train_on(self, data: Any, feed: Any, iterator: Iterator[Any]) -> Any:
        data = self._given(data)
        trainer = self._begun_with(data)
        if feed is None or self._calls_begin or self._looked_at:
            self._begin_call()
            feed = trainer._feed(self._checked(data, trainer))
        if self._steps_ahead is not None:
            self._steps_ahead -= 1
        weights, metrics = self._held
        counts = self._counts(data)
        metrics.build(counts)
        if self._fitting and self._steps_ahead != 0:  # else a batch would be drawn that no step uses
            self._upcoming.begin(iterator, functools.partial(self._staged, step=trainer._batches + 1))
        finished = trainer._advance(feed, metrics.needs_outputs)
        weights.note_step()
        self._begun.append(counts)
        logs = self._counted(finished)
        if self._looked_at or not self._fitting:
            self._drain()
            self._write_back()
            self._calls_begin = True
        return logs

    def _test(self, iterator: Iterator[Any]) -> Any:
        logs = None
        for _ in range(self._model.steps_per_execution):
            try:
                data = self._given(next(iterator))
            except exhausted():
                break
            trainer = self._begun_with(data)
            self._begin_call()
            _, metrics = self._held
            counts = self._counts(data)
            metrics.build(counts)
            feed = trainer._feed(self._checked(data, trainer))
            logs = metrics.update(counts, feed.size, trainer._engine.test(feed, metrics.needs_outputs), feed.graph)
        if logs is None:
            raise StopIteration
        return logs

    def _predict(self, batches: Sequence[Any]) -> Any:
        outputs = []
        for each in batches:
            data = self._given(each)
            trainer = self._begun_with(data)
            batch = self._checked(data, trainer, predicts=True)
            self._begin_call()
            graph = trainer._graph_for(batch.x)
            outputs.append(trainer._engine.predict(samples(graph, batch.x), None if graph is trainer._graph else graph))
        joined = [tf.concat(pieces, 0) if len(pieces) > 1 else tf.convert_to_tensor(pieces[0]) for pieces in zip(*outputs, strict=True)]
        return trainer._form.outputs.pack(joined)

    def _staged(self, data: Any, step: int) -> Any:
        """Return a batch as the cluster takes it, written where devices read it."""
        trainer = self._trainer
        assert trainer is not None
        return trainer._next(self._checked(self._given(data), trainer), step)

    @property
    def _held(self) -> tuple[OwnWeights, LoopMetrics]:
        assert self._weights is not None and self._metrics is not None
        return self._weights, self._metrics

    def _begin_call(self) -> None:
        """Take over what was assigned to the model since the last call, epoch or batch that someone looked at."""
        if self._calls_begin and self._weights is not None:
            self._weights.read_changes()
        self._calls_begin = False

    def _counted(self, finished: Sequence[Any]) -> Any:
        """Count the batches that a step finished in the metrics, and return the logs; batches are finished in their order."""
        _, metrics = self._held
        logs = None
        for feed, step_result in finished:
            logs = metrics.update(self._begun.popleft(), feed.size, step_result, feed.graph)
        return type(self._model).get_metrics_result(self._model) if logs is None else logs

    def _settle(self) -> None:
        """End what is under way, and write the weights back."""
        self._upcoming.wait()
        self._drain()
        self._write_back()

    def _drain(self) -> None:
        if self._trainer is None or self._weights is None or self._metrics is None or self._trainer._held is None:
            return
        finished = self._trainer._engine.drain(self._metrics.needs_outputs)
        if finished:
            self._weights.note_step()
            self._counted(finished)

    def _write_back(self) -> None:
        if self._weights is not None:
            self._weights.write_back()

    def _at_epoch_begin(self, epoch: int, params: Any) -> None:
        """Note how many steps are left, where that is known."""
        steps, epochs = (params or {}).get("steps"), (params or {}).get("epochs")
        self._steps_ahead = None if steps is None or epochs is None else steps * (epochs - epoch)

    def _at_epoch_end(self) -> None:
        self._settle()
        self._calls_begin = True

    def _forget_functions(self) -> None:
        for name in ("train_function", "test_function", "predict_function"):
            setattr(self._model, name, None)
