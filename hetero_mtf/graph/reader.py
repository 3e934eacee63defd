"""Reads the wiring of a Keras model: which layers there are, their options, and which layer reads which.

Only the model's own serialised description (`model.get_config()`) and its list of layers are used,
so nothing here imports Keras; `hetero_mtf.layers` interprets the layers.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError, refuse
from hetero_mtf.graph.call_order import Call, call_order
from hetero_mtf.graph.structure import Structure, leaves_of, map_leaves

MODELS = ("Functional", "Model", "Sequential")
CALLS_UP_TO = 20_000  # nested models that are called many times each multiply


@dataclasses.dataclass(frozen=True)
class Node:
    """One call of a layer of a Keras model, not yet interpreted.

    Parameters
    ----------
    name : the layer's name, behind those of the models it is nested in; a later call of a layer has its number behind a colon.
    kind : Keras class name; a class outside `keras.layers` has its registered name, or its module as a prefix.
    config : the layer's own options, as `get_config` gives them.
    inputs : indices of the nodes it reads.
    live : the Keras layer itself; None where the model does not give it.
    first : index of the node that is the first call of the same layer; its own where it is that.
    """

    name: str
    kind: str
    config: Mapping[str, Any]
    inputs: tuple[int, ...]
    live: Any = None
    first: int = 0


@dataclasses.dataclass(frozen=True)
class Wiring:
    """The calls of a model's layers, nested models opened up.

    Parameters
    ----------
    nodes : the inputs in the model's order, then the calls in the order in which Keras runs them.
    outputs : (outputs,) indices of the nodes that the model returns, in the flat order of `output_structure`.
    nested_inputs : the inputs of nested models, which are no nodes; each reads the node that it stands for.
    input_structure, output_structure : how the model packs its inputs and outputs.
    faults : what is not supported in how layers are called: the layer's name, and a sentence.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    nested_inputs: tuple[Node, ...]
    input_structure: Structure
    output_structure: Structure
    faults: tuple[tuple[str, str], ...] = ()


