"""Layers that join branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import REPLICATED, LayerKind, Shape, extent


class Add(LayerKind):
    """`keras.layers.Add` of inputs of one shape."""

    keras_class = "Add"
    merges = True

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        if len(set(inputs)) != 1:
            raise UnsupportedError(f"an Add has inputs of shapes {', '.join(map(str, inputs))}; only equal shapes are supported")
        return inputs[0]

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(extent(output) * (len(inputs) - 1))

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.add(inputs)


class Concatenate(LayerKind):
    """`keras.layers.Concatenate` over the channels; split inputs are gathered first."""

    keras_class = "Concatenate"
    kept = ("axis",)

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        if attributes["axis"] not in (-1, len(inputs[0])):
            raise UnsupportedError(f"a Concatenate has axis={attributes['axis']!r}; only the last axis (channels) is supported")
        return (*inputs[0][:-1], sum(shape[-1] for shape in inputs))

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.concatenate(inputs)
