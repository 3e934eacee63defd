"""Dropout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import LayerKind, Shape


class Dropout(LayerKind):
    """`keras.layers.Dropout`; the mask is drawn for the whole tensor, so it is the same under every plan."""

    keras_class = "Dropout"
    backward = frozenset()
    kept = ("rate", "seed", "noise_shape")

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        noise, shape = attributes["noise_shape"], (None, *inputs[0])
        if noise is None:
            return dict(attributes)
        if len(noise) != len(shape) or any(n not in (None, 1, size) for n, size in zip(noise, shape)):
            allowed = ", ".join(["None or 1", *(f"None, 1 or {size}" for size in inputs[0])])
            raise UnsupportedError(f"a Dropout has noise_shape={tuple(noise)} for the shape {inputs[0]}; give ({allowed})")
        return {**attributes, "noise_shape": [1 if n == 1 else None for n in noise]}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.drop(inputs[0], layer.attributes["rate"], layer.attributes["seed"], layer.attributes["noise_shape"])
