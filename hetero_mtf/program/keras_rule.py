"""Any Keras optimizer as an update rule: its own update step, on each processor's slice or on the gathered variable.

The optimizer's Python code runs while the graph is built, on a variable that stands for the slice. What it assigns is caught by
Keras's stateless scope and becomes what the graph writes.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.keras_reading.private_names import (
    decays,
    keras_operations,
    name_as,
    rate_of,
    set_decay,
    set_rate,
    set_shape,
    stateless_optimizer,
    steps_of,
    update_average,
    update_once,
    updated_variables,
)
from hetero_mtf.keras_reading.traced_calls.replacements import replaced
from hetero_mtf.mesh.compat import Tensor, mtf
from hetero_mtf.mesh.operations.local import Local, Processor
from hetero_mtf.mesh.variables import Parameter, Update
from hetero_mtf.planning.memory.optimizer_slots import AVERAGE, ELEMENTWISE

Shape = tuple[int, ...]
Constraint = Callable[[tf.Tensor], tf.Tensor]

_SLOT_NAMES = {
    **{"momentums": "momentum", "velocities": "velocity", "velocity_hats": "velocity_hat"},
    "adam_momentums": "momentum",  # of Muon up to Keras 3.14
}
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
_NO_SLOTS = ("_variables", "_trainable_variables")


class KerasSteps:
    """The update step of a Keras optimizer.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer, whose options count; it is not changed.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        self.optimizer = optimizer
        self.name = type(optimizer).__name__
        self.every = optimizer.gradient_accumulation_steps or 1
        kind: Any = type(optimizer)
        if not issubclass(kind, keras.Optimizer):
            raise UnsupportedError(f"{kind.__name__} is no Keras optimizer", "give one of keras.optimizers")
        self._kind = _stateless(kind)
        self._config = {**optimizer_config(optimizer), "gradient_accumulation_steps": None, "loss_scale_factor": None}

    @property
    def needs_full_variable(self) -> bool:
        """Whether an update needs the whole variable."""
        return self.name.lower() not in ELEMENTWISE or getattr(keras.optimizers, self.name, None) is not type(self.optimizer)

    @functools.cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of what is kept for each variable."""
        names = [name for rank in (1, 2, 4) for name in self._built(_PRIMES[:rank], "float32", None)[2]]
        return (*dict.fromkeys(names), *(("accumulated",) if self.every > 1 else ()))

    @functools.cache  # noqa: B019 - a rule lives as long as its trainer
    def slot_shape(self, name: str, shape: Shape) -> Shape:
        """Return the shape of a slot of a variable.

        Parameters
        ----------
        name : of `slots`.
        shape : of the variable.
        """
        slot = self._built(shape, "float32", None)[2].get(name)
        return shape if slot is None else tuple(slot.shape)

    def initial(self, value: Any, live: keras.Variable | None) -> dict[str, Any]:
        """Return the slots of a variable before the first step, as arrays; those that are zero are left out.

        Parameters
        ----------
        value : the variable's value.
        live : the Keras variable, for its name; None where there is none.
        """
        variable = keras.Variable(value, dtype=str(value.dtype))
        slots = self._slots_of(self._of_variables([_named(variable, live)]), 1)
        arrays = {name: np.array(slot) for name, slot in slots.items() if slot is not None}
        return {name: array for name, array in arrays.items() if array.any()}

    def scalars(self, step: int, learning_rate: float) -> dict[str, float]:
        """Return the scalars of step `step` (from 0), by name."""
        updates = step // self.every
        frequency = self.optimizer.ema_overwrite_frequency if self.optimizer.use_ema else None
        return {
            "learning_rate": learning_rate,
            "iterations": float(updates),
            "applies": float((step + 1) % self.every == 0),
            "overwrites": float(bool(frequency) and (updates + 1) % (frequency or 1) == 0),
        }

    def decays(self, live: keras.Variable | None) -> bool:
        """Return whether weight decay applies to a variable of the user's model."""
        return True if live is None else decays(self.optimizer, live)

    def step(
        self,
        live: keras.Variable | None,
        values: Sequence[tf.Tensor],
        names: Sequence[str],
        scalars: Mapping[str, tf.Tensor],
        constraint: Constraint | None,
        square: tf.Tensor | None = None,
    ) -> list[tf.Tensor]:
        """Return the variable and its slots after an update.

        Parameters
        ----------
        live : the variable in the user's model, for its name; None where there is none.
        values : variable, gradient and slots.
        names : of the slots.
        scalars : those of `scalars`, as () tensors.
        constraint : what the variable is projected by at the end; None for nothing.
        square : what is taken for the square of the gradient; None for its square.
        """
        value, gradient, *slot_values = values
        optimizer, variable, slots = self._built(tuple(value.shape), value.dtype.name, live)
        applies, overwrites = scalars["applies"] > 0.5, scalars["overwrites"] > 0.5
        mapped = [(variable, value), *((slots[name], piece) for name, piece in zip(names, slot_values) if slots.get(name) is not None)]
        with keras.StatelessScope(mapped, initialize_variables=False) as scope:
            scope.state_mapping[id(steps_of(optimizer))] = tf.cast(scalars["iterations"], tf.int64)
            optimizer.fed_rate = scalars["learning_rate"]
            set_decay(optimizer, self.decays(live))
            with _squared_as(gradient, square):
                update_once(optimizer, variable, gradient, scalars["learning_rate"])
            if self.every > 1:
                for each, before in mapped:
                    scope.state_mapping[id(each)] = tf.where(applies, scope.get_current_value(each), before)
            if optimizer.use_ema:
                update_average(optimizer, variable)
                average = scope.get_current_value(slots[AVERAGE])
                scope.state_mapping[id(variable)] = tf.where(overwrites, average, scope.get_current_value(variable))
            if constraint is not None:
                scope.state_mapping[id(variable)] = constraint(scope.get_current_value(variable))
        after = [scope.get_current_value(slots[name]) if slots.get(name) is not None else piece for name, piece in zip(names, slot_values)]
        new_values = [scope.get_current_value(variable), *after]
        return [tf.reshape(tf.cast(new, old.dtype), old.shape) for new, old in zip(new_values, [value, *slot_values])]

    def _built(self, shape: Shape, dtype: str, live: keras.Variable | None) -> tuple[Any, Any, dict[str, Any]]:
        """Return an optimizer of one variable, the variable and its slots.

        They are made small, with a prime for each extent, which tells which extent of the variable an extent of a slot is; then they
        are given their shapes. Their values are not used.
        """
        small = _PRIMES[: len(shape)]
        extents = dict(zip(small, shape))
        with tf.init_scope(), tf.device("/CPU:0"):
            variable = _named(keras.Variable(np.ones(small), dtype=dtype, name="variable"), live)
            optimizer = self._of_variables([variable])
        slots = self._slots_of(optimizer, 1)
        for each in (variable, *(slot for slot in slots.values() if slot is not None)):
            set_shape(each, tuple(extents.get(n, n) for n in each.shape))
            kind: Any = type(each)
            each.__class__ = _read_late(kind)
        return optimizer, variable, slots

    def _of_variables(self, variables: Sequence[Any]) -> Any:
        optimizer = self._kind.from_config(dict(self._config))
        optimizer.fed_rate = None
        optimizer.build(list(variables))
        return optimizer

    def _slots_of(self, optimizer: keras.optimizers.Optimizer, count: int) -> dict[str, Any]:
        return {name: entries[0] for name, entries in slot_lists(optimizer, count).items()}


