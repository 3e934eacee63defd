"""Keras's optimizers as update rules, with Keras's exact arithmetic.

A rule defines the slots of a variable, the scalars of a step, and the TensorFlow operations that
update one slice. TensorFlow's fused kernels are used where they compute the same as Keras; else the optimizer's own update step is.
"""

from __future__ import annotations

import abc
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.mesh.compat import mtf
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.operations.transfer import transfer
from hetero_mtf.mesh.variables import Parameter, Update
from hetero_mtf.planning.memory.optimizer_slots import optimizer_slots
from hetero_mtf.program.keras_rule import KerasSteps, keras_updates, slot_dimensions

Tensor = Any
FUSED = ("SGD", "Adam", "AdamW")  # optimizers that TensorFlow has kernels of
_CAST_OPTIONS = ("momentum", "beta_1", "beta_2", "weight_decay")
_NOT_FUSED = ("use_ema", "gradient_accumulation_steps")  # options that the kernels do not have


class UpdateRule(abc.ABC):
    """The update of one variable from its gradient.

    Parameters
    ----------
    config : the Keras optimizer's configuration.
    cast : option name -> its value as Keras casts it to the variables' dtype. (Keras takes a Python
        number through float32 where it casts, so 0.9 becomes 0.89999998 in float64 too.)
    """

    def __init__(self, config: Mapping[str, Any], cast: Mapping[str, float]) -> None:
        self.config = config
        self.cast = cast

    @property
    @abc.abstractmethod
    def slots(self) -> tuple[str, ...]:
        """Names of the tensors kept for each variable."""

    def scalars(self, step: int, learning_rate: float) -> dict[str, float]:
        """Return the scalars of step `step` (from 0), by name."""
        return {"learning_rate": learning_rate}

    @abc.abstractmethod
    def write(self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor]) -> tf.Operation:
        """Return the operation that updates one slice; `handles` are the variable's and its slots'."""

    def slot_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a slot of a variable of some shape."""
        return shape

    def slot_dimensions(self, name: str, parameter: Parameter, shape: tuple[int, ...]) -> Any:
        """Return the mtf.Shape of a slot of a variable, whose shape in Keras is given."""
        return parameter.value.shape

    def initial_slots(self, value: np.ndarray, live: Any) -> dict[str, np.ndarray]:
        """Return the slots of a variable before the first step by name; those that are zero are left out.

        Parameters
        ----------
        value : the variable's value.
        live : the Keras variable, for its name; None where there is none.
        """
        return {}

    @property
    def has_momentum(self) -> bool:
        """Whether it keeps a mean of gradients, by which the next changes can be expected."""
        return bool(self.slots)

    @abc.abstractmethod
    def expected_change(self, slots: Sequence[tf.Tensor], scalars: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the change of a variable that an update is expected to make, from its slots alone.

        Parameters
        ----------
        slots : slices of the variable's slots.
        scalars : those of `scalars`, as () tensors.
        """

    def decay(self, handle: tf.Tensor, value: tf.Tensor, scalars: Mapping[str, tf.Tensor]) -> Sequence[tf.Operation]:
        """Return the operations of decoupled weight decay, run before `write`."""
        if not self.config.get("weight_decay"):
            return []
        return [tf.raw_ops.AssignSubVariableOp(resource=handle, value=value * (scalars["learning_rate"] * self.cast["weight_decay"]))]


