"""Reads a Keras model as a LayerGraph; what would not be honoured is refused by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError, UnsupportedOptionError, refuse
from hetero_mtf.graph.description import FLOATS
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.keras_reading.keras_call import keras_call
from hetero_mtf.keras_reading.live import MASK_OUTPUT, LiveCall
from hetero_mtf.keras_reading.policy import network_dtype, reads_as_described, with_policy
from hetero_mtf.keras_reading.reader import Node, Wiring, read_configuration, read_wiring
from hetero_mtf.layers.catalogue import KINDS, make_layer, unknown_kind
from hetero_mtf.layers.fallback.kind import is_keras_call
from hetero_mtf.layers.kind import INTEGERS

_Reader = Callable[[Node, Mapping[str, Any], Sequence[Layer]], Layer]
"""What reads a layer from its node, its attributes and the layers before it."""


def layer_graph(model: Any) -> LayerGraph:
    """Return the layers, shapes, variables and costs of a Keras model.

    Parameters
    ----------
    model : keras.Model, functional or sequential; a LayerGraph is returned as it is.

    Raises
    ------
    UnsupportedError
        If any layer or option would not be honoured; all that can be known at once are named with their layers.
    """
    if isinstance(model, LayerGraph):
        return model
    return _graph(read_wiring(model, all_faults=True), _read_layer)


def configured_graph(config: Mapping[str, Any]) -> LayerGraph:
    """Return the network in a Keras configuration as it would be built with every variable trainable; nothing is built.

    Parameters
    ----------
    config : what `get_config()` of a functional or sequential model gives, or a file holds in its place.

    Raises
    ------
    UnsupportedError
        As `layer_graph`.
    """
    return _graph(read_configuration(config, all_faults=True), _configured_layer)


def _graph(wiring: Wiring, read: _Reader) -> LayerGraph:
    """Return the network of a wiring, each layer read by `read`; all faults are raised at once."""
    faults = [text for name, text in wiring.faults if not _is_unknown(name, wiring)]
    dtype = network_dtype([*wiring.nodes, *wiring.nested_inputs], faults)
    layers: list[Layer | None] = []
    for index, node in enumerate(wiring.nodes):
        own_faults: list[str] = []
        layer = _read(node, layers, read, dtype, own_faults)
        for nested in wiring.nested_inputs:
            own_faults += _nested_input_faults(nested, layer, dtype) if layer is not None and nested.inputs == (index,) else ()
        layers.append(layer)
        faults += own_faults if not any(f"layer {node.name} has the dtype" in fault for fault in faults) else ()
    refuse(faults)
    return LayerGraph(tuple(layer for layer in layers if layer is not None), dtype, wiring.outputs)


def _is_unknown(name: str, wiring: Wiring) -> bool:
    """Return whether a layer is of a kind that is not supported: then it does not matter how it is called."""
    return any(node.name == name and node.kind not in KINDS and node.call is None for node in wiring.nodes)


def _read(
    node: Node,
    layers: Sequence[Layer | None],
    read: _Reader,
    dtype: str,
    faults: list[str],
) -> Layer | None:
    """Return a layer; where it has faults, add them and return a stand-in of its shape, or None where the shape is not known."""
    sources = [layers[index] for index in node.inputs]
    if node.call is not None and node.inputs:
        return _read_live(node, layers, read, dtype, faults) if None not in sources else None
    attributes = _attributes(node, faults)
    if attributes is not None and not faults and None not in sources:
        try:
            layer = with_policy(read(node, attributes, layers), node, dtype)  # type: ignore[arg-type] # it reads known sources alone
            return layer if node.live is None else dataclasses.replace(layer, live=node.call or LiveCall(node.live, None))
        except UnsupportedError as fault:
            faults.append(str(fault))
    shape = getattr(getattr(node.live, "output", None), "shape", None) if node.live is not None else None
    if not shape or any(extent is None for extent in shape[1:]) or len(shape) < 2:
        return None
    return Layer(node.name, node.kind, {}, node.inputs, tuple(shape[1:]))


# Functions that are computed by the layer of the same meaning where they read tensors of one rank.
_AS_LAYERS = {f"keras.ops.{name}": name for name in ("Add", "Subtract", "Multiply", "Maximum", "Minimum")}


def _read_live(
    node: Node,
    layers: Sequence[Layer | None],
    read: _Reader,
    dtype: str,
    faults: list[str],
) -> Layer | None:
    """Return a layer of a model in memory by its description; by Keras's own call where it has none that goes with its options."""
    assert node.call is not None
    described = _described(node)
    if described is not None:
        own_faults: list[str] = []
        attributes = _attributes(described, own_faults)
        if attributes is not None:
            try:
                layer = read(described, attributes, layers)  # type: ignore[arg-type]
                if _agree(layer.output_shape, node.call.symbol.shape[1:]):
                    return dataclasses.replace(with_policy(layer, node, dtype), live=node.call)
            except UnsupportedError:
                pass
    sources: list[Layer] = [layers[index] for index in node.inputs]  # type: ignore[misc]
    first = node.first if node.first != len(layers) else None
    owner = layers[node.first] if first is not None else None
    if owner is not None and not is_keras_call(owner) and owner.variables and node.call.output != MASK_OUTPUT:
        faults.append(f"layer {node.name} ({node.kind}) is called in two ways; make a layer for each call")
        return None
    try:
        return with_policy(keras_call(node.name, node.kind, node.call, node.inputs, sources, first), node, dtype)
    except UnsupportedError as fault:
        faults.append(str(fault))
        return None


