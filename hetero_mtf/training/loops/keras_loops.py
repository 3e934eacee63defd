"""KerasLoops: what is bound to a Keras model, so that Keras's own loops run their steps by a run."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.program.engine import Finished
from hetero_mtf.training.loops.loop_side import LoopMetrics, LoopSide
from hetero_mtf.training.loops.own_weights import OwnWeights
from hetero_mtf.training.loops.upcoming import Upcoming
from hetero_mtf.training.run.run import Run

FUNCTIONS = ("make_train_function", "make_test_function", "make_predict_function", "get_metrics_result")
"""What is set on the model itself; its class stays as it is, or Keras could not load and clone the model."""


def exhausted() -> tuple[type[BaseException], ...]:
    """Return what iterators of batches raise at their end."""
    return StopIteration, tf.errors.OutOfRangeError


class KerasLoops:
    """Runs the steps of Keras's `fit`, `evaluate`, `predict` and their forms for one batch by a run.

    These loops draw the batches, call the functions that are made here, and read the model's metrics.

    Parameters
    ----------
    model : keras.Model, compiled.
    side : whose loops they are.
    run : the run; None until it is made for the first batch.

    Attributes
    ----------
    side : as given.
    run : as given, or as it was made since.
    weights : keeps the weights of model and run equal; None where no call is under way that needs it.
    metrics : of the model; None before the first batch.
    fitting : whether `fit` is under way.
    looked_at : whether a callback looks at the model between batches.
    steps_ahead : steps until the present call of `fit` ends; None where that is not known.
    calls_begin : whether weights may have been assigned since the last step.
    """

    def __init__(self, model: Any, side: LoopSide, run: Run | None = None) -> None:
        self._model, self.side, self.run = model, side, run
        self.weights: OwnWeights | None = None
        self.metrics: LoopMetrics | None = None
        self.fitting = self.looked_at = self.calls_begin = False
        self.steps_ahead: int | None = None
        self._upcoming = Upcoming()
        self._begun: deque[Any] = deque()  # what metrics take of batches that no step has finished yet

    def bind(self) -> None:
        """Set the functions on the model."""
        for name in FUNCTIONS:
            object.__setattr__(self._model, name, getattr(self, name))
        self.forget_functions()

    def forget_functions(self) -> None:
        """Let Keras ask for its functions again."""
        for name in ("train_function", "test_function", "predict_function"):
            setattr(self._model, name, None)

    # what is set on the model

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
        if self.fitting and self.run is not None and not (self.metrics is not None and self.metrics.updating):
            self.drain()
        return type(self._model).get_metrics_result(self._model)

    # between calls

    def begin_call(self) -> None:
        """Take over what was assigned to the model since the last call, epoch or batch that someone looked at."""
        if self.calls_begin and self.weights is not None:
            self.weights.read_changes()
        self.calls_begin = False

    def settle(self) -> None:
        """End what is under way, and write the weights back."""
        self._upcoming.wait()
        self.drain()
        self.write_back()

    def drain(self) -> None:
        """Train until no batch is in flight, and count those."""
        if self.run is None or self.weights is None or self.metrics is None or not self.run.plans.has_plan:
            return
        finished = self.run.engine.drain(self.metrics.needs_outputs)
        if finished:
            self.weights.note_step()
            self._counted(finished)

    def write_back(self) -> None:
        """Write the weights back."""
        if self.weights is not None:
            self.weights.write_back()

    def end(self) -> None:
        """Forget what was prepared and begun."""
        self._upcoming.drop()
        self.forget_begun()

    def forget_begun(self) -> None:
        """Forget the batches that no step has finished yet."""
        self._begun.clear()

    def at_epoch_begin(self, epoch: int, params: Any) -> None:
        """Note how many steps are left, where that is known.

        Parameters
        ----------
        epoch : number of the epoch that begins, from 0.
        params : of Keras's callbacks.
        """
        steps, epochs = (params or {}).get("steps"), (params or {}).get("epochs")
        self.steps_ahead = None if steps is None or epochs is None else steps * (epochs - epoch)

    def at_epoch_end(self) -> None:
        """Write the weights back, for callbacks to see."""
        self.settle()
        self.calls_begin = True

    # the steps

    def _make(self, what: str, force: bool) -> Any:
        if self.side.is_left_to_keras(what, force):
            return getattr(type(self._model), f"make_{what}_function")(self._model, force)
        attribute = f"{what}_function"
        self.settle()
        self.calls_begin = True
        if getattr(self._model, attribute) is None or force:
            setattr(self._model, attribute, getattr(self, f"_{what}"))
        return getattr(self._model, attribute)

    def _train(self, iterator: Iterator[Any]) -> Any:
        logs = None
        with self.side.calling("train", iterator):
            for _ in range(self._model.steps_per_execution):
                try:
                    data, feed = self._upcoming.take(iterator)
                except exhausted():
                    break
                logs = self._train_on(data, feed, iterator)
        if logs is None:
            self.side.note_end()
            raise StopIteration
        return logs

    def _train_on(self, data: Any, feed: Any, iterator: Iterator[Any]) -> Any:
        side = self.side
        side.begin_step(data)
        data = side.given(data)
        run = side.run_for(data)
        if feed is None or self.calls_begin or self.looked_at:
            self.begin_call()
            feed = run.feed(side.checked(data, run))
        if self.steps_ahead is not None:
            self.steps_ahead -= 1
        weights, metrics = self._held
        counts = side.counts(data)
        metrics.build(counts)
        if self.fitting and self.steps_ahead != 0:  # else a batch would be drawn that no step uses
            self._upcoming.begin(iterator, functools.partial(self._staged, step=run.state.batches + 1))
        finished = run.advance(feed, metrics.needs_outputs)
        weights.note_step()
        self._begun.append(counts)
        logs = self._counted(finished)
        if self.looked_at or not self.fitting:
            self.drain()
            self.write_back()
            self.calls_begin = True
        return logs

    def _test(self, iterator: Iterator[Any]) -> Any:
        logs = None
        with self.side.calling("test", iterator):
            for _ in range(self._model.steps_per_execution):
                try:
                    data = self.side.given(next(iterator))
                except exhausted():
                    break
                run = self.side.run_for(data)
                self.begin_call()
                _, metrics = self._held
                counts = self.side.counts(data)
                metrics.build(counts)
                feed = run.feed(self.side.checked(data, run))
                logs = metrics.update(counts, feed.size, run.test(feed, metrics.needs_outputs), feed.graph)
        if logs is None:
            raise StopIteration
        return logs

    def _predict(self, batches: Sequence[Any]) -> Any:
        outputs = []
        for each in batches:
            data = self.side.given(each)
            run = self.side.run_for(data)
            batch = self.side.checked(data, run, predicts=True)
            self.begin_call()
            outputs.append(run.predict(batch))
        joined = [tf.concat(pieces, 0) if len(pieces) > 1 else tf.convert_to_tensor(pieces[0]) for pieces in zip(*outputs, strict=True)]
        return run.network.form.outputs.pack(joined)

    def _staged(self, data: Any, step: int) -> Any:
        """Return a batch as the cluster takes it, written where devices read it."""
        run = self.run
        assert run is not None
        return run.staged(self.side.checked(self.side.given(data), run), step)

    @property
    def _held(self) -> tuple[OwnWeights, LoopMetrics]:
        assert self.weights is not None and self.metrics is not None
        return self.weights, self.metrics

    def _counted(self, finished: Sequence[Finished]) -> Any:
        """Count the batches that a step finished in the metrics, and return the logs; batches are finished in their order."""
        _, metrics = self._held
        logs = None
        for feed, step_result in finished:
            logs = metrics.update(self._begun.popleft(), feed.size, step_result, feed.graph)
        if logs is None:
            logs = type(self._model).get_metrics_result(self._model)
        self.side.note_counted(finished)
        return logs