class SGD(UpdateRule):
    """`keras.optimizers.SGD`: v = momentum v - lr g; w += v, or with nesterov w += momentum v - lr g."""

    @property
    def slots(self) -> tuple[str, ...]:
        return optimizer_slots("sgd", self.config)

    def write(self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor]) -> tf.Operation:
        rate = scalars["learning_rate"]
        if not self.config["momentum"]:
            return tf.raw_ops.ResourceApplyGradientDescent(var=handles[0], alpha=rate, delta=gradient)
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=handles[0],
            accum=handles[1],
            lr=rate,
            grad=gradient,
            momentum=tf.constant(self.cast["momentum"], gradient.dtype),
            use_nesterov=bool(self.config["nesterov"]),
        )

    def expected_change(self, slots: Sequence[tf.Tensor], scalars: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return slots[0]


class Adam(UpdateRule):
    """`keras.optimizers.Adam` and `AdamW`, with bias correction and optional AMSGrad.

    References
    ----------
    Kingma & Ba, 2014, arXiv 1412.6980; Loshchilov & Hutter, 2017, arXiv 1711.05101.
    """

    @property
    def slots(self) -> tuple[str, ...]:
        return optimizer_slots("adam", self.config)

    def scalars(self, step: int, learning_rate: float) -> dict[str, float]:
        powers = {f"{name}_power": self.cast[name] ** (step + 1) for name in ("beta_1", "beta_2")}
        return {**super().scalars(step, learning_rate), **powers}

    def write(self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor]) -> tf.Operation:
        constants = {name: tf.constant(self.config[name], gradient.dtype) for name in ("beta_1", "beta_2", "epsilon")}
        options = {
            "var": handles[0],
            "m": handles[1],
            "v": handles[2],
            "beta1_power": scalars["beta_1_power"],
            "beta2_power": scalars["beta_2_power"],
            "lr": scalars["learning_rate"],
            "beta1": constants["beta_1"],
            "beta2": constants["beta_2"],
            "epsilon": constants["epsilon"],
            "grad": gradient,
        }
        if self.config["amsgrad"]:
            return tf.raw_ops.ResourceApplyAdamWithAmsgrad(vhat=handles[3], **options)
        return tf.raw_ops.ResourceApplyAdam(**options)

    def expected_change(self, slots: Sequence[tf.Tensor], scalars: Mapping[str, tf.Tensor]) -> tf.Tensor:
        corrected = tf.sqrt(1.0 - scalars["beta_2_power"]) / (1.0 - scalars["beta_1_power"])
        epsilon = tf.constant(self.config["epsilon"], slots[0].dtype)
        return -scalars["learning_rate"] * corrected * slots[0] / (tf.sqrt(slots[-1]) + epsilon)


class KerasRule(UpdateRule):
    """The update step of a Keras optimizer itself.

    Parameters
    ----------
    config, cast : as for `UpdateRule`.
    steps : the optimizer's steps.
    """

    def __init__(self, config: Mapping[str, Any], cast: Mapping[str, float], steps: KerasSteps) -> None:
        super().__init__(config, cast)
        self.steps = steps

    @property
    def slots(self) -> tuple[str, ...]:
        return self.steps.slots

    @property
    def has_momentum(self) -> bool:
        return False

    def scalars(self, step: int, learning_rate: float) -> dict[str, float]:
        return self.steps.scalars(step, learning_rate)

    def write(self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor]) -> tf.Operation:
        raise NotImplementedError  # `updates` builds its own operations

    def expected_change(self, slots: Sequence[tf.Tensor], scalars: Mapping[str, tf.Tensor]) -> tf.Tensor:
        raise NotImplementedError  # it has no momentum that is known as such

    def slot_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if name == "accumulated" else self.steps.slot_shape(name, shape)

    def slot_dimensions(self, name: str, parameter: Parameter, shape: tuple[int, ...]) -> Any:
        return slot_dimensions(self.steps, name, parameter, shape)

    def initial_slots(self, value: np.ndarray, live: Any) -> dict[str, np.ndarray]:
        return self.steps.initial(value, live)


def read_optimizer(optimizer: Any, dtype: str) -> tuple[UpdateRule, Any]:
    """Return the update rule of a Keras optimizer, and a copy of the optimizer for its learning rates.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer, or a name such as "adam".
    dtype : dtype of the variables.

    Raises
    ------
    UnsupportedError
        If it is none, or one of several optimizers.
    """
    import keras

    try:
        keras_optimizer = keras.optimizers.get(optimizer)
    except (ValueError, TypeError) as fault:
        raise UnsupportedError(f"the optimizer {optimizer!r} is unknown to Keras; give a name or object of keras.optimizers") from fault
    if isinstance(keras_optimizer, keras.optimizers.LossScaleOptimizer):
        keras_optimizer = keras_optimizer.inner_optimizer  # it scales the loss up and the gradients down
    if isinstance(keras_optimizer, keras.optimizers.MultiOptimizer):
        raise UnsupportedError("the optimizer MultiOptimizer is several, which is not supported; give one optimizer for all variables")
    name = type(keras_optimizer).__name__
    config, copied = _copied(keras_optimizer)
    own = getattr(keras.optimizers, name, None) is type(keras_optimizer) and name in FUSED
    excluded = getattr(keras_optimizer, "_exclude_from_weight_decay", None) or getattr(
        keras_optimizer, "_exclude_from_weight_decay_pattern", None
    )
    if not own or excluded or any(config.get(option) for option in _NOT_FUSED):
        return KerasRule(config, {}, KerasSteps(keras_optimizer)), copied
    numbers = {key: value for key, value in config.items() if key in _CAST_OPTIONS and value is not None}
    cast = {key: float(np.asarray(keras.ops.cast(value, dtype))) for key, value in numbers.items()}
    rule = SGD(config, cast) if name == "SGD" else Adam(config, cast)
    return rule, copied


