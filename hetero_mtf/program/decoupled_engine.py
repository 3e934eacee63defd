"""The engine of schedule "decoupled": batches are in flight from step to step."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.schedule.names import STALE_SCHEDULES
from hetero_mtf.program.batch_arrays import BatchArrays, Result
from hetero_mtf.program.engine import Engine, Finished, Targets
from hetero_mtf.program.in_flight import Entered, InFlight
from hetero_mtf.program.tick import Tick, build_tick
from hetero_mtf.runtime.step_trace import StepTrace, traced


def engine_of(graph: LayerGraph, plan: Plan, *arguments: Any) -> Engine:
    """Return the engine of a plan's schedule; parameters as for `Engine`."""
    decoupled = isinstance(plan, Plan) and plan.schedule in STALE_SCHEDULES
    return (DecoupledEngine if decoupled else Engine)(graph, plan, *arguments)


class DecoupledEngine(Engine):
    """Runs steps in which every stage works on another batch; parameters as for `Engine`.

    Raises `UnsupportedError` for an optimizer that clips by the norm of all gradients, which are of different batches here.

    Batches of one size follow each other. Before one of another size, and whenever values are read or the network is tested, no further
    batch enters until none is in flight: then all stages have trained on the same batches.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self._context.rule.config.get("global_clipnorm") and len(self._context.stages) > 1:
            raise UnsupportedError(
                "the optimizer has global_clipnorm, and stages of schedule decoupled have gradients of different batches; use clipnorm"
            )
        self._in_flight = InFlight(len(self._context.stages))
        self._late: list[Finished] = []  # trained where nobody asked for it, such as before a test
        self._cleared: set[str] = set()

    def build(self, batch: BatchArrays) -> None:
        self._tick(batch.size, self._targets(batch), partly=len(self._context.stages) > 1)

    def advance(self, batch: BatchArrays, step: int, scalars: Mapping[str, float], want_outputs: bool) -> list[Finished]:
        fits = self._in_flight.form in ((), (batch.size, batch.targets))
        before = self._taken() if fits else self.drain(want_outputs)
        self._in_flight.enter(step, Entered(batch, scalars))
        return [*before, *self._ticked(want_outputs)]

    def drain(self, want_outputs: bool) -> list[Finished]:
        finished = self._taken()
        while len(self._in_flight):
            finished += self._ticked(want_outputs)
        return finished

    def trace(self, batch: BatchArrays, step: int, scalars: Mapping[str, float]) -> StepTrace:
        if self._in_flight.form not in ((), (batch.size, batch.targets)):
            self._settle()
        self._in_flight.enter(step, Entered(batch, scalars))
        tick, feeds = self._next_tick()
        fetches = {"loss": tick.loss, "train": tick.train}
        _, trace = self._guarded(lambda: traced(functools.partial(self._opened().run, fetches, feeds), self._devices))
        self._in_flight.advance()
        return trace

    def test(self, batch: BatchArrays, want_outputs: bool) -> Result:
        self._settle()
        return super().test(batch, want_outputs)

    def predict(self, x: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        self._settle()
        return super().predict(x)

    def read(self) -> dict[str, np.ndarray]:
        self._settle()
        return super().read()

    def _taken(self) -> list[Finished]:
        late, self._late = self._late, []
        return late

    def _settle(self) -> None:
        """Drain, and keep what that gave for the next call of `advance` or `drain`."""
        self.check_open()
        self._late = self.drain(want_outputs=False)

    def _ticked(self, want_outputs: bool) -> list[Finished]:
        leaving = self._in_flight.leaving
        tick, feeds = self._next_tick()
        fetches = {"loss": tick.loss, "parts": tick.parts, "train": tick.train, **({"outputs": tick.outputs} if want_outputs else {})}
        fetched = self._run(fetches, feeds)
        self._in_flight.advance()
        result = Result(float(fetched["loss"]), tuple(map(float, fetched["parts"])), fetched.get("outputs"))
        return [] if leaving is None else [(leaving.batch, result)]

    def _next_tick(self) -> tuple[Tick, dict[Any, Any]]:
        size, targets = self._in_flight.form
        wanted = tuple(None if part is None else target for part, target in zip(self._context.objective, targets))
        tick = self._tick(size, wanted, partly=not self._in_flight.is_full)
        return tick, self._in_flight.feeds(tick, self.graph)

    def _tick(self, size: int, targets: Targets, partly: bool) -> Tick:
        key = "part of a tick" if partly else "tick", size, targets, 0
        tick: Tick = self._built(key, lambda: build_tick(self._context, size, targets, partly))
        return tick

    def _begin_graph(self) -> None:
        self._settle()
        super()._begin_graph()
        with self._tf_graph.as_default():
            self._context.histories.recreate_handles()
        self._cleared.clear()

    def _initialize(self) -> None:
        """Write the values of new variables, and zeros into new histories."""
        super()._initialize()
        histories, clears = self._context.histories, []
        for name in histories.names():
            if name not in self._cleared:
                shape, impl, dtype, handles = histories.layout(name)
                for pnum, (handle, device) in enumerate(zip(handles, impl.devices)):
                    with tf.device(device):
                        zeros = tf.zeros(impl.processor_shape(shape, pnum), dtype)
                        clears.append(tf.raw_ops.AssignVariableOp(resource=handle, value=zeros))
                self._cleared.add(name)
        if clears:
            self._guarded(lambda: self._opened().run(clears))
