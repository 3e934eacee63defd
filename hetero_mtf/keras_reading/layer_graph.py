"""Reads a Keras model in memory as a LayerGraph; what would not be honoured is refused by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer, LayerGraph, Variable
from hetero_mtf.keras_reading.configured_graph import LayerReader, attributes_of
from hetero_mtf.keras_reading.keras_call import keras_call
from hetero_mtf.keras_reading.live_call import MASK_OUTPUT, LiveCall
from hetero_mtf.keras_reading.live_wiring_reader import read_wiring
from hetero_mtf.keras_reading.policy import reads_as_described, with_policy
from hetero_mtf.keras_reading.wiring import Node
from hetero_mtf.layers.catalogue import KINDS
from hetero_mtf.layers.fallback.keras_call_kind import is_keras_call

# Functions that are computed by the layer of the same meaning where they read tensors of one rank.
_AS_LAYERS = {f"keras.ops.{name}": name for name in ("Add", "Subtract", "Multiply", "Maximum", "Minimum")}


def layer_graph(model: Any) -> LayerGraph:
    """Return the layers, shapes, variables and costs of a Keras model.

    Parameters
    ----------
    model : keras.Model; a LayerGraph is returned as it is.

    Raises
    ------
    UnsupportedError
        If any layer or option would not be honoured; all that can be known at once are named with their layers.
    """
    return model if isinstance(model, LayerGraph) else LiveLayerReader(read_wiring(model, all_faults=True)).graph()


class LiveLayerReader(LayerReader):
    """Reads the layers of a model in memory: by their descriptions, and as Keras's own calls where they have none."""

    def _read(self, node: Node, faults: list[str]) -> Layer | None:
        if node.call is None or not node.inputs:
            return super()._read(node, faults)
        if any(self.layers[index] is None for index in node.inputs):
            return None
        described = _described_kind(node)
        layer = None if described is None else self._by_description(node, described)
        return self._by_keras(node, faults) if layer is None else layer

    def _finished(self, layer: Layer, node: Node) -> Layer:
        layer = super()._finished(layer, node)
        return layer if node.live is None else dataclasses.replace(layer, live=node.call or LiveCall(node.live, None))

    def _by_description(self, node: Node, described: Node) -> Layer | None:
        """Return a layer by its description, None where it has none that goes with its options.

        Parameters
        ----------
        node : the call.
        described : the same under the kind that describes it.
        """
        assert node.call is not None
        attributes = attributes_of(described, [])
        if attributes is None:
            return None
        try:
            layer = self._described(described, attributes)
            known = _agree(layer.output_shape, node.call.symbol.shape[1:])
            return dataclasses.replace(with_policy(layer, node, self.dtype), live=node.call) if known else None
        except UnsupportedError:
            return None

    def _by_keras(self, node: Node, faults: list[str]) -> Layer | None:
        """Return a layer that Keras's own call computes; None where that cannot be, with the fault."""
        assert node.call is not None
        first = node.first if node.first != len(self.layers) else None
        owner = None if first is None else self.layers[first]
        if owner is not None and not is_keras_call(owner) and owner.variables and node.call.output != MASK_OUTPUT:
            faults.append(f"layer {node.name} ({node.kind}) is called in two ways; make a layer for each call")
            return None
        try:
            layer = keras_call(node.name, node.kind, node.call, node.inputs, self._sources(node), first)
            return with_policy(layer, node, self.dtype)
        except UnsupportedError as fault:
            faults.append(str(fault))
            return None

    def _described(self, node: Node, attributes: Mapping[str, Any]) -> Layer:
        ignored = KINDS[node.kind].ignored_variables
        live = {variable.name: variable for variable in getattr(node.live, "weights", ()) if variable.name not in ignored}
        layer = self._layer_of(node, attributes)
        shapes = {variable.name: variable.shape for variable in layer.variables}
        actual = {name: tuple(variable.shape) for name, variable in live.items()}
        if shapes != actual:
            raise UnsupportedError(f"layer {node.name} ({node.kind}) has the variables {actual}, expected {shapes}", "rebuild the model")
        for name, variable in live.items():
            _check_live(node.name, name, variable, {option: attributes.get(f"{name}_{option}", 0.0) for option in ("l1", "l2")})
        trained = bool(node.config.get("trainable", True))
        variables = tuple(Variable(v.name, v.shape, trained and v.trainable and bool(live[v.name].trainable)) for v in layer.variables)
        frozen = {**layer.attributes, "trainable": trained} if node.kind == "BatchNormalization" else layer.attributes
        return dataclasses.replace(layer, attributes=frozen, variables=variables, shared_with=self._shared_with(node, layer))

    def _stand_in(self, node: Node) -> Layer | None:
        shape = getattr(getattr(node.live, "output", None), "shape", None)
        if not shape or len(shape) < 2 or None in shape[1:]:
            return None
        return Layer(node.name, node.kind, {}, node.inputs, tuple(shape[1:]))


def _agree(shape: Sequence[int], known: Sequence[int | None]) -> bool:
    """Return whether a shape is the one that Keras knows, in which extents may be open in a nested model."""
    return len(shape) == len(known) and all(n in (None, extent) for extent, n in zip(shape, known))


def _described_kind(node: Node) -> Node | None:
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


def _check_live(layer: str, name: str, variable: Any, factors: Mapping[str, float]) -> None:
    """Raise unless a variable's regularizer and constraint are those that its layer's options name."""
    if getattr(variable, "constraint", None) is not None:
        raise UnsupportedError(f"layer {layer} has a constraint on its {name}, which is not supported", "leave it out")
    regularizer = getattr(variable, "regularizer", None)
    known = {option: getattr(regularizer, option, 0.0) for option in factors}
    if known != dict(factors) or type(regularizer).__name__ not in ("NoneType", "L1", "L2", "L1L2"):
        wrong = f"layer {layer} has a {name} with the regularizer {regularizer!r} and its options factors of {dict(factors)}"
        raise UnsupportedError(wrong, "give the regularizer when the layer is made")
