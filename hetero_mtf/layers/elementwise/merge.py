"""Layers that join branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import CHANNELWISE, REPLICATED, LayerKind, Shape, extent
from hetero_mtf.layers.reach import Reach


class Merge(LayerKind):
    """An elementwise function of several inputs, broadcast to one shape; inputs of fewer dimensions get ones behind the batch."""

    merges = True
    pointwise = True
    operation: str

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        return {**attributes, "alike": len({shape[-1] for shape in inputs}) == 1}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        rank = max(len(shape) for shape in inputs)
        padded = [(*(1 for _ in range(rank - len(shape))), *shape) for shape in inputs]
        extents = [{*column} - {1} for column in zip(*padded)]
        if any(len(column) > 1 for column in extents):
            shapes = ", ".join(map(str, inputs))
            raise UnsupportedError(f"a {self.keras_class} has inputs of shapes {shapes}", "make them equal, or 1 where they differ")
        return tuple(max(column, default=1) for column in extents)

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(extent(output) * (len(inputs) - 1))

    def layouts(self, layer: Layer) -> frozenset[str]:
        return CHANNELWISE if layer.attributes["alike"] else REPLICATED

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return super().reach(attributes, inputs) if len({len(shape) for shape in inputs}) == 1 else ()

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.merge(inputs, self.operation)


class Add(Merge):
    """`keras.layers.Add`."""

    keras_class = "Add"
    backward = frozenset()
    operation = "add"


class Multiply(Merge):
    """`keras.layers.Multiply`."""

    keras_class = "Multiply"
    operation = "multiply"


class Subtract(Merge):
    """`keras.layers.Subtract` of two inputs."""

    keras_class = "Subtract"
    backward = frozenset()
    operation = "subtract"


class Average(Merge):
    """`keras.layers.Average`."""

    keras_class = "Average"
    backward = frozenset()
    operation = "average"

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(extent(output) * len(inputs))


class Maximum(Merge):
    """`keras.layers.Maximum`."""

    keras_class = "Maximum"
    operation = "maximum"


class Minimum(Merge):
    """`keras.layers.Minimum`."""

    keras_class = "Minimum"
    operation = "minimum"


class Concatenate(LayerKind):
    """`keras.layers.Concatenate` over the channels; split inputs are gathered first."""

    keras_class = "Concatenate"
    pointwise = True
    backward = frozenset()
    kept = ("axis",)

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        if attributes["axis"] not in (-1, len(inputs[0])):
            raise UnsupportedError(f"a Concatenate has axis={attributes['axis']!r}", "only the last axis (channels) is supported")
        return (*inputs[0][:-1], sum(shape[-1] for shape in inputs))

    def layouts(self, layer: Layer) -> frozenset[str]:
        return REPLICATED

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.concatenate(inputs)
