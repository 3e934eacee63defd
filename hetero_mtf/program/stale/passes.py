"""The passes of schedules without a flush: in one step all stages work, each on another batch.

With K stages and batch t fed in step t, stage k takes in step t the forward pass of batch t - k and the backward pass of batch
t - 2 (K - 1) + k; under schedule "1f1b_2bw" the batches here are microbatches. What a stage sends is kept by the receiver until its step
comes: no stage waits for another within a step. The last stage has both passes of one batch; in the others the backward pass is
2 (K - 1 - k) steps later than the forward pass and either computes it again, from the inputs that were kept, or uses activations that were.

References: Huo, Gu, Huang, "Training neural networks using features replay", NeurIPS 2018; Narayanan et al., "Memory-efficient
pipeline-parallel DNN training", ICML 2021, for two versions of the weights. That all stages update at once on different batches is the
claim of Akintoye et al., FGCS 149, 2023, whose algorithm is not published where it could be read; this is our reading.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from hetero_mtf.graph.variable_keys import VariableKey
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.gradients import gradients
from hetero_mtf.mesh.operations.history import History, HistoryWrite
from hetero_mtf.mesh.variables import Parameter
from hetero_mtf.planning.schedule.clock_table import BACKWARD, FORWARD, Task
from hetero_mtf.planning.schedule.stale import ticks_between
from hetero_mtf.program import losses
from hetero_mtf.program.builder import Builder, InputKey
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.feeding.inputs import LossInputs
from hetero_mtf.program.learning import StepGradients
from hetero_mtf.program.ops.value import Value
from hetero_mtf.program.passes import TaskGraph, task_name
from hetero_mtf.program.stale.activations import StoredActivations
from hetero_mtf.program.stale.stage_inputs import StageInputs
from hetero_mtf.program.stale.weights import ForwardWeights


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
    stored : what of it is kept for the backward pass; None for inputs only.
    """

    builder: Builder
    values: dict[int, Value]
    arrivals: dict[InputKey, Value]
    received: tuple[mtf.Operation, ...]
    histories: dict[InputKey, History]
    fed: dict[InputKey | int, History]
    operations: tuple[mtf.Operation, ...]
    stored: StoredActivations | None


