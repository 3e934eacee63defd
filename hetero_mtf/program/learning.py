"""Learning: from the gradients of a step to the operations that update every variable."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

import keras
import tensorflow as tf

from hetero_mtf.graph.records import Layer
from hetero_mtf.graph.variable_keys import VariableKey
from hetero_mtf.keras_reading.keras_call import weights_of
from hetero_mtf.keras_reading.traced_calls.present_tensors import compared_by_elements
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call
from hetero_mtf.layers.half_precision import sums_in
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.gradients import gradients
from hetero_mtf.mesh.operations import mixing
from hetero_mtf.mesh.operations.compute import compute
from hetero_mtf.mesh.sources import Source, Sources
from hetero_mtf.mesh.sums.buckets import Buckets
from hetero_mtf.mesh.variables import Parameter, Update
from hetero_mtf.program.builder import Builder
from hetero_mtf.program.context import ProgramContext
from hetero_mtf.program.loss_scale import not_finite, seed_of_loss, skip_where_not_finite, unscaled
from hetero_mtf.program.passes import squares_key
from hetero_mtf.program.slots import slot_parameter
from hetero_mtf.program.updates import updates

_POWERS = {"l1": tf.abs, "l2": tf.square}


@dataclasses.dataclass(frozen=True)
class StepGradients:
    """The gradients of a step, or of one stage in it, and what the updates by them read.

    Parameters
    ----------
    context : network, stages and the optimizer's rule.
    graph : the mtf.Graph of the passes.
    sources : for which layer and pass its operations are built.
    builders : (stages,) those of the forward passes.
    gradients : variable -> gradient of the whole loss without penalties, of variables that it depends on.
    slots : snapshots of the optimizer's slots, by variable and name of the slot; the updates add to them.
    loss_scale : () factor of all losses in the backward passes; None for none.
    not_finite : where losses are scaled, for each mesh the number of gradients that are not finite; the updates add to it.
    """

    context: ProgramContext
    graph: mtf.Graph
    sources: Sources
    builders: Sequence[Builder]
    gradients: Mapping[VariableKey, Tensor]
    slots: dict[tuple[VariableKey, str], Parameter] = dataclasses.field(default_factory=dict)
    loss_scale: tf.Tensor | None = None
    not_finite: dict[mtf.Mesh, Tensor] = dataclasses.field(default_factory=dict)


def penalties(context: ProgramContext, builders: Sequence[Builder]) -> list[Tensor]:
    """Return the sum of the penalties on weights of each stage that has any.

    Parameters
    ----------
    context : the network.
    builders : (stages,) those of the forward passes.
    """
    stage_penalties = [_penalty(context, builder) for builder in builders]
    return [penalty for penalty in stage_penalties if penalty is not None]


def _penalty(context: ProgramContext, builder: Builder) -> Tensor | None:
    """Return the sum of the penalties on all trainable variables of a stage, None if there is none."""
    rewritten = builder.rewritten
    terms = [
        term
        for key, parameter in builder.parameters.items()
        if context.is_trainable(*key)
        for term in _penalties_on(context.graph.layers[key[0]], key[1], _present(parameter.value, rewritten.get(key)))
    ]
    return functools.reduce(mtf.add, terms) if terms else None


def _present(value: Tensor, rewritten: Tensor | None) -> Tensor:
    """Return what a penalty is on: a variable, or what a call wrote to it, whose gradient is the variable's."""
    if rewritten is None:
        return value
    return mtf.add(mtf.stop_gradient(rewritten), value - mtf.stop_gradient(value))


def _penalties_on(layer: Layer, name: str, value: Tensor) -> list[Tensor]:
    """Return the penalties on one variable: sums over all slices."""
    if is_keras_call(layer):
        regularizer = getattr(weights_of(layer)[name], "regularizer", None)
        if regularizer is None:
            return []
        return [compute("penalty", compared_by_elements()(regularizer), [value], mtf.Shape([]), unsplit=value.shape.dims)]
    factors = {option: layer.attributes.get(f"{name}_{option}", 0.0) for option in _POWERS}
    return [_penalty_of(value, factor, option) for option, factor in factors.items() if factor]


def _penalty_of(value: Tensor, factor: float, option: str) -> Tensor:
    def penalty(piece: tf.Tensor) -> tf.Tensor:
        return _applied_factor(option, factor, piece.dtype) * tf.reduce_sum(_POWERS[option](piece))

    return compute("penalty", penalty, [value], mtf.Shape([]))


def _applied_factor(option: str, factor: float, dtype: tf.DType) -> tf.Tensor:
    """Return the factor that the installed Keras multiplies by: newer versions take it through float32, older ones do not."""
    kind = {"l1": keras.regularizers.L1, "l2": keras.regularizers.L2}[option]
    try:
        return kind(factor)(tf.ones((), dtype))
    except (tf.errors.InvalidArgumentError, TypeError, ValueError):  # L1 of float64, to which older versions cannot apply it
        return tf.cast(factor, dtype)


def _live(layer: Layer, name: str) -> keras.Variable | None:
    """Return a variable in the user's model, None where the model is not in memory."""
    return None if layer.live is None else weights_of(layer)[name]


def _constraint(layer: Layer, name: str) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """Return what a variable is projected by after each update, None for nothing."""
    if not is_keras_call(layer):
        return None
    constraint: Callable[[tf.Tensor], tf.Tensor] | None = getattr(weights_of(layer)[name], "constraint", None)
    return None if constraint is None else compared_by_elements()(constraint)


