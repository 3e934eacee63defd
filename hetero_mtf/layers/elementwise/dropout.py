"""Layers that draw at random for each element: the draw is of the whole tensor, so it is the same under every plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from hetero_mtf.errors import UnsupportedError
from hetero_mtf.graph.records import Layer
from hetero_mtf.layers.kind import LayerKind, Shape


class Dropout(LayerKind):
    """`keras.layers.Dropout`; the mask is drawn for the whole tensor, so it is the same under every plan."""

    keras_class = "Dropout"
    pointwise = True
    draws = True
    backward = frozenset()
    kept: ClassVar[tuple[str, ...]] = ("rate", "seed", "noise_shape")

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        noise, shape = attributes["noise_shape"], (None, *inputs[0])
        if noise is None:
            return dict(attributes)
        if len(noise) != len(shape) or any(n not in (None, 1, size) for n, size in zip(noise, shape)):
            allowed = ", ".join(["None or 1", *(f"None, 1 or {size}" for size in inputs[0])])
            raise UnsupportedError(f"a Dropout has noise_shape={tuple(noise)} for the shape {inputs[0]}", f"give ({allowed})")
        # a full extent becomes None, so that a part of the layer with fewer channels takes it too
        return {**attributes, "noise_shape": [1 if n == 1 else None for n in noise]}

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.drop(inputs[0], layer.attributes["rate"], layer.attributes["seed"], layer.attributes["noise_shape"])


class SpatialDropout1D(Dropout):
    """`keras.layers.SpatialDropout1D`: one draw a sample and channel."""

    keras_class = "SpatialDropout1D"
    kept = ("rate", "seed")
    fixed: ClassVar[Mapping[str, tuple[Any, ...]]] = {"data_format": ("channels_last",)}

    def settled(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> dict[str, Any]:
        return {**attributes, "noise_shape": [None, *(1 for _ in inputs[0][:-1]), None]}


class SpatialDropout2D(SpatialDropout1D):
    """`keras.layers.SpatialDropout2D`."""

    keras_class = "SpatialDropout2D"


class SpatialDropout3D(SpatialDropout1D):
    """`keras.layers.SpatialDropout3D`."""

    keras_class = "SpatialDropout3D"


class GaussianNoise(LayerKind):
    """`keras.layers.GaussianNoise`: plus a normal number of mean 0."""

    keras_class = "GaussianNoise"
    pointwise = True
    draws = True
    backward = frozenset()
    kept = ("stddev", "seed")

    def output_shape(self, attributes: Mapping[str, Any], inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        return b.add_noise(inputs[0], layer.attributes["stddev"], layer.attributes["seed"])


class GaussianDropout(GaussianNoise):
    """`keras.layers.GaussianDropout`: times a normal number of mean 1 and variance rate / (1 - rate)."""

    keras_class = "GaussianDropout"
    kept = ("rate", "seed")

    def build(self, b: Any, layer: Layer, inputs: Sequence[Any]) -> Any:
        rate = layer.attributes["rate"]
        return b.multiply_noise(inputs[0], (rate / (1.0 - rate)) ** 0.5, layer.attributes["seed"])
