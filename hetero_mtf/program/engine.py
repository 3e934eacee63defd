"""Engine: one network under one plan on one cluster, with its session, variables and programs."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.errors import HeteroError
from hetero_mtf.graph.records import LayerGraph
from hetero_mtf.graph.variable_keys import variable_key
from hetero_mtf.keras_reading.traced_calls.present_tensors import present_tensors
from hetero_mtf.mesh.batch_parts import BatchArray
from hetero_mtf.mesh.collectives import Collectives
from hetero_mtf.mesh.operations.history import Histories
from hetero_mtf.mesh.operations.mixing import rounds as mixing_rounds
from hetero_mtf.mesh.variables import SliceVariables
from hetero_mtf.planning.layout.records import Stage
from hetero_mtf.planning.plan.plan import Plan
from hetero_mtf.program.batch_arrays import BatchArrays, Result, Target
from hetero_mtf.program.context import PlacedStage, ProgramContext, mixing_of
from hetero_mtf.program.feeding.feed_choice import forms_of, staged_batches
from hetero_mtf.program.feeding.staged_batches import StagedBatches, fed_arrays
from hetero_mtf.program.objective import Objective
from hetero_mtf.program.optimizers import UpdateRule
from hetero_mtf.program.plan_checks import check_cluster, check_mixing, check_plan
from hetero_mtf.program.program import Program, build_program
from hetero_mtf.program.slices import SliceAccess
from hetero_mtf.runtime.cluster import Cluster
from hetero_mtf.runtime.process_memory import return_memory
from hetero_mtf.runtime.step_trace import StepTrace, traced

Targets = tuple[Target | None, ...]
ProgramKey = tuple[str, int, Any, int]
"""Of a program: what it does, samples in a batch, forms of the batch's arrays, phase of butterfly mixing."""

Finished = tuple[BatchArrays, Result]
"""A batch that was trained on, and what its step gave."""

PROGRAMS = 12
"""Most programs that are kept; the phases of a size count as one. A fit with validation, an evaluation and a prediction, each
with a batch size and a shorter last batch, have eight at most."""


