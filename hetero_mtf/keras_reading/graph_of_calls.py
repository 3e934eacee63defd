"""Graphs of calls (`keras.Functional`): what any Keras model in memory is read as, a subclassed one by what its call does with symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.structure import leaves_of
from hetero_mtf.keras_reading.private_names import Functional, input_structure, sequential_function, shapes_built_with, source_of

TRACED = "_hetero_mtf_traced"  # the attribute of a subclassed model that its graph of calls is kept in


class _Unseen:
    """Holds a graph of calls in a model; Keras, which saves and loads every layer that it comes upon in one, does not look into it.

    Parameters
    ----------
    graph : keras.Functional, or None.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph


def kept_in(model: keras.Model, name: str, make: Callable[[], Any]) -> Any:
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


def functional_of(model: keras.Model) -> Any | None:
    """Return the graph of calls (`keras.Functional`) of a functional or sequential model, None for another object.

    A model of a class of the user's own is one where it inherits how it is called.

    Raises
    ------
    UnsupportedError
        If a sequential model has no input shape yet.
    """
    if isinstance(model, keras.Sequential) and type(model).call is keras.Sequential.call:
        function = sequential_function(model)
        if function is None:
            raise UnsupportedError("the sequential model has no input shape yet", "start it with keras.Input(shape)")
        return function
    if isinstance(model, Functional) and type(model).call is Functional.call:
        return model
    return None


def inner_function(operation: keras.Operation) -> Any | None:
    """Return the graph of calls of an operation that is a nested model, None for another, and for models of classes of one's own."""
    return functional_of(operation) if hasattr(operation, "layers") else None


def traced(model: keras.Model) -> Any:
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
    if not isinstance(model, keras.Model):
        raise UnsupportedError(f"{type(model).__name__} is no Keras model", "give a keras.Model")
    own = _own_steps(model)
    if own:
        wrong = f"{type(model).__name__} has its own {own}, which would be ignored"
        raise UnsupportedError(wrong, "let its layers compute what it adds, by add_loss, and give the trainer a loss")
    function = functional_of(model)
    if function is not None:
        return function
    return kept_in(model, TRACED, lambda: trace(model))


def trace(model: keras.Model, shapes: Sequence[tuple[int, ...]] | None = None) -> Any:
    """Return the graph of calls of a subclassed model, with inputs as it was built or of other shapes.

    Parameters
    ----------
    model : keras.Model of a class with a call of its own.
    shapes : (inputs,) shapes, batch left out, in the flat order.
    """
    built = _built_shape(model)

    def inputs() -> Any:
        own = None if shapes is None else iter(shapes)
        return _symbols(built, lambda shape, dtype: keras.Input(shape if own is None else next(own), dtype=dtype), str(model.input_dtype))

    try:
        symbols = inputs()
        return keras.Model(symbols, model.call(symbols))
    except Exception:  # Python or TensorFlow functions that look at values
        symbols = inputs()
        return keras.Model(symbols, model(symbols))


def _built_shape(model: keras.Model) -> Any:
    """Return the shape, or shapes packed in lists and dicts, that a subclassed model was built with."""
    shapes = shapes_built_with(model)
    shape = shapes.get("input_shape")
    if len(shapes) != 1 or shape is None:
        name = type(model).__name__
        raise UnsupportedError(f"{name} has no input shape yet", "call it on a batch, or build(input_shape), before it is given here")
    return shape


def _symbols(shape: Any, symbol: Callable[..., Any], dtype: str) -> Any:
    """Return symbolic inputs of a shape, or of shapes packed in lists and dicts."""
    if isinstance(shape, Mapping):
        return {key: _symbols(shape[key], symbol, dtype) for key in sorted(shape)}
    if isinstance(shape, (list, tuple)) and shape and isinstance(shape[0], (list, tuple, Mapping)):
        return [_symbols(entry, symbol, dtype) for entry in shape]
    return symbol(tuple(shape[1:]), dtype=dtype)


def _own_steps(model: keras.Model) -> str:
    """Return the name of a method by which a model trains in its own way, "" for none."""
    base = keras.Model
    named = ("train_step", "compute_loss", "fit")
    return next((name for name in named if getattr(type(model), name, None) is not getattr(base, name)), "")


def has_open_extents(model: keras.Model) -> bool:
    """Return whether the inputs of a model have other extents than that of the batch which its layers leave open, so that data give them.

    Parameters
    ----------
    model : keras.Model that is built.
    """
    return any(None in shape for shape in input_shapes(model))


def input_shapes(model: keras.Model) -> list[tuple[int | None, ...]]:
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
    return [tuple(symbol.shape[1:]) for symbol in leaves_of(input_structure(function))]


def input_name(symbol: Any) -> str:
    """Return the name of the layer that a symbolic input comes from."""
    return str(source_of(symbol).operation.name)
