"""Reads a Keras model as a LayerGraph; what would not be honoured is refused by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError, UnsupportedOptionError, refuse
from hetero_mtf.graph.description import DTYPES
from hetero_mtf.graph.reader import Node, Wiring, read_configuration, read_wiring
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.layers.alternatives import alternative
from hetero_mtf.layers.catalogue import KINDS
from hetero_mtf.layers.kind import LayerKind


def kind_of(layer: Layer) -> LayerKind:
    """Return the description of the kind of `layer`.

    Raises
    ------
    UnsupportedError
        If the kind is not known.
    """
    if layer.kind not in KINDS:
        raise _unknown(layer.name, layer.kind)
    return KINDS[layer.kind].of(layer.attributes)


def _unknown(name: str, kind: str) -> UnsupportedError:
    wrong = f"layer {name} is a {kind}, which is not supported"
    if kind.isidentifier():
        remedy = alternative(kind) or f"supported are {', '.join(KINDS)}"
        return UnsupportedError(f"{wrong}; {remedy}")
    return UnsupportedError(f"{wrong}; describe it with hetero_mtf.layers.register, for a class that is registered with Keras")


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


def _graph(wiring: Wiring, read: Callable[[Node, Mapping[str, Any], Sequence[Layer]], Layer]) -> LayerGraph:
    """Return the network of a wiring, each layer read by `read`; all faults are raised at once."""
    faults = [text for name, text in wiring.faults if not _is_unknown(name, wiring)]
    dtype = _common_dtype([*wiring.nodes, *wiring.nested_inputs], faults)
    layers: list[Layer | None] = []
    for index, node in enumerate(wiring.nodes):
        own_faults: list[str] = []
        layer = _read(node, layers, read, own_faults)
        for nested in wiring.nested_inputs:
            own_faults += _nested_input_faults(nested, layer) if layer is not None and nested.inputs == (index,) else ()
        layers.append(layer)
        faults += own_faults
    refuse(faults)
    return LayerGraph(tuple(layer for layer in layers if layer is not None), dtype, wiring.outputs)


def _is_unknown(name: str, wiring: Wiring) -> bool:
    """Return whether a layer is of a kind that is not supported: then it does not matter how it is called."""
    return any(node.name == name and node.kind not in KINDS for node in wiring.nodes)


def _read(
    node: Node, layers: Sequence[Layer | None], read: Callable[[Node, Mapping[str, Any], Sequence[Layer]], Layer], faults: list[str]
) -> Layer | None:
    """Return a layer; where it has faults, add them and return a stand-in of its shape, or None where the shape is not known."""
    sources = [layers[index] for index in node.inputs]
    attributes = _attributes(node, faults)
    if attributes is not None and not faults and None not in sources:
        try:
            return read(node, attributes, layers)  # type: ignore[arg-type] # it reads its sources, which are known, and no other
        except UnsupportedError as fault:
            faults.append(str(fault))
    shape = getattr(getattr(node.live, "output", None), "shape", None) if node.live is not None else None
    if not shape or any(extent is None for extent in shape[1:]) or len(shape) < 2:
        return None
    return Layer(node.name, node.kind, {}, node.inputs, tuple(shape[1:]))


def _attributes(node: Node, faults: list[str]) -> dict[str, Any] | None:
    """Return the options of a layer that decide what it computes; add each that is not supported to the faults, then return None."""
    if node.kind not in KINDS:
        faults.append(str(_unknown(node.name, node.kind)))
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


def _nested_input_faults(nested_input: Node, source: Layer) -> Iterator[str]:
    """Yield a fault unless a nested model takes what it is called with as it is; Keras would add or drop a last dimension of 1."""
    expected, given = tuple(nested_input.config["batch_shape"][1:]), source.output_shape
    if len(expected) != len(given) or any(extent not in (None, size) for extent, size in zip(expected, given)):
        wrong = f"input {nested_input.name} of a nested model has the shape {expected} and is given {given} by layer {source.name}"
        yield f"{wrong}; reshape it with a layer"


def _common_dtype(nodes: Sequence[Node], faults: list[str]) -> str:
    """Return the dtype that all layers and inputs have, and add a fault for each that has another."""
    dtypes = {node.name: _dtype(node) for node in nodes if node.kind != "InputLayer"}
    faults += [
        f"layer {name} has the dtype policy {dtype}; only float32 and float64 are supported"
        for name, dtype in dtypes.items()
        if dtype not in DTYPES
    ]
    supported = {name: dtype for name, dtype in dtypes.items() if dtype in DTYPES}
    common = next(iter(supported.values()), "float32")
    for name, layer_dtype in supported.items():
        if layer_dtype != common:
            faults.append(f"layer {name} has the dtype {layer_dtype} and an earlier layer {common}; use one dtype for the whole model")
    for node in nodes:
        given = node.config.get("dtype") or common
        if supported and node.kind == "InputLayer" and given != common:
            faults.append(f"input {node.name} has the dtype {given} and the layers {common}; give keras.Input the layers' dtype")
    return common


def make_layer(name: str, kind: str, attributes: Mapping[str, Any], inputs: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> Layer:
    """Return a layer whose shapes, variables and costs follow from its attributes and input shapes.

    Parameters
    ----------
    name, kind, attributes, inputs : as in `Layer`.
    shapes : the inputs' shapes, batch left out.

    Raises
    ------
    UnsupportedError
        If the layer does not go with inputs of these shapes.
    """
    described = KINDS[kind]
    try:
        attributes = described.settled(attributes, shapes)
        output = described.output_shape(attributes, shapes)
    except UnsupportedError as fault:
        raise UnsupportedError(f"layer {name}: {fault}") from fault
    if min(output) < 1:
        raise UnsupportedError(f"layer {name} ({kind}) would have the output shape {output}; its input {shapes[0]} is too small")
    variables = described.variables(attributes, shapes)
    return Layer(name, kind, attributes, tuple(inputs), output, variables, described.flops(attributes, shapes, output))


def _dtype(node: Node) -> str:
    policy = node.config.get("dtype", "float32")
    return str(policy["config"].get("name") if isinstance(policy, Mapping) else policy)


def _read_layer(node: Node, attributes: Mapping[str, Any], layers: Sequence[Layer]) -> Layer:
    ignored = KINDS[node.kind].ignored_variables
    live = {variable.name: variable for variable in getattr(node.live, "weights", ()) if variable.name not in ignored}
    layer = make_layer(node.name, node.kind, attributes, node.inputs, [layers[i].output_shape for i in node.inputs])
    shapes = {variable.name: variable.shape for variable in layer.variables}
    actual = {name: tuple(variable.shape) for name, variable in live.items()}
    if shapes != actual:
        raise UnsupportedError(f"layer {node.name} ({node.kind}) has the variables {actual}, expected {shapes}; rebuild the model")
    for name, variable in live.items():
        _check_live(node.name, name, variable, attributes.get(f"{name}_l2", 0.0))
    trained = bool(node.config.get("trainable", True))
    variables = tuple(Variable(v.name, v.shape, trained and v.trainable and bool(live[v.name].trainable)) for v in layer.variables)
    frozen = {**layer.attributes, "trainable": trained} if node.kind == "BatchNormalization" else layer.attributes
    shared = node.first if variables and node.first != len(layers) else None
    return Layer(layer.name, layer.kind, frozen, layer.inputs, layer.output_shape, variables, layer.flops, shared)


def _check_live(layer: str, name: str, variable: Any, factor: float) -> None:
    """Raise unless a variable's regularizer and constraint are those that its layer's options name."""
    if getattr(variable, "constraint", None) is not None:
        raise UnsupportedError(f"layer {layer} has a constraint on its {name}, which is not supported; leave it out")
    regularizer = getattr(variable, "regularizer", None)
    actual = 0.0 if regularizer is None else getattr(regularizer, "l2", None)
    if actual != factor:
        wrong = f"layer {layer} has a {name} with the regularizer {regularizer!r} and its options L2 of {factor:g}"
        raise UnsupportedError(f"{wrong}; give the regularizer when the layer is made")
