"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import Shape
from hetero_mtf.layers.mixing import MixingKind
from hetero_mtf.layers.window import window_shape


class Conv2D(MixingKind):
    """`keras.layers.Conv2D`, channels last; kernel (height, width, input channels, filters)."""

    keras_class = "Conv2D"
    units_option = "filters"
    kept = ("filters", "kernel_size", "strides", "padding", *MixingKind.kept)
    fixed = {
        **MixingKind.fixed,
        "data_format": ("channels_last",),
        "dilation_rate": ([1, 1],),
        "groups": (1,),
        "padding": ("same", "valid"),
    }

    def kernel_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*attributes["kernel_size"], inputs[0][-1], attributes["filters"])

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        space = window_shape(inputs[0][:-1], attributes["kernel_size"], attributes["strides"], attributes["padding"])
        return (*space, attributes["filters"])

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        attributes = layer.attributes
        return self.finish(b, layer, b.convolve(inputs[0], "kernel", attributes["strides"], attributes["padding"]))
