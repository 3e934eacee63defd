"""The slots of optimizers: tensors that are kept beside each variable that trains, of its shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def optimizer_slots(name: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of an optimizer's slots; those of Adam for an unknown optimizer.

    Parameters
    ----------
    name : "sgd", "adam" or "adamw".
    options : its options as Keras names them; "momentum" of SGD and "amsgrad" of Adam count, and are off if left out.

    Examples
    --------
    >>> optimizer_slots("sgd", {"momentum": 0.9}), optimizer_slots("adam", {"amsgrad": True})
    (('momentum',), ('momentum', 'velocity', 'velocity_hat'))
    """
    if name == "sgd":
        return ("momentum",) if options.get("momentum") else ()
    return ("momentum", "velocity", *(("velocity_hat",) if options.get("amsgrad") else ()))


def optimizer_name(optimizer: object) -> str:
    """Return the name of an optimizer in lower case, without its settings.

    Parameters
    ----------
    optimizer : a name such as "SGD" or "sgd(momentum=0.9)", or a Keras optimizer.

    Examples
    --------
    >>> optimizer_name("SGD(momentum=0.9)")
    'sgd'
    """
    text = optimizer if isinstance(optimizer, str) else type(optimizer).__name__
    match = re.match(r"\s*(\w+)", text)
    return match.group(1).lower() if match else ""
