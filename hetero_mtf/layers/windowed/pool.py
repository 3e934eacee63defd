"""Pooling layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import FULL, LayerKind, Shape, extent
from hetero_mtf.layers.reach import Reach
from hetero_mtf.layers.windowed.window import window_reach, window_shape


class Pooling(LayerKind):
    """Pooling over windows of the spatial dimensions; windows may overlap."""

    kept = ("pool_size", "strides", "padding")
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {"data_format": ("channels_last",), "padding": ("same", "valid")}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*window_shape(inputs[0][:-1], attributes["pool_size"], attributes["strides"], attributes["padding"]), inputs[0][-1])

    def reach(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> tuple[Reach, ...]:
        return window_reach(inputs[0][:-1], attributes["pool_size"], attributes["strides"], attributes["padding"])

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(extent(output) * extent(tuple(attributes["pool_size"])))


class MaxPooling2D(Pooling):
    """`keras.layers.MaxPooling2D`."""

    keras_class = "MaxPooling2D"
    fill = -math.inf
    backward = frozenset({"input", "output"})

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.pool(inputs[0], "max", **layer.attributes)


class AveragePooling2D(Pooling):
    """`keras.layers.AveragePooling2D`; padded elements do not count in the mean."""

    keras_class = "AveragePooling2D"
    backward = frozenset()

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.pool(inputs[0], "average", **layer.attributes)


class MaxPooling3D(MaxPooling2D):
    """`keras.layers.MaxPooling3D`; in float64, for which TensorFlow has no kernel, taken along one dimension after another."""

    keras_class = "MaxPooling3D"


class AveragePooling3D(AveragePooling2D):
    """`keras.layers.AveragePooling3D`; in float64, for which TensorFlow has no kernel, taken along one dimension after another."""

    keras_class = "AveragePooling3D"


class GlobalPooling(LayerKind):
    """One number a channel over all positions."""

    reduces_space = True
    kept = ("keepdims",)
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {"data_format": ("channels_last",)}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return (*((1,) * (len(inputs[0]) - 1) if attributes["keepdims"] else ()), inputs[0][-1])

    def flops(self, attributes: Mapping[str, Any], inputs: Sequence[Shape], output: Shape) -> float:
        return float(extent(inputs[0]))


class GlobalAveragePooling2D(GlobalPooling):
    """`keras.layers.GlobalAveragePooling2D`: the mean over all positions."""

    keras_class = "GlobalAveragePooling2D"
    precision = FULL
    backward = frozenset()

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.mean_over_space(inputs[0], **layer.attributes)


class GlobalMaxPooling2D(GlobalPooling):
    """`keras.layers.GlobalMaxPooling2D`: the maximum over all positions."""

    keras_class = "GlobalMaxPooling2D"

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.maximum_over_space(inputs[0], **layer.attributes)


class GlobalAveragePooling3D(GlobalAveragePooling2D):
    """`keras.layers.GlobalAveragePooling3D`."""

    keras_class = "GlobalAveragePooling3D"


class GlobalMaxPooling3D(GlobalMaxPooling2D):
    """`keras.layers.GlobalMaxPooling3D`."""

    keras_class = "GlobalMaxPooling3D"


class MaxPooling1D(MaxPooling2D):
    """`keras.layers.MaxPooling1D`."""

    keras_class = "MaxPooling1D"


class AveragePooling1D(AveragePooling2D):
    """`keras.layers.AveragePooling1D`."""

    keras_class = "AveragePooling1D"


class GlobalAveragePooling1D(GlobalAveragePooling2D):
    """`keras.layers.GlobalAveragePooling1D` without a mask."""

    keras_class = "GlobalAveragePooling1D"


class GlobalMaxPooling1D(GlobalMaxPooling2D):
    """`keras.layers.GlobalMaxPooling1D`."""

    keras_class = "GlobalMaxPooling1D"
