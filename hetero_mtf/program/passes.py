"""Passes: the forward and backward passes of all stages over all microbatches, built in the order of a schedule.

One stage has one mesh, one builder and one snapshot of its weights a step. Its forward pass over a microbatch transfers its inputs from
earlier stages to its own mesh. Its backward pass begins with the gradients from later stages, and sends the gradients of its inputs
to earlier ones; the gradients of its weights are added up over the microbatches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.graph.variable_keys import VariableKey
from hetero_mtf.mesh.batch_parts import Fed
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.gradients import gradients
from hetero_mtf.mesh.sources import Sources
from hetero_mtf.mesh.sums.accumulate import accumulate
from hetero_mtf.mesh.task_order import OrderedTask
from hetero_mtf.planning.schedule.clock_table import FORWARD, Task
from hetero_mtf.program import losses
from hetero_mtf.program.builder import Builder
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.feeding.inputs import ProgramInputs
from hetero_mtf.program.loss_scale import seed_of_loss
from hetero_mtf.program.ops.value import Value

_SQUARES = ":squares"


@dataclasses.dataclass(frozen=True)
class _Pass:
    """A forward pass of a stage over a microbatch, as its backward pass needs it.

    Parameters
    ----------
    builder : its builder.
    values : layer index -> output, of this stage and earlier ones.
    sources : layers of other stages that it read.
    received : operations that transferred what it read.
    operations : its other operations.
    losses : output number -> its loss, of the network's outputs in this stage.
    added : what layers add to the loss, as parts of the whole batch's.
    """

    builder: Builder
    values: dict[int, Value]
    sources: frozenset[int]
    received: tuple[mtf.Operation, ...]
    operations: tuple[mtf.Operation, ...]
    losses: dict[int, Tensor]
    added: tuple[Tensor, ...] = ()


class TaskGraph:
    """A Mesh-TensorFlow graph that is built task by task, with a mesh and a builder for each stage.

    Parameters
    ----------
    context : network, stages and losses.
    fed : (stages,) the arrays that each stage reads, and the () int32 number of its step or batch.
    training : whether batch statistics and dropout are in force.

    Attributes
    ----------
    graph : the mtf.Graph.
    sources : for which layer and pass its operations are built.
    builders : (stages,) Builder.
    task_order : the tasks, with the place in the graph where each begins.
    """

    def __init__(self, context: ProgramContext, fed: Sequence[tuple[Sequence[Fed], tf.Tensor]], training: bool) -> None:
        self.context = context
        self.graph = mtf.Graph()
        self.sources = Sources(self.graph)
        self.builders = [self._builder(stage, x, step, training) for stage, (x, step) in enumerate(fed)]
        self.task_order: list[OrderedTask] = []

    def begin(self, name: str, stage: int) -> None:
        """Begin a task of a stage: operations built from now on belong to it."""
        self.sources.begin(None)
        self.task_order.append(OrderedTask(name, self.builders[stage].mesh, len(self.graph.operations)))

    def _builder(self, stage: int, x: Sequence[Fed], step: tf.Tensor, training: bool) -> Builder:
        context = self.context
        mesh = mtf.Mesh(self.graph, f"mesh{stage}" if stage else "mesh")
        placed = context.stages[stage].stage
        builder = Builder(context.graph, placed, mesh, context.variables, x, training, context.seed, step, context.mixing)
        builder.sources = self.sources
        return builder


class StepPasses(TaskGraph):
    """Builds passes and records their values, gradients and losses; further attributes as in `TaskGraph`.

    Parameters
    ----------
    context : network, stages and losses.
    parts : (microbatches,) inputs of each microbatch.
    training : whether batch statistics and dropout are in force.
    step : () int32 tf.Tensor, number of the step.
    recomputed : the (stage, microbatch) whose backward passes recompute activations.
    loss_scale : () factor of all losses in the backward passes; None for none.

    Attributes
    ----------
    gradients : (layer index, variable name) -> gradient of the whole loss without penalties, of variables that it depends on.
    """

    def __init__(
        self,
        context: ProgramContext,
        parts: Sequence[ProgramInputs],
        training: bool,
        step: tf.Tensor,
        recomputed: frozenset[tuple[int, int]] = frozenset(),
        loss_scale: tf.Tensor | None = None,
    ) -> None:
        super().__init__(context, [(parts[0].x, step)] * len(context.stages), training)
        self.parts, self._to_recompute, self.loss_scale = parts, recomputed, loss_scale
        for builder in self.builders:
            builder.squares_rows = training and context.rule.squares_rows and not context.mixing
        self.gradients: dict[VariableKey, Tensor] = {}
        self._values: list[dict[int, Value]] = [{} for _ in parts]
        self._outputs: dict[tuple[int, int], Tensor] = {}
        self._output_masks: dict[tuple[int, int], Tensor] = {}
        self._losses: dict[int, Tensor] = {}
        self._added: dict[tuple[int, int], Tensor] = {}
        self._passes: dict[tuple[int, int], _Pass] = {}
        self._sent_back: dict[Tensor, list[Tensor]] = {}

    @property
    def losses(self) -> list[Tensor]:
        """The loss of each output that has one, over all microbatches, in the order of the outputs."""
        return [self._losses[number] for number in sorted(self._losses)]

    @property
    def added_losses(self) -> list[Tensor]:
        """What layers add to the loss, over all microbatches."""
        return list(self._added.values())

    @property
    def outputs(self) -> list[list[Tensor]]:
        """(outputs, microbatches) predictions, and behind them the masks of the outputs that carry one."""
        tensors, masks = self._outputs, self._output_masks
        of = [(tensors, number) for number in range(len(self.context.graph.outputs))]
        of += [(masks, number) for number in sorted({number for number, _ in masks})]
        return [[of_parts[number, m] for m in range(len(self.parts))] for of_parts, number in of]

    def run(self, task: Task) -> None:
        """Build a task.

        Parameters
        ----------
        task : a task whose predecessors are built.
        """
        self.begin(task_name(task), task.stage)
        if task.step_pass == FORWARD:
            self._forward(task.stage, task.microbatch)
        else:
            self._backward(task.stage, task.microbatch)

    def _forward(self, stage: int, microbatch: int) -> None:
        builder = self.builders[stage].part(self.parts[microbatch].x, microbatch)
        values, start = self._values[microbatch], len(self.graph.operations)
        sources = builder.receive(values)
        received = tuple(self.graph.operations[start:])
        forward = self._layers_built(builder, microbatch, values, sources, received)
        self._passes[stage, microbatch] = forward
        for number, loss in forward.losses.items():
            self._losses[number] = accumulate(self._losses[number], loss) if number in self._losses else loss
        for key, loss in zip(((stage, at) for at in range(len(forward.added))), forward.added):
            self._added[key] = accumulate(self._added[key], loss) if key in self._added else loss

    def _layers_built(
        self, builder: Builder, microbatch: int, values: dict[int, Value], sources: frozenset[int], received: tuple[mtf.Operation, ...]
    ) -> _Pass:
        """Build the layers of a stage, and the losses of its outputs."""
        start, output_losses = len(self.graph.operations), {}
        share = builder.batch_size / sum(int(inputs.x[0].shape[0]) for inputs in self.parts)
        builder.build(values)
        self.sources.begin(None)
        for number, index in enumerate(self.context.graph.outputs):
            if index not in builder.layers:
                continue
            output, part, loss_input = (
                builder.output(index, values[index]),
                self.context.objective[number],
                self.parts[microbatch].loss_inputs[number],
            )
            self._outputs.setdefault((number, microbatch), output.tensor)
            if output.mask is not None:
                self._output_masks.setdefault((number, microbatch), output.mask)
            if part is not None and loss_input is not None:
                read = output if losses.is_samplewise(part.loss) else builder.unsplit_output(index, output)
                output_losses[number] = losses.weighted_loss(part.loss, read, loss_input.y, loss_input.weight, loss_input.scale, share)
        added = tuple(loss if share == 1 else mtf.multiply(loss, share) for loss in builder.added_losses)
        return _Pass(builder, values, sources, received, tuple(self.graph.operations[start:]), output_losses, added)

    def _backward(self, stage: int, microbatch: int) -> None:
        first = self._passes.pop((stage, microbatch))
        forward = self._recomputed(first, microbatch) if (stage, microbatch) in self._to_recompute else first
        ys, grad_ys = self._seeds(forward, {first.values[i].tensor: forward.values[i].tensor for i in first.builder.layers})
        sources = list(dict.fromkeys(first.values[i].tensor for i in sorted(first.sources) if self.context.graph.layers[i].inputs))
        trained = {key: p.value for key, p in forward.builder.parameters.items() if self.context.is_trainable(*key)}
        trained |= {squares_key(key): tensor for key, tensor in forward.builder.row_squares.items()}
        operations = [*forward.received, *forward.operations]
        all_gradients = gradients(ys, grad_ys, [*sources, *trained.values()], operations, self.sources.begin_backward)
        self.sources.begin(None)
        for tensor, gradient in zip(sources, all_gradients):
            if gradient is not None:
                self._sent_back.setdefault(tensor, []).append(gradient)
        for key, gradient in zip(trained, all_gradients[len(sources) :]):
            if gradient is not None:
                self.gradients[key] = accumulate(self.gradients[key], gradient) if key in self.gradients else gradient

    def _recomputed(self, first: _Pass, microbatch: int) -> _Pass:
        """Build a forward pass once more, from the inputs that were transferred."""
        layers = self.context.graph.layers
        values = {i: value for i, value in first.values.items() if i not in first.builder.layers or not layers[i].inputs}
        return self._layers_built(first.builder.for_recomputation(), microbatch, values, first.sources, first.received)

    def _seeds(self, forward: _Pass, present: dict[Tensor, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tensors that a backward pass begins at, and their gradients.

        Parameters
        ----------
        present : tensor of the forward pass -> the recomputed tensor, or itself.
        """
        ys, grad_ys = [], []
        for number, loss in forward.losses.items():
            part = self.context.objective[number]
            assert part is not None
            ys.append(loss)
            grad_ys.append(seed_of_loss(loss, part.weight, self.loss_scale))
        for loss in forward.added:
            ys.append(loss)
            grad_ys.append(seed_of_loss(loss, 1.0, self.loss_scale))
        for tensor, same in present.items():
            for gradient in self._sent_back.pop(tensor, ()):
                ys.append(same)
                grad_ys.append(gradient)
        return ys, grad_ys


def squares_key(key: VariableKey) -> VariableKey:
    """Return what stands for the sums of the squared gradients of a table's rows among gradients."""
    return key[0], f"{key[1]}{_SQUARES}"


def task_name(task: Task) -> str:
    """Return the prefix of the names of a task's operations.

    >>> task_name(Task(1, 3, "forward"))
    'stage1_forward3'
    """
    return f"stage{task.stage}_{task.step_pass}{task.microbatch}"
