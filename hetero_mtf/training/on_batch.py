"""Single steps: training, testing and predicting on one batch."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.data.checked_batch import Batch, add_class_weight, check_batch, check_class_weight
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.program.batch_arrays import BatchArrays
from hetero_mtf.program.engine import Finished
from hetero_mtf.program.optimizers import step_scalars
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training import batches
from hetero_mtf.training.control.step_call import StepCall
from hetero_mtf.training.keeping import Kept
from hetero_mtf.training.trained import Trained, trained


class OnBatch(Kept):
    """What of a trainer works on one batch."""

    def build(self, x: Any, y: Any) -> None:
        """Build the graph for batches of this form now, not with the first of them.

        Parameters
        ----------
        x, y : (batch, ...) samples and targets, several packed as the model's inputs and outputs.
        """
        feed = self._feed(check_batch(x, y, None, form=self._form))
        start_s = time.perf_counter()
        self._engine.build(feed)
        if self.controller is not None:
            self.controller.note_build(time.perf_counter() - start_s)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Mapping[int, float] | None = None,
        return_dict: bool = False,
    ) -> Any:
        """Take one step and return this batch's mean loss before it, all outputs' and regularization included.

        Without a flush it is that of the last batch that reached the last stage; NaN for none. A loss that is NaN or infinite is
        returned like any other, as in Keras; `fit` raises.

        Parameters
        ----------
        x, y : (batch, ...) samples and targets; any batch size. Several are packed as the model's inputs and outputs: lists, or
            dicts by their names.
        sample_weight : (batch,) weights, or (batch, ...) with one for each value of the loss, or None; for several outputs (batch,) weights
            for all, or packed as these.
        class_weight : class number -> weight, of samples or their pixels, of one output.
        return_dict : whether to return a dict, of the losses and this batch's metrics by name; else the loss alone.

        Raises
        ------
        DataError
            If they do not fit the network, its loss or each other.
        WorkerError
            If a worker dies.
        """
        batch = check_batch(x, y, sample_weight, form=self._form)
        if class_weight is not None:
            batch = add_class_weight(batch, check_class_weight(class_weight), form=self._form)
        if return_dict:
            self._keras.reset_metrics()
        finished = self._train(batch, want_output=return_dict and self._keras.has_metrics)
        logs = {**finished[-1].losses, **finished[-1].metrics} if finished else {"loss": math.nan}
        return logs if return_dict else logs["loss"]

    def drain(self) -> list[float]:
        """Train until no batch is in flight, as batches are without a flush; return the losses. What reads weights does so first."""
        return [each.losses["loss"] for each in self._drain(want_output=False)]

    def wait(self) -> None:
        """Return when all steps that were begun are done; without a flush, one may run on after `train_on_batch`."""
        self._engine.wait()

    def trace_on_batch(self, x: Any, y: Any, sample_weight: Any = None) -> StepTrace:
        """Take one step and return the compute, communication and idle seconds of each device.

        A traced step takes a little longer. The first step builds the graph; trace a later one.

        Parameters
        ----------
        x, y, sample_weight : as for `train_on_batch`.
        """
        feed = self._feed(check_batch(x, y, sample_weight, form=self._form))
        finished, trace = self._engine.advance_traced(feed, self._batches, self._scalars(), want_outputs=False)
        self._count(finished)
        return trace

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """Return a batch's mean loss, regularization included, changing nothing.

        Parameters
        ----------
        x, y, sample_weight, return_dict : as for `train_on_batch`.
        """
        self._keras.reset_metrics()
        tested = self._test(check_batch(x, y, sample_weight, form=self._form))
        return {**tested.losses, **tested.metrics} if return_dict else tested.losses["loss"]

    def predict_on_batch(self, x: Any) -> Any:
        """Return the network's outputs for a batch, several packed as the model's outputs.

        Parameters
        ----------
        x : (batch, ...) samples, several packed as the model's inputs.
        """
        batch = check_batch(x, None, None, form=self._form)
        self.prepare(batch.size)
        return self._form.outputs.pack(self._engine.predict(batches.samples(self._graph, batch.x)))

    def _train(self, batch: Batch, want_output: bool) -> list[Trained]:
        finished = self._advance(self._feed(batch), want_output)
        return [trained(self._objective, self._keras, *each) for each in finished]

    def _advance(self, feed: BatchArrays, want_output: bool) -> Sequence[Finished]:
        """Take a step and return the batches that it finished: this one, or without a flush one before."""
        call = StepCall(feed, self._batches, self._scalars(), want_output)
        finished = call.advance(self._engine) if self.controller is None else self.controller.advance(self, call)
        self._count(finished)
        return finished

    def _count(self, finished: Sequence[Finished]) -> None:
        """Count a step, unless a gradient overflowed, and take the loss scale after it."""
        finite = all(step_result.finite for _, step_result in finished)
        self._step += finite
        if self._loss_scale is not None and self._rule.loss_scaling is not None:
            self._loss_scale = self._loss_scale.after(finite, self._rule.loss_scaling)

    def _drain(self, want_output: bool) -> list[Trained]:
        return [trained(self._objective, self._keras, *each) for each in self._engine.drain(want_output)]

    def _test(self, batch: Batch) -> Trained:
        feed = self._feed(batch)
        return trained(self._objective, self._keras, feed, self._engine.test(feed, self._keras.has_metrics))

    def _feed(self, batch: Batch) -> BatchArrays:
        short = bool(getattr(self._cluster, "target", ""))
        graph = self._graph_for(batch.x)
        feed = batches.feed(graph, self._objective, batch, short)
        feed = feed if graph is self._graph else dataclasses.replace(feed, graph=graph)
        self.prepare(batch.size)  # after the data were looked at, as measuring takes a while
        return feed

    def _graph_for(self, x: Any) -> LayerGraph:
        """Return the network with the extents of a batch, where its inputs leave them open.

        Parameters
        ----------
        x : samples of one input, or a tuple of those of several.
        """
        return self._graph

    def _next(self, batch: Batch, step: int) -> BatchArrays:
        """Return the batch of a step that comes next, written where devices read it; another step may run meanwhile."""
        feed = self._feed(batch)
        self._engine.stage(feed, step)
        return feed

    def _scalars(self) -> dict[str, float]:
        """Return the optimizer's numbers for the next step."""
        scale = None if self._loss_scale is None else self._loss_scale.scale
        return step_scalars(self._rule, self._step, self._keras.learning_rate(self._step), scale)

    @property
    def _batches(self) -> int:
        """Number of the next batch, by which numbers are drawn at random: those that updated nothing count."""
        return self._step + (0 if self._loss_scale is None else self._loss_scale.skipped)
