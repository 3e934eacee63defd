"""Ticks: the program of one step of a schedule without a flush."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from hetero_mtf.program.batch_arrays import Target
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.feeding.inputs import LossInputs, placeholders
from hetero_mtf.program.learning import StepGradients, penalties, state_updates, weight_updates
from hetero_mtf.program.lowered import first_slice, lowered, total
from hetero_mtf.program.stale.passes import StalePasses
from hetero_mtf.program.stale.stage_inputs import StageInputs, stage_inputs
from hetero_mtf.program.stale.weights import Accumulation


@dataclasses.dataclass(frozen=True)
class Tick:
    """Placeholders to feed and tensors to fetch.

    Parameters
    ----------
    stages : placeholders of each stage.
    used : (stages,) indices of the model inputs that each stage reads.
    loss_inputs : (outputs,) placeholders of targets, sample weights and scale; None for an output without a loss.
    loss : () the loss of the last stage's batch, without penalties.
    penalty : () the penalties; None without any.
    parts : the () loss of each output that has one.
    outputs : (outputs,) predictions (batch, ...) for the last stage's batch.
    train : operation that updates all variables and histories.
    nodes : number of nodes that the program added to the TensorFlow graph.
    """

    stages: tuple[StageInputs, ...]
    used: tuple[tuple[int, ...], ...]
    loss_inputs: tuple[LossInputs | None, ...]
    loss: tf.Tensor
    penalty: tf.Tensor | None
    parts: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]
    train: tf.Operation
    nodes: int


def build_tick(context: ProgramContext, batch: int, targets: Sequence[Target | None], partly: bool) -> Tick:
    """Return the program of a step, added to the current TensorFlow graph.

    Parameters
    ----------
    batch : samples in every batch, or microbatch.
    targets : (outputs,) form of each output's targets, None for one without.
    partly : whether only some of the work counts: while the first batches enter and the last ones leave, or between updates.
    """
    before = len(tf.compat.v1.get_default_graph().get_operations())
    with tf.name_scope(f"tick_{batch}_{'part' if partly else 'full'}"):
        stages = range(len(context.stages))
        inputs = [stage_inputs(context, stage, batch, partly) for stage in stages]
        loss_inputs = placeholders(context, batch, targets).loss_inputs
        passes = StalePasses(context, inputs, loss_inputs)
        operations, terms = [], []
        for stage in stages:
            passes.begin(f"stage{stage}_update", stage)
            stage_gradients = passes.gradients_of(stage)
            own_terms = penalties(context, stage_gradients.builders)
            operations += _updates(context, stage_gradients, own_terms, inputs[stage])
            terms += own_terms
        operations += passes.writes()
        call_order = context.histories.call_order if len(stages) > 1 else None
        odd = {device: inputs[stage].is_odd for stage in stages for device in context.stages[stage].devices}
        begun = {device: call_order.take(device, is_odd) for device, is_odd in odd.items()} if call_order else {}
        lowering = lowered(passes, [*passes.losses, *terms, *operations], passes.outputs, len(stages) > 1, begun)
        parts = tuple(first_slice(lowering, part) for part in passes.losses)
        weights_of = [part.weight for part, inputs_of_loss in zip(context.objective, loss_inputs) if part and inputs_of_loss]
        loss = total(parts, weights_of, [])
        penalty = total([first_slice(lowering, term) for term in terms], [1.0] * len(terms), []) if terms else None
        outputs = tuple(first_slice(lowering, output) for output in passes.outputs)
        writes = [write for operation in operations for write in lowering.operations[operation]]
        releases = (
            [call_order.give(device, is_odd, [begun[device], *_on(device, writes)]) for device, is_odd in odd.items()] if call_order else []
        )
        train = tf.group(*writes, *releases)
    nodes = len(tf.compat.v1.get_default_graph().get_operations()) - before
    used = tuple(_read_inputs(context, stage) for stage in stages)
    return Tick(tuple(inputs), used, loss_inputs, loss, penalty, parts, outputs, train, nodes)


def _updates(context: ProgramContext, step: StepGradients, terms: Sequence[tf.Tensor], inputs: StageInputs) -> list[tf.Operation]:
    """Return the operations that update a stage's variables."""
    sums = []
    if context.sums_gradients:
        accumulation = Accumulation(context, inputs)
        step = dataclasses.replace(step, gradients=accumulation(step.gradients))
        sums = accumulation.updates
    state, weights = state_updates(step.builders), weight_updates(step, terms, inputs.scalars)
    if inputs.active is not None:
        for updates, is_active in ((state, inputs.active.forward), (weights, inputs.active.update)):
            for update in updates:
                update.active = is_active
    return [*state, *sums, *weights]


def _on(device: str, operations: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Return the operations that are on a device."""
    own = tf.DeviceSpec.from_string(device)
    return [operation for operation in operations if tf.DeviceSpec.from_string(operation.device) == own]


def _read_inputs(context: ProgramContext, stage: int) -> tuple[int, ...]:
    """Return the model inputs that are in a stage, or that its layers read."""
    layers, own = context.graph.layers, context.stages[stage].stage.layers
    read = {source for layer in own for source in layers[layer].inputs} | set(own)
    return tuple(index for index in context.graph.inputs if index in read)
