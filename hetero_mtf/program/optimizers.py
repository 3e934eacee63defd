"""Keras's optimizers as update rules, with Keras's exact arithmetic.

A rule defines the slots of a variable, the scalars of a step, and the TensorFlow operations that
update one slice. TensorFlow's fused kernels are used where they compute the same as Keras; else the optimizer's own update step is.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from hetero_mtf.mesh.variables import Parameter
from hetero_mtf.planning.memory.optimizer_slots import optimizer_slots
from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec
from hetero_mtf.program.keras_rule import KerasSteps, slot_dimensions
from hetero_mtf.program.loss_scale import SCALAR, LossScaling

Rates = float | tuple[float, ...]
_NO_SQUARES = ("SGD", "Lion")


class UpdateRule(abc.ABC):
    """The update of one variable from its gradient.

    Parameters
    ----------
    config : the Keras optimizer's configuration.
    cast : option name -> its value as Keras casts it to the variables' dtype. (Keras takes a Python
        number through float32 where it casts, so 0.9 becomes 0.89999998 in float64 too.)

    Attributes
    ----------
    loss_scaling : options of dynamic loss scaling, None without.
    """

    loss_scaling: LossScaling | None = None

    def __init__(self, config: Mapping[str, Any], cast: Mapping[str, float]) -> None:
        self.config = config
        self.cast = cast

    @property
    @abc.abstractmethod
    def slots(self) -> tuple[str, ...]:
        """Names of the tensors kept for each variable."""

    def slots_of(self, live: keras.Variable | None) -> tuple[str, ...]:
        """Return the names of what is kept for a variable of the user's model."""
        return self.slots

    @property
    def all_slots(self) -> frozenset[str]:
        """Names of all that is kept for any variable."""
        return frozenset(self.slots)

    def scalars(self, step: int, learning_rate: Rates) -> dict[str, float]:
        """Return the scalars of step `step` (from 0), by name; of several optimizers with the learning rate of each, or one for all."""
        assert not isinstance(learning_rate, tuple)
        return {"learning_rate": learning_rate}

    @property
    def squares_rows(self) -> bool:
        """Whether it squares the gradient of each occurrence of a row of a table, as Keras's TensorFlow backend does.

        There the gradient of a table is a list of rows, unless it was changed before: by a norm, or as the sum of several batches.
        """
        changed = ("clipnorm", "global_clipnorm", "clipvalue", "gradient_accumulation_steps")
        return self.has_squares and not any(self.config.get(option) for option in changed)

    @property
    def has_squares(self) -> bool:
        """Whether it may look at the square of a gradient."""
        return True

    @abc.abstractmethod
    def write(
        self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor], square: tf.Tensor | None = None
    ) -> tf.Operation:
        """Return the operation that updates one slice.

        Parameters
        ----------
        handles : the variable's and its slots'.
        gradient : slice of the gradient.
        scalars : those of `scalars`, as () tensors.
        square : what is taken for the square of the gradient; None for its square.
        """

    def slot_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a slot of a variable of some shape."""
        return shape

    def slot_dimensions(self, name: str, parameter: Parameter, shape: tuple[int, ...]) -> Any:
        """Return the mtf.Shape of a slot of a variable, whose shape in Keras is given."""
        return parameter.value.shape

    def initial_slots(self, value: np.ndarray, live: keras.Variable | None) -> dict[str, np.ndarray]:
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


def step_scalars(rule: UpdateRule, step: int, learning_rate: Rates, loss_scale: float | None = None) -> dict[str, float]:
    """Return all scalars that a step is fed: the rule's, and the loss scale where losses are scaled.

    Parameters
    ----------
    step, learning_rate : as for `UpdateRule.scalars`.
    loss_scale : None for the first step's.
    """
    scaling = rule.loss_scaling
    return {**rule.scalars(step, learning_rate), **({SCALAR: loss_scale or scaling.initial} if scaling else {})}


class SGD(UpdateRule):
    """`keras.optimizers.SGD`: v = momentum v - lr g; w += v, or with nesterov w += momentum v - lr g."""

    @property
    def slots(self) -> tuple[str, ...]:
        return optimizer_slots(OptimizerSpec.from_config("sgd", self.config))

    @property
    def has_squares(self) -> bool:
        return False

    def write(
        self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor], square: tf.Tensor | None = None
    ) -> tf.Operation:
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
        return optimizer_slots(OptimizerSpec.from_config("adam", self.config))

    def scalars(self, step: int, learning_rate: Rates) -> dict[str, float]:
        powers = {f"{name}_power": self.cast[name] ** (step + 1) for name in ("beta_1", "beta_2")}
        return {**super().scalars(step, learning_rate), **powers}

    def write(
        self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor], square: tf.Tensor | None = None
    ) -> tf.Operation:
        if square is not None:
            return self._written(handles, gradient, scalars, tf.cast(square, gradient.dtype))
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

    def _written(
        self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor], square: tf.Tensor
    ) -> tf.Operation:
        """Return the operation that updates one slice, by another square than that of the gradient, which the kernel does not take."""
        dtype, (variable, *slots) = gradient.dtype, handles
        mean, second, *largest = [tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=slot, dtype=dtype), gradient.shape) for slot in slots]
        mean += (gradient - mean) * tf.constant(1.0 - self.config["beta_1"], dtype)
        second += (square - second) * tf.constant(1.0 - self.config["beta_2"], dtype)
        new_slots = [mean, second, *(tf.maximum(each, second) for each in largest)]
        rate = scalars["learning_rate"] * tf.sqrt(1.0 - scalars["beta_2_power"]) / (1.0 - scalars["beta_1_power"])
        change = rate * mean / (tf.sqrt(new_slots[-1]) + tf.constant(self.config["epsilon"], dtype))
        writes = [tf.raw_ops.AssignVariableOp(resource=slot, value=value) for slot, value in zip(slots, new_slots)]
        return tf.group(tf.raw_ops.AssignSubVariableOp(resource=variable, value=change), *writes)

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

    @property
    def has_squares(self) -> bool:
        return type(self.steps.optimizer).__name__ not in _NO_SQUARES

    def scalars(self, step: int, learning_rate: Rates) -> dict[str, float]:
        assert not isinstance(learning_rate, tuple)
        return self.steps.scalars(step, learning_rate)

    def write(
        self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor], square: tf.Tensor | None = None
    ) -> tf.Operation:
        raise NotImplementedError  # `updates` builds its own operations

    def expected_change(self, slots: Sequence[tf.Tensor], scalars: Mapping[str, tf.Tensor]) -> tf.Tensor:
        raise NotImplementedError  # it has no momentum that is known as such

    def slot_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape if name == "accumulated" else self.steps.slot_shape(name, shape)

    def slot_dimensions(self, name: str, parameter: Parameter, shape: tuple[int, ...]) -> Any:
        return slot_dimensions(self.steps, name, parameter, shape)

    def initial_slots(self, value: np.ndarray, live: keras.Variable | None) -> dict[str, np.ndarray]:
        return self.steps.initial(value, live)


class SeveralRules(UpdateRule):
    """`keras.optimizers.MultiOptimizer`: each variable by the one optimizer that its path maps to.

    Parameters
    ----------
    rules : (optimizers,) their rules.
    number_of : Keras variable -> the number of its optimizer.
    """

    def __init__(self, rules: Sequence[UpdateRule], number_of: Callable[[keras.Variable], int]) -> None:
        super().__init__({}, {})
        self.rules, self._number_of = tuple(rules), number_of

    def of(self, live: keras.Variable | None) -> UpdateRule:
        """Return the rule of a variable in the user's model; where there is none, as in calibration, the one that keeps most."""
        return self.largest if live is None else self.rules[self._number_of(live)]

    @property
    def largest(self) -> UpdateRule:
        """The rule that keeps the most for each variable."""
        return max(self.rules, key=lambda rule: len(rule.slots))

    @property
    def slots(self) -> tuple[str, ...]:
        return self.largest.slots

    @property
    def all_slots(self) -> frozenset[str]:
        return frozenset(slot for rule in self.rules for slot in rule.slots)

    def slots_of(self, live: keras.Variable | None) -> tuple[str, ...]:
        return self.of(live).slots

    def scalars(self, step: int, learning_rate: Rates) -> dict[str, float]:
        rates = learning_rate if isinstance(learning_rate, tuple) else (learning_rate,) * len(self.rules)
        numbers = enumerate(zip(self.rules, rates))
        return {f"{n}/{name}": value for n, (rule, rate) in numbers for name, value in rule.scalars(step, rate).items()}

    def scalars_of(self, rule: UpdateRule, scalars: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the scalars of one of the rules, by the names that it knows."""
        own = f"{self.rules.index(rule)}/"
        return {name.removeprefix(own): value for name, value in scalars.items() if name.startswith(own)}

    def _with(self, slot: str) -> UpdateRule:
        return next(rule for rule in self.rules if slot in rule.slots)

    def slot_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        return self._with(name).slot_shape(name, shape)

    def slot_dimensions(self, name: str, parameter: Parameter, shape: tuple[int, ...]) -> Any:
        return self._with(name).slot_dimensions(name, parameter, shape)

    def initial_slots(self, value: np.ndarray, live: keras.Variable | None) -> dict[str, np.ndarray]:
        return self.of(live).initial_slots(value, live)

    @property
    def has_momentum(self) -> bool:
        return False

    @property
    def squares_rows(self) -> bool:
        return any(rule.squares_rows for rule in self.rules)

    def write(
        self, handles: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Mapping[str, tf.Tensor], square: tf.Tensor | None = None
    ) -> tf.Operation:
        raise NotImplementedError  # `updates` asks the rule of each variable

    def expected_change(self, slots: Sequence[tf.Tensor], scalars: Mapping[str, tf.Tensor]) -> tf.Tensor:
        raise NotImplementedError  # it has no momentum that is known as such
