"""Reads a Keras model as a LayerGraph; what would not be honoured is refused by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.reader import Node, read_configuration, read_wiring
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
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
        return UnsupportedError(f"{wrong}; supported are {', '.join(KINDS)}")
    return UnsupportedError(f"{wrong}; describe it with hetero_mtf.layers.register, for a class that is registered with Keras")


def layer_graph(model: Any) -> LayerGraph:
    """Return the layers, shapes, variables and costs of a Keras model.

    Parameters
    ----------
    model : keras.Model, functional or sequential; a LayerGraph is returned as it is.

    Raises
    ------
    UnsupportedError
        If any layer or option would not be honoured; the layer is named.
    """
    if isinstance(model, LayerGraph):
        return model
    wiring = read_wiring(model)
    dtype = _common_dtype([*wiring.nodes, *wiring.nested_inputs])
    layers: list[Layer] = []
    for index, node in enumerate(wiring.nodes):
        layers.append(_read_layer(node, layers))
        for nested_input in wiring.nested_inputs:
            if nested_input.inputs == (index,):
                _check_nested_input(nested_input, layers[index])
    return LayerGraph(tuple(layers), dtype, wiring.outputs)


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
    wiring = read_configuration(config)
    layers: list[Layer] = []
    for node in wiring.nodes:
        if node.kind not in KINDS:
            raise _unknown(node.name, node.kind)
        attributes = KINDS[node.kind].attributes(node.name, node.config)
        layer = make_layer(node.name, node.kind, attributes, node.inputs, [layers[i].output_shape for i in node.inputs])
        shared = node.first if layer.variables and node.first != len(layers) else None
        layers.append(dataclasses.replace(layer, shared_with=shared))
    return LayerGraph(tuple(layers), _common_dtype([*wiring.nodes, *wiring.nested_inputs]), wiring.outputs)


def _check_nested_input(nested_input: Node, source: Layer) -> None:
    """Raise unless a nested model takes what it is called with as it is; Keras would add or drop a last dimension of 1."""
    expected, given = tuple(nested_input.config["batch_shape"][1:]), source.output_shape
    if len(expected) != len(given) or any(extent not in (None, size) for extent, size in zip(expected, given)):
        wrong = f"input {nested_input.name} of a nested model has the shape {expected} and is given {given} by layer {source.name}"
        raise UnsupportedError(f"{wrong}; reshape it with a layer")


def _common_dtype(nodes: Sequence[Node]) -> str:
    """Return the dtype that all layers and inputs have."""
    dtypes = {node.name: _dtype(node) for node in nodes if node.kind != "InputLayer"}
    dtype = next(iter(dtypes.values()), "float32")
    for name, layer_dtype in dtypes.items():
        if layer_dtype != dtype:
            raise UnsupportedError(
                f"layer {name} has the dtype {layer_dtype} and an earlier layer {dtype}; use one dtype for the whole model"
            )
    for node in nodes:
        given = node.config.get("dtype") or dtype
        if dtypes and node.kind == "InputLayer" and given != dtype:
            raise UnsupportedError(f"input {node.name} has the dtype {given} and the layers {dtype}; give keras.Input the layers' dtype")
    return dtype


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
    name = policy["config"].get("name") if isinstance(policy, Mapping) else policy
    if name not in ("float32", "float64"):
        raise UnsupportedError(f"layer {node.name} has the dtype policy {name}; only float32 and float64 are supported")
    return str(name)


def _read_layer(node: Node, layers: Sequence[Layer]) -> Layer:
    if node.kind not in KINDS:
        raise _unknown(node.name, node.kind)
    attributes = KINDS[node.kind].attributes(node.name, node.config)
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
