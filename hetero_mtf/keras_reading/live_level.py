"""Levels of models in memory, read from their Keras nodes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.structure import leaves_of, map_leaves
from hetero_mtf.keras_reading.call_order import Call
from hetero_mtf.keras_reading.level import Level, Place
from hetero_mtf.keras_reading.live import configuration, is_layer, is_symbol, keras_module, layers_in

TRACED = "_hetero_mtf_traced"  # the attribute of a subclassed model that its graph of calls is kept in


class _Unseen:
    """Holds a graph of calls in a model; Keras, which saves and loads every layer that it comes upon in one, does not look into it.

    Parameters
    ----------
    graph : keras.Functional, or None.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph


def kept_in(model: Any, name: str, make: Callable[[], Any]) -> Any:
    """Return a graph of calls that is kept in a model, which is made where there is none yet.

    Parameters
    ----------
    model : keras.Model.
    name : of the attribute.
    make : makes the graph.
    """
    if name not in model.__dict__:
        model.__dict__[name] = _Unseen(make())
    return model.__dict__[name].graph


def functional_of(model: Any) -> Any | None:
    """Return the graph of calls (`keras.Functional`) of a functional or sequential model, None for another object.

    A model of a class of the user's own is one where it inherits how it is called.

    Raises
    ------
    UnsupportedError
        If a sequential model has no input shape yet.
    """
    keras = keras_module()
    functional = getattr(sys.modules.get("keras.src.models.functional"), "Functional", None)
    if isinstance(model, keras.Sequential) and type(model).call is keras.Sequential.call:
        if model._functional is None:
            raise UnsupportedError("the sequential model has no input shape yet; start it with keras.Input(shape)")
        return model._functional
    if functional is not None and isinstance(model, functional) and type(model).call is functional.call:
        return model
    return None


def inner_function(operation: Any) -> Any | None:
    """Return the graph of calls of an operation that is a nested model, None for another, and for models of classes of one's own."""
    return functional_of(operation) if hasattr(operation, "layers") else None


def mask_of(symbol: Any) -> Any:
    """Return the mask that a symbolic tensor carries, None for none."""
    return getattr(symbol, "_keras_mask", None)


def traced(model: Any) -> Any:
    """Return the graph of calls of any Keras model; that of a subclassed one is what its call does with symbolic tensors.

    Where its call cannot work on symbolic tensors, the graph is one call of the model as a whole. It is kept in the model.

    Parameters
    ----------
    model : keras.Model; a subclassed one has been called on a batch, or built.

    Raises
    ------
    UnsupportedError
        If it is no Keras model, has steps or a loss of its own, or has no input shape yet.
    """
    keras = keras_module()
    if not isinstance(model, keras.Model):
        raise UnsupportedError(f"{type(model).__name__} is no Keras model; give a keras.Model")
    own = _own_steps(model)
    if own:
        wrong = f"{type(model).__name__} has its own {own}, which would be ignored"
        raise UnsupportedError(f"{wrong}; let its layers compute what it adds, by add_loss, and give the trainer a loss")
    function = functional_of(model)
    if function is not None:
        return function
    return kept_in(model, TRACED, lambda: trace(model))


def trace(model: Any, shapes: Sequence[tuple[int, ...]] | None = None) -> Any:
    """Return the graph of calls of a subclassed model, with inputs as it was built or of other shapes.

    Parameters
    ----------
    model : keras.Model of a class with a call of its own.
    shapes : (inputs,) shapes, batch left out, in the flat order.
    """
    keras, built = keras_module(), _built_shape(model)

    def inputs() -> Any:
        own = None if shapes is None else iter(shapes)
        return _symbols(built, lambda shape, dtype: keras.Input(shape if own is None else next(own), dtype=dtype), str(model.input_dtype))

    try:
        symbols = inputs()
        return keras.Model(symbols, model.call(symbols))
    except Exception:  # Python or TensorFlow functions that look at values
        symbols = inputs()
        return keras.Model(symbols, model(symbols))


def _built_shape(model: Any) -> Any:
    """Return the shape, or shapes packed in lists and dicts, that a subclassed model was built with."""
    shapes = getattr(model, "_build_shapes_dict", None) or {}
    shape = shapes.get("input_shape")
    if len(shapes) != 1 or shape is None:
        name = type(model).__name__
        raise UnsupportedError(f"{name} has no input shape yet; call it on a batch, or build(input_shape), before it is given here")
    return shape


def _symbols(shape: Any, symbol: Callable[..., Any], dtype: str) -> Any:
    """Return symbolic inputs of a shape, or of shapes packed in lists and dicts."""
    if isinstance(shape, Mapping):
        return {key: _symbols(shape[key], symbol, dtype) for key in sorted(shape)}
    if isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], (list, tuple, Mapping)):
        return [_symbols(entry, symbol, dtype) for entry in shape]
    return symbol(tuple(shape[1:]), dtype=dtype)


def _own_steps(model: Any) -> str:
    """Return the name of a method by which a model trains in its own way, "" for none."""
    base = keras_module().Model
    named = ("train_step", "compute_loss", "fit")
    return next((name for name in named if getattr(type(model), name, None) is not getattr(base, name)), "")


def has_open_extents(model: Any) -> bool:
    """Return whether the inputs of a model have other extents than that of the batch which its layers leave open, so that data give them.

    Parameters
    ----------
    model : keras.Model that is built.
    """
    return any(None in shape for shape in input_shapes(model))


def input_shapes(model: Any) -> list[tuple[int | None, ...]]:
    """Return (inputs,) shapes, batch left out, in the flat order; those of a subclassed model as it was built.

    Parameters
    ----------
    model : keras.Model that is built.
    """
    function = functional_of(model)
    shapes: list[tuple[int | None, ...]] = []
    if function is None:
        _symbols(_built_shape(model), lambda shape, dtype: shapes.append(shape), "")
        return shapes
    return [tuple(symbol.shape[1:]) for symbol in leaves_of(function._inputs_struct)]


def input_name(symbol: Any) -> str:
    """Return the name of the layer that a symbolic input comes from."""
    return str(symbol._keras_history.operation.name)


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
    opened = frozenset(key for key, node in nodes.items() if not is_special(node) and inner_function(live[key[0]]) is not None)
    batches = frozenset({None, *(symbol.shape[0] for symbol in leaves_of(function._inputs_struct) if symbol.shape)})
    return Level(entries, live, path, inputs, outputs, calls, nodes, place, opened, batches)


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
