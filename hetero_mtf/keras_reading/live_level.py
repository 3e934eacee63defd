"""Levels of models in memory, read from their Keras nodes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hetero_mtf.graph.structure import leaves_of, map_leaves
from hetero_mtf.keras_reading.graph_of_calls import inner_function
from hetero_mtf.keras_reading.keras_order import Call
from hetero_mtf.keras_reading.level import Level, Place
from hetero_mtf.keras_reading.operations import configuration, is_layer, is_of_keras, is_symbol, layers_in
from hetero_mtf.keras_reading.private_names import calls_in, calls_of, input_structure, output_structure, source_of


@dataclasses.dataclass(frozen=True)
class LiveLevel(Level):
    """A model in memory at any depth.

    Parameters
    ----------
    live : layer name -> the Keras layer.
    nodes : call -> its Keras node.
    place : symbolic tensor -> its place.
    opened : calls of nested models whose layers are read.
    batches : extents of the first dimension that stand for the batch.
    """

    live: Mapping[str, Any]
    nodes: Mapping[Call, Any]
    place: Callable[[Any], Place]
    opened: frozenset[Call]
    batches: frozenset[int | None]

    def opens(self, call: Call) -> bool:
        """Return whether a call is that of a nested model whose layers are read."""
        return call in self.opened


def live_level(function: Any, path: tuple[str, ...]) -> LiveLevel:
    """Return the level of a functional model in memory, from its Keras nodes."""
    own = {id(node) for node in calls_in(function)}
    live = {operation.name: operation for operation in function.operations}
    keys: dict[int, Call] = {}
    nodes: dict[Call, Any] = {}
    for name, operation in live.items():
        for number, node in enumerate(node for node in calls_of(operation) if id(node) in own):
            keys[id(node)] = name, number
            nodes[name, number] = node

    def place(symbol: Any) -> Place:
        source = source_of(symbol)
        return Place(*keys[id(calls_of(source.operation)[source.node_index])], source.tensor_index)

    entries = {name: LiveEntry(operation) for name, operation in live.items()}
    calls = {key: _live_arguments(node, place) for key, node in nodes.items()}
    packed = input_structure(function), output_structure(function)
    inputs, outputs = (map_leaves(value, place) for value in packed)
    opened = frozenset(key for key, node in nodes.items() if not is_special(node) and inner_function(live[key[0]]) is not None)
    batches = frozenset({None, *(symbol.shape[0] for symbol in leaves_of(packed[0]) if symbol.shape)})
    return LiveLevel(entries, path, inputs, outputs, calls, live, nodes, place, opened, batches)


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
    return any(leaf is not None and not is_symbol(leaf) for leaf in leaves_of(positional)) or any(
        leaf is not None for leaf in leaves_of(named)
    )


def takes_masks(node: Any) -> bool:
    """Return whether a call may take the masks of its tensors by itself: it is not called with them, or has layers inside that do."""
    if not is_layer(node.operation):
        return False
    if len(layers_in(node.operation)) > 1 or not is_of_keras(node.operation):
        return True
    names = [name for name in inspect.signature(node.operation.call).parameters if name == "mask" or name.endswith("_mask")]
    return bool(names) and all(node.arguments.kwargs.get(name) is None for name in names)


class LiveEntry(Mapping[str, Any]):
    """The serialised form of an operation in memory, as far as it is asked for."""

    def __init__(self, operation: Any) -> None:
        self.operation = operation

    @functools.cached_property
    def _config(self) -> dict[str, Any]:
        return configuration(self.operation)

    def __getitem__(self, key: str) -> Any:
        if key == "config":
            return self._config
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(("config",))

    def __len__(self) -> int:
        return 1
