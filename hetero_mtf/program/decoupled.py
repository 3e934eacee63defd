"""The passes of schedule "decoupled": in one step all stages work, each on another batch, and update at once.

With K stages and batch t fed in step t, stage k takes in step t the forward pass of batch t - k and the backward pass of batch
t - 2 (K - 1) + k. For the latter it computes its forward pass again, from the inputs that it kept and with its present weights, so no
weights are kept twice (features replay). The last stage has both passes of one batch. What a stage sends is kept by the receiver until its
step comes: no stage waits for another within a step. The gradient of stage k is 2 (K - 1 - k) updates late.

References: Huo, Gu, Huang, "Training neural networks using features replay", NeurIPS 2018. That all stages update at once on different
batches is the claim of Akintoye et al., FGCS 149, 2023, whose algorithm is not published where it could be read; this is our reading.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.gradients import gradients
from hetero_mtf.mesh.operations.history import History, HistoryWrite
from hetero_mtf.mesh.sources import Sources
from hetero_mtf.mesh.task_order import OrderedTask
from hetero_mtf.program import losses
from hetero_mtf.program.builder import Builder, InputKey
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.inputs import LossInputs
from hetero_mtf.program.ops.value import Value
from hetero_mtf.program.passes import Key

Tensor = Any


@dataclasses.dataclass(frozen=True)
class StagePasses:
    """What `learning` takes of one stage's passes; attributes as in `Passes`."""

    context: ProgramContext
    graph: Any
    sources: Sources
    builders: Sequence[Builder]
    gradients: dict[Key, Tensor]


@dataclasses.dataclass(frozen=True)
class _Forward:
    """The forward pass of a stage in this step.

    Parameters
    ----------
    builder : its builder, which reads what earlier steps sent.
    values : layer index -> output, of this stage and earlier ones, each of the batch of its own stage.
    arrivals : what arrives in this step for later ones.
    received : operations that transferred it.
    histories : where it is kept.
    fed : histories of the batch itself, by the key under which the builder has it; of input layers of this stage by their index.
    operations : all operations of the pass.
    """

    builder: Builder
    values: dict[int, Value]
    arrivals: dict[InputKey, Value]
    received: tuple[Any, ...]
    histories: dict[InputKey, History]
    fed: dict[InputKey | int, History]
    operations: tuple[Any, ...]


