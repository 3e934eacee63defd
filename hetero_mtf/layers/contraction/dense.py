"""Dense layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.contraction.kernel import MixingKind
from hetero_mtf.layers.kind import Shape


class Dense(MixingKind):
    """`keras.layers.Dense` over the last dimension; kernel (inputs, units)."""

    keras_class = "Dense"
    units_option = "units"
    kept = ("units", *MixingKind.kept)
    fixed = {**MixingKind.fixed, "lora_rank": (None,), "lora_alpha": (None,)}

    def kernel_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (inputs[0][-1], attributes["units"])

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*inputs[0][:-1], attributes["units"])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return self.finish(b, layer, b.multiply_matrix(inputs[0], "kernel"))
