"""Multi-head attention in parts that split by heads: heads are the channels of what is in between.

With x of (positions, channels), H heads and sizes k of keys and v of values: queries, keys and values are projections of (positions,
k or v, H); each head attends by itself; the output sums over heads. So a device with some of the heads has all that it needs,
and one all-reduce adds up the outputs (Megatron-LM: Shoeybi et al., 2019, arXiv 1909.08053).

In grouped-query attention (Ainslie et al., 2023, arXiv 2305.13245) r heads of the queries read one head of keys and values. Channels are
the heads of keys and values then, and queries and outputs have r times the size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer, Variable
from hetero_mtf.layers.contraction.attention import SOFTMAX_FLOPS
from hetero_mtf.layers.kind import CHANNELWISE, LayerKind, Shape, extent

PROJECTION, ATTENTION, OUTPUT = "hetero_mtf>HeadProjection", "hetero_mtf>HeadAttention", "hetero_mtf>HeadOutput"
"""The kinds of the parts, which no Keras class has."""


class HeadProjection(LayerKind):
    """The projection to queries, keys or values; kernel (channels, heads * repeats, size)."""

    keras_class = PROJECTION
    kept = ("heads", "size", "repeats", "use_bias")
    mixes = True

    def with_units(self, attributes: Mapping[str, Any], units: int) -> dict[str, Any]:
        return {**attributes, "heads": units}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*inputs[0][:-1], attributes["size"] * attributes["repeats"], attributes["heads"])

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        heads, size = attributes["heads"] * attributes["repeats"], attributes["size"]
        bias = (Variable("bias", (heads, size), True),) if attributes["use_bias"] else ()
        return (Variable("kernel", (inputs[0][-1], heads, size), True), *bias)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * inputs[0][-1] * extent(output)

    def layouts(self, layer: Layer) -> frozenset[str]:
        return frozenset({"replicated", "column"})

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.project_heads(inputs[0], "kernel", "bias" if layer.attributes["use_bias"] else None, layer.attributes["repeats"])


class HeadAttention(LayerKind):
    """The attention of each head: softmax(scale Q K') V over the positions of the keys, those up to the query's if it is causal."""

    keras_class = ATTENTION
    kept = ("scale", "causal", "repeats")
    merges = True
    backward = frozenset({"input", "inner"})

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        query, _, value = inputs
        return (query[0], value[1] * attributes["repeats"], value[2])

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        (positions, _, heads), (keys, size, _), (_, values, _) = inputs
        return positions * keys * heads * int(attributes["repeats"]) * (2.0 * size + 2.0 * values + SOFTMAX_FLOPS)

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        return {**attributes, "keys": inputs[1][0]}

    def layouts(self, layer: Layer) -> frozenset[str]:
        return CHANNELWISE

    def inner(self, layer: Layer) -> float:
        scores = float(layer.attributes["keys"] * layer.attributes["repeats"])
        return 2.0 * scores / layer.output_shape[1]  # before and behind the softmax

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.attend_heads(*inputs, *(layer.attributes[name] for name in ("scale", "causal", "repeats")))


class HeadOutput(LayerKind):
    """The output of multi-head attention; kernel (heads * repeats, size, units). Split heads give partial sums."""

    keras_class = OUTPUT
    kept = ("units", "repeats", "use_bias")
    mixes = True

    def with_units(self, attributes: Mapping[str, Any], units: int) -> dict[str, Any]:
        return {**attributes, "units": units}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*inputs[0][:-2], attributes["units"])

    def variables(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        _, size, heads = inputs[0]
        repeats = attributes["repeats"]
        bias = (Variable("bias", (attributes["units"],), True),) if attributes["use_bias"] else ()
        return (Variable("kernel", (heads * repeats, size // repeats, attributes["units"]), True), *bias)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 2.0 * inputs[0][-1] * inputs[0][-2] * extent(output)

    def layouts(self, layer: Layer) -> frozenset[str]:
        return frozenset({"replicated", "row"})

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        summed = b.merge_heads(inputs[0], "kernel", layer.attributes["repeats"])
        return b.add_bias(summed, "bias") if layer.attributes["use_bias"] else summed
