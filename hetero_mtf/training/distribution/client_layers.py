"""Layers that look texts or numbers up in tables of TensorFlow: they run here, on each batch, before the network on the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from hetero_mtf.graph.structure import leaves_of, map_leaves
from hetero_mtf.keras_reading.graph_of_calls import functional_of, input_name
from hetero_mtf.keras_reading.keras_call import holds_table
from hetero_mtf.keras_reading.private_names import calls_in, input_structure, output_structure


class Divided(NamedTuple):
    """A model in two parts, of the same layers.

    Parameters
    ----------
    rest : keras.Model from what the first part gives to the model's outputs; the model itself where there is no first part.
    arrays : samples as the model takes them -> as the rest takes them.
    """

    rest: Any
    arrays: Callable[[Any], Any]


def divided(model: Any) -> Divided:
    """Return the layers that only this process can compute, and the others.

    These are the layers of the outer model that read texts, or hold tables, and all that they read. What has weights to train is none.

    Parameters
    ----------
    model : keras.Model that is built.
    """
    undivided = Divided(model, lambda x: x)
    function = functional_of(model)
    if function is None:
        return undivided
    nodes = calls_in(function)
    node_of = {id(symbol): node for node in nodes for symbol in node.outputs}
    first: set[int] = set()
    for node in reversed(nodes):
        needed = not node.is_input and (_reads_texts(node) or holds_table(node.operation))
        if needed or id(node) in first:
            first |= {id(node), *(id(node_of[id(symbol)]) for symbol in node.arguments.keras_tensors)}
    own = [node for node in nodes if id(node) in first and not node.is_input]
    if not own or any(getattr(node.operation, "trainable_weights", ()) for node in own):
        return undivided
    others = [node for node in nodes if id(node) not in first and not node.is_input]
    read = {id(symbol): symbol for node in others for symbol in node.arguments.keras_tensors}
    inside = {id(symbol) for node in others for symbol in node.outputs}
    cut = [symbol for place, symbol in read.items() if place not in inside]
    if any(id(symbol) not in inside for symbol in leaves_of(output_structure(function))):
        return undivided
    lookup = keras.Model(input_structure(function), cut)
    rest = _called_again(others, cut, output_structure(function))

    def arrays(x: Any) -> Any:
        tensors = map_leaves(x, keras.ops.convert_to_tensor)
        given = [np.asarray(tensor) for tensor in leaves_of(lookup(tensors, training=False))]
        return given if len(given) > 1 else given[0]

    return Divided(rest, arrays)


def _called_again(nodes: Sequence[Any], given: Sequence[Any], outputs: Any) -> Any:
    """Return a functional model of the calls of some nodes, from new inputs in place of some tensors.

    Keras makes such a model of tensors within another one too, but then loses where an input of that one came from.

    Parameters
    ----------
    nodes : in the order of their calls.
    given : symbolic tensors that the new inputs stand for.
    outputs : symbolic tensors, packed as outputs.
    """
    names = [input_name(symbol) for symbol in given]
    names = [name if names.count(name) == 1 else f"{name}_{at}" for at, name in enumerate(names)]
    inputs = [keras.Input(tuple(symbol.shape[1:]), dtype=symbol.dtype, name=name) for symbol, name in zip(given, names, strict=True)]
    tensors = {id(symbol): tensor for symbol, tensor in zip(given, inputs, strict=True)}
    for node in nodes:
        args, kwargs = node.arguments.convert(lambda leaf: tensors.get(id(leaf), leaf))
        results = keras.tree.flatten(node.operation(*args, **kwargs))
        tensors.update({id(symbol): tensor for symbol, tensor in zip(node.outputs, results, strict=True)})
    return keras.Model(inputs, map_leaves(outputs, lambda symbol: tensors[id(symbol)]))


def _reads_texts(node: Any) -> bool:
    return any(str(symbol.dtype) == "string" for symbol in node.arguments.keras_tensors)