def optimizer_config(optimizer: keras.optimizers.Optimizer) -> dict[str, Any]:
    """Return the configuration of a Keras optimizer; with a learning rate of 1 in place of a schedule or a function.

    Keras can write down some of these only, and not all of what it wrote can it read.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer.

    Raises
    ------
    NotImplementedError, TypeError, ValueError
        If it does not say its other options.
    """
    rate = rate_of(optimizer)
    if rate is None or isinstance(rate, (float, keras.Variable)):
        return dict(optimizer.get_config())
    set_rate(optimizer, 1.0)
    try:
        return {**optimizer.get_config(), "learning_rate": 1.0}
    finally:
        set_rate(optimizer, rate)


def slot_lists(optimizer: keras.optimizers.Optimizer, count: int) -> dict[str, list[Any]]:
    """Return the slots of a built Keras optimizer: name -> the Keras variable of each of its variables, None where it has none.

    What it keeps once for all variables is a slot of each.

    Parameters
    ----------
    optimizer : keras.optimizers.Optimizer, built.
    count : number of the variables that it updates.
    """
    slots: dict[str, list[Any]] = {}
    for attribute, value in vars(optimizer).items():
        name = attribute.lstrip("_")
        if isinstance(value, dict) and value:  # by the variables' paths, as in Muon up to Keras 3.14
            value = [value.get(variable.path) for variable in updated_variables(optimizer)]
        if isinstance(value, keras.Variable) and name not in ("iterations", "learning_rate"):
            slots[name] = [value] * count
        elif isinstance(value, list) and attribute not in _NO_SLOTS and len(value) == count:
            if any(isinstance(entry, keras.Variable) for entry in value) and all(e is None or isinstance(e, keras.Variable) for e in value):
                slots[_SLOT_NAMES.get(name, name)] = list(value)
    slots.pop("accumulated_gradients", None)
    return slots