def _agree(shape: Sequence[int], known: Sequence[int | None]) -> bool:
    """Return whether a shape is the one that Keras knows, in which extents may be open in a nested model."""
    return len(shape) == len(known) and all(n in (None, extent) for extent, n in zip(shape, known))


def _described(node: Node) -> Node | None:
    """Return a node under the kind that describes it, None where there is none for what it reads."""
    assert node.call is not None
    symbols = [*node.call.node.arguments.keras_tensors, node.call.symbol]
    any_dtype = node.kind in KINDS and KINDS[node.kind].reads_integers
    plain = reads_as_described(node, symbols, any_dtype) and all(
        len(symbol.shape) > 1 and node.call.has_batch(symbol) for symbol in symbols
    )
    if node.special or not plain:
        return None
    if node.kind in _AS_LAYERS and len(node.inputs) == 2 and len({len(symbol.shape) for symbol in symbols}) == 1:
        return dataclasses.replace(node, kind=_AS_LAYERS[node.kind])
    return node if node.kind in KINDS else None


def _attributes(node: Node, faults: list[str]) -> dict[str, Any] | None:
    """Return the options of a layer that decide what it computes; add each that is not supported to the faults, then return None."""
    if node.kind not in KINDS:
        faults.append(str(unknown_kind(node.name, node.kind)))
        return None
    config = dict(node.config)
    while True:
        try:
            attributes = KINDS[node.kind].attributes(node.name, config)
            return None if faults else attributes
        except UnsupportedOptionError as fault:
            faults.append(str(fault))
            if fault.option not in config:
                return None
            del config[fault.option]  # the next one is looked for
        except UnsupportedError as fault:
            faults.append(str(fault))
            return None


def _configured_layer(node: Node, attributes: Mapping[str, Any], layers: Sequence[Layer]) -> Layer:
    layer = make_layer(node.name, node.kind, attributes, node.inputs, [layers[i].output_shape for i in node.inputs])
    shared = node.first if layer.variables and node.first != len(layers) else None
    return dataclasses.replace(layer, shared_with=shared)


def _nested_input_faults(nested_input: Node, source: Layer, dtype: str) -> Iterator[str]:
    """Yield a fault unless a nested model takes what it is called with as it is; Keras would cast, or add or drop a last dimension of 1."""
    wanted, of_source = nested_input.config.get("dtype"), source.dtype(dtype)
    rounds = wanted in FLOATS and of_source in FLOATS and FLOATS.index(wanted) < FLOATS.index(of_source)  # Keras would cast to fewer bits
    if rounds or (wanted in INTEGERS and wanted != of_source):
        wrong = f"input {nested_input.name} of a nested model has the dtype {wanted} and is given {of_source} by layer {source.name}"
        yield f"{wrong}; give both one dtype"
    expected, given = tuple(nested_input.config["batch_shape"][1:]), source.output_shape
    if len(expected) != len(given) or any(extent not in (None, size) for extent, size in zip(expected, given)):
        wrong = f"input {nested_input.name} of a nested model has the shape {expected} and is given {given} by layer {source.name}"
        yield f"{wrong}; reshape it with a layer"


def _read_layer(node: Node, attributes: Mapping[str, Any], layers: Sequence[Layer]) -> Layer:
    ignored = KINDS[node.kind].ignored_variables
    live = {variable.name: variable for variable in getattr(node.live, "weights", ()) if variable.name not in ignored}
    layer = make_layer(node.name, node.kind, attributes, node.inputs, [layers[i].output_shape for i in node.inputs])
    shapes = {variable.name: variable.shape for variable in layer.variables}
    actual = {name: tuple(variable.shape) for name, variable in live.items()}
    if shapes != actual:
        raise UnsupportedError(f"layer {node.name} ({node.kind}) has the variables {actual}, expected {shapes}; rebuild the model")
    for name, variable in live.items():
        _check_live(node.name, name, variable, {option: attributes.get(f"{name}_{option}", 0.0) for option in ("l1", "l2")})
    trained = bool(node.config.get("trainable", True))
    variables = tuple(Variable(v.name, v.shape, trained and v.trainable and bool(live[v.name].trainable)) for v in layer.variables)
    frozen = {**layer.attributes, "trainable": trained} if node.kind == "BatchNormalization" else layer.attributes
    shared = node.first if variables and node.first != len(layers) else None
    return Layer(layer.name, layer.kind, frozen, layer.inputs, layer.output_shape, variables, layer.flops, shared)


def _check_live(layer: str, name: str, variable: Any, factors: Mapping[str, float]) -> None:
    """Raise unless a variable's regularizer and constraint are those that its layer's options name."""
    if getattr(variable, "constraint", None) is not None:
        raise UnsupportedError(f"layer {layer} has a constraint on its {name}, which is not supported; leave it out")
    regularizer = getattr(variable, "regularizer", None)
    known = {option: getattr(regularizer, option, 0.0) for option in factors}
    if known != dict(factors) or type(regularizer).__name__ not in ("NoneType", "L1", "L2", "L1L2"):
        wrong = f"layer {layer} has a {name} with the regularizer {regularizer!r} and its options factors of {dict(factors)}"
        raise UnsupportedError(f"{wrong}; give the regularizer when the layer is made")
