"""The output of a network with the mask that it carries, by which Keras's loss and metrics weigh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import REPLICATED, LayerKind, Shape

MASKED = "hetero_mtf>MaskedOutput"
"""The kind of an output with its mask, which no Keras class has."""


class MaskedOutput(LayerKind):
    """Its first input as it is; the second is the mask that goes with it to the loss."""

    keras_class = MASKED
    backward = frozenset({"view"})
    reads_integers = True

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return 0.0

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.with_mask(*inputs)