def keras_updates(
    steps: KerasSteps,
    parameters: Sequence[Parameter],
    gradients: Sequence[Tensor],
    slots: Sequence[Sequence[Parameter]],
    scalars: Mapping[str, tf.Tensor],
    constraints: Sequence[Constraint | None],
    lives: Sequence[keras.Variable | None],
    shapes: Sequence[Shape],
    clip: Callable[[Sequence[Tensor]], Sequence[Tensor]],
    starts: Sequence[Tensor],
    squares: Sequence[Tensor | None],
) -> list[Update]:
    """Return the operations that update every variable; parameters as for `optimizers.updates`.

    Parameters
    ----------
    lives : (variables,) the variables in the user's model, None where there are none.
    shapes : (variables,) shapes of the variables as Keras has them.
    clip : gradients -> gradients, clipped by the optimizer's options.
    starts : (variables,) what the updates start from, laid out as the variables.
    squares : (variables,) what is taken for the square of the gradient; None where that is its square.
    """
    names = list(steps.slots)
    sums: list[Tensor | None] = [None] * len(parameters)
    if steps.every > 1:
        at = names.index("accumulated")
        totals = [mtf.add(gradient, own_slots[at].value) for gradient, own_slots in zip(gradients, slots)]
        sums = [_scaled(total, 1.0 - scalars["applies"]) for total in totals]
        gradients = [_scaled(total, 1.0 / steps.every) for total in totals]
    operations = []
    columns = zip(parameters, clip(gradients), slots, sums, constraints, lives, shapes, starts, squares)
    for parameter, gradient, own_slots, total, constraint, live, shape, value, squared in columns:
        own = [(name, slot) for name, slot in zip(names, own_slots) if name != "accumulated"]
        if steps.needs_full_variable:
            dims = [mtf.Dimension(f"{parameter.name}:full{i}", n) for i, n in enumerate(shape)]
            value, gradient = (mtf.reshape(tensor, mtf.Shape(dims)) for tensor in (value, gradient))
            squared = None if squared is None else mtf.reshape(squared, mtf.Shape(dims))
        inputs = [value, gradient, *(slot.value for _, slot in own), *([] if squared is None else [squared])]
        written = [value, *(slot.value for _, slot in own)]

        def update(
            _: Processor, *pieces: tf.Tensor, live: keras.Variable | None = live, own: Any = own, constraint: Constraint | None = constraint
        ) -> Sequence[tf.Tensor]:
            read, square = pieces[: 2 + len(own)], pieces[2 + len(own) :]
            return steps.step(live, read, [name for name, _ in own], scalars, constraint, *square)

        new = Local(f"{parameter.name}_step", update, inputs, [(tensor.shape, tensor.dtype) for tensor in written]).outputs
        after = [new[0] if new[0].shape == parameter.value.shape else mtf.reshape(new[0], parameter.value.shape), *new[1:]]
        writes = [parameter, *(slot for _, slot in own)]
        if total is not None:
            writes, after = [*writes, own_slots[names.index("accumulated")]], [*after, total]
        operations.append(Update(writes, after, _assigned, f"{parameter.name}_update"))
    return operations


def slot_dimensions(steps: KerasSteps, name: str, parameter: Parameter, shape: Shape) -> Any:
    """Return the mtf.Shape of a slot: that of its variable, or, where updates need the whole variable or it has another shape, whole.

    Parameters
    ----------
    name, parameter : of the slot and its variable.
    shape : of the variable as Keras has it.
    """
    own = shape if name == "accumulated" else steps.slot_shape(name, shape)
    if own == shape and (not steps.needs_full_variable or name == "accumulated"):
        return parameter.value.shape
    return mtf.Shape([mtf.Dimension(f"{parameter.name}:{name}{i}", n) for i, n in enumerate(own)])


@contextlib.contextmanager
def _squared_as(gradient: tf.Tensor, square: tf.Tensor | None) -> Iterator[None]:
    """Let the square of a gradient be another tensor in Keras's operations."""
    if square is None:
        yield
        return
    own_square: Any = lambda own: lambda x: tf.cast(square, x.dtype) if x is gradient else own(x)  # noqa: E731
    with replaced(keras_operations, "square", own_square):
        yield


def _assigned(handles: Sequence[tf.Tensor], _: Sequence[tf.Tensor], inputs: Sequence[tf.Tensor]) -> Sequence[Any]:
    return [tf.raw_ops.AssignVariableOp(resource=handle, value=value) for handle, value in zip(handles, inputs)]


def _scaled(tensor: Tensor, factor: tf.Tensor | float) -> Tensor:
    return Local("scale", lambda _, piece: piece * tf.cast(factor, piece.dtype), [tensor], [(tensor.shape, tensor.dtype)]).outputs[0]


def _named(variable: keras.Variable, live: keras.Variable | None) -> Any:
    """Give a variable the names of another, by which optimizers tell variables apart."""
    if live is not None:
        name_as(variable, live)
    return variable


class _Reference:
    """What `value` of a Keras variable is on TensorFlow: a reference, which is read where it is used, after what was written till then."""

    def __init__(self, variable: keras.Variable) -> None:
        self._variable = variable
        self.dtype, self.shape = tf.as_dtype(variable.dtype), tf.TensorShape(variable.shape)

    def __tf_tensor__(self, dtype: Any = None, name: Any = None) -> tf.Tensor:
        return tf.convert_to_tensor(self._variable._deref(), dtype)


@functools.cache
def _read_late(kind: Any) -> Any:
    """Return a subclass of a kind of Keras variable whose `value` is read where it is used."""
    members = {"value": property(_Reference), "_deref": lambda self: kind.value.fget(self)}
    return type(kind.__name__, (kind,), members)


_stateless = functools.cache(stateless_optimizer)
