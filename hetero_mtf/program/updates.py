"""The operations that update every variable of a step, by the optimizer's update rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.transfer import on_every_mesh
from hetero_mtf.mesh.variables import Parameter, Update
from hetero_mtf.program.keras_rule import keras_updates
from hetero_mtf.program.optimizers import KerasRule, SeveralRules, UpdateRule


def updates(
    rule: UpdateRule,
    parameters: Sequence[Parameter],
    gradients: Sequence[Tensor],
    slots: Sequence[Sequence[Parameter]],
    scalars: Mapping[str, tf.Tensor],
    constraints: Sequence[Callable[[tf.Tensor], tf.Tensor] | None] = (),
    lives: Sequence[keras.Variable | None] = (),
    shapes: Sequence[tuple[int, ...]] = (),
    starts: Sequence[Tensor | None] = (),
    squares: Sequence[Tensor | None] = (),
) -> list[Update]:
    """Return the operations that update every variable.

    Parameters
    ----------
    parameters, gradients : (variables,) the variables' snapshots and their gradients.
    slots : (variables, slots) the slots' parameters.
    scalars : those of `rule.scalars`, as () tensors of the variables' dtype.
    constraints : (variables,) what a variable, whole on every processor, is projected by after its update; None for nothing.
    lives : (variables,) the variables in the user's model, None where there are none.
    shapes : (variables,) shapes of the variables as Keras has them; empty where their snapshots have these.
    starts : (variables,) what the updates start from where it is not the snapshot, laid out as it; None where it is.
    squares : (variables,) what the optimizer takes for the square of the gradient, where that is not its square; None where it is.
    """
    if isinstance(rule, SeveralRules):
        return _updates_of_several(rule, scalars, [parameters, gradients, slots], [constraints, lives, shapes, starts, squares])
    operations = []
    projections = constraints or [None] * len(parameters)
    if isinstance(rule, KerasRule):
        named = lives or [None] * len(parameters)
        clip = functools.partial(_clip, rule.config)
        of_keras = shapes or [tuple(parameter.value.shape.to_integer_list) for parameter in parameters]
        from_values = [p.value if start is None else start for p, start in zip(parameters, starts or [None] * len(parameters))]
        own = projections, named, of_keras, clip, from_values, squares or [None] * len(parameters)
        return keras_updates(rule.steps, parameters, gradients, slots, scalars, *own)
    others = projections, starts or [None] * len(parameters), squares or [None] * len(parameters)
    columns = zip(parameters, _clip(rule.config, gradients), slots, *others)
    for parameter, gradient, own_slots, constraint, start, squared in columns:

        def write(
            handles: Sequence[tf.Tensor],
            snapshots: Sequence[tf.Tensor],
            inputs: Sequence[tf.Tensor],
            constraint: Callable[[tf.Tensor], tf.Tensor] | None = constraint,
            has_squares: bool = squared is not None,
        ) -> Sequence[tf.Operation]:
            gradient, *begin = inputs
            square = [begin.pop()] if has_squares else []
            own = {name: tf.cast(value, snapshots[0].dtype) for name, value in scalars.items()}
            begun = [tf.raw_ops.AssignVariableOp(resource=handles[0], value=value) for value in begin]
            with tf.control_dependencies(begun):
                decayed = rule.decay(handles[0], begin[0] if begin else snapshots[0], own)
            with tf.control_dependencies([*begun, *decayed]):
                written = rule.write(handles, gradient, own, *square)
            return [written if constraint is None else _projected(handles[0], snapshots[0], constraint, written)]

        read = [tensor for tensor in (gradient, start, squared) if tensor is not None]
        operations.append(Update([parameter, *own_slots], read, write, f"{parameter.name}_update"))
    return operations


def _updates_of_several(
    rules: SeveralRules, scalars: Mapping[str, tf.Tensor], columns: Sequence[Sequence[Any]], options: Sequence[Sequence[Any]]
) -> list[Update]:
    """Return the updates of each variable by its own rule, in the order of the variables.

    Parameters
    ----------
    columns : (3, variables) parameters, gradients and slots, as for `updates`.
    options : (5, variables or none) constraints, lives, shapes, starts and squares.
    """
    lives = options[1] or [None] * len(columns[0])
    by_variable: dict[int, Update] = {}
    for rule in rules.rules:
        at = [number for number, live in enumerate(lives) if rules.of(live) is rule]
        parameters, gradients, slots = ([column[number] for number in at] for column in columns)
        own = [[column[number] for number in at] if column else [] for column in options]
        by_variable.update(zip(at, updates(rule, parameters, gradients, slots, rules.scalars_of(rule, scalars), *own) if at else []))
    return [by_variable[number] for number in sorted(by_variable)]


def _projected(handle: tf.Tensor, snapshot: tf.Tensor, constraint: Callable[[tf.Tensor], tf.Tensor], after: tf.Operation) -> tf.Operation:
    """Return the operation that projects a variable after its update."""
    with tf.control_dependencies([after]):
        value = tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=handle, dtype=snapshot.dtype), snapshot.shape)
        return tf.raw_ops.AssignVariableOp(resource=handle, value=constraint(value))


def _clip(config: Mapping[str, Any], gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients clipped by the optimizer's options; norms are those of whole tensors."""
    if config.get("clipnorm"):
        return [_clip_by_norms(gradient, [_square_sum(gradient)], float(config["clipnorm"])) for gradient in gradients]
    if config.get("global_clipnorm"):
        squares = on_every_mesh([_square_sum(gradient) for gradient in gradients])
        return [_clip_by_norms(gradient, squares[gradient.mesh], float(config["global_clipnorm"])) for gradient in gradients]
    if config.get("clipvalue"):
        bound = float(config["clipvalue"])
        return [_local("clip_by_value", lambda _, g: tf.clip_by_value(g, -bound, bound), [gradient]) for gradient in gradients]
    return list(gradients)


def _local(name: str, function: Callable[..., tf.Tensor], inputs: Sequence[Tensor]) -> Tensor:
    return Local(name, function, inputs, [(inputs[0].shape, inputs[0].dtype)]).outputs[0]


def _square_sum(gradient: Tensor) -> Tensor:
    """Return the sum of squares over all slices, a scalar."""
    function = lambda _, value: tf.reduce_sum(tf.square(value))  # noqa: E731
    return Local("square_sum", function, [gradient], [(mtf.Shape([]), gradient.dtype)], summed=gradient.shape.dims).outputs[0]


def _clip_by_norms(gradient: Tensor, squares: Sequence[Tensor], bound: float) -> Tensor:
    """Return `gradient` scaled so that the norm whose squared parts are given is at most `bound`."""

    def clip(_: Processor, value: tf.Tensor, *parts: tf.Tensor) -> tf.Tensor:
        norm = tf.sqrt(tf.add_n(parts))
        return value * (bound / tf.maximum(norm, bound))

    return _local("clip_by_norm", clip, [gradient, *squares])
