"""Programs: one network built on the meshes of its stages for one batch size, to train, to test, or to predict."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from hetero_mtf.mesh.implementation import UnevenMeshImpl
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.mesh.task_order import TaskOrder
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.program.batch_arrays import Target
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.inputs import LossInputs, placeholder, placeholders
from hetero_mtf.program.learning import learning, penalties
from hetero_mtf.program.order import recomputed_passes, task_order
from hetero_mtf.program.passes import Passes


@dataclasses.dataclass(frozen=True)
class Program:
    """Placeholders to feed and tensors to fetch.

    Parameters
    ----------
    x : (inputs,) placeholders of the batch.
    loss_inputs : (outputs,) placeholders of targets, sample weights and scale; None for an output without a loss, and to predict.
    step : placeholder of the step's number.
    scalars : placeholders of the optimizer's scalars.
    loss : () the loss, regularization included.
    parts : the () loss of each output that has one.
    outputs : (outputs,) predictions (batch, ...).
    train : operation that updates all variables; None unless it trains.
    nodes : number of nodes that the program added to the TensorFlow graph.
    """

    x: tuple[tf.Tensor, ...]
    loss_inputs: tuple[LossInputs | None, ...]
    step: tf.Tensor
    scalars: Mapping[str, tf.Tensor]
    loss: tf.Tensor | None
    parts: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]
    train: tf.Operation | None
    nodes: int


def build_program(context: ProgramContext, mode: str, batch: int, targets: Sequence[Target | None], phase: int = 0) -> Program:
    """Return the program of a mode, added to the current TensorFlow graph.

    A batch is trained on in microbatches, by the schedule; tests and predictions take it whole.

    Parameters
    ----------
    mode : "train", "test" or "predict".
    batch : samples in the batch.
    targets : (outputs,) form of each output's targets, None for one without; empty to predict.
    phase : phase of butterfly mixing, from 0, which determines the partners.
    """
    before = len(tf.compat.v1.get_default_graph().get_operations())
    training = mode == "train"
    with tf.name_scope(f"{mode}_{batch}"):
        inputs, step = placeholders(context, batch, targets), placeholder(tf.int32, ())
        sizes = microbatch_sizes(batch, context.execution.microbatches) if training else (batch,)
        order = task_order(context, len(sizes), training)
        passes = Passes(context, inputs.microbatches(sizes), training, step, recomputed_passes(context, order))
        for task in order:
            passes.run(task)
        for stage in range(len(context.stages)):
            passes.begin("update", stage)
        terms = penalties(passes) if mode != "predict" else []
        scalars = {name: placeholder(tf.as_dtype(context.graph.dtype), ()) for name in context.rule.scalars(0, 0.0)} if training else {}
        step_operations = learning(passes, terms, scalars, phase) if training else []
        lowering = _lowered(passes, [*passes.losses, *terms, *step_operations], training)
        outputs = tuple(_joined(lowering, pieces) for pieces in passes.outputs)
        parts = tuple(_first_slice(lowering, part) for part in passes.losses)
        weights = [part.weight for part, loss_input in zip(context.objective, inputs.loss_inputs) if part and loss_input]
        loss = _total(parts, weights, [_first_slice(lowering, term) for term in terms]) if parts else None
        train = tf.group(*(write for operation in step_operations for write in lowering.operations[operation])) if training else None
    nodes = len(tf.compat.v1.get_default_graph().get_operations()) - before
    return Program(inputs.x, inputs.loss_inputs, step, scalars, loss, parts, outputs, train, nodes)


def _lowered(passes: Passes, wanted: Sequence[Any], training: bool) -> Lowering:
    """Return the passes lowered to TensorFlow; where a training step has several, every device computes them in order.

    Parameters
    ----------
    wanted : tensors and operations that every step computes.
    """
    context = passes.context
    impls, devices = {}, {}
    for placed, builder in zip(context.stages, passes.builders):
        stage = placed.stage
        impls[builder.mesh] = UnevenMeshImpl(stage.axes, builder.axes, placed.devices, builder.sizes, placed.collectives)
        devices[builder.mesh] = stage.devices
    several = len(context.stages) > 1 or len(passes.parts) > 1 or context.execution.recompute
    order = TaskOrder(passes.task_order, devices, wanted) if training and several else None
    outputs = [tensor for pieces in passes.outputs for tensor in pieces]
    return Lowering(passes.graph, impls, [*wanted, *outputs], order, passes.sources)


def _first_slice(lowering: Lowering, tensor: Any) -> tf.Tensor:
    """Return a whole tensor from the first processor."""
    value = lowering.export_to_tf_tensor(tensor)
    with tf.device(value.device):
        return tf.reshape(value, tensor.shape.to_integer_list)


def _joined(lowering: Lowering, pieces: Sequence[Any]) -> tf.Tensor:
    """Return the whole batch's output from those of microbatches."""
    microbatch_outputs = [_first_slice(lowering, piece) for piece in pieces]
    with tf.device(microbatch_outputs[0].device):
        return tf.concat(microbatch_outputs, 0) if len(microbatch_outputs) > 1 else microbatch_outputs[0]


def _total(parts: Sequence[tf.Tensor], weights: Sequence[float], terms: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the weighted sum of the outputs' losses, and of the penalties."""
    with tf.device(parts[0].device):
        weighted = [part if weight == 1.0 else part * tf.constant(weight, part.dtype) for part, weight in zip(parts, weights)]
        return functools.reduce(tf.add, [*weighted, *terms])