class DecoupledPasses:
    """Builds the passes of a step.

    Parameters
    ----------
    context : network, stages and losses; all outputs of the network are in the last stage.
    x : (stages, inputs) tf.Tensor, the batch of each stage's forward pass; only stages that read inputs use theirs.
    loss_inputs : (outputs,) targets of the batch of the last stage.
    tick : () int32 tf.Tensor, number of the batch that the first stage begins.

    Attributes
    ----------
    graph, sources, builders, task_order : as in `Passes`.
    losses : the loss of each output that has one.
    outputs : (outputs,) predictions for the batch of the last stage.
    """

    def __init__(
        self, context: ProgramContext, x: Sequence[Sequence[tf.Tensor]], loss_inputs: Sequence[LossInputs | None], tick: tf.Tensor
    ) -> None:
        self.context, self._x, self._loss_inputs = context, x, loss_inputs
        self._last = len(context.stages) - 1
        self.forward_batches = [tick - stage for stage in range(self._last + 1)]
        self.backward_batches = [tick - 2 * self._last + stage for stage in range(self._last + 1)]
        self.graph = mtf.Graph()
        self.sources = Sources(self.graph)
        self.builders = [self._builder(stage) for stage in range(self._last + 1)]
        self.task_order: list[OrderedTask] = []
        self.losses: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self._gradients: list[dict[Key, Tensor]] = [{} for _ in context.stages]
        self._kept: list[tuple[History, Tensor, tf.Tensor]] = []
        self._returns: dict[int, list[History]] = {}  # layer index -> histories of gradients of its output
        values: dict[int, Value] = {}
        forward = [self._forward(stage, values) for stage in range(self._last + 1)]
        for stage in reversed(range(self._last + 1)):
            self._backward(stage, forward[stage])

    def _builder(self, stage: int) -> Builder:
        context = self.context
        mesh = mtf.Mesh(self.graph, f"mesh{stage}" if stage else "mesh")
        placed = context.stages[stage].stage
        builder = Builder(context.graph, placed, mesh, context.variables, self._x[stage], True, context.seed, self.forward_batches[stage])
        builder.sources = self.sources
        return builder

    def begin(self, name: str, stage: int) -> None:
        """Begin a task of a stage, as `Passes.begin`."""
        self.sources.begin(None)
        self.task_order.append(OrderedTask(f"stage{stage}_{name}", self.builders[stage].mesh, len(self.graph.operations)))

    def of_stage(self, stage: int) -> StagePasses:
        """Return what `learning` takes of a stage."""
        return StagePasses(self.context, self.graph, self.sources, [self.builders[stage]], self._gradients[stage])

    def writes(self) -> list[HistoryWrite]:
        """Return the operations that keep what this step sends; built last, as they wait for all that it reads."""
        self.sources.begin(None)
        return [history.write(tensor, batch) for history, tensor, batch in self._kept]

    def _stage_of(self, layer: int) -> int:
        return next(number for number, builder in enumerate(self.builders) if layer in builder.layers)

    def _forward(self, stage: int, values: dict[int, Value]) -> _Forward:
        self.begin("forward", stage)
        base, layers, start = self.builders[stage], self.context.graph.layers, len(self.graph.operations)
        receiver = base.part(self._x[stage], 0)
        receiver.receive(values)
        received = tuple(self.graph.operations[start:])
        arrivals = {key: value for key, value in receiver.arrived.items() if layers[key[0]].inputs}
        histories = {key: self._history_of(stage, number, key[0], value) for number, (key, value) in enumerate(arrivals.items())}
        reads = {key: _with(arrivals[key], history.read(self.forward_batches[stage])) for key, history in histories.items()}
        builder = receiver.reading({**receiver.arrived, **reads}, self.forward_batches[stage], updates_state=True)
        builder.build(values)
        fed: dict[InputKey | int, History] = {}
        if stage < self._last:
            fed = {key: self._fed(stage, len(fed), value) for key, value in self._fed_values(builder, receiver, values).items()}
        self.sources.begin(None)
        if stage == self._last:
            self._end(builder, values)
        return _Forward(builder, values, arrivals, received, histories, fed, tuple(self.graph.operations[start:]))

    def _fed_values(self, builder: Builder, receiver: Builder, values: dict[int, Value]) -> dict[InputKey | int, Value]:
        """Return the parts of the batch itself that a stage reads."""
        layers = self.context.graph.layers
        own: dict[InputKey | int, Value] = {index: values[index] for index in builder.layers if not layers[index].inputs}
        return {**own, **{key: value for key, value in receiver.arrived.items() if not layers[key[0]].inputs}}

    def _end(self, builder: Builder, values: dict[int, Value]) -> None:
        """Build the losses of the network's outputs."""
        for index, part, loss_input in zip(self.context.graph.outputs, self.context.objective, self._loss_inputs):
            output = builder.output(index, values[index])
            self.outputs.append(output.tensor)
            if part is not None and loss_input is not None:
                self.losses.append(losses.weighted_loss(part.loss, output, loss_input.y, loss_input.weight, loss_input.scale))

    def _backward(self, stage: int, forward: _Forward) -> None:
        self.begin("backward", stage)
        start = len(self.graph.operations)
        if stage == self._last:
            builder, operations = forward.builder, forward.operations
            leaves = {key: builder.arrived[key].tensor for key in forward.histories}
            ys, grad_ys = self._loss_seeds()
        else:
            builder, leaves, own = self._replayed(stage, forward)
            operations = tuple(self.graph.operations[start:])
            returned = [(index, history) for index in builder.layers for history in self._returns.get(index, ())]
            ys = [own[index].tensor for index, _ in returned]
            grad_ys = [history.read(self.backward_batches[stage]) for _, history in returned]
        trained = {key: p.value for key, p in builder.parameters.items() if self.context.is_trainable(*key)}
        all_gradients = gradients(ys, grad_ys, [*leaves.values(), *trained.values()], operations, self.sources.begin_backward)
        self.sources.begin(None)
        self._gradients[stage] = {key: g for key, g in zip(trained, all_gradients[len(leaves) :]) if g is not None}
        self._send_back(stage, forward, {key: g for key, g in zip(leaves, all_gradients) if g is not None})

    def _loss_seeds(self) -> tuple[list[Tensor], list[Tensor]]:
        weights = [part.weight for part, inputs in zip(self.context.objective, self._loss_inputs) if part and inputs]
        return self.losses, [mtf.Constant(loss.mesh, w, loss.shape, loss.dtype).outputs[0] for loss, w in zip(self.losses, weights)]

    def _replayed(self, stage: int, forward: _Forward) -> tuple[Builder, dict[InputKey, Tensor], dict[int, Value]]:
        """Build a forward pass again, of an earlier batch with the present weights; return its builder, the inputs it read, and outputs."""
        batch = self.backward_batches[stage]
        arrived = forward.builder.arrived
        leaves = {key: history.read(batch) for key, history in forward.histories.items()}
        fed = {key: history.read(batch) for key, history in forward.fed.items()}
        reads = {key: _with(arrived[key], tensor) for key, tensor in leaves.items()}
        reads |= {key: _with(arrived[key], tensor) for key, tensor in fed.items() if not isinstance(key, int)}
        builder = forward.builder.reading(reads, batch, updates_state=False)
        own: dict[int, Value] = {index: value for index, value in forward.values.items() if index not in builder.layers}
        own |= {key: _with(forward.values[key], tensor) for key, tensor in fed.items() if isinstance(key, int)}
        builder.build(own)
        return builder, leaves, own

    def _send_back(self, stage: int, forward: _Forward, leaf_gradients: dict[InputKey, Tensor]) -> None:
        """Send the gradients of what a stage read to the stages that it came from, which keep them until their steps come."""
        sources = sorted({source for source, _ in leaf_gradients})
        ys = [forward.arrivals[key].tensor for key in leaf_gradients]
        xs = [forward.values[source].tensor for source in sources]
        for source, gradient in zip(sources, gradients(ys, list(leaf_gradients.values()), xs, forward.received)):
            if gradient is not None:
                name = f"stage{stage}/gradient{source}"
                history = self._history(name, gradient, stage - self._stage_of(source))
                self._returns.setdefault(source, []).append(history)
                self._kept.append((history, gradient, self.backward_batches[stage]))

    def _history_of(self, stage: int, number: int, source: int, value: Value) -> History:
        """Return the history of what an earlier stage sends: kept for the forward pass, then for the replay."""
        sender = self._stage_of(source)
        history = self._history(f"stage{stage}/input{number}", value.tensor, 2 * self._last - sender - stage)
        self._kept.append((history, value.tensor, self.forward_batches[sender]))
        return history

    def _fed(self, stage: int, number: int, value: Value) -> History:
        """Return the history of a part of the batch itself, kept for the replay."""
        history = self._history(f"stage{stage}/fed{number}", value.tensor, 2 * (self._last - stage))
        self._kept.append((history, value.tensor, self.forward_batches[stage]))
        return history

    def _history(self, name: str, tensor: Tensor, length: int) -> History:
        batch = int(self._x[0][0].shape[0])
        return History(tensor.mesh, self.context.histories, f"history/{batch}/{name}", tensor.shape, tensor.dtype, length)


def _with(value: Value, tensor: Tensor) -> Value:
    return dataclasses.replace(value, tensor=tensor)
