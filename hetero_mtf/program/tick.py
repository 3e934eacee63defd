"""Ticks: the program of one step of schedule "decoupled"."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import tensorflow as tf

from hetero_mtf.program.batch_arrays import Target
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.decoupled import DecoupledPasses
from hetero_mtf.program.inputs import LossInputs, placeholder, placeholders, stage_placeholders
from hetero_mtf.program.learning import penalties, state_updates, weight_updates
from hetero_mtf.program.lowered import first_slice, lowered, total


@dataclasses.dataclass(frozen=True)
class Tick:
    """Placeholders to feed and tensors to fetch.

    Parameters
    ----------
    x : (stages,) index of a model input -> placeholder, of the inputs that each stage reads.
    loss_inputs : (outputs,) placeholders of targets, sample weights and scale; None for an output without a loss.
    number : placeholder of the number of the batch that the first stage begins.
    scalars : (stages,) placeholders of the optimizer's scalars.
    active : (stages,) placeholders of whether the forward, and the backward pass of a stage count; empty where all do.
    loss : () the loss of the last stage's batch, regularization included.
    parts : the () loss of each output that has one.
    outputs : (outputs,) predictions (batch, ...) for the last stage's batch.
    train : operation that updates all variables and histories.
    nodes : number of nodes that the program added to the TensorFlow graph.
    """

    x: tuple[Mapping[int, tf.Tensor], ...]
    loss_inputs: tuple[LossInputs | None, ...]
    number: tf.Tensor
    scalars: tuple[Mapping[str, tf.Tensor], ...]
    active: tuple[tuple[tf.Tensor, tf.Tensor], ...]
    loss: tf.Tensor
    parts: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]
    train: tf.Operation
    nodes: int


def build_tick(context: ProgramContext, batch: int, targets: Sequence[Target | None], partly: bool) -> Tick:
    """Return the program of a step, added to the current TensorFlow graph.

    Parameters
    ----------
    batch : samples in every batch.
    targets : (outputs,) form of each output's targets, None for one without.
    partly : whether only some stages count, while the first batches enter and the last ones leave.
    """
    before = len(tf.compat.v1.get_default_graph().get_operations())
    dtype = tf.as_dtype(context.graph.dtype)
    with tf.name_scope(f"tick_{batch}_{'part' if partly else 'full'}"):
        number = placeholder(tf.int32, ())
        stages = range(len(context.stages))
        x = [stage_placeholders(context, stage, batch) for stage in stages]
        loss_inputs = placeholders(context, batch, targets).loss_inputs
        passes = DecoupledPasses(context, x, loss_inputs, number)
        active = tuple((placeholder(tf.bool, ()), placeholder(tf.bool, ())) for _ in stages) if partly else ()
        scalars = tuple({name: placeholder(dtype, ()) for name in context.rule.scalars(0, 0.0)} for _ in stages)
        operations, terms = [], []
        for stage in stages:
            passes.begin("update", stage)
            of_stage = passes.of_stage(stage)
            own_terms = penalties(of_stage)
            state, weights = state_updates(of_stage), weight_updates(of_stage, own_terms, scalars[stage])
            for updates, is_active in zip((state, weights), active[stage] if partly else ()):
                for update in updates:
                    update.active = is_active
            operations += [*state, *weights]
            terms += own_terms
        operations += passes.writes()
        lowering = lowered(passes, [*passes.losses, *terms, *operations], passes.outputs, ordered=len(stages) > 1)
        parts = tuple(first_slice(lowering, part) for part in passes.losses)
        weights_of = [part.weight for part, inputs in zip(context.objective, loss_inputs) if part and inputs]
        loss = total(parts, weights_of, [first_slice(lowering, term) for term in terms])
        outputs = tuple(first_slice(lowering, output) for output in passes.outputs)
        train = tf.group(*(write for operation in operations for write in lowering.operations[operation]))
    nodes = len(tf.compat.v1.get_default_graph().get_operations()) - before
    used = [_read_inputs(context, stage) for stage in stages]
    fed = tuple({index: of_stage[index] for index in used[stage]} for stage, of_stage in enumerate(_by_index(context, x)))
    return Tick(fed, loss_inputs, number, scalars, active, loss, parts, outputs, train, nodes)


def _by_index(context: ProgramContext, x: Sequence[Sequence[tf.Tensor]]) -> list[dict[int, tf.Tensor]]:
    return [dict(zip(context.graph.inputs, of_stage)) for of_stage in x]


def _read_inputs(context: ProgramContext, stage: int) -> list[int]:
    """Return the model inputs that are in a stage, or that its layers read."""
    layers, own = context.graph.layers, context.stages[stage].stage.layers
    read = {source for layer in own for source in layers[layer].inputs} | set(own)
    return [index for index in context.graph.inputs if index in read]