def read_wiring(model: Any, all_faults: bool = False) -> Wiring:
    """Return the layers of a Keras functional or sequential model, and how they are connected.

    Parameters
    ----------
    model : keras.Model, functional or sequential, built.
    all_faults : whether to return what is not supported in how layers are called with the wiring, rather than raise.

    Raises
    ------
    UnsupportedError
        For a subclassed or unbuilt model, here or nested, and layers called with options of their own; the layer is named.
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
    return read_configuration(config, model, all_faults)


def read_configuration(config: Mapping[str, Any], model: Any = None, all_faults: bool = False) -> Wiring:
    """Return the wiring in the configuration of a Keras functional or sequential model, which need not have been built.

    Parameters
    ----------
    config : what `model.get_config()` gives, or a file holds in its place.
    model : the model; without it no node has its Keras layer, and a layer is known by its name alone.
    all_faults : as for `read_wiring`.

    Raises
    ------
    UnsupportedError
        As `read_wiring`, or if there are more than `CALLS_UP_TO` calls.
    """
    reading = _Reading()
    try:
        wiring = reading.wiring(config, model)
    except UnsupportedError:
        refuse([text for _, text in reading.faults])  # what cannot be followed further may come of these
        raise
    if not all_faults:
        refuse([text for _, text in wiring.faults])
    return wiring


@dataclasses.dataclass(frozen=True)
class _Level:
    """A model at any depth.

    Parameters
    ----------
    entries : layer name -> its serialised form.
    live : layer name -> the Keras layer.
    path : names of the models around its layers.
    inputs, outputs : structures of the places (layer name, call, output) that it takes and gives.
    calls : call -> its arguments, nested lists and dicts of places.
    """

    entries: Mapping[str, Mapping[str, Any]]
    live: Mapping[str, Any]
    path: tuple[str, ...]
    inputs: Any
    outputs: Any
    calls: Mapping[Call, Any]


@dataclasses.dataclass(frozen=True)
class _Place:
    """One output of one call of a layer."""

    layer: str
    call: int
    output: int

    @property
    def key(self) -> Call:
        return self.layer, self.call


class _Reading:
    """Collects nodes, level by level."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.nested_inputs: list[Node] = []
        self.faults: list[tuple[str, str]] = []
        self._firsts: dict[Any, int] = {}
        self._names: set[str] = set()
        self._numbers: dict[tuple[str, ...], int] = {}

    def wiring(self, config: Mapping[str, Any], model: Any) -> Wiring:
        """Return the wiring of the outermost model."""
        level = _level(config, model, (), self.faults)
        given = {place.key: self._add(level, place.layer, ()) for place in leaves_of(level.inputs)}
        outputs = self._through(level, given)
        structures = _structure(level.inputs), _structure(level.outputs)
        return Wiring(tuple(self.nodes), tuple(outputs), tuple(self.nested_inputs), *structures, tuple(self.faults))

    def _through(self, level: _Level, given: Mapping[Call, int]) -> list[int]:
        """Add the calls of a level and return the nodes of its outputs, in the flat order."""
        values: dict[_Place, int] = {_Place(*call, 0): index for call, index in given.items()}
        reads = {call: [place.key for place in leaves_of(arguments)] for call, arguments in level.calls.items()}
        reads.update({call: [] for call in given})
        outputs = leaves_of(level.outputs)
        _check_connected(level, given, reads, outputs)
        for name, number in call_order(reads, [place.key for place in outputs]):
            if (name, number) in given:
                continue
            arguments = level.calls[name, number]
            if _is_model(level.entries[name]):
                node_indices = self._nested(level, name, map_leaves(arguments, lambda place: self._value(place, values, level)))
            else:
                node_indices = [self._add(level, name, [self._value(place, values, level) for place in leaves_of(arguments)])]
            values.update({_Place(name, number, at): index for at, index in enumerate(node_indices)})
        return [self._value(place, values, level) for place in outputs]

    def _nested(self, level: _Level, name: str, arguments: Any) -> list[int]:
        """Add the calls of a nested model that is called with nodes and return those of its outputs."""
        inner = _level(level.entries[name]["config"], level.live.get(name), (*level.path, name), self.faults)
        what, structure = f"what the nested model {'/'.join(inner.path)} is called with", _structure(inner.inputs)
        alone = structure.count == 1 and len(leaves_of(arguments)) == 1
        given = leaves_of(arguments) if alone else structure.flatten(arguments, what, UnsupportedError, spare=True)
        places = leaves_of(inner.inputs)
        self._check_count()
        for place, source in zip(places, given):
            shown = "/".join([*inner.path, place.layer])
            self.nested_inputs.append(Node(shown, "InputLayer", inner.entries[place.layer]["config"], (source,)))
        return self._through(inner, dict(zip([place.key for place in places], given)))

    def _add(self, level: _Level, name: str, inputs: Sequence[int]) -> int:
        """Add one call of a layer and return its index."""
        entry, live, index = level.entries[name], level.live.get(name), len(self.nodes)
        self._check_count()
        path = (*level.path, name)
        first = self._firsts.setdefault(path if live is None else id(live), index)
        number = self._numbers.get(path, 1)
        shown = "/".join(path) if number == 1 else f"{'/'.join(path)}:{number}"
        while shown in self._names:
            number += 1
            shown = f"{'/'.join(path)}:{number}"
        self._numbers[path] = number
        self._names.add(shown)
        self.nodes.append(Node(shown, _kind(entry), entry["config"], tuple(inputs), live, first))
        return index

    def _value(self, place: _Place, values: Mapping[_Place, int], level: _Level) -> int:
        """Return the node behind a place; of an output that is not supported, that of the first."""
        if place in values:
            return values[place]
        name = "/".join([*level.path, place.layer])
        wrong = f"output {place.output} of layer {name} is read; only layers with one output are supported"
        first = _Place(place.layer, place.call, 0)
        if first not in values:
            raise UnsupportedError(wrong)
        self.faults.append((name, wrong))
        return values[first]

    def _check_count(self) -> None:
        if len(self.nodes) + len(self.nested_inputs) >= CALLS_UP_TO:
            raise UnsupportedError(f"the model has more than {CALLS_UP_TO} calls of layers; build a smaller one")