def learning(step: StepGradients, terms: Sequence[Tensor], scalars: Mapping[str, tf.Tensor], phase: int) -> list[mtf.Operation]:
    """Return the operations that end a step: the updates of all variables, and their mixing; parameters as for `weight_updates`."""
    return [*state_updates(step.builders), *weight_updates(step, terms, scalars, phase)]


def state_updates(builders: Sequence[Builder]) -> list[Update]:
    """Return the updates of the variables that no optimizer updates.

    Parameters
    ----------
    builders : (stages,) those of the forward passes.
    """
    return [update for builder in builders for update in builder.updates]


def weight_updates(step: StepGradients, terms: Sequence[Tensor], scalars: Mapping[str, tf.Tensor], phase: int = 0) -> list[mtf.Operation]:
    """Return the updates of the variables that the optimizer updates, and their mixing.

    Parameters
    ----------
    step : the gradients.
    terms : the penalties.
    scalars : the optimizer's scalars.
    phase : phase of butterfly mixing, from 0, which determines the partners.
    """
    context = step.context
    trained = {key: p for b in step.builders for key, p in b.parameters.items() if context.is_trainable(*key)}
    scale = step.loss_scale
    gradient_of, squares_of = _gradients(step, terms, trained)
    if scale is not None:
        step.not_finite.update(not_finite(list(gradient_of.values())))
        gradient_of = {key: unscaled(gradient, scale) for key, gradient in gradient_of.items()}
        squares_of = {key: unscaled(unscaled(squares, scale), scale) for key, squares in squares_of.items()}
    parameters = [trained[key] for key in gradient_of]
    constraints = [_constraint(context.graph.layers[index], name) for index, name in gradient_of]
    lives = [_live(context.graph.layers[index], name) for index, name in gradient_of]
    slots = [
        [slot_parameter(context, step.slots, key, trained[key], slot) for slot in context.rule.slots_of(live)]
        for key, live in zip(gradient_of, lives)
    ]
    shapes = [context.shape_of(key) for key in gradient_of]
    rewritten = {key: value for builder in step.builders for key, value in builder.rewritten.items()}
    starts = [rewritten.get(key) for key in gradient_of]
    squares = [squares_of.get(key) for key in gradient_of]
    of_each = constraints, lives, shapes, starts, squares
    update_operations = updates(context.rule, parameters, list(gradient_of.values()), slots, scalars, *of_each)
    if scale is not None:
        skip_where_not_finite(update_operations, step.not_finite)
    for (index, _), update in zip(gradient_of, update_operations):
        step.sources.assign(update, Source(index, "update"))
    return [*update_operations, *_mixed(context, gradient_of, parameters, update_operations, phase)]


def _mixed(
    context: ProgramContext, keys: Iterable[VariableKey], parameters: Sequence[Parameter], after: Sequence[Update], phase: int
) -> list[mixing.Mix]:
    """Return the operations that mix the copies of the variables that are mixed, each after its update."""
    weights = [context.mixing.of(index) for index, _ in keys]
    return [mixing.Mix(p, update, samples, phase) for samples, p, update in zip(weights, parameters, after) if samples]


def _gradients(
    step: StepGradients, terms: Sequence[Tensor], trained: Mapping[VariableKey, Parameter]
) -> tuple[dict[VariableKey, Tensor], dict[VariableKey, Tensor]]:
    """Return the gradients of the whole loss, those of variables that are mixed of each processor's own mean loss; and row squares.

    As in Keras, a variable that no loss depends on has none: it is not updated, not even by weight decay.
    """
    seeds = [seed_of_loss(term, 1.0, step.loss_scale) for term in terms]
    added = gradients(terms, seeds, [p.value for p in trained.values()], tuple(step.graph.operations))
    copied = step.context.mixing
    squares = [key for key in map(squares_key, trained) if key in step.gradients]
    by_data = {
        **_summed(step, [key for key in (*trained, *squares) if not copied.of(key[0])]),
        **_own_parts(step, [key for key in trained if copied.of(key[0])]),
    }
    gradient_of = {}
    for key, extra in zip(trained, added):
        both = [term for term in (by_data.get(key), extra) if term is not None]
        if both:
            gradient_of[key] = functools.reduce(mtf.add, both)
    return gradient_of, {key: by_data[squares_key(key)] for key in trained if squares_key(key) in by_data}


def _summed(step: StepGradients, trained: Sequence[VariableKey]) -> dict[VariableKey, Tensor]:
    """Return the gradients without penalties, their all-reduces fused into buckets in the order in which backward passes compute them."""
    layers = step.context.graph.layers
    by_mesh: dict[mtf.Mesh, list[VariableKey]] = {}
    for key in reversed(trained):
        if key in step.gradients:
            by_mesh.setdefault(step.gradients[key].mesh, []).append(key)
    gradient_of: dict[VariableKey, Tensor] = {}
    for keys in by_mesh.values():
        tensors = [step.gradients[key] for key in keys]
        sent = [sums_in(layers[index]) for index, _ in keys]
        dtypes = [tensor.dtype if name is None else tf.as_dtype(name) for tensor, name in zip(tensors, sent)]
        gradient_of.update(zip(keys, Buckets(tensors, dtypes).outputs))
    return gradient_of


def _own_parts(step: StepGradients, mixed: Sequence[VariableKey]) -> dict[VariableKey, Tensor]:
    """Return the gradients without penalties of each processor's own mean loss."""
    if not mixed:
        return {}
    own = step.builders[0].sizes_of_batch(step.context.mixing.samples)
    factors = [sum(own) / n if n else 0.0 for n in own]
    return {key: mixing.OwnPart(step.gradients[key], factors).outputs[0] for key in mixed if key in step.gradients}
