"""The slots of optimizers: tensors that are kept beside each variable that trains, mostly of its shape."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping
from typing import Any

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


def optimizer_slots(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of an optimizer's slots; those of Adam for an unknown optimizer.

    Parameters
    ----------
    name : of a class of keras.optimizers, in lower case.
    options : its options as Keras names them; those that add slots count, and are off if left out.

    Examples
    --------
    >>> optimizer_slots("sgd", {"momentum": 0.9}), optimizer_slots("adam", {"amsgrad": True})
    (('momentum',), ('momentum', 'velocity', 'velocity_hat'))
    """
    slots = _SLOTS.get(name, ("momentum", "velocity"))
    if name in ("sgd", "rmsprop") and options.get("momentum"):
        slots = (*slots, "momentum")
    if name == "rmsprop" and options.get("centered"):
        slots = (*slots, "average_gradients")
    if name in ("adam", "adamw") and options.get("amsgrad"):
        slots = (*slots, "velocity_hat")
    average = (AVERAGE,) if options.get("use_ema") else ()
    return (*average, *slots, *((ACCUMULATED,) if options.get("gradient_accumulation_steps") else ()))


@functools.cache
def slot_sizes(optimizer: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the elements of a variable's slots: those that are split as the variable is, and those that each processor keeps in full.

    Parameters
    ----------
    optimizer : as a profile names it, such as "sgd(momentum=0.9)".
    shape : of the variable.

    Notes
    -----
    Adafactor keeps means over the rows and over the columns of the last two dimensions, besides as many elements as the variable has;
    Nadam's product of momentums is one number.

    Examples
    --------
    >>> slot_sizes("adam", (3, 4)), slot_sizes("lamb", (3, 4)), slot_sizes("adafactor", (3, 4)), slot_sizes("adafactor", (4,))
    ((24, 0), (0, 24), (0, 19), (0, 6))
    """
    size, slots = math.prod(shape), optimizer_slots(optimizer_name(optimizer), optimizer_options(optimizer))
    rows, columns = (math.prod(shape[:-1]), math.prod((*shape[:-2], *shape[-1:]))) if len(shape) > 1 else (1, 1)
    reduced = {"r": rows, "c": columns, "u_product": 1}
    split = [slot for slot in slots if slot not in reduced and (slot == ACCUMULATED or not needs_full_variable(optimizer))]
    return size * len(split), sum(reduced.get(slot, size) for slot in slots if slot not in split)


def needs_full_variable(optimizer: object) -> bool:
    """Return whether an optimizer updates full variables, which are gathered with their gradients where their layer is split.

    Several optimizers together are taken to update elements.

    Parameters
    ----------
    optimizer : as for `optimizer_name`; one that is unknown needs full variables.

    Examples
    --------
    >>> needs_full_variable("adafactor"), needs_full_variable("sgd(momentum=0.9)")
    (True, False)
    """
    name = optimizer_name(optimizer)
    return name not in ELEMENTWISE and name != _SEVERAL


def optimizer_name(optimizer: object) -> str:
    """Return the name of an optimizer in lower case, without its settings.

    Parameters
    ----------
    optimizer : a name such as "SGD" or "sgd(momentum=0.9)", or a Keras optimizer; of one that scales the loss the inner one counts.

    Examples
    --------
    >>> optimizer_name("SGD(momentum=0.9)")
    'sgd'
    """
    text = optimizer if isinstance(optimizer, str) else type(getattr(optimizer, "inner_optimizer", optimizer)).__name__
    match = re.match(r"\s*(\w+)", text)
    return match.group(1).lower() if match else ""


def optimizer_options(optimizer: str) -> dict[str, float]:
    """Return the options in an optimizer's text that are numbers or truth values, as floats.

    Parameters
    ----------
    optimizer : such as "sgd(momentum=0.9)", as a profile names it.

    Examples
    --------
    >>> optimizer_options("sgd(momentum=0.9)"), optimizer_options("adam(amsgrad=True)"), optimizer_options("sgd")
    ({'momentum': 0.9}, {'amsgrad': 1.0}, {})
    """
    options: dict[str, float] = {}
    for name, value in re.findall(r"(\w+)\s*=\s*([\w.+-]+)", optimizer):
        try:
            options[name] = {"True": 1.0, "False": 0.0}[value] if value in ("True", "False") else float(value)
        except ValueError:
            continue
    return options