class Engine:
    """Runs steps of one network under one plan.

    A program is built for the first batch of its size; variables are written when the first
    program that uses them is built. Until then values are held on the host. A closed engine holds nothing.

    At most `PROGRAMS` of them are kept. A TensorFlow graph cannot shrink: a program beyond these begins a new graph
    and session, around the same variables, and the others are built again for their next batches.

    Parameters
    ----------
    cluster : live cluster (`hetero_mtf.runtime.Cluster`).
    objective : the loss of each output.
    rule : update rule of the optimizer.
    seed : seed of dropout.
    values : variable or slot key -> whole array, to start from; a slot that is missing is zero.

    Raises
    ------
    PlanError
        If the plan is for another network or cluster, or asks for what training does not support yet.
    ClusterError
        If the cluster is not a live one.
    """

    def __init__(
        self,
        graph: LayerGraph,
        plan: Plan,
        cluster: Cluster,
        objective: Objective,
        rule: UpdateRule,
        seed: int,
        values: Mapping[str, np.ndarray],
    ) -> None:
        check_plan(plan, graph)
        check_mixing(plan, rule)
        check_cluster(plan, cluster)
        self.graph, self.plan, self.cluster = graph, plan, cluster
        used = dict.fromkeys(index for stage in plan.stages for index in stage.devices)
        self._devices = [cluster.devices[index] for index in used]
        self._container = cluster.container("trainer")
        self._variables = SliceVariables(self._container.name)
        mixing = mixing_of(plan)
        stages = tuple(_placed(stage, plan, cluster) for stage in plan.stages)
        past, sums = Histories(self._container.name), SliceVariables(self._container.name)
        self._context = ProgramContext(graph, stages, self._variables, objective, rule, seed, mixing, plan.execution, past, sums)
        self._access, self._pending = SliceAccess(self._variables, mixing), dict(values)
        self._tf_graph = tf.Graph()
        self._session: Any = None
        self._carried_values: dict[str, np.ndarray] = {}  # values between a session that is closed and the next one
        self._programs: dict[ProgramKey, Any] = {}
        self._staged: list[StagedBatches] = []
        self._written: set[str] = set()
        self._closed = False

    @property
    def fed_wait_s(self) -> float:
        """Seconds for which steps have waited until their batch was where devices read it; begins again with each graph."""
        return sum(staged.waited_s for staged in self._staged)

    def build(self, batch: BatchArrays) -> None:
        """Build the training program for batches like this one."""
        self._program("train", batch)

    def stage(self, batch: BatchArrays, step: int) -> None:
        """Write the batch of the next step where devices read it, where they do; a step may run meanwhile.

        Parameters
        ----------
        batch : handed to `train` next, the same object.
        step : number of the next step.
        """
        program = self._programs.get(self._key("train", batch, step))
        if program is not None and program.staged is not None and not self._closed:
            program.staged.stage(batch, fed_arrays(batch, self._context.objective))

    def train(self, batch: BatchArrays, step: int, scalars: Mapping[str, float], want_outputs: bool) -> Result:
        """Take one step; return the losses before it, and the predictions if `want_outputs`.

        Parameters
        ----------
        batch : the batch.
        step : number of the step, from 0.
        scalars : the optimizer's scalars for this step.
        want_outputs : whether the predictions are fetched.
        """
        program, feeds = self._training(batch, step, scalars)
        return _result(self._run(_step_fetches(program, want_outputs), feeds))

    def advance(self, batch: BatchArrays, step: int, scalars: Mapping[str, float], want_outputs: bool) -> list[Finished]:
        """Take one step with a batch, and return the batches whose losses it gave: this one, or under some schedules earlier ones.

        Parameters
        ----------
        batch, step, scalars, want_outputs : as for `train`.
        """
        return [(batch, self.train(batch, step, scalars, want_outputs))]

    def drain(self, want_outputs: bool) -> list[Finished]:
        """Take steps without further batches until none is in flight, and return those whose losses they gave.

        Parameters
        ----------
        want_outputs : whether the predictions are fetched.
        """
        return []

    def wait(self) -> None:
        """Return when all steps that were begun are done, which those of most schedules are at once."""

    def advance_traced(
        self, batch: BatchArrays, step: int, scalars: Mapping[str, float], want_outputs: bool
    ) -> tuple[list[Finished], StepTrace]:
        """Take one step, and return what `advance` returns and the trace of the step.

        Parameters
        ----------
        batch, step, scalars, want_outputs : as for `train`.
        """
        program, feeds = self._training(batch, step, scalars)
        fetched, trace = self._traced(_step_fetches(program, want_outputs), feeds)
        return [(batch, _result(fetched))], trace

    def test(self, batch: BatchArrays, want_outputs: bool) -> Result:
        """Return the losses of a batch, and the predictions if `want_outputs`, without a change of state."""
        program = self._program("test", batch)
        return _result(self._run(_fetches(program, want_outputs), self._feeds(program, batch, 0)))

    def predict(self, x: Sequence[np.ndarray], graph: LayerGraph | None = None) -> tuple[np.ndarray, ...]:
        """Return the network's outputs for a batch.

        Parameters
        ----------
        x : (inputs,) arrays (batch, ...).
        graph : as in `BatchArrays`.
        """
        program = self._program("predict", batch := BatchArrays(tuple(x), (), (), (), graph=graph))
        return tuple(self._run(program.outputs[: len(self.graph.outputs)], self._feeds(program, batch, 0)))

    def read(self) -> dict[str, np.ndarray]:
        """Return all whole values by key: variables in their Keras shapes, slots in their variables'."""
        self.check_open()
        with self._tf_graph.as_default():
            on_cluster = self._guarded(lambda: self._access.read(self._opened(), sorted(self._written))) if self._written else {}
        return {**self._pending, **{key: value.reshape(self._shape(key)) for key, value in on_cluster.items()}}

    @property
    def writable(self) -> bool:
        """Whether `write` changes all that steps depend on: not where processors have copies that differ, as in butterfly mixing."""
        return not self._context.mixing

    def write(self, values: Mapping[str, np.ndarray]) -> None:
        """Go on with other values of some variables and slots; the rest stays as it is.

        Parameters
        ----------
        values : variable or slot key -> whole array.
        """
        self.check_open()
        on_cluster = {key: value for key, value in values.items() if key in self._written}
        self._pending.update({key: value for key, value in values.items() if key not in on_cluster})
        if on_cluster:
            with self._tf_graph.as_default():
                self._guarded(lambda: self._access.write(self._opened(), on_cluster))

    def placement(self) -> dict[str, dict[str, list[tuple[str, tuple[int, ...]]]]]:
        """Return {layer: {variable: [(device, slice shape), ...]}}, read off the TensorFlow graph."""
        if not self._programs:
            shapes = [(self.plan.batch_size, *self.graph.layers[index].output_shape) for index in self.graph.inputs]
            x = [np.zeros(shape, self.graph.layers[index].dtype(self.graph.dtype)) for index, shape in zip(self.graph.inputs, shapes)]
            self._program("predict", BatchArrays(tuple(x), (), (), ()))
        slices_of: dict[str, dict[str, list[tuple[str, tuple[int, ...]]]]] = {}
        for index, layer in enumerate(self.graph.layers):
            for variable in layer.variables if layer.shared_with is None else ():
                _, _, _, handles = self._variables.layout(variable_key(index, variable.name))
                slices = [self._slice(handle, len(variable.shape)) for handle in handles]
                slices_of.setdefault(layer.name, {})[variable.name] = [entry for entry in slices if 0 not in entry[1]]
        return slices_of

    @property
    def nodes(self) -> int:
        """Number of nodes in the present TensorFlow graph."""
        return len(self._tf_graph.get_operations())

    def close(self) -> None:
        """Release the session and everything it holds on the cluster; closing twice is harmless."""
        self._closed = True
        self._carried_values = {}
        self._drop_programs()
        if self._session is not None:
            self._session.close()
            self._session = None
        self._container.release()

    def check_open(self) -> None:
        """Raise if the engine was closed.

        Raises
        ------
        HeteroError
            If it was.
        """
        if self._closed:
            raise HeteroError("the trainer is closed and its values are gone", "save or read them before leaving it, then make a new one")

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _slice(self, handle: tf.Tensor, rank: int) -> tuple[str, tuple[int, ...]]:
        """Return the device of a handle and the shape of its slice, with the dimensions flattened that Keras flattens."""
        extents = [int(d.size) for d in handle.op.get_attr("shape").dim]
        flat = math.prod(extents[: len(extents) - rank + 1])
        device = tf.DeviceSpec.from_string(handle.op.device)
        name = next(d.name for d in self._devices if tf.DeviceSpec.from_string(d.tf_device) == device)
        return name, (flat, *extents[len(extents) - rank + 1 :]) if rank else ()

    def _shape(self, key: str) -> tuple[int, ...]:
        index, name, *slot = key.split("/")
        shape = next(v.shape for v in self.graph.layers[int(index)].variables if v.name == name)
        return self._context.rule.slot_shape(slot[0], shape) if slot else shape

    def _key(self, mode: str, batch: BatchArrays, step: int) -> ProgramKey:
        phase = step % mixing_rounds(len(self._devices)) if self._context.mixing and mode == "train" else 0
        samples = tuple((array.shape[1:], str(array.dtype)) for array in batch.x)
        return mode, batch.size, (self._targets(batch) if mode != "predict" else (), samples), phase

    def _program(self, mode: str, batch: BatchArrays, step: int = 0) -> Program:
        self.check_open()
        _, size, (targets, _), phase = key = self._key(mode, batch, step)
        context = self._context if batch.graph is None else dataclasses.replace(self._context, graph=batch.graph)
        program: Program = self._built(key, lambda: build_program(context, mode, size, targets, phase, self._staged_for(mode, batch)))
        return program

    def _staged_for(self, mode: str, batch: BatchArrays) -> StagedBatches | None:
        """Return where batches of a form are written before their steps, None where they are fed."""
        forms, dtypes = forms_of(self.graph, fed_arrays(batch, self._context.objective))
        staged = staged_batches(self.cluster, self._container.name, forms, dtypes)
        self._staged += [] if staged is None else [staged]
        return staged

    def _built(self, key: ProgramKey, build: Callable[[], Any]) -> Any:
        """Return a program, built on first use."""
        if key not in self._programs:
            known = {other[:-1] for other in self._programs}
            if len(known) >= PROGRAMS and key[:-1] not in known:
                self._begin_graph()
            with self._tf_graph.as_default():
                with present_tensors():
                    program = build()
                self._opened()
                self._initialize()
            self._programs[key] = program
        return self._programs[key]

    def _opened(self) -> tf.compat.v1.Session:
        """Return the session, opened if there is none, with the values that were kept for it."""
        if self._session is None:
            self._session = self.cluster.session(self._tf_graph)
        if self._carried_values:
            with self._tf_graph.as_default():
                self._guarded(lambda: self._access.write(self._session, self._carried_values, copies=True))
            self._carried_values = {}
        return self._session

    def _begin_graph(self) -> None:
        """Drop all programs: begin a new graph and session around the same variables.

        Servers keep variables by their names when a session closes; those of a session in this process end with it, so their values
        are held on the host meanwhile.
        """
        if not self.cluster.target:
            with self._tf_graph.as_default():
                self._carried_values = self._guarded(lambda: self._access.read(self._opened(), sorted(self._written), copies=True))
        session, self._session = self._session, None
        session.close()
        graph = tf.Graph()
        with graph.as_default():
            self._variables.recreate_handles()
        self._tf_graph, self._access = graph, SliceAccess(self._variables, self._context.mixing)
        self._drop_programs()
        del session
        return_memory()

    def _drop_programs(self) -> None:
        for staged in self._staged:
            staged.close()
        self._programs, self._staged = {}, []

    def _initialize(self) -> None:
        """Write the values of variables that were created since the last call."""
        fresh = [name for name in self._variables.names() if name not in self._written]
        shapes = {name: self._variables.layout(name)[0].to_integer_list for name in fresh if name not in self._pending}
        zeros = {name: np.zeros(shape, self._variables.layout(name)[2].as_numpy_dtype) for name, shape in shapes.items()}
        values = {name: self._pending[name] for name in fresh if name in self._pending}
        self._guarded(lambda: self._access.write(self._opened(), {**values, **zeros}))
        self._written.update(fresh)
        for name in values:
            del self._pending[name]

    def _training(self, batch: BatchArrays, step: int, scalars: Mapping[str, float]) -> tuple[Program, dict[Any, Any]]:
        """Return the training program for a batch and its feed dictionary."""
        program = self._program("train", batch, step)
        return program, {**self._feeds(program, batch, step), **{program.scalars[name]: value for name, value in scalars.items()}}

    def _feeds(self, program: Program, batch: BatchArrays, step: int) -> dict[Any, Any]:
        """Return what a step is fed, after what devices read is written where it was not."""
        inputs, arrays = program.inputs, fed_arrays(batch, self._context.objective)
        scales = {each.scale: scale for each, scale in zip(inputs.loss_inputs, batch.scale) if each is not None}
        feeds = {fed: array for fed, array in zip(inputs.fed, arrays) if not isinstance(fed, BatchArray)}
        staged = program.staged
        return {program.step: step, **scales, **feeds, **(self._guarded(lambda: staged.use(batch, arrays)) if staged else {})}

    def _targets(self, batch: BatchArrays) -> Targets:
        return tuple(None if part is None else target for part, target in zip(self._context.objective, batch.targets))

    def _run(self, fetches: Any, feeds: Mapping[Any, Any]) -> Any:
        return self._guarded(lambda: self._opened().run(fetches, feeds))

    def _traced(self, fetches: Any, feeds: Mapping[Any, Any]) -> tuple[Any, StepTrace]:
        return self._guarded(lambda: traced(functools.partial(self._opened().run, fetches, feeds), self._devices))

    def _guarded(self, work: Any) -> Any:
        try:
            return work()
        except tf.errors.OpError as fault:
            raise self.cluster.explain(fault, [layer.name for layer in self.graph.layers]) from fault


def _fetches(program: Program, want_outputs: bool) -> dict[str, Any]:
    return {"loss": program.loss, "parts": program.parts, **({"outputs": program.outputs} if want_outputs else {})}


def _step_fetches(program: Program, want_outputs: bool) -> dict[str, Any]:
    finite = {} if program.finite is None else {"finite": program.finite}
    return {**_fetches(program, want_outputs), "train": program.train, **finite}


def _result(fetched: Mapping[str, Any]) -> Result:
    loss, parts = float(fetched["loss"]), tuple(map(float, fetched["parts"]))
    return Result(loss, parts, fetched.get("outputs"), bool(fetched.get("finite", True)))


def _placed(stage: Stage, plan: Plan, cluster: Cluster) -> PlacedStage:
    devices = [cluster.devices[index] for index in stage.devices]
    collectives = Collectives(plan.collectives, tuple(device.host for device in devices), plan.bucket_bytes)
    return PlacedStage(stage, tuple(device.tf_device for device in devices), collectives)
