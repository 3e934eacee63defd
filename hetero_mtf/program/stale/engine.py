"""The engine of schedules without a flush: batches are in flight from step to step."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.errors import HeteroError, UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.layers.fallback.keras_call_kind import OPTION, is_keras_call, layers_that_add_losses
from hetero_mtf.planning.names import STALE_SCHEDULES
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.batch_arrays import BatchArrays, Result
from hetero_mtf.program.engine import Engine, Finished, Targets
from hetero_mtf.program.optimizers import SeveralRules
from hetero_mtf.program.stale.call import Call
from hetero_mtf.program.stale.in_flight import Entered, InFlight
from hetero_mtf.program.stale.tick import Tick, build_tick
from hetero_mtf.runtime.step_trace import StepTrace


def engine_of(graph: LayerGraph, plan: Plan, *arguments: Any) -> Engine:
    """Return the engine of a plan's schedule; parameters as for `Engine`."""
    stale = isinstance(plan, Plan) and plan.schedule in STALE_SCHEDULES
    return (StaleEngine if stale else Engine)(graph, plan, *arguments)


class StaleEngine(Engine):
    """Runs steps in which every stage works on another batch; parameters as for `Engine`.

    Raises `UnsupportedError` for an optimizer that clips by the norm of all gradients, which are of different batches here, and for one
    without momentum that is to predict weights.

    Batches of one size follow each other. Before one of another size, and whenever values are read or the network is tested, no further
    batch enters until none is in flight: then all stages have trained on the same batches.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        context = self._context
        if isinstance(context.rule, SeveralRules):
            raise UnsupportedError("pipelines without a flush do not take several optimizers (MultiOptimizer)", "use schedule 1f1b")
        if context.rule.loss_scaling is not None:
            wrong = "pipelines without a flush do not scale losses, as mixed_float16 and LossScaleOptimizer do"
            raise UnsupportedError(wrong, "use schedule 1f1b, or mixed_bfloat16")
        if context.rule.config.get("global_clipnorm") and len(context.stages) > 1:
            raise UnsupportedError(
                f"the optimizer has global_clipnorm, and stages of schedule {self.plan.schedule} have gradients of different batches",
                "use clipnorm"
            )
        if context.stale.predict and not context.rule.has_momentum:
            raise UnsupportedError("the plan predicts weights by the optimizer's momentum, and the optimizer has none", "give it one")
        adding = layers_that_add_losses(context.graph)
        if adding:
            wrong = f"layer {adding[0]} adds to the loss, which pipelines without a flush do not take"
            raise UnsupportedError(wrong, "use schedule 1f1b, or describe the penalty by a regularizer of weights")
        writing = [layer.name for layer in context.graph.layers if is_keras_call(layer) and layer.attributes[OPTION].get("rewritten")]
        if writing:
            wrong = f"layer {writing[0]} writes its trained weights in its call, which pipelines without a flush do not take"
            raise UnsupportedError(wrong, "use schedule 1f1b")
        self._in_flight = InFlight(len(context.stages), context.stale.rates)
        self._calls: collections.deque[tuple[Call, Entered | None]] = collections.deque()  # with the batch whose loss each gives
        self._number = 0  # of the next session call
        self._most = 1 if len(context.stages) > 1 else 0  # calls under way beside the one that begins; one stage's are not ordered
        self._drained: list[Finished] = []  # trained, and not asked for yet
        self._done: list[tuple[int, Result, float]] = []  # of the microbatches of a batch: samples, result, penalties
        self._zeroed: set[str] = set()  # sums that were written

    @property
    def writable(self) -> bool:
        return False  # earlier versions of the weights and their histories would stay

    def build(self, batch: BatchArrays) -> None:
        part = self._parts(batch)[0]
        self._tick(part.size, self._targets(part), partly=len(self._context.stages) > 1 or self._context.sums_gradients)

    def advance(self, batch: BatchArrays, step: int, scalars: Mapping[str, float], want_outputs: bool) -> list[Finished]:
        own = _copied(batch)  # read after the caller may have changed its arrays
        for entered in self._entered(own, self._enterable(own, want_outputs), step, scalars):
            self._in_flight.enter(entered)
            self._launch(want_outputs)
        self._await(self._most)
        return self._take_drained()

    def drain(self, want_outputs: bool) -> list[Finished]:
        newest = self._in_flight.newest
        if newest is not None:
            newest.is_last = True
        while len(self._in_flight):
            self._launch(want_outputs)
        self._await(0)
        return self._take_drained()

    def wait(self) -> None:
        self._await(0)

    def advance_traced(
        self, batch: BatchArrays, step: int, scalars: Mapping[str, float], want_outputs: bool
    ) -> tuple[list[Finished], StepTrace]:
        own = _copied(batch)
        *before, last = self._entered(own, self._enterable(own, want_outputs), step, scalars)
        for entered in before:
            self._in_flight.enter(entered)
            self._launch(want_outputs)
        self._await(0)
        self._in_flight.enter(last)
        fetches, feeds = self._next_call(want_outputs)
        fetched, trace = self._traced(fetches, feeds)
        leaving = self._in_flight.leaving
        self._in_flight.advance()
        if leaving is not None:
            self._leave(leaving, fetched)
        return self._take_drained(), trace

    def close(self) -> None:
        with contextlib.suppress(HeteroError):
            while self._calls:
                self._calls.popleft()[0].result()
        super().close()

    def test(self, batch: BatchArrays, want_outputs: bool) -> Result:
        self._settle()
        return super().test(batch, want_outputs)

    def predict(self, x: Sequence[np.ndarray], graph: LayerGraph | None = None) -> tuple[np.ndarray, ...]:
        self._settle()
        return super().predict(x, graph)

    def read(self) -> dict[str, np.ndarray]:
        self._settle()
        return super().read()

    def _parts(self, batch: BatchArrays) -> list[BatchArrays]:
        """Return a batch in equal microbatches, as many as the plan has or the most below that divide it."""
        if batch.graph is not None:
            wrong = f"schedule {self.plan.schedule} has batches in flight, which must have samples of one shape"
            raise UnsupportedError(f"{wrong}, and these are {batch.x[0].shape[1:]}", "pad them, or use schedule 1f1b")
        count = next(count for count in range(self._context.execution.microbatches, 0, -1) if batch.size % count == 0)
        return split(batch, count)

    def _enterable(self, batch: BatchArrays, want_outputs: bool) -> list[BatchArrays]:
        """Return the microbatches of a batch, which can enter now."""
        parts = self._parts(batch)
        if self._in_flight.form not in ((), (parts[0].size, parts[0].targets)) or len(parts) != self._context.execution.microbatches:
            self._drained = self.drain(want_outputs)
        return parts

    def _entered(self, batch: BatchArrays, parts: Sequence[BatchArrays], step: int, scalars: Mapping[str, float]) -> list[Entered]:
        """Return the microbatches of a batch as they enter: its update, and their places in it."""
        execution, newest = self._context.execution, self._in_flight.newest
        accumulate = self._context.stale.accumulate
        group, place = (0, 0) if newest is None else (newest.group + newest.is_last, 0 if newest.is_last else newest.place + 1)
        if accumulate > 1:
            scalars = self._context.rule.scalars((step - place) // accumulate, scalars["learning_rate"])
        last = max(accumulate, len(parts)) - 1
        first = step * execution.microbatches
        return [
            Entered(part, first + number, scalars, batch, group, place + number, place + number == last)
            for number, part in enumerate(parts)
        ]

    def _take_drained(self) -> list[Finished]:
        drained, self._drained = self._drained, []
        return drained

    def _settle(self) -> None:
        """Drain, and keep what that gave for the next call of `advance` or `drain`."""
        self.check_open()
        self._drained = self.drain(want_outputs=False)

    def _launch(self, want_outputs: bool) -> None:
        """Begin the next tick; of the calls before, all but the last one at most are done then."""
        fetches, feeds = self._next_call(want_outputs)
        self._await(self._most)
        self._calls.append((Call(lambda: self._run(fetches, feeds)), self._in_flight.leaving))
        self._in_flight.advance()

    def _await(self, most: int) -> None:
        """Wait until so many calls at most are under way, and keep what the others gave."""
        while len(self._calls) > most:
            call, leaving = self._calls[0]
            try:
                fetched = call.result()
            except (HeteroError, tf.errors.OpError):
                self._fail()
                raise
            self._calls.popleft()
            if leaving is not None:
                self._leave(leaving, fetched)

    def _fail(self) -> None:
        """Begin again with an empty pipeline after a call that failed: what is kept on the workers may be half written."""
        histories, waiting = self._context.histories, list(self._calls)
        self._calls.clear()
        self._in_flight.forget()
        self._done = []
        with contextlib.suppress(HeteroError, tf.errors.OpError):
            with self._tf_graph.as_default():
                cancelled = histories.call_order.cancel(histories.devices)
            self._run(cancelled, {})
            # the first is the call that failed; those behind it were cancelled above, so they return
            for call, _ in waiting[1:]:
                call.result()
        self._number = 0
        histories.forget()
        self._programs = {key: program for key, program in self._programs.items() if not isinstance(program, Tick)}

    def _leave(self, leaving: Entered, fetched: Mapping[str, Any]) -> None:
        """Keep what a call gave of the batch that was in the last stage."""
        result = Result(float(fetched["loss"]), tuple(map(float, fetched["parts"])), fetched.get("outputs"))
        self._done.append((leaving.part.size, result, float(fetched.get("penalty", 0.0))))
        if sum(size for size, *_ in self._done) == leaving.full.size:
            done, self._done = self._done, []
            self._drained.append((leaving.full, _joined([each[1:] for each in done])))

    def _next_call(self, want_outputs: bool) -> tuple[dict[str, Any], dict[Any, Any]]:
        """Return what the next tick fetches and is fed."""
        size, targets = self._in_flight.form
        targets_with_loss = tuple(None if part is None else target for part, target in zip(self._context.objective, targets))
        tick = self._tick(size, targets_with_loss, partly=self._context.sums_gradients or not self._in_flight.is_full)
        feeds = self._in_flight.feeds(tick, self.graph, self._number)
        self._number += 1
        fetches = {"loss": tick.loss, "parts": tick.parts, "train": tick.train, **({"outputs": tick.outputs} if want_outputs else {})}
        return fetches if tick.penalty is None else {**fetches, "penalty": tick.penalty}, feeds

    def _tick(self, size: int, targets: Targets, partly: bool) -> Tick:
        key = "part of a tick" if partly else "tick", size, targets, 0
        if key not in self._programs:
            self._await(0)
        tick: Tick = self._built(key, lambda: build_tick(self._context, size, targets, partly))
        return tick

    def _begin_graph(self) -> None:
        self._settle()
        super()._begin_graph()
        with self._tf_graph.as_default():
            self._context.sums.recreate_handles()
        self._context.histories.forget()
        self._number = 0
        self._zeroed.clear()

    def _initialize(self) -> None:
        """Write the values of new variables, zeros into new sums, and fill new histories."""
        super()._initialize()
        zero = tf.compat.v1.placeholder(tf.as_dtype(self.graph.dtype), ())
        fills, sums = self._context.histories.fill(zero), self._context.sums
        fresh = [name for name in sums.names() if name not in self._zeroed]
        self._zeroed.update(fresh)
        for shape, impl, dtype, handles in map(sums.layout, fresh):
            for pnum, (handle, device) in enumerate(zip(handles, impl.devices)):
                with tf.device(device):
                    zeros = tf.fill(impl.processor_shape(shape, pnum), tf.cast(zero, dtype))
                    fills.append(tf.raw_ops.AssignVariableOp(resource=handle, value=zeros))
        if fills:
            self._guarded(lambda: self._opened().run(fills, {zero: 0}))


def _copied(batch: BatchArrays) -> BatchArrays:
    return dataclasses.replace(
        batch,
        x=tuple(array.copy() for array in batch.x),
        y=tuple(None if array is None else array.copy() for array in batch.y),
        weight=tuple(array.copy() for array in batch.weight),
        metric_weight=tuple(None if array is None else array.copy() for array in batch.metric_weight),
    )


def split(batch: BatchArrays, count: int) -> list[BatchArrays]:
    """Return a batch in equal parts, whose losses sum to that of the batch.

    Parameters
    ----------
    count : divides the batch size.
    """
    size = batch.size // count
    cuts = [slice(number * size, (number + 1) * size) for number in range(count)]
    return [
        dataclasses.replace(
            batch,
            x=tuple(array[cut] for array in batch.x),
            y=tuple(None if array is None else array[cut] for array in batch.y),
            weight=tuple(array[cut] for array in batch.weight),
            metric_weight=tuple(None if array is None else array[cut] for array in batch.metric_weight),
        )
        for cut in cuts
    ]


def _joined(done: Sequence[tuple[Result, float]]) -> Result:
    """Return the result of a batch from those of its microbatches, with the last one's penalties."""
    loss = sum(result.loss for result, _ in done) + done[-1][1]
    parts = tuple(sum(values) for values in zip(*(result.parts for result, _ in done)))
    pieces = [result.outputs for result, _ in done if result.outputs is not None]
    outputs = tuple(np.concatenate(arrays) for arrays in zip(*pieces)) if len(pieces) == len(done) else None
    return Result(loss, parts, outputs)