class StalePasses(TaskGraph):
    """Builds the passes of a step; further attributes as in `TaskGraph`.

    Parameters
    ----------
    context : network, stages and losses; all outputs of the network are in the last stage.
    inputs : (stages,) placeholders; only stages that read model inputs use theirs.
    loss_inputs : (outputs,) targets of the batch of the last stage.

    Attributes
    ----------
    losses : the loss of each output that has one.
    outputs : (outputs,) predictions for the batch of the last stage.
    """

    def __init__(self, context: ProgramContext, inputs: Sequence[StageInputs], loss_inputs: Sequence[LossInputs | None]) -> None:
        super().__init__(context, [(each.x, each.numbers[0]) for each in inputs], training=True)
        self._inputs, self._loss_inputs, self._last = inputs, loss_inputs, len(context.stages) - 1
        self._weights = [self._forward_weights(stage) for stage in range(self._last + 1)]
        self.losses: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self._gradients: list[dict[VariableKey, Tensor]] = [{} for _ in context.stages]
        self._to_write: list[tuple[History, Tensor]] = []
        self._returns: dict[int, list[tuple[History, int]]] = {}  # layer index -> histories of gradients of its output, and their ages
        values: dict[int, Value] = {}
        self._forwards = [self._forward(stage, values) for stage in range(self._last + 1)]
        for stage in reversed(range(self._last + 1)):
            self._backward(stage, self._forwards[stage])

    def _forward_weights(self, stage: int) -> ForwardWeights:
        history = functools.partial(self._history_on, stage)
        needed = self.context.stale.backward == "stored" or self.context.has_versions
        return ForwardWeights(self.context, self._inputs[stage], history, ticks_between(stage, self._last + 1) if needed else 0)

    def gradients_of(self, stage: int) -> StepGradients:
        """Return the gradients of a stage, whose engine refuses to scale losses."""
        forward, slots = self._forwards[stage].builder, self._weights[stage].slots
        return StepGradients(self.context, self.graph, self.sources, [forward], self._gradients[stage], slots)

    def writes(self) -> list[HistoryWrite]:
        """Return the operations that keep what later steps read; built last, as they wait for all that this step reads."""
        self.sources.begin(None)
        stored = [forward.stored for forward in self._forwards if forward.stored is not None]
        sent = [history.write(tensor) for history, tensor in self._to_write]
        return [*sent, *(write for weights in self._weights for write in weights.writes()), *(w for each in stored for w in each.writes())]

    def _stage_of(self, layer: int) -> int:
        return next(number for number, builder in enumerate(self.builders) if layer in builder.layers)

    def _forward(self, stage: int, values: dict[int, Value]) -> _Forward:
        self.begin(task_name(Task(stage, 2 * self._last - stage, FORWARD)), stage)  # batches are numbered from the oldest in flight
        base, layers, start = self.builders[stage], self.context.graph.layers, len(self.graph.operations)
        receiver = base.part(self._inputs[stage].x, 0)
        receiver.receive(values)
        received = tuple(self.graph.operations[start:])
        arrivals = {key: value for key, value in receiver.arrived.items() if layers[key[0]].inputs}
        histories = {key: self._history_of(stage, number, key[0], value) for number, (key, value) in enumerate(arrivals.items())}
        reads = {key: _with(arrivals[key], history.read(stage - self._stage_of(key[0]))) for key, history in histories.items()}
        builder = receiver.reading({**receiver.arrived, **reads}, self._inputs[stage].numbers[0])
        builder.read_weight = self._weights[stage]
        first = len(self.graph.operations)
        builder.build(values)
        computed, stored = self._computed(stage, first), None
        fed: dict[InputKey | int, History] = {}
        if stage < self._last:
            fed = {key: self._fed(stage, len(fed), value) for key, value in self._fed_values(builder, receiver, values).items()}
            if self.context.stale.backward == "stored":
                stored = StoredActivations(computed, functools.partial(self._history_on, stage), ticks_between(stage, self._last + 1))
        self.sources.begin(None)
        if stage == self._last:
            self._end(builder, values)
        return _Forward(builder, values, arrivals, received, histories, fed, tuple(self.graph.operations[start:]), stored)

    def _computed(self, stage: int, first: int) -> list[mtf.Operation]:
        """Return the operations of layers since number `first`, without those that read weights or the batch itself."""
        of_weights, layers = self._weights[stage].operations, self.context.graph.layers
        operations = [each for each in self.graph.operations[first:] if each not in of_weights and not isinstance(each, Parameter)]
        sources = ((operation, self.sources.of(operation)) for operation in operations)
        return [operation for operation, source in sources if source is None or layers[source.layer].inputs]

    def _fed_values(self, builder: Builder, receiver: Builder, values: dict[int, Value]) -> dict[InputKey | int, Value]:
        """Return the parts of the batch itself that a stage reads."""
        layers = self.context.graph.layers
        own: dict[InputKey | int, Value] = {index: values[index] for index in builder.layers if not layers[index].inputs}
        return {**own, **{key: value for key, value in receiver.arrived.items() if not layers[key[0]].inputs}}

    def _end(self, builder: Builder, values: dict[int, Value]) -> None:
        """Build the losses of the network's outputs."""
        masks = []
        for index, part, loss_input in zip(self.context.graph.outputs, self.context.objective, self._loss_inputs):
            output = builder.output(index, values[index])
            self.outputs.append(output.tensor)
            masks += [] if output.mask is None else [output.mask]
            if part is not None and loss_input is not None:
                read = output if losses.is_samplewise(part.loss) else builder.unsplit_output(index, output)
                self.losses.append(losses.weighted_loss(part.loss, read, loss_input.y, loss_input.weight, loss_input.scale))
        self.outputs += masks

    def _backward(self, stage: int, forward: _Forward) -> None:
        self.begin(task_name(Task(stage, stage, BACKWARD)), stage)
        start, weights = len(self.graph.operations), self._weights[stage]
        builder, operations = forward.builder, forward.operations
        again: list[mtf.Operation] = []
        if stage == self._last:
            leaves = {key: builder.arrived[key].tensor for key in forward.histories}
            ys, grad_ys = self._loss_seeds()
            read = weights.read
        else:
            builder, leaves, own, again = self._replayed(stage, forward)
            operations = tuple(self.graph.operations[start:])
            returned = [(index, *each) for index in builder.layers for each in self._returns.get(index, ())]
            ys = [own[index].tensor for index, *_ in returned]
            grad_ys = [history.read(age) for _, history, age in returned]
            read = {key: weights.of_backward(key, builder.parameters[key]) for key in weights.read}
        back = len(self.graph.operations)
        all_gradients = gradients(ys, grad_ys, [*leaves.values(), *read.values()], operations, self.sources.begin_backward)
        self.sources.begin(None)
        if forward.stored is not None:
            computed_gradients = [gradient for gradient in all_gradients if gradient is not None]
            forward.stored.substitute(again, self.graph.operations[back:], computed_gradients)
        self._gradients[stage] = {key: g for key, g in zip(read, all_gradients[len(leaves) :]) if g is not None}
        self._send_back(stage, forward, {key: g for key, g in zip(leaves, all_gradients) if g is not None})

    def _loss_seeds(self) -> tuple[list[Tensor], list[Tensor]]:
        weights = [part.weight for part, inputs in zip(self.context.objective, self._loss_inputs) if part and inputs]
        return self.losses, [mtf.Constant(loss.mesh, w, loss.shape, loss.dtype).outputs[0] for loss, w in zip(self.losses, weights)]

    def _replayed(self, stage: int, forward: _Forward) -> tuple[Builder, dict[InputKey, Tensor], dict[int, Value], list[mtf.Operation]]:
        """Build a forward pass again, of an earlier batch; return its builder, the inputs it read, its outputs and its operations."""
        arrived, age = forward.builder.arrived, ticks_between(stage, self._last + 1)
        leaves = {key: history.read(history.length) for key, history in forward.histories.items()}
        fed = {key: history.read(age) for key, history in forward.fed.items()}
        reads = {key: _with(arrived[key], tensor) for key, tensor in leaves.items()}
        reads |= {key: _with(arrived[key], tensor) for key, tensor in fed.items() if not isinstance(key, int)}
        builder = forward.builder.reading(reads, self._inputs[stage].numbers[1])
        builder.read_weight = self._weights[stage].of_backward
        own: dict[int, Value] = {index: value for index, value in forward.values.items() if index not in builder.layers}
        own |= {key: _with(forward.values[key], tensor) for key, tensor in fed.items() if isinstance(key, int)}
        first = len(self.graph.operations)
        builder.build(own)
        return builder, leaves, own, self._computed(stage, first)

    def _send_back(self, stage: int, forward: _Forward, leaf_gradients: dict[InputKey, Tensor]) -> None:
        """Send the gradients of what a stage read to the stages that it came from, which keep them until their steps come."""
        sources = sorted({source for source, _ in leaf_gradients})
        ys = [forward.arrivals[key].tensor for key in leaf_gradients]
        xs = [forward.values[source].tensor for source in sources]
        for source, gradient in zip(sources, gradients(ys, list(leaf_gradients.values()), xs, forward.received)):
            if gradient is not None:
                age = stage - self._stage_of(source)
                history = self._history(f"stage{stage}/gradient{source}", gradient, age)
                self._returns.setdefault(source, []).append((history, age))
                self._to_write.append((history, gradient))

    def _history_of(self, stage: int, number: int, source: int, value: Value) -> History:
        """Return the history of what an earlier stage sends: kept for the forward pass, then for the replay."""
        sender = self._stage_of(source)
        history = self._history(f"stage{stage}/input{number}", value.tensor, 2 * self._last - sender - stage)
        self._to_write.append((history, value.tensor))
        return history

    def _fed(self, stage: int, number: int, value: Value) -> History:
        """Return the history of a part of the batch itself, kept for the replay."""
        history = self._history(f"stage{stage}/fed{number}", value.tensor, ticks_between(stage, self._last + 1))
        self._to_write.append((history, value.tensor))
        return history

    def _history(self, name: str, tensor: Tensor, length: int) -> History:
        batch = int(self._inputs[0].x[0].shape[0])
        return History(tensor.mesh, self.context.histories, f"history/{batch}/{name}", tensor.shape, tensor.dtype, length)

    def _history_on(self, stage: int, name: str, tensor: Tensor, length: int) -> History:
        return self._history(f"stage{stage}/{name}", tensor, length)


def _with(value: Value, tensor: Tensor) -> Value:
    return dataclasses.replace(value, tensor=tensor)