def _kind(entry: Mapping[str, Any]) -> str:
    module = entry.get("module")
    if module == "keras.layers":
        return str(entry["class_name"])
    registered = entry.get("registered_name") or ""
    if ">" in registered:
        return str(registered)
    return f"{module or 'user code'}.{entry['class_name']}"


def _is_model(entry: Mapping[str, Any]) -> bool:
    """Return whether an entry is a model; one of the user's own is refused as a layer would be."""
    module = entry.get("module") or ""
    return entry["class_name"] in MODELS and module.startswith("keras") and not module.startswith("keras.layers")


def _level(config: Mapping[str, Any], model: Any, path: tuple[str, ...], faults: list[tuple[str, str]]) -> _Level:
    live = {layer.name: layer for layer in getattr(model, "layers", ())}
    return _functional(config, live, path, faults) if "input_layers" in config else _sequential(config, live, path)


def _sequential(config: Mapping[str, Any], live: Mapping[str, Any], path: tuple[str, ...]) -> _Level:
    entries = list(config["layers"])
    if not entries or entries[0]["class_name"] != "InputLayer":
        shape = config.get("build_input_shape")
        if shape is None:
            raise UnsupportedError("the sequential model has no input shape yet; start it with keras.Input(shape)")
        entries.insert(0, {"module": "keras.layers", "class_name": "InputLayer", "config": {"name": "input", "batch_shape": list(shape)}})
    names = [str(entry["config"]["name"]) for entry in entries]
    calls = {(name, 0): _Place(source, 0, 0) for source, name in zip(names, names[1:])}
    return _Level(dict(zip(names, entries)), live, path, _Place(names[0], 0, 0), _Place(names[-1], 0, 0), calls)


def _functional(config: Mapping[str, Any], live: Mapping[str, Any], path: tuple[str, ...], faults: list[tuple[str, str]]) -> _Level:
    entries = {str(entry["name"]): entry for entry in config["layers"]}
    calls = {
        (name, number): _arguments(name, node, "/".join([*path, name]), faults)
        for name, entry in entries.items()
        for number, node in enumerate(entry.get("inbound_nodes", []))
    }
    inputs, outputs = (_interface_places(config[key], entries) for key in ("input_layers", "output_layers"))
    return _Level(entries, live, path, inputs, outputs, calls)


def _interface_places(value: Any, entries: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return serialised inputs or outputs as nested lists and dicts of places."""
    if isinstance(value, Mapping):
        return type(value)((key, _interface_places(item, entries)) for key, item in value.items())  # type: ignore[call-arg]
    if len(value) == 3 and isinstance(value[0], str):
        name, call, output = value
        # Keras counts the calls of a nested functional model from 1 here: its own inputs and outputs are the first.
        own = "input_layers" in entries[name]["config"]
        return _Place(str(name), int(call) - own, int(output))
    return [_interface_places(item, entries) for item in value]


def _arguments(name: str, node: Mapping[str, Any], full_name: str, faults: list[tuple[str, str]]) -> Any:
    """Return the arguments of one call as nested lists and dicts of places, and add a fault for everything else."""
    for key, value in node.get("kwargs", {}).items():
        # Keras, too, trains what is called with training=False: the call from outside prevails.
        given = any(leaf is not None for leaf in leaves_of(value))
        if given and not (key == "training" and value is False):
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
        return _Place(str(source), int(call), int(output))
    if isinstance(value, Mapping) and "class_name" not in value:
        return {key: _places(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_places(item, name) for item in value if item is not None]
    raise UnsupportedError(f"layer {name} is called with the constant {value!r}, which is not supported; use layers only")


def _structure(places: Any) -> Structure:
    return Structure.of(map_leaves(places, lambda place: place.layer))


def _check_connected(level: _Level, given: Mapping[Call, int], reads: Mapping[Call, Sequence[Call]], outputs: Sequence[_Place]) -> None:
    for call in [*(place.key for place in outputs), *(source for sources in reads.values() for source in sources)]:
        if not reads.get(call) and call not in given:
            raise UnsupportedError(f"layer {'/'.join([*level.path, call[0]])} is read and reads nothing itself; connect it to an input")
