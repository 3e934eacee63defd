"""The slots of optimizers: tensors that are kept beside each variable that trains, mostly of its shape."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

from hetero_mtf.planning.profile.optimizer_spec import OptimizerSpec

_SLOTS: Mapping[str, tuple[str, ...]] = {
    "sgd": (),
    "adadelta": ("accumulated_grads", "accumulated_delta_vars"),
    "adafactor": ("r", "c", "v"),
    "adagrad": ("accumulators",),
    "adamax": ("m", "u"),
    "ftrl": ("accumulators", "linears"),
    "lion": ("momentum",),
    "muon": ("momentum", "adam_velocities"),
    "nadam": ("momentum", "velocity", "u_product"),
    "rmsprop": ("velocity",),
}
AVERAGE = "model_variables_moving_average"
ACCUMULATED = "accumulated"

# Optimizers whose update of an element depends on that element's gradient and slots alone, in lower case.
ELEMENTWISE = frozenset({"adadelta", "adagrad", "adam", "adamw", "adamax", "ftrl", "lion", "nadam", "rmsprop", "sgd", "schedulefreeadamw"})
_SEVERAL = "multioptimizer"


def optimizer_slots(optimizer: OptimizerSpec) -> tuple[str, ...]:
    """Return the names of an optimizer's slots; those of Adam for an unknown optimizer.

    Parameters
    ----------
    optimizer : the options that add slots count.

    Examples
    --------
    >>> optimizer_slots(OptimizerSpec("sgd", momentum=0.9)), optimizer_slots(OptimizerSpec("adam", amsgrad=True))
    (('momentum',), ('momentum', 'velocity', 'velocity_hat'))
    """
    name = optimizer.name
    slots = _SLOTS.get(name, ("momentum", "velocity"))
    if name in ("sgd", "rmsprop") and optimizer.momentum:
        slots = (*slots, "momentum")
    if name == "rmsprop" and optimizer.centered:
        slots = (*slots, "average_gradients")
    if name in ("adam", "adamw") and optimizer.amsgrad:
        slots = (*slots, "velocity_hat")
    average = (AVERAGE,) if optimizer.use_ema else ()
    return (*average, *slots, *((ACCUMULATED,) if optimizer.gradient_accumulation_steps else ()))


@functools.cache
def slot_sizes(optimizer: OptimizerSpec, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the elements of a variable's slots: those that are split as the variable is, and those that each processor keeps in full.

    Parameters
    ----------
    optimizer : as for `optimizer_slots`.
    shape : of the variable.

    Notes
    -----
    Adafactor keeps means over the rows and over the columns of the last two dimensions, besides as many elements as the variable has;
    Nadam's product of momentums is one number.

    Examples
    --------
    >>> adam, lamb, adafactor = (OptimizerSpec(name) for name in ("adam", "lamb", "adafactor"))
    >>> slot_sizes(adam, (3, 4)), slot_sizes(lamb, (3, 4)), slot_sizes(adafactor, (3, 4)), slot_sizes(adafactor, (4,))
    ((24, 0), (0, 24), (0, 19), (0, 6))
    """
    size, slots = math.prod(shape), optimizer_slots(optimizer)
    rows, columns = (math.prod(shape[:-1]), math.prod((*shape[:-2], *shape[-1:]))) if len(shape) > 1 else (1, 1)
    reduced = {"r": rows, "c": columns, "u_product": 1}
    split = [slot for slot in slots if slot not in reduced and (slot == ACCUMULATED or not needs_full_variable(optimizer))]
    return size * len(split), sum(reduced.get(slot, size) for slot in slots if slot not in split)


def needs_full_variable(optimizer: OptimizerSpec) -> bool:
    """Return whether an optimizer updates full variables, which are gathered with their gradients where their layer is split.

    Several optimizers together are taken to update elements.

    Parameters
    ----------
    optimizer : its name counts; one that is unknown needs full variables.

    Examples
    --------
    >>> needs_full_variable(OptimizerSpec("adafactor")), needs_full_variable(OptimizerSpec("sgd", momentum=0.9))
    (True, False)
    """
    return optimizer.name not in ELEMENTWISE and optimizer.name != _SEVERAL