def _copied(optimizer: Any) -> tuple[dict[str, Any], Any]:
    """Return a Keras optimizer's configuration and an independent copy made from it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about lambdas, which are refused below
            config = optimizer.get_config()
            return config, type(optimizer).from_config(config)
    except (NotImplementedError, TypeError, ValueError) as fault:
        said = " ".join(str(fault).split())[:120]
        wrong = f"the optimizer {type(optimizer).__name__} has a learning rate that Keras cannot copy ({said})"
        remedy = "give a number, or a schedule with get_config that is decorated with keras.saving.register_keras_serializable()"
        raise UnsupportedError(f"{wrong}; {remedy}") from fault


def updates(
    rule: UpdateRule,
    parameters: Sequence[Parameter],
    gradients: Sequence[Tensor],
    slots: Sequence[Sequence[Parameter]],
    scalars: Mapping[str, tf.Tensor],
    constraints: Sequence[Callable[[tf.Tensor], tf.Tensor] | None] = (),
    lives: Sequence[Any] = (),
    shapes: Sequence[tuple[int, ...]] = (),
    starts: Sequence[Tensor | None] = (),
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
    """
    operations = []
    projections = constraints or [None] * len(parameters)
    if isinstance(rule, KerasRule):
        named = lives or [None] * len(parameters)
        clip = functools.partial(_clip, rule.config)
        of_keras = shapes or [tuple(parameter.value.shape.to_integer_list) for parameter in parameters]
        from_values = [p.value if start is None else start for p, start in zip(parameters, starts or [None] * len(parameters))]
        return keras_updates(rule.steps, parameters, gradients, slots, scalars, projections, named, of_keras, clip, from_values)
    columns = zip(parameters, _clip(rule.config, gradients), slots, projections, starts or [None] * len(parameters))
    for parameter, gradient, kept, constraint, start in columns:

        def write(
            handles: Sequence[tf.Tensor],
            snapshots: Sequence[tf.Tensor],
            inputs: Sequence[tf.Tensor],
            constraint: Callable[[tf.Tensor], tf.Tensor] | None = constraint,
        ) -> Sequence[Any]:
            gradient, *begin = inputs
            begun = [tf.raw_ops.AssignVariableOp(resource=handles[0], value=value) for value in begin]
            with tf.control_dependencies(begun):
                decayed = rule.decay(handles[0], begin[0] if begin else snapshots[0], scalars)
            with tf.control_dependencies([*begun, *decayed]):
                written = rule.write(handles, gradient, scalars)
            return [written if constraint is None else _projected(handles[0], snapshots[0], constraint, written)]

        read = [gradient] if start is None else [gradient, start]
        operations.append(Update([parameter, *kept], read, write, f"{parameter.name}_update"))
    return operations


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
        squares = _on_every_mesh([_square_sum(gradient) for gradient in gradients])
        return [_clip_by_norms(gradient, squares[gradient.mesh], float(config["global_clipnorm"])) for gradient in gradients]
    if config.get("clipvalue"):
        bound = float(config["clipvalue"])
        return [_local("clip_by_value", lambda _, g: tf.clip_by_value(g, -bound, bound), [gradient]) for gradient in gradients]
    return list(gradients)


def _local(name: str, function: Any, inputs: Sequence[Tensor]) -> Tensor:
    return Local(name, function, inputs, [(inputs[0].shape, inputs[0].dtype)]).outputs[0]


def _square_sum(gradient: Tensor) -> Tensor:
    """Return the sum of squares over all slices, a scalar."""
    function = lambda _, value: tf.reduce_sum(tf.square(value))  # noqa: E731
    return Local("square_sum", function, [gradient], [(mtf.Shape([]), gradient.dtype)], summed=gradient.shape.dims).outputs[0]


def _on_every_mesh(terms: Sequence[Tensor]) -> dict[Any, list[Tensor]]:
    """Return the terms of the sum of scalars on each mesh: its own ones, and the sums of the other meshes."""
    own: dict[Any, list[Tensor]] = {}
    for term in terms:
        own.setdefault(term.mesh, []).append(term)
    if len(own) == 1:
        return own
    sums = {mesh: functools.reduce(mtf.add, some) for mesh, some in own.items()}
    return {mesh: [*some, *(transfer(sums[other], mesh) for other in own if other is not mesh)] for mesh, some in own.items()}


def _clip_by_norms(gradient: Tensor, squares: Sequence[Tensor], bound: float) -> Tensor:
    """Return `gradient` scaled so that the norm whose squared parts are given is at most `bound`."""

    def clip(_: Processor, value: tf.Tensor, *parts: tf.Tensor) -> tf.Tensor:
        norm = tf.sqrt(tf.add_n(parts))
        return value * (bound / tf.maximum(norm, bound))

    return _local("clip_by_norm", clip, [gradient, *squares])
