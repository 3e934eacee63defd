"""Reads a Keras configuration as a LayerGraph, without Keras; what would not be honoured is refused by name.

`layer_graph` reads models in memory by the same steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from hetero_mtf.errors import UnsupportedError, UnsupportedOptionError, refuse
from hetero_mtf.graph.description import FLOATS
from hetero_mtf.graph.records import Layer, LayerGraph
from hetero_mtf.keras_reading.policy import network_dtype, with_policy
from hetero_mtf.keras_reading.wiring import Node, Wiring
from hetero_mtf.keras_reading.wiring_reader import read_configuration
from hetero_mtf.layers.catalogue import KINDS, make_layer, unknown_kind
from hetero_mtf.layers.kind import INTEGERS


def configured_graph(config: Mapping[str, Any]) -> LayerGraph:
    """Return the network in a Keras configuration as it would be built with every variable trainable; nothing is built.

    Parameters
    ----------
    config : what `get_config()` of a functional or sequential model gives, or a file holds in its place.

    Raises
    ------
    UnsupportedError
        If any layer or option would not be honoured; all that can be known at once are named with their layers.
    """
    return LayerReader(read_configuration(config, all_faults=True)).graph()


class LayerReader:
    """Reads the layers of a wiring from their options.

    Parameters
    ----------
    wiring : the calls of the layers.
    """

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring
        self.faults = [text for name, text in wiring.faults if not self._is_unknown(name)]
        self.dtype = network_dtype([*wiring.nodes, *wiring.nested_inputs], self.faults)
        self.layers: list[Layer | None] = []  # None where the shape is not known

    def graph(self) -> LayerGraph:
        """Return the network; all faults are raised at once."""
        for index, node in enumerate(self.wiring.nodes):
            own_faults: list[str] = []
            layer = self._read(node, own_faults)
            for nested in self.wiring.nested_inputs:
                own_faults += _nested_input_faults(nested, layer, self.dtype) if layer is not None and nested.inputs == (index,) else ()
            self.layers.append(layer)
            # a layer that is refused for its dtype (by `network_dtype`) gets no further faults
            self.faults += own_faults if not any(f"layer {node.name} has the dtype" in fault for fault in self.faults) else ()
        refuse(self.faults)
        return LayerGraph(tuple(layer for layer in self.layers if layer is not None), self.dtype, self.wiring.outputs)

    def _is_unknown(self, name: str) -> bool:
        """Return whether a layer is of a kind that is not supported: then it does not matter how it is called."""
        return any(node.name == name and node.kind not in KINDS and node.call is None for node in self.wiring.nodes)

    def _read(self, node: Node, faults: list[str]) -> Layer | None:
        """Return a layer; where it has faults, add them and return a stand-in of its shape, or None where the shape is not known."""
        attributes = attributes_of(node, faults)
        if attributes is not None and not faults and all(self.layers[index] is not None for index in node.inputs):
            try:
                return self._finished(self._described(node, attributes), node)
            except UnsupportedError as fault:
                faults.append(str(fault))
        return self._stand_in(node)

    def _finished(self, layer: Layer, node: Node) -> Layer:
        """Return a layer with what its node says besides its options."""
        return with_policy(layer, node, self.dtype)

    def _described(self, node: Node, attributes: Mapping[str, Any]) -> Layer:
        """Return the layer by the description of its kind; what it reads is known."""
        layer = self._layer_of(node, attributes)
        return dataclasses.replace(layer, shared_with=self._shared_with(node, layer))

    def _layer_of(self, node: Node, attributes: Mapping[str, Any]) -> Layer:
        shapes = [source.output_shape for source in self._sources(node)]
        return make_layer(node.name, node.kind, attributes, node.inputs, shapes)

    def _sources(self, node: Node) -> list[Layer]:
        """Return the layers that a node reads, all of which are known."""
        return [source for index in node.inputs if (source := self.layers[index]) is not None]

    def _shared_with(self, node: Node, layer: Layer) -> int | None:
        """Return the index of the first call of the same layer, which has its variables; None where this is the first, or it has none."""
        return node.first if layer.variables and node.first != len(self.layers) else None

    def _stand_in(self, node: Node) -> Layer | None:
        """Return a layer of the same shape as one that has faults, so that what reads it can be looked at."""
        return None


def attributes_of(node: Node, faults: list[str]) -> dict[str, Any] | None:
    """Return the options of a layer that decide what it computes; add each that is not supported to the faults, then return None.

    Parameters
    ----------
    node : the layer.
    faults : gets the sentences.
    """
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


def _nested_input_faults(nested_input: Node, source: Layer, dtype: str) -> Iterator[str]:
    """Yield a fault unless a nested model takes what it is called with as it is; Keras would cast, or add or drop a last dimension of 1."""
    own_dtype, of_source = nested_input.config.get("dtype"), source.dtype(dtype)
    # Keras would cast to fewer bits
    rounds = own_dtype in FLOATS and of_source in FLOATS and FLOATS.index(own_dtype) < FLOATS.index(of_source)
    if rounds or (own_dtype in INTEGERS and own_dtype != of_source):
        wrong = f"input {nested_input.name} of a nested model has the dtype {own_dtype} and is given {of_source} by layer {source.name}"
        yield f"{wrong}; give both one dtype"
    expected, shape = tuple(nested_input.config["batch_shape"][1:]), source.output_shape
    if len(expected) != len(shape) or any(extent not in (None, size) for extent, size in zip(expected, shape)):
        wrong = f"input {nested_input.name} of a nested model has the shape {expected} and is given {shape} by layer {source.name}"
        yield f"{wrong}; reshape it with a layer"
