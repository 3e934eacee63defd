"""Attention: every position takes a mean of the values of all positions, weighted by how well its query goes with their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, LayerKind, Shape, extent

SOFTMAX_FLOPS = 4.0  # of each score: the largest is taken off, the exponential, the sum, the quotient


class Attention(LayerKind):
    """`keras.layers.Attention` of [query, value] or [query, value, key], each (positions, channels), by scalar products.

    With queries Q, keys K, values V and scale s (1, or a trained number), a sample's output is

        softmax(s Q K') V,   the softmax over the positions of the keys.

    Positions are whole. Channels may be split where all three have as many: each processor has the products over its own channels,
    which are partial sums of the scores Q K'; these are added up, and the output is split as the values are. In the backward pass the
    gradients of the weights of V are partial sums that are added up likewise.
    """

    keras_class = "Attention"
    merges = True
    kept = ("use_scale",)
    fixed = {"score_mode": ("dot",), "dropout": (0,)}
    free = frozenset({"seed"})

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        query, value, key = _roles(inputs)
        return {**attributes, "keys": key[0], "alike": len({query[1], key[1], value[1]}) == 1}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        query, value, _ = _roles(inputs)
        return (query[0], value[1])

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        return (Variable("scale", (), True),) if attributes["use_scale"] else ()

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        query, value, key = _roles(inputs)
        pairs = query[0] * key[0]
        return pairs * (2.0 * query[1] + 2.0 * value[1] + SOFTMAX_FLOPS)

    def layouts(self, layer: Layer) -> frozenset[str]:
        return CHANNELWISE if layer.attributes["alike"] else REPLICATED

    def needs(self, layer: Layer) -> frozenset[str]:
        return frozenset({"input", "inner"} if layer.attributes["use_scale"] else {"input"})  # scaled queries

    def scores(self, layer: Layer) -> int:
        return layer.output_shape[0] * int(layer.attributes["keys"])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        query, value, key = inputs if len(inputs) == 3 else (*inputs, inputs[1])
        return b.attend(query, value, key, "scale" if layer.attributes["use_scale"] else None)


class ResidualWeight(LayerKind):
    """`hetero_mtf.training.residual_weight.ResidualWeight`: its input times one trained number."""

    keras_class = "hetero_mtf>ResidualWeight"

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        return (Variable("weight", (), True),)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(extent(output))

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.weigh(inputs[0], "weight")


def _roles(inputs: Sequence[Shape]) -> tuple[Shape, Shape, Shape]:
    """Return the shapes of query, value and key, checked to go together."""
    if len(inputs) not in (2, 3) or any(len(shape) != 2 for shape in inputs):
        shapes = ", ".join(map(str, inputs))
        raise UnsupportedError(f"an Attention has inputs of shapes {shapes}", "give query, value and key as (positions, channels) each")
    query, value, key = (*inputs, inputs[1]) if len(inputs) == 2 else inputs
    if query[1] != key[1] or value[0] != key[0]:
        wrong = f"an Attention has a query of shape {query}, a value of {value} and a key of {key}"
        raise UnsupportedError(wrong, "query and key need as many channels, key and value as many positions")
    return query, value, key
