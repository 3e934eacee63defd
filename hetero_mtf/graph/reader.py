"""Reads the wiring of a Keras model: which layers there are, their options, and who reads whom.

Only the model's own serialised description (`model.get_config()`) is used, so nothing here
imports Keras; what each layer means is the business of `hetero_mtf.layers`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Node:
    """One layer of a Keras model, not yet understood.

    Parameters
    ----------
    name : the layer's name.
    kind : Keras class name; a class outside `keras.layers` keeps its module as a prefix.
    config : the layer's own options, as `get_config` gives them.
    inputs : indices of the nodes it reads.
    """

    name: str
    kind: str
    config: Mapping[str, Any]
    inputs: tuple[int, ...]


def read_nodes(model: Any) -> tuple[Node, ...]:
    """Return the layers of a Keras functional or sequential model in topological order.

    Parameters
    ----------
    model : keras.Model, functional or sequential, built.

    Raises
    ------
    UnsupportedError
        For a subclassed or unbuilt model, several inputs or outputs, shared or nested layers, and
        layers called with options of their own; the layer is named.
    """
    if not type(model).__module__.startswith("keras."):
        raise UnsupportedError(
            f"{type(model).__name__} is not a plain Keras model and what it does itself would be ignored; build it from keras.Input"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about lambdas, which are refused by name below
            config = model.get_config()
    except Exception as fault:
        raise UnsupportedError(
            f"{type(model).__name__} is not a Keras functional or sequential model ({type(fault).__name__}); build it from keras.Input"
        ) from fault
    if not isinstance(config, Mapping) or "layers" not in config:
        raise UnsupportedError(f"{type(model).__name__} does not list its layers; build it as a functional or sequential Keras model")
    return _functional(config) if "input_layers" in config else _sequential(config)


def _kind(entry: Mapping[str, Any]) -> str:
    module = entry.get("module")
    if module == "keras.layers":
        return str(entry["class_name"])
    return f"{module or 'user code'}.{entry['class_name']}"


def _sequential(config: Mapping[str, Any]) -> tuple[Node, ...]:
    entries = list(config["layers"])
    if not entries or entries[0]["class_name"] != "InputLayer":
        shape = config.get("build_input_shape")
        if shape is None:
            raise UnsupportedError("the sequential model has no input shape yet; start it with keras.Input(shape)")
        entries.insert(0, {"module": "keras.layers", "class_name": "InputLayer", "config": {"name": "input", "batch_shape": list(shape)}})
    return tuple(
        Node(str(entry["config"]["name"]), _kind(entry), entry["config"], (index - 1,) if index else ())
        for index, entry in enumerate(entries)
    )


def _single_end(config: Mapping[str, Any], key: str, word: str) -> str:
    ends = config[key]
    if ends and isinstance(ends, Sequence) and isinstance(ends[0], str):
        return str(ends[0])
    if len(ends) != 1:
        raise UnsupportedError(f"the model has {len(ends)} {word}s; only models with one {word} are supported")
    return str(ends[0][0] if isinstance(ends, Sequence) else next(iter(ends.values()))[0])


def _functional(config: Mapping[str, Any]) -> tuple[Node, ...]:
    first, last = _single_end(config, "input_layers", "input"), _single_end(config, "output_layers", "output")
    entries = {str(entry["name"]): entry for entry in config["layers"]}
    order = _topological(entries, last)
    if first not in order:
        raise UnsupportedError(f"the output does not depend on input {first}; connect them")
    place = {name: index for index, name in enumerate(order)}
    return tuple(
        Node(name, _kind(entries[name]), entries[name]["config"], tuple(place[source] for source in _sources(entries[name])))
        for name in order
    )


def _topological(entries: Mapping[str, Mapping[str, Any]], last: str) -> list[str]:
    """Return the names that `last` depends on, inputs first, ties in the model's own order."""
    needed, stack = {last}, [last]
    while stack:
        for source in _sources(entries[stack.pop()]):
            if source not in needed:
                needed.add(source)
                stack.append(source)
    order: dict[str, None] = {}
    waiting = [name for name in entries if name in needed]
    while waiting:
        later = []
        for name in waiting:
            if all(source in order for source in _sources(entries[name])):
                order[name] = None
            else:
                later.append(name)
        if len(later) == len(waiting):
            raise UnsupportedError(f"layers {', '.join(waiting[:3])} read each other in a circle; a network must be acyclic")
        waiting = later
    del order[last]
    return [*order, last]


def _sources(entry: Mapping[str, Any]) -> list[str]:
    """Return the names of the layers that an entry reads, checking how it is called."""
    nodes = entry.get("inbound_nodes", [])
    name = entry["name"]
    if len(nodes) > 1:
        raise UnsupportedError(f"layer {name} is shared: it is called {len(nodes)} times; use a layer of its own at each place")
    found: list[str] = []
    for node in nodes:
        for key, value in node.get("kwargs", {}).items():
            if value is not None and not (key == "training" and value is False):
                raise UnsupportedError(f"layer {name} is called with {key}={value!r}, which is not supported; leave the argument out")
        _collect(node.get("args", []), name, found)
    return found


def _collect(value: Any, name: str, found: list[str]) -> None:
    if isinstance(value, Mapping) and value.get("class_name") == "__keras_tensor__":
        source, _, output = value["config"]["keras_history"]
        if output:
            raise UnsupportedError(f"layer {name} reads output {output} of layer {source}; only layers with one output are supported")
        found.append(str(source))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, name, found)
    elif value is not None:
        raise UnsupportedError(f"layer {name} is called with the constant {value!r}, which is not supported; use layers only")
