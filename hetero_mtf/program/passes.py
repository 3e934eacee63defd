"""Passes: the forward and backward passes of all stages over all microbatches, built in the order of a schedule.

One stage has one mesh, one builder and one snapshot of its weights a step. Its forward pass over a microbatch takes what it reads of
earlier stages to its own mesh. Its backward pass begins with the gradients that later stages sent back, and sends on those of what
it had read; the gradients of its weights are added up over the microbatches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.gradients import gradients
from hetero_mtf.mesh.operations.accumulate import accumulate
from hetero_mtf.mesh.task_order import OrderedTask
from hetero_mtf.planning.schedule.clock_table import FORWARD, Task
from hetero_mtf.program import losses
from hetero_mtf.program.builder import Builder
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.inputs import ProgramInputs
from hetero_mtf.program.value import Value

Tensor = Any
Key = tuple[int, str]


@dataclasses.dataclass(frozen=True)
class _Pass:
    """What the forward pass of a stage over a microbatch leaves for its backward pass.

    Parameters
    ----------
    builder : its builder.
    values : layer index -> output, of this stage and earlier ones.
    sources : layers of other stages that it read.
    received : operations that brought what it read.
    operations : its other operations.
    losses : output number -> its loss, of the network's outputs that are made here.
    """

    builder: Builder
    values: dict[int, Value]
    sources: frozenset[int]
    received: tuple[Any, ...]
    operations: tuple[Any, ...]
    losses: dict[int, Tensor]


class Passes:
    """Builds passes and keeps what they leave behind.

    Parameters
    ----------
    context : network, stages and losses.
    parts : (microbatches,) what each microbatch comes in.
    training : whether batch statistics and dropout are in force.
    step : () int32 tf.Tensor, number of the step.
    again : the (stage, microbatch) whose backward passes compute activations again.

    Attributes
    ----------
    graph : the mtf.Graph.
    builders : (stages,) Builder.
    turns : where in the graph which task begins.
    gradients : (layer index, variable name) -> gradient of the whole loss without penalties, of variables that it depends on.
    """

    def __init__(
        self,
        context: ProgramContext,
        parts: Sequence[ProgramInputs],
        training: bool,
        step: tf.Tensor,
        again: frozenset[tuple[int, int]] = frozenset(),
    ) -> None:
        self.context, self.parts, self._again = context, parts, again
        self.graph = mtf.Graph()
        self.builders = [self._builder(number, training, step) for number in range(len(context.stages))]
        self.turns: list[OrderedTask] = []
        self.gradients: dict[Key, Tensor] = {}
        self._values: list[dict[int, Value]] = [{} for _ in parts]
        self._outputs: dict[tuple[int, int], Tensor] = {}
        self._losses: dict[int, Tensor] = {}
        self._passes: dict[tuple[int, int], _Pass] = {}
        self._sent_back: dict[Tensor, list[Tensor]] = {}

    def _builder(self, number: int, training: bool, step: tf.Tensor) -> Builder:
        context = self.context
        mesh = mtf.Mesh(self.graph, f"mesh{number}" if number else "mesh")
        stage = context.stages[number].stage
        return Builder(context.graph, stage, mesh, context.variables, self.parts[0].x, training, context.seed, step, context.mixing)

    @property
    def losses(self) -> list[Tensor]:
        """The loss of each output that has one, over all microbatches, in the order of the outputs."""
        return [self._losses[number] for number in sorted(self._losses)]

    @property
    def outputs(self) -> list[list[Tensor]]:
        """(outputs, microbatches) predictions."""
        return [[self._outputs[number, m] for m in range(len(self.parts))] for number in range(len(self.context.graph.outputs))]

    def begin(self, name: str, stage: int) -> None:
        """Begin a task of a stage: what is built from now on belongs to it."""
        self.turns.append(OrderedTask(name, self.builders[stage].mesh, len(self.graph.operations)))

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
        made = self._made(builder, microbatch, values, sources, received)
        self._passes[stage, microbatch] = made
        for number, loss in made.losses.items():
            self._losses[number] = accumulate(self._losses[number], loss) if number in self._losses else loss

    def _made(
        self, builder: Builder, microbatch: int, values: dict[int, Value], sources: frozenset[int], received: tuple[Any, ...]
    ) -> _Pass:
        """Build the layers of a stage, and the losses of its outputs."""
        start, found = len(self.graph.operations), {}
        builder.build(values)
        for number, index in enumerate(self.context.graph.outputs):
            if index not in builder.layers:
                continue
            output, part, end = builder.output(index, values[index]), self.context.objective[number], self.parts[microbatch].ends[number]
            self._outputs.setdefault((number, microbatch), output.tensor)
            if part is not None and end is not None:
                found[number] = losses.weighted_loss(part.loss, output, end.y, end.weight, end.scale)
        return _Pass(builder, values, sources, received, tuple(self.graph.operations[start:]), found)

    def _backward(self, stage: int, microbatch: int) -> None:
        first = self._passes.pop((stage, microbatch))
        made = self._recomputed(first, microbatch) if (stage, microbatch) in self._again else first
        ys, grad_ys = self._seeds(made, {first.values[i].tensor: made.values[i].tensor for i in first.builder.layers})
        sources = list(dict.fromkeys(first.values[i].tensor for i in sorted(first.sources) if self.context.graph.layers[i].inputs))
        trained = {key: p.value for key, p in made.builder.parameters.items() if self.context.is_trainable(*key)}
        found = gradients(ys, grad_ys, [*sources, *trained.values()], [*made.received, *made.operations])
        for tensor, gradient in zip(sources, found):
            if gradient is not None:
                self._sent_back.setdefault(tensor, []).append(gradient)
        for key, gradient in zip(trained, found[len(sources) :]):
            if gradient is not None:
                self.gradients[key] = accumulate(self.gradients[key], gradient) if key in self.gradients else gradient

    def _recomputed(self, first: _Pass, microbatch: int) -> _Pass:
        """Build a forward pass once more, from what had arrived."""
        layers = self.context.graph.layers
        kept = {i: value for i, value in first.values.items() if i not in first.builder.layers or not layers[i].inputs}
        return self._made(first.builder.again(), microbatch, kept, first.sources, first.received)

    def _seeds(self, made: _Pass, present: dict[Tensor, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the tensors that a backward pass begins at, and their gradients.

        Parameters
        ----------
        present : tensor of the forward pass -> the same where it was computed again.
        """
        ys, grad_ys = [], []
        for number, loss in made.losses.items():
            part = self.context.objective[number]
            assert part is not None
            ys.append(loss)
            grad_ys.append(mtf.Constant(loss.mesh, part.weight, loss.shape, loss.dtype).outputs[0])
        for tensor, same in present.items():
            for gradient in self._sent_back.pop(tensor, ()):
                ys.append(same)
                grad_ys.append(gradient)
        return ys, grad_ys


def task_name(task: Task) -> str:
    """Return what the names of a task's operations begin with.

    >>> task_name(Task(1, 3, "forward"))
    'stage1_forward3'
    """
    return f"stage{task.stage}_{task.step_pass}{task.microbatch}"
