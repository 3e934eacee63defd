"""Levels: a model at any depth, with its layers, their calls, and the places of tensors; read from a configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.structure import leaves_of
from hetero_mtf.keras_reading.keras_order import Call

MODELS = ("Functional", "Model", "Sequential")


@dataclasses.dataclass(frozen=True)
class Place:
    """One output of one call of a layer.

    Parameters
    ----------
    layer : its name, unique in its model.
    call : number of the call, from 0.
    output : number of the output, from 0.
    """

    layer: str
    call: int
    output: int

    @property
    def key(self) -> Call:
        return self.layer, self.call


@dataclasses.dataclass(frozen=True)
class Level:
    """A model at any depth.

    Parameters
    ----------
    entries : layer name -> its serialised form.
    path : names of the models around its layers.
    inputs, outputs : structures of the places (layer name, call, output) that it takes and gives.
    calls : call -> its arguments, nested lists and dicts of places.
    """

    entries: Mapping[str, Mapping[str, Any]]
    path: tuple[str, ...]
    inputs: Any
    outputs: Any
    calls: Mapping[Call, Any]

    def opens(self, call: Call) -> bool:
        """Return whether a call is that of a nested model whose layers are read."""
        return is_model(self.entries[call[0]])


def stored_level(config: Mapping[str, Any], path: tuple[str, ...], faults: list[tuple[str, str]]) -> Level:
    """Return the level in a configuration.

    Parameters
    ----------
    config : of a functional or sequential model.
    path : names of the models around it.
    faults : list to which a layer's name and a sentence are added for what is not supported.

    Raises
    ------
    UnsupportedError
        If a sequential model has no input shape.
    """
    return _functional(config, path, faults) if "input_layers" in config else _sequential(config, path)


def _sequential(config: Mapping[str, Any], path: tuple[str, ...]) -> Level:
    entries = list(config["layers"])
    if not entries or entries[0]["class_name"] != "InputLayer":
        shape = config.get("build_input_shape")
        if shape is None:
            raise UnsupportedError("the sequential model has no input shape yet", "start it with keras.Input(shape)")
        entries.insert(0, {"module": "keras.layers", "class_name": "InputLayer", "config": {"name": "input", "batch_shape": list(shape)}})
    names = [str(entry["config"]["name"]) for entry in entries]
    calls = {(name, 0): Place(source, 0, 0) for source, name in zip(names, names[1:])}
    return Level(dict(zip(names, entries)), path, Place(names[0], 0, 0), Place(names[-1], 0, 0), calls)


def _functional(config: Mapping[str, Any], path: tuple[str, ...], faults: list[tuple[str, str]]) -> Level:
    entries = {str(entry["name"]): entry for entry in config["layers"]}
    calls = {
        (name, number): _arguments(name, node, "/".join([*path, name]), faults)
        for name, entry in entries.items()
        for number, node in enumerate(entry.get("inbound_nodes", []))
    }
    inputs, outputs = (_interface_places(config[key], entries) for key in ("input_layers", "output_layers"))
    return Level(entries, path, inputs, outputs, calls)


def _interface_places(value: Any, entries: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return serialised inputs or outputs as nested lists and dicts of places."""
    if isinstance(value, Mapping):
        return type(value)((key, _interface_places(item, entries)) for key, item in value.items())  # type: ignore[call-arg]
    if len(value) == 3 and isinstance(value[0], str):
        name, call, output = value
        # Keras counts the calls of a nested functional model from 1 here: its own inputs and outputs are the first.
        own = "input_layers" in entries[name]["config"]
        return Place(str(name), int(call) - own, int(output))
    return [_interface_places(item, entries) for item in value]


def _arguments(name: str, node: Mapping[str, Any], full_name: str, faults: list[tuple[str, str]]) -> Any:
    """Return the arguments of one call as nested lists and dicts of places, and add a fault for everything else."""
    for key, value in node.get("kwargs", {}).items():
        # Keras, too, trains what is called with training=False: the call from outside prevails.
        is_set = any(leaf is not None for leaf in leaves_of(value))
        if is_set and not (key == "training" and value is False):
            wrong = f"layer {name} is called with {key}={_said(value)}, which is not supported; leave the argument out"
            faults.append((full_name, wrong))
    places = []
    for value in node.get("args", []):
        try:
            places += [] if value is None else [_places(value, name)]
        except UnsupportedError as fault:
            faults.append((full_name, str(fault)))
    return places[0] if len(places) == 1 else places


def _said(value: Any) -> str:
    return "a tensor" if isinstance(value, Mapping) and value.get("class_name") == "__keras_tensor__" else repr(value)


def _places(value: Any, name: str) -> Any:
    if isinstance(value, Mapping) and value.get("class_name") == "__keras_tensor__":
        source, call, output = value["config"]["keras_history"]
        return Place(str(source), int(call), int(output))
    if isinstance(value, Mapping) and "class_name" not in value:
        return {key: _places(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_places(item, name) for item in value if item is not None]
    raise UnsupportedError(f"layer {name} is called with the constant {value!r}, which is not supported", "use layers only")


def kind_in(entry: Mapping[str, Any]) -> str:
    """Return the kind of a layer in its serialised form, as `Node.kind`."""
    module = entry.get("module")
    if module == "keras.layers":
        return str(entry["class_name"])
    registered = entry.get("registered_name") or ""
    if ">" in registered:
        return str(registered)
    return f"{module or 'user code'}.{entry['class_name']}"


def is_model(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is a model; one of the user's own is refused as a layer would be."""
    module = entry.get("module") or ""
    return entry["class_name"] in MODELS and module.startswith("keras") and not module.startswith("keras.layers")
