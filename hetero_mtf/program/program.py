"""Programs: one network built on the meshes of its stages for one batch size, to train, to test, or to predict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor
from hetero_mtf.mesh.lowering import Lowering
from hetero_mtf.planning.schedule.microbatches import microbatch_sizes
from hetero_mtf.program.batch_arrays import Target
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.feeding.inputs import ProgramInputs, partly_read, placeholder, placeholders
from hetero_mtf.program.feeding.staged_batches import StagedBatches
from hetero_mtf.program.learning import StepGradients, learning, penalties
from hetero_mtf.program.loss_scale import SCALAR
from hetero_mtf.program.lowered import first_slice, lowered, total
from hetero_mtf.program.optimizers import step_scalars
from hetero_mtf.program.order import recomputed_passes, task_order
from hetero_mtf.program.passes import StepPasses


@dataclasses.dataclass(frozen=True)
class Program:
    """What is fed, and tensors to fetch.

    Parameters
    ----------
    inputs : the batch: placeholders, or arrays that devices read; and placeholders of the scales of losses.
    step : placeholder of the step's number.
    scalars : placeholders of the optimizer's scalars.
    loss : () the loss, regularization included.
    parts : the () loss of each output that has one.
    outputs : (outputs,) predictions (batch, ...), and behind them the masks of the outputs that carry one.
    train : operation that updates all variables; None unless it trains.
    nodes : number of nodes that the program added to the TensorFlow graph.
    finite : () bool, whether all gradients are finite; None where losses are not scaled.
    staged : where the arrays that devices read are written before their steps; None where there are none.
    """

    inputs: ProgramInputs
    step: tf.Tensor
    scalars: Mapping[str, tf.Tensor]
    loss: tf.Tensor | None
    parts: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]
    train: tf.Operation | None
    nodes: int
    finite: tf.Tensor | None = None
    staged: StagedBatches | None = None


def build_program(
    context: ProgramContext, mode: str, batch: int, targets: Sequence[Target | None], phase: int = 0, staged: StagedBatches | None = None
) -> Program:
    """Return the program of a mode, added to the current TensorFlow graph.

    A batch is trained on in microbatches, by the schedule; tests and predictions take it whole.

    Parameters
    ----------
    mode : "train", "test" or "predict".
    batch : samples in the batch.
    targets : (outputs,) form of each output's targets, None for one without; empty to predict.
    phase : phase of butterfly mixing, from 0, which determines the partners.
    staged : where devices read the batches; None to feed them.
    """
    before = len(tf.compat.v1.get_default_graph().get_operations())
    training = mode == "train"
    with tf.name_scope(f"{mode}_{batch}"):
        inputs = placeholders(context, batch, targets)
        inputs = inputs if staged is None else partly_read(inputs, staged.arrays)
        step = placeholder(tf.int32, ())
        sizes = microbatch_sizes(batch, context.execution.microbatches) if training else (batch,)
        order = task_order(context, len(sizes), training)
        scalars = (
            {name: placeholder(tf.as_dtype(context.graph.dtype), ()) for name in step_scalars(context.rule, 0, 0.0)} if training else {}
        )
        passes = StepPasses(context, inputs.microbatches(sizes), training, step, recomputed_passes(context, order), scalars.get(SCALAR))
        for task in order:
            passes.run(task)
        for stage in range(len(context.stages)):
            passes.begin("update", stage)
        terms = penalties(context, passes.builders) if mode != "predict" else []
        gradients = StepGradients(
            context, passes.graph, passes.sources, passes.builders, passes.gradients, loss_scale=passes.loss_scale
        )
        step_operations = learning(gradients, terms, scalars, phase) if training else []
        counts = [*gradients.not_finite.values()][:1]
        several = len(context.stages) > 1 or len(passes.parts) > 1 or context.execution.recompute
        ordered = training and several
        predictions = [tensor for pieces in passes.outputs for tensor in pieces]
        added = passes.added_losses if mode != "predict" else []
        lowering = lowered(passes, [*passes.losses, *added, *terms, *counts, *step_operations], predictions, ordered=ordered)
        outputs = tuple(_joined(lowering, pieces) for pieces in passes.outputs)
        parts = tuple(first_slice(lowering, part) for part in passes.losses)
        weights = [part.weight for part, loss_input in zip(context.objective, inputs.loss_inputs) if part and loss_input]
        loss = total(parts, weights, [first_slice(lowering, term) for term in (*added, *terms)]) if mode != "predict" else None
        train = tf.group(*(write for operation in step_operations for write in lowering.operations[operation])) if training else None
        finite = tf.equal(first_slice(lowering, counts[0]), 0) if counts else None
    nodes = len(tf.compat.v1.get_default_graph().get_operations()) - before
    return Program(inputs, step, scalars, loss, parts, outputs, train, nodes, finite, staged)


def _joined(lowering: Lowering, pieces: Sequence[Tensor]) -> tf.Tensor:
    """Return the whole batch's output from those of microbatches."""
    microbatch_outputs = [first_slice(lowering, piece) for piece in pieces]
    with tf.device(microbatch_outputs[0].device):
        return tf.concat(microbatch_outputs, 0) if len(microbatch_outputs) > 1 else microbatch_outputs[0]
