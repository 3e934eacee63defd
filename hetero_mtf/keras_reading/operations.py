"""What is asked of a Keras operation in memory: its class, its options, its weights and seeds, and a digest of what a call computes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras

from hetero_mtf.keras_reading.live_call import LiveCall
from hetero_mtf.keras_reading.private_names import inner_layers, shared_seed_state

UNSAID = "options that it does not say"


def is_symbol(value: Any) -> bool:
    """Return whether a value is a symbolic tensor."""
    return isinstance(value, keras.KerasTensor)


def is_layer(operation: keras.Operation) -> bool:
    """Return whether an operation is a layer, not a function such as `keras.ops.add`."""
    return isinstance(operation, keras.layers.Layer)


def class_of(operation: keras.Operation) -> str:
    """Return the name of an operation's class: that in `keras.layers`, its registered name, or its module and name."""
    kind = type(operation)
    exported = [name for name, other in vars(keras.layers).items() if other is kind]
    if exported:
        return kind.__name__ if kind.__name__ in exported else str(exported[0])
    if kind.__module__.startswith("keras.src.ops"):
        return f"keras.ops.{kind.__name__}"
    registered = str(keras.saving.get_registered_name(kind))
    return registered if ">" in registered else f"{kind.__module__}.{kind.__name__}"


def configuration(operation: keras.Operation) -> dict[str, Any]:
    """Return an operation's own options; where it does not say them, `UNSAID` with what is known of it."""
    try:
        config = operation.get_config()
    except Exception:  # a class of the user's own, or a function that cannot be written down, may raise anything
        config = None
    if isinstance(config, Mapping):
        return dict(config)
    simple = {key: value for key, value in vars(operation).items() if not key.startswith("_") and _is_simple(value)}
    return {"name": operation.name, UNSAID: {key: _plain(value) for key, value in sorted(simple.items())}}


def call_digest(call: LiveCall) -> str:
    """Return twelve hexadecimal digits that name what a call computes, apart from values of weights and names."""
    config = {key: value for key, value in configuration(call.operation).items() if key != "name"}
    arguments = [_plain(leaf) for leaf in _leaves((call.node.arguments.args, call.node.arguments.kwargs))]
    text = json.dumps([class_of(call.operation), _plain(config), arguments, call.output], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def is_of_keras(operation: keras.Operation) -> bool:
    """Return whether an operation's class is one of Keras's own, not one of the user's that is derived from it."""
    return type(operation).__module__.startswith("keras.")


def layers_in(operation: keras.Operation) -> list[Any]:
    """Return a layer and all layers in it; nothing for an operation that is no layer."""
    return inner_layers(operation) if is_layer(operation) else []


def named_weights(operation: keras.Operation) -> dict[str, Any]:
    """Return the Keras variables that hold an operation's weights, by names that are the same for every copy of it."""
    names = (re.sub(r"_\d+$", "", variable.name) for variable in getattr(operation, "weights", ()))  # Keras numbers unnamed ones
    return {f"{number}.{name}": variable for number, (name, variable) in enumerate(zip(names, getattr(operation, "weights", ())))}


def hidden_state(operation: keras.Operation) -> list[Any]:
    """Return the Keras variables of an operation that are no weights: the states of its random seeds, and of metrics."""
    weights = {id(variable) for variable in getattr(operation, "weights", ())}
    return [variable for variable in getattr(operation, "variables", ()) if id(variable) not in weights]


def is_seed(variable: keras.Variable) -> bool:
    """Return whether a Keras variable is the state of a random seed."""
    return str(variable.name) == "seed_generator_state"


def seed_states(operation: keras.Operation) -> list[Any]:
    """Return the states of the random seeds that a call of an operation may draw by: its own, and at last the one that all share."""
    return [*(variable for variable in hidden_state(operation) if is_seed(variable)), shared_seed_state()]


def _is_simple(value: Any) -> bool:
    return isinstance(value, (bool, int, float, str, list, tuple)) or hasattr(value, "__code__")


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield str(key)
            yield from _leaves(value[key])
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it, the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items() if key not in ("shared_object_id", "name")}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(entry) for entry in value]
    if isinstance(value, slice):
        return ["slice", _plain(value.start), _plain(value.stop), _plain(value.step)]
    if is_symbol(value):
        return ["tensor", [None if n is None else int(n) for n in value.shape], str(value.dtype)]
    if callable(value) and hasattr(value, "__code__"):
        return [value.__module__, value.__qualname__, hashlib.sha256(value.__code__.co_code).hexdigest()]
    if hasattr(value, "__array__") and not hasattr(value, "assign"):
        array = value.__array__()
        return ["array", list(array.shape), str(array.dtype), hashlib.sha256(array.tobytes()).hexdigest()]
    if hasattr(value, "get_config"):
        return [type(value).__module__, type(value).__name__, _plain(configuration(value))]
    return [type(value).__module__, getattr(value, "__qualname__", type(value).__qualname__)]
