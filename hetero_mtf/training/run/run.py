"""Run: one training, from the choice of its plan on."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from hetero_mtf.data.checked_batch import Batch
from hetero_mtf.errors import DeviceMemoryError, WorkerError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.planning.profile.profile import Profile
from hetero_mtf.program.batch_arrays import BatchArrays, Result
from hetero_mtf.program.engine import Engine, Finished
from hetero_mtf.program.optimizers import step_scalars
from hetero_mtf.runtime.step_trace import StepTrace
from hetero_mtf.training import batches
from hetero_mtf.training.checkpoint import State
from hetero_mtf.training.control.step_call import StepCall
from hetero_mtf.training.keras_side import KerasSide
from hetero_mtf.training.run.elastic import Elastic
from hetero_mtf.training.run.run_plans import Choosing, RunPlans
from hetero_mtf.training.run.run_state import RunState
from hetero_mtf.training.trained_network import TrainedNetwork

_Answer = TypeVar("_Answer")


class Watcher(Protocol):
    """What knows more of a run's state than the run, while it trains."""

    @property
    def position(self) -> Mapping[str, Any] | None:
        """The position in the data that are trained on now; None where nothing is."""

    def take_over(self) -> None:
        """Go on with what callbacks have changed so far."""


class Run:
    """Trains a network step by step, under a plan that is given, or chosen when the first batch is there.

    Parameters
    ----------
    network : what is trained.
    keras_side : has its metrics and its learning rate.
    state : the counters to begin with.
    choosing : how its plan is chosen.
    graph_of : returns the network with the extents of samples (of one input, or a tuple of those of several); None where it has no others.

    Attributes
    ----------
    network, keras_side : as given.
    plans : its plan.
    state : the counters now.
    watcher : knows the position while `fit` trains; None for nothing.
    """

    def __init__(
        self,
        network: TrainedNetwork,
        keras_side: KerasSide,
        state: RunState,
        choosing: Choosing,
        graph_of: Callable[[Any], LayerGraph] | None = None,
    ) -> None:
        self.network, self.keras_side, self.state = network, keras_side, state
        self.plans = RunPlans(network, choosing, state.seed)
        self.elastic = Elastic(network, self.plans) if choosing.elastic else None
        self._graph_of = graph_of
        self.watcher: Watcher | None = None

    @property
    def engine(self) -> Engine:
        """The engine of the plan in force."""
        return self.plans.in_force.engine

    # the steps

    def graph_of(self, x: Any) -> LayerGraph:
        """Return the network with the extents of samples.

        Parameters
        ----------
        x : samples of one input, or a tuple of those of several.
        """
        return self.network.graph if self._graph_of is None else self._graph_of(x)

    def begin(self, plan: Plan | None, profile: Profile | None) -> None:
        """Begin with a plan that is given, as `RunPlans.begin`, or with one for those workers that are there.

        Parameters
        ----------
        plan, profile : as for `RunPlans.begin`, which raises the same errors.
        """
        while True:
            try:
                self.plans.begin(plan, profile)
                return
            except WorkerError as fault:
                if self.elastic is None:
                    raise
                plan, profile = self.elastic.planned_without(fault, plan, profile)

    def prepare(self, batch_size: int, verbose: str | int = "auto") -> Plan:
        """Return the plan in force; where there is none yet, it is chosen now, for those workers that are there.

        Parameters
        ----------
        batch_size, verbose : as for `RunPlans.prepare`, which raises the same errors.
        """
        while True:
            try:
                return self.plans.prepare(batch_size, verbose)
            except WorkerError as fault:
                if self.elastic is None or self.plans.has_plan:
                    raise
                self.elastic.leave_out(fault)

    def feed(self, batch: Batch) -> BatchArrays:
        """Return a batch as the cluster takes it; where there is no plan yet, it is chosen now.

        Parameters
        ----------
        batch : what `check_batch` gives.

        Raises
        ------
        HeteroError
            If it does not fit the network, or there can be no plan.
        """
        network = self.network
        short = bool(getattr(network.cluster, "target", ""))
        graph = self.graph_of(batch.x)
        feed = batches.feed(graph, network.objective, batch, short)
        feed = feed if graph is network.graph else dataclasses.replace(feed, graph=graph)
        self.prepare(batch.size)  # after the data were looked at, as measuring takes a while
        return feed

    def staged(self, batch: Batch, step: int) -> BatchArrays:
        """Return the batch of a step that comes next, written where devices read it; another step may run meanwhile.

        Parameters
        ----------
        batch : what `check_batch` gives.
        step : number of the step.
        """
        feed = self.feed(batch)
        try:
            self.engine.stage(feed, step)
        except Exception:
            if self.elastic is None:
                raise  # else the step meets it, too, or runs elsewhere by now
        return feed

    def build(self, batch: Batch) -> None:
        """Build the graph for batches of a form.

        Parameters
        ----------
        batch : one of them.
        """
        feed = self.feed(batch)
        start_s = time.perf_counter()
        self._unless_lost(lambda: self.engine.build(feed))
        if self.plans.controller is not None:
            self.plans.controller.note_build(time.perf_counter() - start_s)

    def advance(self, feed: BatchArrays, want_outputs: bool) -> Sequence[Finished]:
        """Take a step and return the batches that it finished: this one, or without a flush one before.

        Parameters
        ----------
        feed : the batch.
        want_outputs : whether predictions are read.

        Raises
        ------
        HeteroError
            As `Engine.advance`.
        """
        call = StepCall(feed, self.state.batches, self.scalars(), want_outputs)
        if self.elastic is None:
            finished = self._step(call)
        else:
            finished = self._mirrored(call)
        self._count(finished)
        return finished

    def advance_traced(self, feed: BatchArrays) -> StepTrace:
        """Take a step and return its trace.

        Parameters
        ----------
        feed : the batch.
        """
        call = StepCall(feed, self.state.batches, self.scalars(), want_outputs=False)
        start_s = time.perf_counter()
        finished, trace = call.advance_traced(self.engine)
        self._note(call, time.perf_counter() - start_s)
        self._count(finished)
        return trace

    def test(self, feed: BatchArrays, want_outputs: bool) -> Result:
        """Return the losses of a batch, without a change of state.

        Parameters
        ----------
        feed : the batch.
        want_outputs : whether predictions are read.
        """
        return self._unless_lost(lambda: self.engine.test(feed, want_outputs))

    def predict(self, batch: Batch) -> tuple[np.ndarray, ...]:
        """Return the network's outputs for a batch.

        Parameters
        ----------
        batch : what `check_batch` gives.
        """
        self.prepare(batch.size)
        graph = self.graph_of(batch.x)
        samples = batches.samples(graph, batch.x)
        return self._unless_lost(lambda: self.engine.predict(samples, None if graph is self.network.graph else graph))

    def scalars(self) -> dict[str, float]:
        """Return the optimizer's numbers for the next step."""
        state = self.state
        scale = None if state.loss_scale is None else state.loss_scale.scale
        return step_scalars(self.network.rule, state.step, self.keras_side.learning_rate(state.step), scale)

    # the state

    def values(self) -> dict[str, np.ndarray]:
        """Return all weights and slots, whole, by their keys; the first ones where there is no plan yet."""
        if not self.plans.has_plan:
            return self.network.first_values()
        if self.elastic is None:
            return self.engine.read()
        mirror = self.elastic.mirror
        return dict(self._unless_lost(lambda: mirror.take(lambda: self.engine.read())))

    def overwrite(self, values: Mapping[str, np.ndarray]) -> None:
        """Go on with other values of some variables and slots.

        Parameters
        ----------
        values : variable or slot key -> whole array.
        """
        self._unless_lost(lambda: self.plans.in_force.overwrite(values))
        if self.elastic is not None:
            self.elastic.mirror.forget()

    def saved(self, values: Mapping[str, np.ndarray]) -> State:
        """Return the state as it is saved.

        Parameters
        ----------
        values : as `values` returns them.
        """
        state, network = self.state, self.network
        position = state.position if self.watcher is None else self.watcher.position or state.position
        counters = state.step, state.seed, position, state.loss_scale
        return State(network.graph.digest, network.optimizer_name, values, *counters, state.notes, self.plans.history)

    def resume(self, saved: State, values: Mapping[str, np.ndarray]) -> None:
        """Go on from a state that was saved; where there is no plan yet, and none is measured first, under its own.

        Parameters
        ----------
        saved : of this network.
        values : its values, as they fit the optimizer.

        Raises
        ------
        HeteroError
            If there is no plan and there can be none.
        """
        scale = self.state.loss_scale
        scale = None if scale is None else saved.loss_scale or scale
        state = RunState(saved.step, saved.seed, scale, saved.position, saved.notes)
        self.plans.resume(saved.plans, state.batches, values, saved.seed)
        self.state = state
        if self.elastic is not None:
            self.elastic.mirror.take(lambda: values)

    def _step(self, call: StepCall) -> Sequence[Finished]:
        """Take a step under the plan that the controller says."""
        plans = self.plans
        return call.advance(self.engine) if plans.controller is None else plans.controller.advance(plans.in_force, call)

    def _mirrored(self, call: StepCall) -> Sequence[Finished]:
        """Take a step; where workers are lost, take it on those that are left."""
        elastic = self.elastic
        assert elastic is not None
        self._unless_lost(lambda: elastic.take_in(lambda: self.engine.read(), self.state.batches))
        if elastic.mirror.is_due:
            self.values()
        start_s = time.perf_counter()
        finished = self._unless_lost(lambda: self._step(call))
        self._note(call, time.perf_counter() - start_s)
        return finished

    def _note(self, call: StepCall, seconds: float) -> None:
        if self.elastic is not None:
            self.elastic.mirror.add(call, seconds)

    def _unless_lost(self, work: Callable[[], _Answer]) -> _Answer:
        """Return what work on the cluster returns, which is done again on the workers that are left where some are lost."""
        while True:
            try:
                return work()
            except (WorkerError, DeviceMemoryError) as fault:
                if self.elastic is None:
                    raise
                self.elastic.go_on(fault, self.state.batches)

    def _count(self, finished: Sequence[Finished]) -> None:
        """Count a step, unless a gradient overflowed, and take the loss scale after it."""
        self.plans.in_force.first = None  # a mirror has them by now
        finite = all(step_result.finite for _, step_result in finished)
        self.state = self.state.after(finite, self.network.rule.loss_scaling)
