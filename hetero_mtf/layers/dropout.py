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
    kept = ("rate", "seed", "noise_shape")

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        noise, shape = attributes["noise_shape"], inputs[0]
        if noise is not None:
            fits = len(noise) == 1 + len(shape) and all(n in (None, 1, size) for n, size in zip(noise, (1, *shape)))
            if not fits:
                allowed = ", ".join(["None or 1", *(f"None, 1 or {size}" for size in shape)])
                raise UnsupportedError(f"a Dropout has noise_shape={tuple(noise)} for the shape {shape}; give ({allowed})")
        return shape

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.drop(inputs[0], layer.attributes["rate"], layer.attributes["seed"], layer.attributes["noise_shape"])
