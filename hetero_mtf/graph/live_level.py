"""Levels of models in memory, read from their Keras nodes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.call_order import Call
from hetero_mtf.graph.level import Level, Place
from hetero_mtf.graph.live import configuration, is_layer, keras_module, layers_in
from hetero_mtf.graph.structure import leaves_of, map_leaves


def functional_of(model: Any) -> Any | None:
    """Return the graph of calls (`keras.Functional`) of a functional or sequential model, None for another object.

    A model of a class of the user's own is one where it inherits how it is called and trained.

    Raises
    ------
    UnsupportedError
        If a sequential model has no input shape yet.
    """
    keras = keras_module()
    functional = getattr(sys.modules.get("keras.src.models.functional"), "Functional", None)
    if isinstance(model, keras.Sequential):
        if type(model).call is not keras.Sequential.call or _trains_itself(model):
            return None
        if model._functional is None:
            raise UnsupportedError("the sequential model has no input shape yet; start it with keras.Input(shape)")
        return model._functional
    if functional is not None and isinstance(model, functional) and type(model).call is functional.call and not _trains_itself(model):
        return model
    return None


def _trains_itself(model: Any) -> bool:
    """Return whether a model has steps or a loss of its own, which would be ignored."""
    base = keras_module().Model
    return any(getattr(type(model), name, None) is not getattr(base, name) for name in ("train_step", "compute_loss", "fit"))


def live_level(function: Any, path: tuple[str, ...]) -> Level:
    """Return the level of a functional model in memory, from its Keras nodes."""
    own = {id(node) for nodes in function._nodes_by_depth.values() for node in nodes}
    live = {operation.name: operation for operation in function.operations}
    keys: dict[int, Call] = {}
    nodes: dict[Call, Any] = {}
    for name, operation in live.items():
        for number, node in enumerate(node for node in operation._inbound_nodes if id(node) in own):
            keys[id(node)] = name, number
            nodes[name, number] = node

    def place(symbol: Any) -> Place:
        operation, node_index, output = symbol._keras_history
        return Place(*keys[id(operation._inbound_nodes[node_index])], output)

    entries = {name: LiveEntry(operation) for name, operation in live.items()}
    calls = {key: _live_arguments(node, place) for key, node in nodes.items()}
    inputs, outputs = (map_leaves(value, place) for value in (function._inputs_struct, function._outputs_struct))
    opened = frozenset(key for key, node in nodes.items() if not is_special(node) and _is_open(live[key[0]]))
    batches = frozenset({None, *(symbol.shape[0] for symbol in leaves_of(function._inputs_struct) if symbol.shape)})
    return Level(entries, live, path, inputs, outputs, calls, nodes, place, opened, batches)


def _is_open(operation: Any) -> bool:
    return hasattr(operation, "layers") and functional_of(operation) is not None


def _live_arguments(node: Any, place: Callable[[Any], Place]) -> Any:
    """Return the tensors that a call reads as places; packed as its argument where it has one only, as a nested model reads it."""
    arguments = node.arguments
    if not is_special(node) and len(arguments.args) == 1:
        return map_leaves(arguments.args[0], place)
    return [place(symbol) for symbol in arguments.keras_tensors]


def is_special(node: Any) -> bool:
    """Return whether a call has more than tensors as positional arguments; `training` is none, as the call from outside prevails."""
    positional, named = list(node.arguments.args), dict(node.arguments.kwargs)
    named.pop("training", None)
    symbol = keras_module().KerasTensor
    return any(leaf is not None and not isinstance(leaf, symbol) for leaf in leaves_of(positional)) or any(
        leaf is not None for leaf in leaves_of(named)
    )


def takes_masks(node: Any) -> bool:
    """Return whether a call may take the masks of its tensors by itself: it is not called with them, or has layers inside that do."""
    if not is_layer(node.operation):
        return False
    if len(layers_in(node.operation)) > 1 or not type(node.operation).__module__.startswith("keras."):
        return True
    names = [name for name in inspect.signature(node.operation.call).parameters if name == "mask" or name.endswith("_mask")]
    return bool(names) and all(node.arguments.kwargs.get(name) is None for name in names)


class LiveEntry(Mapping[str, Any]):
    """The serialised form of an operation in memory, as far as it is asked for."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self._config: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        if key == "config":
            if self._config is None:
                self._config = configuration(self.operation)
            return self._config
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("config",))

    def __len__(self) -> int:
        return 1
