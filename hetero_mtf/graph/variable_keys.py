"""Keys of a network's state: the names under which variables and optimizer slots are kept, free of the user's layer names."""

from __future__ import annotations

VariableKey = tuple[int, str]
"""A variable: the index of its layer, and its name there."""


def variable_key(layer: int, name: str) -> str:
    """Return the key of a layer's variable.

    >>> variable_key(7, "kernel")
    '007/kernel'
    """
    return f"{layer:03d}/{name}"


def layer_of(key: str) -> int:
    """Return the index of the layer that the key of a variable or slot belongs to.

    >>> layer_of("007/kernel/momentum")
    7
    """
    return int(key.partition("/")[0])


def slot_key(variable: str, slot: str) -> str:
    """Return the key of an optimizer's slot of a variable.

    >>> slot_key("007/kernel", "momentum")
    '007/kernel/momentum'
    """
    return f"{variable}/{slot}"
